"""Records as a test expects them, and their pairs among the records that were found. No I/O.

An expected record names some of its fields. :func:`pair` gives each expected record one of the
found ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict

from aioproducer.model import ConsumerRecord, ProducerRecord

__all__ = [
    "Described",
    "ExpectedRecord",
    "RecordFields",
    "describe",
    "shortened",
    "Pairing",
    "pair",
]


Content: TypeAlias = bytes | bytearray | memoryview | str | Callable[[bytes | None], bool] | None
"""A key or value; ``str`` is UTF-8, and a function returns True for one that is expected."""


class RecordFields(TypedDict, total=False):
    """The fields of a record that a test may expect. The others may be anything."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Content
    value: Content
    headers: Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
    """A mapping: these are among the headers; pairs: these are all headers, in this order."""


Described: TypeAlias = Content | RecordFields | ProducerRecord | ConsumerRecord
"""Only a value, the fields of a record, a record that was sent, or one that was read."""

_FIELDS: Final = tuple(RecordFields.__annotations__)
_LONGEST: Final = 80


@dataclass(frozen=True, slots=True)
class ExpectedRecord:
    """The expected fields: bytes, numbers and pairs as a record has them, or functions."""

    fields: Mapping[str, Any]

    @classmethod
    def of(cls, described: Described) -> ExpectedRecord:
        """Raises TypeError for fields that no record has."""
        if isinstance(described, ConsumerRecord):
            return cls({name: getattr(described, name) for name in _FIELDS})
        if isinstance(described, ProducerRecord):
            sent = {name: getattr(described, name) for name in _FIELDS if name != "offset"}
            optional = ("partition", "timestamp_ms", "headers")
            described = {  # type: ignore[assignment]
                name: value
                for name, value in sent.items()
                if value is not None or name not in optional
            }
        if not isinstance(described, Mapping):
            return cls({"value": _content("value", described)})
        unknown = described.keys() - set(_FIELDS)
        if unknown:
            raise TypeError(
                f"a record has no field {min(unknown)!r}; the fields are {', '.join(_FIELDS)}"
            )
        return cls({name: _field(name, value) for name, value in described.items()})

    def differences(self, record: ConsumerRecord) -> list[str]:
        """The names of the fields in which ``record`` is not as expected."""
        return [
            name for name, wanted in self.fields.items() if not _fits(wanted, getattr(record, name))
        ]

    def matches(self, record: ConsumerRecord) -> bool:
        """True if ``record`` is as expected."""
        return all(_fits(wanted, getattr(record, name)) for name, wanted in self.fields.items())

    def likeness(self, record: ConsumerRecord) -> float:
        """The likeness of ``record``: more is nearer. Equal fields count more than alike ones."""
        return sum(
            10.0 if _fits(wanted, found) else _alike(wanted, found)
            for name, wanted in self.fields.items()
            for found in (getattr(record, name),)
        )

    def __str__(self) -> str:
        return ", ".join(f"{name}={_shown(wanted)}" for name, wanted in self.fields.items())


def _field(name: str, value: Any) -> Any:
    if name in ("key", "value"):
        return _content(name, value)
    if name == "headers":
        pairs = value.items() if isinstance(value, Mapping) else value
        headers = tuple((key, _content(f"header {key!r}", each)) for key, each in pairs)
        return dict(headers) if isinstance(value, Mapping) else headers
    return value


def _content(name: str, value: Any) -> Any:
    if value is None or callable(value):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"the expected {name} is bytes, a str, None or a function, not {type(value).__name__}: "
        "name the bytes as they were sent"
    )


def _fits(wanted: Any, found: Any) -> bool:
    if callable(wanted):
        return bool(wanted(found))
    if isinstance(wanted, dict):
        return all((key, value) in found for key, value in wanted.items())
    return bool(wanted == found)


def _alike(wanted: Any, found: Any) -> float:
    """The share of ``wanted`` with which ``found`` begins and ends."""
    if not isinstance(wanted, bytes) or not isinstance(found, bytes):
        return 0.0
    longest, shortest = max(len(wanted), len(found)), min(len(wanted), len(found))
    first = _common(wanted, found)
    last = min(_common(wanted[::-1], found[::-1]), shortest - first)
    return (first + last) / longest if longest else 0.0


def _common(one: bytes, other: bytes) -> int:
    shortest = min(len(one), len(other))
    if one[:shortest] == other[:shortest]:
        return shortest
    return next(place for place in range(shortest) if one[place] != other[place])


def describe(record: ConsumerRecord, fields: Iterable[str] = ()) -> str:
    """A record in one line, with ``fields`` in addition to its key, value and headers."""
    parts = [f"key={_shown(record.key)}", f"value={_shown(record.value)}"]
    if record.headers or "headers" in fields:
        parts.append(f"headers={_shown(record.headers)}")
    if "timestamp_ms" in fields:
        parts.append(f"timestamp_ms={record.timestamp_ms}")
    return f"{record.topic_partition} at offset {record.offset}: {', '.join(parts)}"


def shortened(data: bytes) -> str:
    """``data`` as Python writes it, or its beginning and its length."""
    if len(data) <= _LONGEST:
        return repr(data)
    return f"{data[:_LONGEST]!r}… ({len(data):,} bytes)"


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return shortened(value)
    if callable(value):
        return f"<as {getattr(value, '__name__', value)!s:.60} wants it>"
    if isinstance(value, tuple | dict):
        pairs = value.items() if isinstance(value, dict) else value
        return "{" + ", ".join(f"{key!r}: {_shown(each)}" for key, each in pairs) + "}"
    return repr(value)


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
