"""Forked children, and the exits of a process.

A forked child begins without the objects that the parent owns. It has copies of all objects, and
only the thread that forked; a copy must not act for the parent. :class:`AtExit` calls at the exit
of a process, a worker of multiprocessing included.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol


class AtExit:
    """A call at the exit of this process, unless it is cancelled before."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._in_worker: Any = None
        atexit.register(call)
        # A worker that multiprocessing has forked ends without atexit.
        if (package := sys.modules.get("multiprocessing")) and package.parent_process():
            self._in_worker = package.util.Finalize(None, call, exitpriority=0)

    def cancel(self) -> None:
        """Don't call."""
        atexit.unregister(self._call)
        if self._in_worker is not None:
            self._in_worker.cancel()


class Owned(Protocol):
    """An object that belongs to one process."""

    def disown(self) -> None:
        """Leave everything to the parent. The call comes first of all in a forked child."""


_OWNED: Final[weakref.WeakSet[Owned]] = weakref.WeakSet()


def owned(thing: Owned) -> None:
    """Have ``thing.disown()`` called in each forked child, as long as the object lives."""
    _OWNED.add(thing)


def in_child(call: Callable[[], object]) -> None:
    """Have ``call()`` called in each forked child. Systems without fork never call it."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


def _disown_all() -> None:
    for thing in list(_OWNED):
        thing.disown()


in_child(_disown_all)
