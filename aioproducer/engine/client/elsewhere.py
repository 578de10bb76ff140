"""Names that a class does not have: they raise an error that says what to use here.

A descriptor for each name costs the other attributes nothing. With ``__getattr__`` every attribute
of the class would be looked up more slowly. ``dir()`` of an object leaves the names out, and so do
the editors and shells that ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import getattr_static
from typing import Final, NoReturn, TypeVar

__all__ = [
    "ASYNC_WITH",
    "FOR_A_CONSUMER",
    "FOR_A_READER",
    "elsewhere",
    "fields_elsewhere",
    "in_other_producers",
]

ASYNC_WITH: Final = "use `async with`"
_BY_SLOT: Final = frozenset({"__await__", "__iter__"})
"""Python replaces an error of their descriptors by its own, so they are methods."""
_C = TypeVar("_C", bound=type)


class NotHereError(AttributeError, TypeError):
    """The class has another kind of ``with`` or ``for``. ``hasattr()`` is False, as it should."""


class _Elsewhere:
    """A method that another client has, a field of another object, or the other kind of ``with``.

    ``name``: as people write it.
    """

    def __init__(self, name: str, instead: str) -> None:
        self.__doc__ = f"Not here: {instead}"
        self._name = name
        self._instead = instead

    def __get__(self, instance: object, owner: type) -> NoReturn:
        error = NotHereError if self._name.startswith("__") else AttributeError
        raise error(f"{owner.__name__} has no {self._name}: {self._instead}")

    def as_method(self) -> Callable[[object], NoReturn]:
        return lambda instance: self.__get__(instance, type(instance))


def elsewhere(**instead: str) -> Callable[[_C], _C]:
    """A decorator of a class: names of other clients' methods, and the advice for each.

    ``__enter__`` or ``__aenter__`` stands for the kind of ``with`` that the class does not have,
    ``__iter__`` for a plain ``for``, and ``__await__`` for ``await``.
    """
    return _marked({name: _Elsewhere(f"{name}()", advice) for name, advice in instead.items()})


def fields_elsewhere(**instead: str) -> Callable[[_C], _C]:
    """The same for fields that belong to another object."""
    return _marked({name: _Elsewhere(name, advice) for name, advice in instead.items()})


def _marked(names: Mapping[str, _Elsewhere]) -> Callable[[_C], _C]:
    def mark(cls: _C) -> _C:
        for name, place in names.items():
            setattr(cls, name, place.as_method() if name in _BY_SLOT else place)
        cls.__dir__ = _own_names  # type: ignore[method-assign, assignment]
        return cls

    return mark


def _own_names(self: object) -> Iterable[str]:
    """Replaces ``object.__dir__``."""
    cls = type(self)
    return [
        name
        for name in object.__dir__(self)
        if not isinstance(getattr_static(cls, name, None), _Elsewhere)
    ]


def in_other_producers(*, close: str, send: str) -> dict[str, str]:
    """The methods of other producers with the advice for each.

    ``close``, ``send``: the calls that end ours, and that wait for a record's delivery.
    """
    return {
        "stop": f"use {close}",
        "send_and_wait": f"use {send}",
        "produce": "use send(), which returns a future",
        "poll": "leave it out, a future of send() gets its result without it",
        "list_topics": "use aioproducer.admin.Admin, or partitions_for(topic)",
    }


def _in_other_consumers(name: str, subscribe: str, **others: str) -> dict[str, str]:
    loop = f"use `async for record in {name}`"
    return {
        "__enter__": ASYNC_WITH,
        "__iter__": loop,
        **dict.fromkeys(("poll", "getone", "getmany", "consume"), loop),
        "stop": f"use `await {name}.close()`, or `async with`",
        "subscribe": subscribe,
        **others,
    }


_OF_MEMBERS: Final = "only a member of a group does, a Consumer"
FOR_A_READER: Final = _in_other_consumers("reader", _OF_MEMBERS, commit=_OF_MEMBERS)
"""The methods of other consumers with the advice for each, to one who holds a Reader."""
FOR_A_CONSUMER: Final = _in_other_consumers(
    "consumer",
    "name the topics first: Consumer('orders', group_id='billing')",
    assign="use aioproducer.reader.Reader, which needs no group",
)
"""The same, to one who holds a Consumer."""
