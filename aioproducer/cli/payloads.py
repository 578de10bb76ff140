"""Values of records to measure with: random ones, those of a file, numbers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, Protocol

__all__ = ["FilePayloads", "Numbers", "Payloads", "RandomPayloads"]

_LETTERS: Final = bytes(65 + number % 26 for number in range(256))
_POOL: Final = 4 << 20
"""Random bytes; larger than a batch, so that no batch repeats what it has."""


class Payloads(Protocol):
    """A source of values."""

    mean_size: float
    """Bytes per value, for an estimate."""

    def take(self, count: int) -> list[bytes]:
        """The next ``count`` values."""


class RandomPayloads:
    """Values of ``size`` random capital letters each, as Kafka's tool makes them."""

    def __init__(self, size: int, random: Random) -> None:
        self.mean_size = float(size)
        self._size = size
        self._random = random
        self._pool = random.randbytes(max(_POOL, 2 * size)).translate(_LETTERS)
        self._at = 0

    def take(self, count: int) -> list[bytes]:
        """Neighbouring parts of the pool; from its end on to another place near its beginning."""
        size, pool = self._size, self._pool
        values: list[bytes] = []
        while len(values) < count:
            whole = min(count - len(values), (len(pool) - self._at) // size)
            if not whole:
                self._at = self._random.randrange(size)
            first, self._at = self._at, self._at + whole * size
            values += [pool[at : at + size] for at in range(first, self._at, size)]
        return values


class FilePayloads:
    """Values of a file, each time one of them at random."""

    def __init__(self, values: Sequence[bytes], random: Random) -> None:
        self.mean_size = sum(map(len, values)) / len(values)
        self._values = values
        self._random = random

    def take(self, count: int) -> list[bytes]:
        """Some of the values."""
        return self._random.choices(self._values, k=count)


class Numbers:
    """The numbers from 0, in decimal digits."""

    mean_size = 8.0

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> list[bytes]:
        """The next numbers."""
        first, self._next = self._next, self._next + count
        return [b"%d" % number for number in range(first, self._next)]
