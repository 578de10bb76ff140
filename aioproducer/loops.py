"""The faster event loop, if it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["run"]

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` as ``asyncio.run`` does, on uvloop if it is installed (``aioproducer[uvloop]``).

    The producer works on both. With uvloop a record costs less time and is acknowledged sooner.
    """
    with asyncio.Runner(loop_factory=_uvloop()) as runner:
        return runner.run(main)


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
