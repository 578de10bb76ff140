"""The clients of the applications: a module has ``connect()``, which opens and closes a producer.

All have the short timeouts of a web application, ``acks=all``, and their defaults otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from benchmarks.web.plan import TOPIC

Send: TypeAlias = Callable[[str, bytes], Awaitable[tuple[int, int]]]
"""Sends a customer's order; returns partition and offset."""
Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Send]]

__all__ = ["TOPIC", "Connect", "Send", "bootstrap_servers"]


def bootstrap_servers() -> str:
    """The brokers of the run."""
    return os.environ["BOOTSTRAP_SERVERS"]
