"""The wait of a thread for events of its producer."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aioproducer.compat.confluent.records import Outbox

__all__ = ["event_came"]

_SLICE: Final = 0.2
"""Seconds after which a thread that waits looks around, if nobody wakes it."""


def event_came(outbox: Outbox, deadline: float | None, *, until_empty: bool = False) -> bool:
    """Wait for an event until ``deadline`` of the monotonic clock; False: there is none.

    The end of the producer ends the wait. ``until_empty``: another thread that serves the last
    record ends it as well.
    """
    told: SimpleQueue[None] = SimpleQueue()
    outbox.waiting.append(told)
    try:
        while not outbox.events and not (until_empty and not len(outbox)):
            if outbox.is_closed:
                return False
            left = _SLICE if deadline is None else min(_SLICE, deadline - monotonic())
            if left <= 0:
                return False
            try:
                told.get(timeout=left)
            except Empty:
                continue
    finally:
        outbox.waiting.remove(told)
    return True
