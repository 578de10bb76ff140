"""The token sources that producers of one process share: equal settings, one token."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from threading import Lock
from types import MethodType
from typing import Final, final

from aioproducer.auth.provider import Provider
from aioproducer.auth.tokens import TokenSource

__all__ = ["identity_of", "shared_source"]

_MOST: Final = 64
"""The oldest one goes first; whoever holds it uses it on."""

_sources: dict[Hashable, TokenSource] = {}
_lock = Lock()


def shared_source(settings: Hashable, make: Callable[[], TokenSource]) -> TokenSource:
    """The source of this process for ``settings``, made by ``make`` the first time.

    ``settings``: everything that decides which token comes, the provider among it (by its
    :func:`identity_of`). It is kept, so secrets belong in it as
    :class:`~aioproducer.config.secret.Secret`. A forked process starts without any source.
    """
    with _lock:
        source = _sources.pop(settings, None) or make()
        _sources[settings] = source  # the youngest again
        while len(_sources) > _MOST:
            del _sources[next(iter(_sources))]
        return source


def identity_of(provider: Provider) -> Hashable:
    """A key for ``provider`` that equals no other provider's, whatever its ``__eq__`` says.

    A provider need not be hashable. Each look-up of a method makes another object, so methods are
    equal that are the same one of the same object.
    """
    if isinstance(provider, MethodType):
        return _Same(provider.__self__), _Same(provider.__func__)
    return _Same(provider)


@final
class _Same:
    """Equal only for the very same object, which it keeps: no other one gets its address."""

    __slots__ = ("_held",)

    def __init__(self, held: object) -> None:
        self._held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._held is other._held

    def __hash__(self) -> int:
        return id(self._held)


def _start_anew() -> None:
    global _lock
    _lock = Lock()
    _sources.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
