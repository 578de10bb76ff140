"""Assertions on records that were read back. Their errors list the most similar records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self, Unpack

from aioproducer.foundation.logs import counted
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.testing.expected_record import Described, ExpectedRecord, RecordFields
from aioproducer.testing.pairing import pair
from aioproducer.testing.read_records import ReadRecords
from aioproducer.testing.unmet import listed, nearest, unmet

__all__ = ["Expectations"]


class Expectations:
    """Expectations of records. Every method returns this object, so calls can be chained.

    Describe a record by the fields that matter: ``topic``, ``partition``, ``offset``,
    ``timestamp_ms``, ``key``, ``value`` and ``headers``. Keys and values are bytes, a ``str`` (as
    UTF-8), None, or a function that returns True for expected data.
    """

    def __init__(self, records: Iterable[ConsumerRecord]) -> None:
        self.records: Sequence[ConsumerRecord] = (
            records if isinstance(records, ReadRecords) else list(records)
        )

    def __repr__(self) -> str:
        return f"<Expectations of {counted(len(self.records), 'record', ',')}>"

    def has(self, *, count: int | None = None, **fields: Unpack[RecordFields]) -> Self:
        """Expect a record with ``fields``, or exactly ``count`` such records.

        ``headers``: a mapping lists some of the headers; pairs list all of them, in order.

        Raises:
            AssertionError: there is no such record, or another number of them.
        """
        __tracebackhide__ = True
        expected = ExpectedRecord.of(fields)
        matching = [each for each in self.records if expected.matches(each)]
        if len(matching) == count if count is not None else matching:
            return self
        wanted = "a record" if count is None else counted(count, "record", ",")
        problem = f"expected {wanted}{_with(expected)}"
        if count is not None:
            problem += f", and there are {len(matching):,}"
        if matching:
            raise unmet(problem, self.records, listed("they are:", matching))
        raise unmet(problem, self.records, nearest(expected, self.records))

    def has_none(self, **fields: Unpack[RecordFields]) -> Self:
        """Expect no record with ``fields``; without ``fields``, no record at all.

        Raises:
            AssertionError: there is such a record.
        """
        __tracebackhide__ = True
        expected = ExpectedRecord.of(fields)
        matching = [each for each in self.records if expected.matches(each)]
        if not matching:
            return self
        problem = f"expected no record{_with(expected)}, and there are {len(matching):,}"
        raise unmet(problem, self.records, listed("they are:", matching))

    def has_exactly(self, expected: Iterable[Described]) -> Self:
        """Expect exactly these records, in any order.

        A record is a value, a mapping of fields, a ``ProducerRecord`` as it was sent, or a
        ``ConsumerRecord``.

        Raises:
            AssertionError: a record is missing, or there are others.
        """
        __tracebackhide__ = True
        wanted = [ExpectedRecord.of(each) for each in expected]
        missing, extra = pair(wanted, self.records)
        if not missing and not extra:
            return self
        lists: list[str] = []
        for each in missing[:_MISSING_SHOWN]:
            lists += nearest(each, extra, f"missing: {each}; nearest of the others first:") or [
                f"missing: {each}"
            ]
        if len(missing) > _MISSING_SHOWN:
            lists.append(f"… and {len(missing) - _MISSING_SHOWN:,} more are missing")
        if not missing:
            lists += listed("not expected:", extra)
        problem = (
            f"expected exactly {counted(len(wanted), 'record', ',')}: {len(missing):,} missing, "
            f"and {len(extra):,} too many"
        )
        raise unmet(problem, self.records, lists)

    def in_order(self, expected: Iterable[Described]) -> Self:
        """Expect the records in one partition in this order. Other records can be in between.

        Kafka keeps the order only within a partition.

        Raises:
            AssertionError: no partition has all of them in this order.
        """
        __tracebackhide__ = True
        wanted = [ExpectedRecord.of(each) for each in expected]
        logs: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in self.records:
            logs.setdefault(record.topic_partition, []).append(record)
        found = {where: _found_in_order(wanted, log) for where, log in logs.items()}
        if not wanted or any(len(each) == len(wanted) for each in found.values()):
            return self
        problem = f"expected {counted(len(wanted), 'record', ',')} in this order in one partition"
        if not found:
            raise unmet(problem, self.records)
        where = max(found, key=lambda each: len(found[each]))
        behind = found[where][-1].offset if found[where] else -1
        next_one = wanted[len(found[where])]
        problem += (
            f"; {where} has the first {len(found[where]):,} of them, and behind offset {behind} "
            f"no record{_with(next_one)}"
        )
        raise unmet(problem, self.records, nearest(next_one, self.records))


_MISSING_SHOWN = 3


def _with(expected: ExpectedRecord) -> str:
    return f" with {expected}" if expected.fields else ""


def _found_in_order(
    expected: Sequence[ExpectedRecord], log: Sequence[ConsumerRecord]
) -> list[ConsumerRecord]:
    """The records of the first expectations that ``log`` has in their order."""
    found: list[ConsumerRecord] = []
    for record in log:
        if len(found) < len(expected) and expected[len(found)].matches(record):
            found.append(record)
    return found
