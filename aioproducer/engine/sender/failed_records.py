"""The records whose delivery failed, until the hook ``on_failed`` takes them. No I/O.

A failed batch leaves a copy of its records' bytes here, because its memory goes back to the pool.
The bytes become records when the hook is about to take them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from aioproducer.engine.accumulator import PendingRecord, ProducerBatch
from aioproducer.engine.records.reader import read_written
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import RoomLogger
from aioproducer.foundation.wording import counted
from aioproducer.model import FailedRecord, TopicPartition

logger = RoomLogger(__name__)

_BOOKKEEPING: Final = 100
"""Bytes that a single record takes in addition to its key, value and headers."""


class _Lot:
    """Records that failed together; ``size``: the bytes that they take."""

    __slots__ = ("left", "records", "size")

    def __init__(self, records: Iterator[FailedRecord], count: int, size: int) -> None:
        self.records = records
        self.left = count
        self.size = size


class FailedRecordQueue:
    """Failed records, the oldest first, in at most ``capacity`` bytes; those beyond are dropped.

    ``wake`` is called when records have come. ``concerns`` returns False for the errors of records
    that nobody wants.
    """

    def __init__(
        self,
        capacity: int,
        wake: Callable[[], None],
        concerns: Callable[[ProducerError], bool] = lambda _error: True,
    ) -> None:
        self.added = 0
        """The number of records that came and were not dropped."""
        self.taken = 0
        """The number of records that were taken out."""
        self._capacity = capacity
        self._wake = wake
        self._concerns = concerns
        self._lots: deque[_Lot] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self.added - self.taken

    def add_batch(
        self, batch: ProducerBatch, error: ProducerError, record_errors: Mapping[int, ProducerError]
    ) -> None:
        """Add the records of ``batch``, which failed with ``error`` or with their own error."""
        if self._concerns(error):
            data = bytes(batch.builder.records)
            records = _read(
                data,
                batch.builder.base_timestamp_ms,
                batch.count,
                batch.topic_partition,
                (error, record_errors),
            )
            self._add(_Lot(records, batch.count, len(data)), batch.topic_partition.topic)

    def add_pending(self, error: ProducerError, records: Sequence[PendingRecord]) -> None:
        """Add pending records that failed with ``error``; those without bytes are left out."""
        if self._concerns(error):
            for record in records:
                if record.serialize is None:
                    lot = _Lot(iter((_failed(record, error),)), 1, record.size + _BOOKKEEPING)
                    self._add(lot, record.topic)

    def _add(self, lot: _Lot, topic: str) -> None:
        if self._lots and self._size + lot.size > self._capacity:
            logger.repeated(
                logging.ERROR,
                "dropped",
                "on_failed is not given %s of topic %s: it takes them more slowly than they come, "
                "and %s wait",
                counted(lot.left, "failed record"),
                topic,
                counted(self._size, "byte"),
                records=lot.left,
                topic=topic,
            )
            return
        self._lots.append(lot)
        self._size += lot.size
        self.added += lot.left
        self._wake()

    def take(self, most_records: int, most_bytes: int) -> list[FailedRecord]:
        """Remove and return the oldest records: of one lot at least one, and no record twice.

        The call ends after ``most_records``, or once the keys and values have ``most_bytes``.
        """
        taken: list[FailedRecord] = []
        size = 0
        while self._lots and len(taken) < most_records and size < most_bytes:
            lot = self._lots[0]
            for record in islice(lot.records, most_records - len(taken)):
                taken.append(record)
                lot.left -= 1
                size += len(record.key or b"") + len(record.value or b"")
                if size >= most_bytes:
                    break
            if not lot.left:
                self._lots.popleft()
                self._size -= lot.size
        self.taken += len(taken)
        return taken


def _read(
    data: bytes,
    base_timestamp_ms: int,
    count: int,
    topic_partition: TopicPartition,
    errors: tuple[ProducerError, Mapping[int, ProducerError]],
) -> Iterator[FailedRecord]:
    otherwise, own = errors
    for index, record in enumerate(read_written(memoryview(data), base_timestamp_ms, count)):
        error = own.get(index, otherwise)
        yield FailedRecord(
            *topic_partition,
            record.key,
            record.value,
            record.headers,
            record.timestamp_ms,
            error,
            error.may_have_been_written,
        )


def _failed(record: PendingRecord, error: ProducerError) -> FailedRecord:
    value = record.record
    return FailedRecord(
        value.topic,
        value.partition,
        None if value.key is None else bytes(value.key),
        None if value.value is None else bytes(value.value),
        tuple((name, None if each is None else bytes(each)) for name, each in value.headers),
        value.timestamp_ms,
        error,
        error.may_have_been_written,
    )
