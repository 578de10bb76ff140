"""The state of a record on its way from another thread into a batch."""

from __future__ import annotations

__all__ = ["EntryToken"]


class EntryToken:
    """A token whose ``_state`` the fast path reads directly, as it costs less.

    ``_state``: a string, as of the futures of ``concurrent.futures``.
    """

    __slots__ = ("_state",)

    _state: str
