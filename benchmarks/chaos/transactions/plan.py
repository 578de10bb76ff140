"""What a transaction writes, and what is done to whom and when: all of it from the seed. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from random import Random
from typing import Final, NamedTuple

from aioproducer.testing.fault_proxy import ApiKey

SOURCE: Final = "consumed"
"""The topic whose offsets move with the transactions; partition 0 of it."""
TOPICS: Final = ("left", "middle", "right")
"""Those to which every transaction writes one record each."""
PARTITIONS: Final = 3
GROUP: Final = "chaos"
TRANSACTIONAL_ID: Final = "chaos"

FAULTY_APIS: Final = (
    ApiKey.PRODUCE,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.END_TXN,
    ApiKey.INIT_PRODUCER_ID,
    None,
)


class Attempt(NamedTuple):
    """One attempt of one client to write a numbered transaction."""

    number: int
    client: int
    attempt: int

    @property
    def partition(self) -> int:
        """Where its records go in each topic."""
        return self.number % PARTITIONS

    def value(self) -> bytes:
        """That of its records."""
        return b"%d %d %d" % self

    @classmethod
    def of(cls, value: bytes) -> Attempt | None:
        """The attempt that wrote ``value``; None if none has."""
        words = value.split()
        if len(words) != 3 or not all(word.isdigit() for word in words):
            return None
        return cls(*map(int, words))


class Style(StrEnum):
    """How an application does a transaction."""

    BLOCK = "block"
    """``async with producer.transaction()``; after a timeout the group's offset tells."""
    CALLS = "calls"
    """Begin, commit, abort; what timed out is called again."""
    IMPATIENT = "impatient"
    """A block that is cancelled after some milliseconds, wherever it is."""


def style(attempt: Attempt) -> Style:
    """Every kind has its turn."""
    kinds = (*[Style.BLOCK, Style.CALLS] * 3, Style.IMPATIENT)
    return kinds[(attempt.number + attempt.attempt) % len(kinds)]


def is_shared(attempt: Attempt) -> bool:
    """Whether a second producer takes part, with a handle of the transaction: in every second."""
    return attempt.number % 2 == 1


class Replacements(StrEnum):
    """What may happen to the client; in any case another one is started."""

    KILL = "kill"
    """SIGKILL."""
    BESIDE = "beside"
    """It goes on, and has to be fenced."""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT when its successor is at work."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """After ``calm`` seconds of work; ``lasts``: seconds of a pause."""

    kind: Replacements
    calm: float
    lasts: float


def replacements(seed: int, every: float) -> Iterator[Replacement]:
    """Without end. Some clients do not even get to work."""
    random = Random(f"clients {seed}")
    kinds = tuple(Replacements)
    for number in count():
        calm = random.uniform(0.1, 1.9) * every
        yield Replacement(kinds[number % len(kinds)], calm, random.uniform(0.5, 5.0))
