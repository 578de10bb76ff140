"""The outcomes of one ``send_many()``: counted as they arrive, reported at the end.

If the call raises, its error carries the report.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aioproducer.engine.records.acceleration import fill_places
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import counted
from aioproducer.model import RecordMetadata, TopicPartition, Value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OffsetRange(Value):
    """The offsets in one partition. Records of other producers can be in between."""

    first: int
    last: int
    count: int


def _no_partitions() -> array[int]:
    return array("i")


def _no_offsets() -> array[int]:
    return array("q")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SendReport(Value):
    """The outcomes of the records of one ``send_many()``.

    Records are indexed from 0, in the order of the values.
    """

    delivered: int
    failed: int
    partitions: array[int] = field(default_factory=_no_partitions)
    """The partition of each record, with type code "i"; -1 if it failed."""
    offsets: array[int] = field(default_factory=_no_offsets)
    """The offset of each record, with type code "q"; -1 if the record failed, or if its offset is
    unknown: with ``acks=0``, or for a duplicate whose offset the broker no longer knew."""
    failures: Mapping[int, BaseException] = field(default_factory=dict)
    """The errors of the failed records by index, in order."""
    ranges: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    """The offsets of the delivered records, by partition."""
    pending: int = 0
    """The number of records without an outcome; 0 unless the call was cancelled. After
    ``await flush()``, a new report counts the records that were withdrawn and not sent."""

    def __repr__(self) -> str:
        first = "" if self.first_failure is None else f" (first: {self.first_failure!r:.200})"
        pending = f", {self.pending:,} pending" if self.pending else ""
        outcomes = f"{self.delivered:,} delivered, {self.failed:,} failed{first}{pending}"
        return f"<SendReport {outcomes}, {counted(len(self.ranges), 'partition')}>"

    @property
    def sent(self) -> int:
        """The number of records."""
        return self.delivered + self.failed + self.pending

    @classmethod
    def of(cls, error: BaseException) -> SendReport | None:
        """Return the current report of a ``send_many()`` that raised ``error``.

        The causes of ``error`` are searched as well, because ``asyncio.timeout()`` raises a
        ``TimeoutError`` with a cause. Returns None if no ``send_many()`` had begun. The report
        omits values that were taken from an iterator but not sent.
        """
        each: BaseException | None = error
        while each is not None:
            carried: object = getattr(each, _CARRIED, None)
            if isinstance(carried, BulkResult):
                return carried.report()
            if isinstance(carried, cls):
                return carried
            each = each.__cause__
        return None

    @property
    def first_failure(self) -> BaseException | None:
        """The error of the first failed record."""
        return next(iter(self.failures.values()), None)

    def raise_for_failures(self) -> None:
        """Raise the error of the first failed record, if any."""
        if (error := self.first_failure) is not None:
            raise error.with_traceback(None)


_CARRIED: Final = "_send_many"
"""The attribute of an error that holds the :class:`BulkResult`, or the report, of its call."""


def carry(error: BaseException, what: BulkResult | SendReport) -> None:
    """Let :meth:`SendReport.of` find ``what`` in ``error``."""
    setattr(error, _CARRIED, what)


def note(error: BaseException) -> None:
    """Add a note to ``error``: the number of records that were sent before."""
    report = SendReport.of(error)
    if report is not None:
        error.add_note(
            f"send_many() had sent {counted(report.sent, 'record')} before: {report.delivered} "
            f"delivered and {report.failed} failed; SendReport.of(error) lists them"
        )


class BulkResult:
    """Takes the outcomes of the records of one call, which are numbered in their order."""

    __slots__ = (
        "_cancelled",
        "_deaf",
        "_delivered",
        "_failures",
        "_future",
        "_offsets",
        "_partitions",
        "_pending",
        "_ranges",
        "_unsent",
    )

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future
        self._pending = 1
        self._cancelled = False
        self._deaf = False
        self._unsent = 0
        """The number of added records that will not be sent."""
        self._delivered = 0
        self._partitions = array("i")
        self._offsets = array("q")
        self._failures: dict[int, BaseException] = {}
        self._ranges: dict[tuple[str, int], list[int]] = {}
        """First offset, last offset and count, by topic and partition."""

    def add(self, count: int = 1) -> int:
        """Add ``count`` records that are sent; returns the index of the first of them."""
        first = len(self._partitions)
        self._partitions.extend(_NOWHERE * count)
        self._offsets.extend(_UNKNOWN * count)
        self._pending += count
        return first

    @property
    def count(self) -> int:
        """The number of added records."""
        return len(self._partitions)

    async def finish(self) -> SendReport:
        """Wait for the last outcome, when all records were sent."""
        self._complete(1)
        await self._future
        return self.report()

    async def end(self, unsent: int) -> None:
        """Wait for the outcomes of all but ``unsent`` of the added records, which are not sent."""
        self.drop(unsent)
        self._complete(1 + unsent)
        await self._future
        self._leave_out_unsent()

    def drop(self, unsent: int) -> None:
        """Note that ``unsent`` of the added records are not sent."""
        self._unsent = unsent

    def _leave_out_unsent(self) -> None:
        """Leave out the records without an outcome: no sent record lacks one."""
        known = len(self._partitions)
        while self._unsent and self._partitions[known - 1] < 0 and known - 1 not in self._failures:
            known -= 1
            self._unsent -= 1
        del self._partitions[known:], self._offsets[known:]
        if self._unsent:  # rows of an Arrow column are sent partition by partition
            error = ProducerError("the record was not sent: its send_many() had ended")
            for index, partition in enumerate(self._partitions):
                if partition < 0:
                    self._failures.setdefault(index, error)
            self._unsent = 0

    def report(self) -> SendReport:
        """A report of the outcomes up to now. Other threads may call this."""
        failures = dict(sorted(self._failures.copy().items()))
        known = len(self._partitions) - self._unsent
        return SendReport(
            self._delivered,
            len(failures),
            self._partitions,
            self._offsets,
            failures,
            {
                TopicPartition(*at): OffsetRange(*counts)
                for at, counts in self._ranges.copy().items()
            },
            max(0, known - self._delivered - len(failures)),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the report, for an error that carries it to another process."""
        return _same, (self.report(),)

    def cancel(self) -> None:
        """Send nothing more, not even pending records."""
        self._cancelled = self._deaf = True

    def listen(self) -> None:
        """Take outcomes again: pending records were taken back, and the others are being sent."""
        self._deaf = False

    def cancelled(self) -> bool:
        """True if nothing more is to be sent."""
        return self._cancelled

    def done(self) -> bool:
        """True if it takes no outcome now, because pending records are being taken back."""
        return self._deaf

    def one(self, index: int) -> OneRecord:
        """A stand-in for the future of one record."""
        return OneRecord(self, index)

    def arrived(self, token: BulkToken, topic: str, partition: int, base_offset: int) -> None:
        """All records of ``token`` are in the log; ``base_offset`` -1: unknown."""
        fill_places(self._partitions, self._offsets, token, partition, base_offset)
        last = base_offset + token.count - 1 if base_offset >= 0 else base_offset
        self._count(topic, partition, base_offset, last, token.count)

    def delivered(self, index: int, metadata: RecordMetadata) -> None:
        """One record is in the log."""
        topic, partition, offset, *_ = metadata
        self._partitions[index] = partition
        self._offsets[index] = offset
        self._count(topic, partition, offset, offset, 1)

    def failed(self, index: int, error: BaseException) -> None:
        """One record failed."""
        self._failures[index] = error
        self._complete(1)

    def refused(self, index: int, error: BaseException) -> None:
        """One record was not sent."""
        self.failed(index, error)

    def _count(self, topic: str, partition: int, first: int, last: int, count: int) -> None:
        self._delivered += count
        known = self._ranges.get((topic, partition))
        if known is None:
            self._ranges[topic, partition] = [first, last, count]
        else:
            known[0] = min(known[0], first)
            known[1] = max(known[1], last)
            known[2] += count
        self._complete(count)

    def _complete(self, count: int) -> None:
        self._pending -= count
        if not self._pending and not self._future.done():
            self._future.set_result(None)


def _same(report: SendReport) -> SendReport:
    return report


_NOWHERE: Final = array("i", [-1])
_UNKNOWN: Final = array("q", [-1])


class RecordOutcomes(Protocol):
    """The receiver of the outcomes of single records, which it knows by their index."""

    def done(self) -> bool:
        """True if it takes no outcome now."""

    def cancelled(self) -> bool:
        """True if nothing more is to be sent."""

    def delivered(self, index: int, metadata: RecordMetadata) -> None:
        """One record is in the log."""

    def failed(self, index: int, error: BaseException) -> None:
        """One record failed."""


class OneRecord:
    """A stand-in for a record's future that hands the outcome to ``result``."""

    __slots__ = ("_index", "_result")

    def __init__(self, result: RecordOutcomes, index: int) -> None:
        self._result = result
        self._index = index

    def done(self) -> bool:
        """True if the result takes no outcome now."""
        return self._result.done()

    def cancelled(self) -> bool:
        """True if the record is not to be sent."""
        return self._result.cancelled()

    def set_result(self, metadata: RecordMetadata) -> None:
        """The record is in the log."""
        self._result.delivered(self._index, metadata)

    def set_exception(self, error: BaseException) -> None:
        """The record failed."""
        self._result.failed(self._index, error)

    def exception(self) -> BaseException | None:
        """Do nothing: asyncio does not complain about a stand-in."""
        return None
