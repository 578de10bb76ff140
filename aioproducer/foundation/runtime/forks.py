"""Forked children: each begins without the objects that the parent owns.

A child has copies of all objects, and only the thread that forked. A copy must not act for the
parent.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Final, Protocol


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
