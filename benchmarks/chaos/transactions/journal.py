"""What a client was told, line by line: it is there even when the client is killed."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from benchmarks.chaos.transactions.plan import Attempt


class Told(StrEnum):
    """A line's first word."""

    AT_WORK = "at-work"
    """The producer is initialized, and knows the next number."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    """An error said so, or the application aborted it itself."""
    UNKNOWN = "unknown"
    """Timed out or cancelled: the group's offset has to tell."""
    FENCED = "fenced"


class Journal:
    """Written by the client."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, told: Told, attempt: Attempt | None = None, why: object = "") -> None:
        words = (told.value, *(attempt or ()), *str(why).split())
        os.write(self._file, " ".join(map(str, words)).encode() + b"\n")


@dataclass(slots=True)
class Read:
    """All journals, read by the judge."""

    committed: set[Attempt] = field(default_factory=set)
    aborted: set[Attempt] = field(default_factory=set)
    counts: Counter[Told] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, path: Path) -> None:
        for line in path.read_text("utf-8").splitlines():
            words = line.split()
            told = Told(words[0])
            self.counts[told] += 1
            if told in (Told.COMMITTED, Told.ABORTED):
                claims = self.committed if told is Told.COMMITTED else self.aborted
                claims.add(Attempt(*map(int, words[1:4])))
            if told in (Told.ABORTED, Told.UNKNOWN):
                self.errors[words[4].rstrip(":")] += 1


def has(path: Path, told: Told) -> bool:
    """Whether the client that writes ``path`` was told this."""
    return path.exists() and any(
        line.startswith(told.value) for line in path.read_text("utf-8").splitlines()
    )
