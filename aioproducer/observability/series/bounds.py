"""A bounded number of topics or brokers."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["KeyBound"]


class KeyBound:
    """The first ``most`` keys that came, for as long as they exist.

    A key that got in stays, so no counter disappears because another topic became busier. The place
    of a key that exists no more is free again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[str, None] = {}

    def keep(self, keys: Collection[str]) -> tuple[list[str], int]:
        """The keys to show of all ``keys`` there are, and the number of the others."""
        kept = {key: None for key in self._kept if key in keys}
        for key in keys:
            if len(kept) >= self._most:
                break
            kept[key] = None
        self._kept = kept
        return list(kept), len(keys) - len(kept)
