"""Expected records and found ones, each with one of the others. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aioproducer.model import ConsumerRecord
from aioproducer.testing.expected_record import ExpectedRecord

__all__ = ["Pairing", "pair"]


class Pairing(NamedTuple):
    """Expectations and records without a partner."""

    missing: list[ExpectedRecord]
    extra: list[ConsumerRecord]


def pair(expected: Sequence[ExpectedRecord], records: Sequence[ConsumerRecord]) -> Pairing:
    """The most pairs in which the record is as expected; each belongs to one pair at most.

    A record that two expectations fit goes to the one that has no other: the method of augmenting
    paths.
    """
    pairs = _Pairs(expected, _Candidates(records))
    missing = [each for number, each in enumerate(expected) if not pairs.add(number)]
    extra = [each for place, each in enumerate(records) if place not in pairs.taken]
    return Pairing(missing, extra)


class _Candidates:
    """The records that may fit, by the keys and values of which an expectation has bytes."""

    def __init__(self, records: Sequence[ConsumerRecord]) -> None:
        self.records = records
        self._places: dict[tuple[str, ...], dict[tuple[object, ...], list[int]]] = {}

    def of(self, expected: ExpectedRecord) -> Sequence[int]:
        """Their places in the records."""
        fields = expected.fields
        names = tuple(each for each in ("key", "value") if _is_literal(fields, each))
        places = self._places.get(names)
        if places is None:
            places = self._places[names] = {}
            for place, record in enumerate(self.records):
                found = tuple(getattr(record, each) for each in names)
                places.setdefault(found, []).append(place)
        return places.get(tuple(fields[each] for each in names), ())


def _is_literal(fields: Mapping[str, object], name: str) -> bool:
    return name in fields and not callable(fields[name])


class _Pairs:
    def __init__(self, expected: Sequence[ExpectedRecord], candidates: _Candidates) -> None:
        self._expected = expected
        self._candidates = candidates
        self.taken: dict[int, int] = {}
        """The number of the expectation of each record that has one."""
        self._futile: set[int] = set()
        """Records from which no search leads to a free one any more."""

    def add(self, number: int) -> bool:
        """Find a record for an expectation, others may change theirs; False: there is none."""
        came_from: dict[int, int] = {}
        """The expectation from which the search came to a record."""
        held: dict[int, int] = {}
        """The record of an expectation on the way."""
        waiting = deque([number])
        while waiting:
            one = waiting.popleft()
            expected = self._expected[one]
            for place in self._candidates.of(expected):
                if place in came_from or place in self._futile:
                    continue
                if not expected.matches(self._candidates.records[place]):
                    continue
                came_from[place] = one
                if place not in self.taken:
                    self._exchange(place, came_from, held)
                    return True
                other = self.taken[place]
                held[other] = place
                waiting.append(other)
        self._futile |= came_from.keys()
        return False

    def _exchange(self, place: int, came_from: dict[int, int], held: dict[int, int]) -> None:
        """Give each expectation on the way back from ``place`` the next record."""
        step: int | None = place
        while step is not None:
            one = came_from[step]
            self.taken[step] = one
            step = held.get(one)
