"""The threads of blocking producers stand still while the process forks.

A child that is forked while such a thread imports a module finds the lock of that module held for
ever, because it has no such thread. Its own producer would wait for it at the same import.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import local
from time import monotonic
from typing import Final, Protocol

_LONGEST: Final = 1.0
"""Seconds after which a fork stops waiting for busy threads, and stopped threads for the fork."""


class Stoppable(Protocol):
    """A thread with an event loop."""

    def post(self, callback: Callable[[], object]) -> bool:
        """Call ``callback`` in the thread soon; False: never. It takes no lock and never waits."""


class _Standstill:
    """Threads that stand still until the fork is over."""

    def __init__(self) -> None:
        self._ends: list[SimpleQueue[None]] = []
        self._reached: SimpleQueue[None] = SimpleQueue()
        self._deadline = monotonic() + _LONGEST

    def stop(self, thread: Stoppable) -> None:
        end: SimpleQueue[None] = SimpleQueue()

        def stand() -> None:
            self._reached.put(None)
            with suppress(Empty):
                end.get(timeout=_LONGEST)

        if thread.post(stand):
            self._ends.append(end)

    def wait(self) -> None:
        """Wait until all threads stand still, or the bound is over."""
        with suppress(Empty):
            for _ in self._ends:
                self._reached.get(timeout=max(0.0, self._deadline - monotonic()))

    def end(self) -> None:
        """Let the threads go on."""
        for end in self._ends:
            end.put(None)


_THREADS: Final[weakref.WeakKeyDictionary[Stoppable, None]] = weakref.WeakKeyDictionary()
_present = local()
"""The standstill of a thread that forks."""


def stops_at_forks(thread: Stoppable) -> None:
    """Have ``thread`` stand still during forks, as long as the object lives."""
    _THREADS[thread] = None


def _before() -> None:
    _present.standstill = standstill = _Standstill()
    for reference in _THREADS.keyrefs():  # in one step: other threads start producers
        if (thread := reference()) is not None:
            standstill.stop(thread)
    standstill.wait()


def _after() -> None:
    _present.standstill.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after)
