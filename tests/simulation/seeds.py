"""Seeds that no run has had before."""

from __future__ import annotations

from random import SystemRandom
from typing import Final

_FIRST: Final = 1_000_000
"""The seeds before are those that are known."""
_LAST: Final = 1_000_000_000


def new_seeds(count: int) -> range:
    """So many seeds, from anywhere. Whatever fails prints its own."""
    first = SystemRandom().randrange(_FIRST, _LAST)
    return range(first, first + count)
