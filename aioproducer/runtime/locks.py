"""Locks of objects that a forked child goes on using."""

from __future__ import annotations

import weakref
from threading import Lock
from typing import Final

from aioproducer.runtime import forks

_LOCKS: Final[weakref.WeakSet[Lock]] = weakref.WeakSet()


def free_lock() -> Lock:
    """A lock that each forked child finds free, for data that is never left half changed.

    A lock that another thread held at the fork would stay held for ever: the child has no such
    thread.
    """
    lock = Lock()
    _LOCKS.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_LOCKS):
        lock._at_fork_reinit()  # type: ignore[attr-defined]


forks.in_child(_free_all)
