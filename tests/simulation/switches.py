"""The features and the faults of volume that a life has or has not, so that every pair is lived.

Each block of eight seeds is a covering array over the switches: of any two, some life of the block
has both, by construction. All switches are on in one life of a block; a feature is also on in three
others, a fault in one, so that most promises are judged in lives without it. Which ones these are,
and which seed of the block is which, differs from block to block.

Source: Kleitman and Spencer, "Families of k-independent sets", 1973.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from random import Random
from typing import Final

FEATURES: Final = (
    "knobs",
    "telemetry",
    "tracing",
    "interceptors",
    "failed records",
    "codec",
    "serializer",
    "partitioner",
    "send_many",
    "columns",
    "burst",
    "holding",
    "changed",
    "closes at once",
)
FAULTS: Final = (
    "slow",
    "dripping",
    "hanging up",
    "descriptors",
    "replaced",
    "cancelled",
)
SWITCHES: Final = (*FEATURES, *FAULTS)
BLOCK: Final = 8
PLAIN: Final = range(2_000)
"""The seeds of lives without any switch: those in which the known faults were found first."""
_IN_ALL: Final = 0
"""The row of a block in which everything is on."""
_ROWS: Final = [set(each) for each in combinations(range(1, BLOCK), BLOCK // 2 - 1)]


def switches_of(seed: int) -> frozenset[str]:
    """The switches that are on in the life of a seed."""
    if seed in PLAIN:
        return frozenset()
    block, place = divmod(seed, BLOCK)
    random = Random(f"block {block}")
    row = random.sample(range(BLOCK), BLOCK)[place]
    rows = dict(zip(FEATURES, random.sample(_ROWS, len(FEATURES)), strict=True))
    rows |= {fault: {random.randrange(1, BLOCK)} for fault in FAULTS}
    return frozenset(name for name, its in rows.items() if row == _IN_ALL or row in its)


class Pairs:
    """Counts the pairs of switches that were lived side by side."""

    def __init__(self) -> None:
        self._lived: Counter[tuple[str, str]] = Counter()

    def add(self, lived: Iterable[str]) -> None:
        """A life has had these."""
        self._lived.update(_pairs(lived))

    def lines(self) -> Iterator[str]:
        """The report, with the pairs that were never lived."""
        every = [*_pairs(SWITCHES)]
        missing = [each for each in every if not self._lived[each]]
        least = min((self._lived[each] for each in every), default=0)
        yield (
            f"pairs of switches: {len(every) - len(missing)} of {len(every)} were lived, "
            f"each {least} times or more"
        )
        yield from (f"  never lived: {one} with {other}" for one, other in missing)


def _pairs(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    return combinations(sorted(names), 2)
