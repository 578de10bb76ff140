"""The token sources that producers of one process share: equal settings, one token."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import MethodType
from typing import Final, final

from aioproducer.auth.provider import Provider
from aioproducer.auth.tokens import TokenSource
from aioproducer.foundation.runtime import forks

__all__ = ["identity_of", "shared_source"]

_MOST: Final = 64
"""The oldest one goes first; whoever holds it uses it on."""

_sources: dict[Hashable, TokenSource] = {}


def shared_source(settings: Hashable, make: Callable[[], TokenSource]) -> TokenSource:
    """The source of this process for ``settings``, made by ``make`` the first time.

    ``settings``: everything that decides which token comes, the provider among it (by its
    :func:`identity_of`). It is kept, so secrets belong in it as
    :class:`~aioproducer.config.secret.Secret`. A forked process starts without any source.
    """
    source = _sources.get(settings) or _sources.setdefault(settings, make())
    for oldest in list(_sources)[:-_MOST]:
        _sources.pop(oldest, None)
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


forks.in_child(_sources.clear)
