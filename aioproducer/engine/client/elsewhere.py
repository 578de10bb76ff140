"""Methods of other clients: their names raise an AttributeError that says what to use here.

A descriptor for each name costs the other attributes nothing. With ``__getattr__`` every attribute
of the class would be looked up more slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

__all__ = ["elsewhere"]

_C = TypeVar("_C", bound=type)


class _Elsewhere:
    """A method that another client has."""

    __slots__ = ("_instead", "_name")

    def __init__(self, name: str, instead: str) -> None:
        self._name = name
        self._instead = instead

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no {self._name}(): {self._instead}")


def elsewhere(**instead: str) -> Callable[[_C], _C]:
    """A decorator of a class: names of other clients' methods, and the advice for each."""

    def mark(cls: _C) -> _C:
        for name, advice in instead.items():
            setattr(cls, name, _Elsewhere(name, advice))
        return cls

    return mark
