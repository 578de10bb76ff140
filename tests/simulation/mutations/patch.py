"""The replacement of methods for a while."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeAlias


class Patch:
    """Replaces attributes until its stack is closed."""

    def __init__(self, undo: ExitStack) -> None:
        self._undo = undo

    def __call__(self, owner: Any, name: str, replace: Callable[[Any], Any]) -> None:
        """``replace`` gets the original, and returns what stands in its place."""
        original = vars(owner)[name]
        self._undo.callback(setattr, owner, name, original)
        if isinstance(original, staticmethod):
            setattr(owner, name, staticmethod(replace(original.__func__)))
        elif isinstance(original, property):
            setattr(owner, name, property(replace(original.fget)))
        else:
            setattr(owner, name, replace(original))


Mutation: TypeAlias = Callable[[Patch], None]
