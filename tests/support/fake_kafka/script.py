"""A script for one request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass
class Answer:
    """What happens to one request instead of the usual. Writing: doing what the request asks."""

    error: int = 0
    """For every partition; nothing is written then."""
    lie: int = 0
    """To Produce: as ``error``, but the records are written."""
    cut: bool = False
    """Close the connection instead of writing and answering."""
    cut_after_writing: bool = False
    silent: bool = False
    """Write nothing, answer nothing, keep the connection."""
    silent_after_writing: bool = False
    hold: asyncio.Event | None = None
    """Neither write nor answer before it is set."""
    throttle_ms: int = 0
    message: str | None = None
    """To Produce, as the next one."""
    record_errors: Mapping[int, str] | None = None
    late: asyncio.Event | None = None
    """Write when it is set, whether or not the connection is still there, and answer nothing."""
    leave_out: bool = False
    """The response to Produce does not mention the partitions."""
    change: Callable[[bytes], bytes] | None = None
    """Applied to the frame of the response, the length in front of it included."""
