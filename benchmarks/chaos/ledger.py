"""What a client says became of each record; thirteen bytes a record."""

from __future__ import annotations

import pickle
from array import array
from collections import Counter
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple, Self

NOWHERE: Final = -1


class Fate(IntEnum):
    """NOT_WRITTEN: failed, and the error says that it is in no log."""

    NONE = 0
    DELIVERED = 1
    FAILED = 2
    NOT_WRITTEN = 3


class Footprint(NamedTuple):
    """What a process takes of the machine at one time."""

    resident_bytes: int
    open_files: int


class Ledger:
    """By the record's number."""

    def __init__(self, records: int) -> None:
        self.fates = bytearray(records)
        self.partitions = array("i", [NOWHERE]) * records
        self.offsets = array("q", [NOWHERE]) * records
        self.errors: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        """A message for each kind of `errors`."""
        self.footprints: list[Footprint] = []
        """Of the client's process, in the order of time."""
        self.seconds = 0.0
        """From the first record to the last fate."""

    def __len__(self) -> int:
        return len(self.fates)

    def deliver(self, number: int, partition: int, offset: int) -> None:
        self.fates[number] = Fate.DELIVERED
        self.partitions[number] = partition
        self.offsets[number] = offset

    def fail(self, number: int, kind: str, message: str, *, may_have_been_written: bool) -> None:
        self.fates[number] = Fate.FAILED if may_have_been_written else Fate.NOT_WRITTEN
        if kind not in self.examples:
            self.examples[kind] = message
        self.errors[kind] += 1

    def count(self, *fates: Fate) -> int:
        return sum(self.fates.count(fate) for fate in fates)

    def save(self, path: Path) -> None:
        with path.open("wb") as file:
            pickle.dump(self.__dict__, file)

    @classmethod
    def load(cls, path: Path) -> Self:
        ledger = cls(0)
        with path.open("rb") as file:
            ledger.__dict__.update(pickle.load(file))
        return ledger
