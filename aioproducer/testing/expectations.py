"""``expect()``: assertions on records, or on a topic, which is read back first.

:class:`Expectations` has the assertions, and :class:`TopicExpectations` the same ones for a topic,
which wait for missing records. The message of an error lists the most similar records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Self, Unpack, overload

from aioproducer.config import ProducerConfig
from aioproducer.foundation.logs import counted
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.testing.expected_record import (
    Described,
    ExpectedRecord,
    RecordFields,
    describe,
    pair,
)
from aioproducer.testing.mock_producer.cluster import SentRecord
from aioproducer.testing.read_records import (
    PATIENCE,
    ReadOptions,
    ReadRecords,
    committed_reader,
    hide_secrets_of,
    read_back,
)

__all__ = [
    "listed",
    "nearest",
    "place",
    "unmet",
    "Expectations",
    "TopicExpectations",
    "expect",
]


_SHOWN: Final = 5


def unmet(
    problem: str, records: Sequence[ConsumerRecord], lists: Iterable[str] = ()
) -> AssertionError:
    """The error for ``problem``, with the place that was looked at, and lists of records."""
    return AssertionError("\n".join((problem, f"in {place(records)}", *lists)))


def place(records: Sequence[ConsumerRecord]) -> str:
    """The number of records, and where they are from."""
    count = f"{len(records):,} record{'' if len(records) == 1 else 's'}"
    if not isinstance(records, ReadRecords):
        return count
    partitions = list(records.positions)
    if len(partitions) == 1:
        where = f"{partitions[0]}, read up to offset {records.positions[partitions[0]]}"
    else:
        topics = ", ".join(sorted({each.topic for each in partitions}))
        where = f"{topics}, {counted(len(partitions), 'partition')}"
    hidden = "; those of aborted and open transactions are left out"
    return f"{count} of {where} ({records.isolation_level}{hidden * _hides(records)})"


def _hides(records: ReadRecords) -> bool:
    return records.isolation_level == "read_committed"


def nearest(
    expected: ExpectedRecord, records: Sequence[ConsumerRecord], heading: str = "nearest first:"
) -> list[str]:
    """The records that are most like ``expected``, a line each, with the fields that differ."""
    ranked = sorted(records, key=expected.likeness, reverse=True)
    return listed(heading, ranked, expected)


def listed(
    heading: str, records: Sequence[ConsumerRecord], expected: ExpectedRecord | None = None
) -> list[str]:
    """``heading`` and the first ``records``, a line each; nothing without records."""
    if not records:
        return []
    lines = [heading]
    for record in records[:_SHOWN]:
        differing = expected.differences(record) if expected else []
        other = f"   <- other {', '.join(differing)}" if differing else ""
        lines.append(f"  {describe(record, differing)}{other}")
    if len(records) > _SHOWN:
        lines.append(f"  … and {len(records) - _SHOWN:,} more")
    return lines


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
            f"; {where} has the first {len(found[where]):,} of them, and after offset {behind} "
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


class TopicExpectations:
    """Expectations of a topic. Every method reads the topic back, and returns the expectations of
    its records.

    See :class:`Expectations`, which has the same methods for records.
    """

    def __init__(
        self,
        topic: str | TopicPartition,
        config: ProducerConfig | None,
        timeout: float,
        wait: float,
        options: ReadOptions,
    ) -> None:
        self._topic = topic
        self._config = config
        self._timeout = timeout
        self._wait = wait
        self._options = options

    async def has(
        self, *, count: int | None = None, **fields: Unpack[RecordFields]
    ) -> Expectations:
        """See :meth:`Expectations.has`."""
        __tracebackhide__ = True
        return await self._check(lambda records: records.has(count=count, **fields), self._wait)

    async def has_none(self, **fields: Unpack[RecordFields]) -> Expectations:
        """See :meth:`Expectations.has_none`. This is checked only once."""
        __tracebackhide__ = True
        return await self._check(lambda records: records.has_none(**fields), 0)

    async def has_exactly(self, expected: Iterable[Described]) -> Expectations:
        """See :meth:`Expectations.has_exactly`."""
        __tracebackhide__ = True
        wanted = list(expected)
        return await self._check(lambda records: records.has_exactly(wanted), self._wait)

    async def in_order(self, expected: Iterable[Described]) -> Expectations:
        """See :meth:`Expectations.in_order`."""
        __tracebackhide__ = True
        wanted = list(expected)
        return await self._check(lambda records: records.in_order(wanted), self._wait)

    async def _check(
        self, check: Callable[[Expectations], Expectations], wait: float
    ) -> Expectations:
        __tracebackhide__ = True
        records = await read_back(self._topic, self._config, timeout=self._timeout, **self._options)
        if wait > 0:
            records = await self._wait_until(check, records, wait)
        return check(Expectations(records))

    async def _wait_until(
        self, check: Callable[[Expectations], object], records: ReadRecords, wait: float
    ) -> ReadRecords:
        """Read on after ``records`` until they pass the check, or until ``wait`` is over."""
        if _passes(check, records):
            return records
        scope = asyncio.timeout(wait)
        reader = committed_reader(records.positions, self._config, options=self._options)
        try:
            async with scope, reader:
                async for batch in reader.batches():
                    records = ReadRecords(
                        [*records, *batch], reader.positions, records.isolation_level
                    )
                    if _passes(check, records):
                        break
        except TimeoutError:
            if not scope.expired():
                raise
        return records


def _passes(check: Callable[[Expectations], object], records: ReadRecords) -> bool:
    try:
        check(Expectations(records))
    except AssertionError:
        return False
    return True


@overload
def expect(records: Iterable[ConsumerRecord | SentRecord], /) -> Expectations: ...
@overload
def expect(
    topic: str | TopicPartition,
    config: ProducerConfig | None = None,
    /,
    *,
    timeout: float = PATIENCE,
    wait: float = 0,
    **options: Unpack[ReadOptions],
) -> TopicExpectations: ...
def expect(
    what: str | TopicPartition | Iterable[ConsumerRecord | SentRecord],
    config: ProducerConfig | None = None,
    /,
    *,
    timeout: float = PATIENCE,
    wait: float = 0,
    **options: Unpack[ReadOptions],
) -> Expectations | TopicExpectations:
    """Make assertions on records that were read or sent, or on a topic, which is then read back.

    ::

        expect(records).has(key=b"customer-7", value=b"one espresso").has_none(value=b"refused")

        await expect("orders", bootstrap_servers="localhost:9092", wait=5).has(value=b"late")

    The methods of :class:`Expectations` raise an ``AssertionError`` that lists the most similar
    records. For a topic they are coroutines.

    Args:
        what: records from :func:`read_back` or from a :class:`MockProducer`; or a topic or
            partition. The options are those of :func:`read_back`.
        config: a configuration, which the options override.
        timeout: seconds to read the topic back.
        wait: seconds to wait for missing records; by default there is no wait.
    """
    hide_secrets_of(options)
    if isinstance(what, str | TopicPartition):
        return TopicExpectations(what, config, timeout, wait, options)
    if config is not None or options:
        raise TypeError("options are for a topic that is read back, and these are records")
    if isinstance(what, ReadRecords):
        return Expectations(what)
    return Expectations(each.as_read() if isinstance(each, SentRecord) else each for each in what)
