"""The token sources that producers of one process share: equal settings, one token."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Final

from aioproducer.auth.tokens import TokenSource

__all__ = ["shared_source"]

_MOST: Final = 64
"""The oldest one goes first; whoever holds it uses it on."""

_sources: dict[Hashable, TokenSource] = {}
_lock = Lock()


def shared_source(settings: Hashable, make: Callable[[], TokenSource]) -> TokenSource:
    """The source of this process for ``settings``, made by ``make`` the first time.

    ``settings``: everything that decides which token comes, the provider among it. It is kept, so
    secrets belong in it as :class:`~aioproducer.config.secret.Secret`. A forked process starts
    without any source.
    """
    with _lock:
        source = _sources.pop(settings, None) or make()
        _sources[settings] = source  # the youngest again
        while len(_sources) > _MOST:
            del _sources[next(iter(_sources))]
        return source


def _start_anew() -> None:
    global _lock
    _lock = Lock()
    _sources.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
