"""The writer of many records that are columns instead of Python objects."""

from __future__ import annotations

import asyncio
from array import array

from aioproducer.engine.bulk.value_writer import ValueWriter
from aioproducer.engine.partitioning import STICKY, UNKNOWN
from aioproducer.engine.records.acceleration import rows_by_partition
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.engine.records.columns import Columns
from aioproducer.errors import SerializationError
from aioproducer.foundation import tuning
from aioproducer.serialization import SharedHeaders


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
        self._routes.last = builder
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
