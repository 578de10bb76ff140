"""The writers of many records: values, or rows of columns, go into batches while there is room."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from typing import Any, Protocol

from aioproducer.engine.bulk.send_report import OneRecord, RecordOutcomes
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.sending import RecordFields
from aioproducer.engine.core.tracing import in_context
from aioproducer.engine.partitioning import STICKY, UNKNOWN
from aioproducer.engine.records.acceleration import rows_by_partition
from aioproducer.engine.records.bulk_tokens import BulkOutcomes, BulkToken
from aioproducer.engine.records.columns import Columns
from aioproducer.errors import ProducerError, SerializationError
from aioproducer.foundation import tuning
from aioproducer.model import ProducerRecord
from aioproducer.serialization.serializer import SharedHeaders


class Outcomes(BulkOutcomes, RecordOutcomes, Protocol):
    """The receiver of the outcomes of all records."""

    def add(self, count: int) -> int:
        """Add ``count`` records that are sent; returns the index of the first of them."""

    def refused(self, index: int, error: ProducerError) -> None:
        """One record was not sent, because of its fields or the producer's state."""


class ValueWriter:
    """Puts records into batches, many in one call where that is possible."""

    def __init__(self, core: ProducerCore, outcomes: Outcomes) -> None:
        self._core = core
        self._outcomes = outcomes
        self._fast_path = core.fast_path
        self._routes = core.routes
        self._given = 0
        """The number of records that were sent or refused."""
        self._work = 0
        """The work since other tasks could run last, in values."""
        self._work_of_one = max(tuning.BULK_ROWS_PER_TURN // tuning.BULK_RECORDS_PER_TURN, 1)
        """The work for a record that is sent alone."""
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """True if :meth:`stop` was called."""
        return self._stopped

    def stop(self) -> None:
        """Put no more values into batches."""
        self._stopped = True

    async def write(
        self, topic: str, values: list[Any], partition: int | None, headers: SharedHeaders | None
    ) -> int:
        """Put ``values`` into batches, in order; returns the most of them in one call.

        The call waits for memory, not for outcomes.
        """
        core, put = self._core, self._put
        first = self._outcomes.add(len(values))
        at = count = most = 0
        while at < len(values) and not self._stopped:
            before = count
            count = 0
            if type(values[at]) is bytes:
                count = self._append_values(first + at, topic, values, at, partition, headers)
            if count:
                most = max(most, count)
                self._work += count
                at += count
            else:
                put(first + at, topic, values[at], partition, headers)
                self._worked_on_one(before)
                at += 1
            if core.back_pressure.is_full:
                await core.drain()
            if self._work >= tuning.BULK_ROWS_PER_TURN:
                self._work = 0
                await asyncio.sleep(0)
        return most

    async def write_pairs(
        self,
        topic: str,
        pairs: Sequence[tuple[Any, Any]],
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> None:
        """Do :meth:`write` with records of a key and a value."""
        core = self._core
        first = self._outcomes.add(len(pairs))
        for index, (key, value) in enumerate(pairs, first):
            if self._stopped:
                return
            self._put_fields(index, (topic, value, key, partition, headers, None))
            self._work += self._work_of_one
            if core.back_pressure.is_full:
                await core.drain()
            if self._work >= tuning.BULK_ROWS_PER_TURN:
                self._work = 0
                await asyncio.sleep(0)

    def _worked_on_one(self, before: int) -> None:
        """Count the work for a record that was sent alone, after ``before`` in one call."""
        self._work += tuning.BULK_RECORDS_PER_TURN if before else self._work_of_one

    def _append_values(
        self,
        index: int,
        topic: str,
        values: list[Any],
        at: int,
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> int:
        """Put values into the open batch, while they are bytes and fit; returns their number."""
        if not self._fast_path.serves():
            return 0
        builder = self._routes.find(topic, None, None, partition)
        if builder is None:
            return 0
        token = BulkToken(self._outcomes, index)
        now_ns = self._core.wall_clock_ns()
        builder.mark(now_ns)
        before = builder.count
        try:
            builder.append_values(token, now_ns // 1_000_000, values, at, headers or ())
        finally:  # out of memory, it has written some of them
            token.count = builder.count - before
            self._given += token.count
        return token.count

    def _put(
        self,
        index: int,
        topic: str,
        value: Any,
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> None:
        """Send a value, or a whole record."""
        if isinstance(value, ProducerRecord):
            self._put_fields(index, in_context(value.fields(), headers))
        else:
            self._put_fields(index, (topic, value, None, partition, headers, None))

    def _put_fields(self, index: int, fields: RecordFields) -> None:
        topic, value, key, partition, headers, timestamp_ms = fields
        token = OneRecord(self._outcomes, index)
        if (
            headers is None
            and timestamp_ms is None
            and self._fast_path.append(token, topic, value, key, partition)
        ):
            self._given += 1
            return
        self._core.check_usable()
        self._given += 1
        try:
            self._core.pipeline.put(fields, token, over_capacity=True)
        except ProducerError as error:
            self._outcomes.refused(index, error)


class ColumnWriter(ValueWriter):
    """Puts rows straight into open batches; only a row that opens a batch becomes an object."""

    async def write_columns(
        self,
        topic: str,
        columns: Columns,
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> None:
        """Put each row into a batch, in the order of its partition.

        The call waits for memory, not for outcomes.
        """
        rows = _Rows(topic, columns, self._outcomes.add(len(columns.values)), partition, headers)
        start = 0
        while start < len(columns.values) and not self._stopped:
            stop = min(start + tuning.BULK_ROWS_PER_TURN, len(columns.values))
            start += await self._send_rows(rows, start, stop)

    async def _send_rows(self, rows: _Rows, start: int, stop: int) -> int:
        """Send some rows, partition by partition; returns their number."""
        count = self._partitions_of(rows.topic)
        if rows.one_place or not count:
            await self._send_group(rows, rows.base + start, rows.base + stop, rows.partition, None)
            return stop - start
        order, groups = rows_by_partition(
            rows.columns, rows.base, start, stop, count, ignore_keys=self._routes.ignore_keys
        )
        for partition, first, end in groups:
            chosen = None if partition == STICKY else partition
            await self._send_group(rows, first, end, chosen, order)
        return len(order)

    def _partitions_of(self, topic: str) -> int:
        """The number of the topic's partitions; 0: unknown, or the fast path is closed."""
        if not self._routes.is_open or type(topic) is not str:
            return 0
        batches = self._routes.topics.get(topic)
        return 0 if batches is None else len(batches.partitions)

    async def _send_group(
        self, rows: _Rows, first: int, end: int, partition: int | None, order: array[int] | None
    ) -> None:
        """Send the rows of one partition, ``first`` to ``end - 1`` (of ``order``)."""
        core = self._core
        fast = partition != UNKNOWN and (rows.one_place or order is not None)
        place = first
        count = 0
        while place < end and not self._stopped:
            before = count
            count = self._append_rows(rows, place, end, partition, order) if fast else 0
            if count:
                place += count
                self._work += count
            else:
                index = place if order is None else order[place]
                self._put_row(rows, index)
                place += 1
                self._worked_on_one(before)
            if core.back_pressure.is_full:
                await core.drain()
            if self._work >= tuning.BULK_ROWS_PER_TURN:
                self._work = 0
                await asyncio.sleep(0)

    def _append_rows(
        self, rows: _Rows, place: int, end: int, partition: int | None, order: array[int] | None
    ) -> int:
        """Put rows into an open batch, while they fit there; returns their number."""
        if not self._fast_path.serves():
            return 0
        builder = self._routes.find(rows.topic, None, None, partition)
        if builder is None:
            return 0
        token = BulkToken(self._outcomes, place, order)
        now_ns = self._core.wall_clock_ns()
        builder.mark(now_ns)
        before = builder.count
        try:
            builder.append_rows(
                token, now_ns // 1_000_000, rows.columns, rows.base, end, rows.headers or ()
            )
        finally:  # the rows before one that can't be read are in the batch
            token.count = builder.count - before
            self._given += token.count
        return token.count

    def _put_row(self, rows: _Rows, index: int) -> None:
        """Send one row as a record of Python objects."""
        columns, row = rows.columns, index - rows.base
        try:
            headers = rows.headers if columns.headers is None else columns.headers[row]
            fields = (
                rows.topic,
                columns.values[row],
                None if columns.keys is None else columns.keys[row],
                rows.partition if columns.partitions is None else columns.partitions[row],
                headers,
                None if columns.timestamps is None else columns.timestamps[row],
            )
            self._put_fields(index, fields)
        except SerializationError as error:
            self._given += 1
            self._outcomes.refused(index, error)


class _Rows:
    """The columns of a call, with their topic and the index of their first row."""

    def __init__(
        self,
        topic: str,
        columns: Columns,
        base: int,
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> None:
        for given, column, name in (
            (partition, columns.partitions, "partition"),
            (headers, columns.headers, "headers"),
        ):
            if given is not None and column is not None:
                raise SerializationError(
                    f"the rows have a column {name!r}: drop it, or leave out the argument {name} "
                    "of send_many()"
                )
        self.topic = topic
        self.columns = columns
        self.base = base
        self.partition = partition
        self.headers = headers
        self.one_place = columns.partitions is None and (
            columns.keys is None or partition is not None
        )
        """True if the rows need not be grouped by partition."""
