"""The sender of one ``send_many()``: it puts values into batches while there is room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Coroutine, Iterable
from itertools import islice
from typing import Any, Final

from aioproducer.bulk.send_report import BulkResult, OneRecord, SendReport, carry, note
from aioproducer.core.producer_core import ProducerCore
from aioproducer.core.send_pipeline import RecordFields
from aioproducer.errors import ProducerError
from aioproducer.model import Headers, ProducerRecord
from aioproducer.records.bulk_tokens import BulkToken

_RECORDS_PER_TURN: Final = 500
"""The number of records sent one by one before the event loop may run other tasks."""
ROWS_PER_TURN: Final = 2_000
"""The number of values, sent many in one call, before the event loop may run other tasks. A value
that opens a batch counts as ``_RECORDS_PER_TURN``, for the bytes of the batch before."""
_AHEAD_AT_LEAST: Final = 8
"""The least number of values taken ahead from an iterator. If one call put more than half of this
number into a batch, twice the records of that call are taken, up to ``_RECORDS_PER_TURN``."""


class ValueSender:
    """Sends many records of one ``send_many()`` as fast as there is room for them."""

    def __init__(self, core: ProducerCore) -> None:
        self._core = core
        self._fast_path = core.fast_path
        self._routes = core.routes
        self._result = BulkResult(core.new_future())
        self._given = 0
        """The number of the result's records that were sent or refused."""
        self._work = 0
        """The work since other tasks could run last, in values."""

    async def send_all(
        self,
        topic: str,
        values: Iterable[Any] | AsyncIterable[Any],
        partition: int | None,
        headers: Headers | None,
    ) -> SendReport:
        """Send ``values`` and wait for all outcomes. If cancelled, take back pending records."""
        if isinstance(values, AsyncIterable):
            return await self._reported(self._send_each(topic, values, partition, headers))
        return await self._reported(self._send_chunks(topic, values, partition, headers))

    async def _reported(self, sending: Coroutine[Any, Any, None]) -> SendReport:
        result = self._result
        try:
            try:
                await sending
            except Exception as error:  # the producer's end, or the error of the iterable
                carry(error, result)
                await result.end(result.count - self._given)
                note(error)
                raise
            return await result.finish()
        except asyncio.CancelledError as error:
            carry(error, result)
            result.drop(result.count - self._given)
            result.cancel()
            self._core.take_back_cancelled()
            result.listen()
            raise

    async def _send_each(
        self,
        topic: str,
        values: AsyncIterable[Any],
        partition: int | None,
        headers: Headers | None,
    ) -> None:
        core, result, put = self._core, self._result, self._put
        async for value in values:
            index = result.add()
            put(index, topic, value, partition, headers)
            if core.back_pressure.is_full:
                await core.drain()
            elif not index % _RECORDS_PER_TURN:
                await asyncio.sleep(0)

    async def _send_chunks(
        self,
        topic: str,
        values: Iterable[Any],
        partition: int | None,
        headers: Headers | None,
    ) -> None:
        if isinstance(values, list | tuple):
            at = 0
            while chunk := list(values[at : at + ROWS_PER_TURN]):
                await self._send_chunk(topic, chunk, partition, headers)
                at += len(chunk)
            return
        iterator = iter(values)
        ahead = _AHEAD_AT_LEAST
        error: Exception | None = None
        while error is None:
            chunk = []
            try:
                chunk.extend(islice(iterator, ahead))
            except Exception as raised:
                error = raised  # the records before it are sent
            if not chunk:
                break
            fitting = await self._send_chunk(topic, chunk, partition, headers)
            ahead = min(max(_AHEAD_AT_LEAST, 2 * fitting), _RECORDS_PER_TURN)
        if error is not None:
            raise error

    async def _send_chunk(
        self, topic: str, chunk: list[Any], partition: int | None, headers: Headers | None
    ) -> int:
        """Send ``chunk``; returns the most records of it that went into one batch in one call."""
        core, put = self._core, self._put
        first = self._result.add(len(chunk))
        at = count = most = 0
        while at < len(chunk):
            before = count
            count = 0
            if headers is None and type(chunk[at]) is bytes:
                count = self._append_values(first + at, topic, chunk, at, partition)
            if count:
                most = max(most, count)
                self._work += count
                at += count
            else:
                put(first + at, topic, chunk[at], partition, headers)
                self._worked_on_one(before)
                at += 1
            if core.back_pressure.is_full:
                await core.drain()
            if self._work >= ROWS_PER_TURN:
                self._work = 0
                await asyncio.sleep(0)
        return most

    def _worked_on_one(self, before: int) -> None:
        """Count the work for a record that was sent alone, after ``before`` in one call."""
        self._work += _RECORDS_PER_TURN if before else ROWS_PER_TURN // _RECORDS_PER_TURN

    def _append_values(
        self, index: int, topic: str, values: list[Any], at: int, partition: int | None
    ) -> int:
        """Put values into the open batch, while they are bytes and fit; returns their number."""
        if not self._fast_path.serves():
            return 0
        builder = self._routes.find(topic, None, None, partition)
        if builder is None:
            return 0
        token = BulkToken(self._result, index)
        self._routes.last = builder
        token.count = builder.append_values(token, self._core.now_ms(), values, at)
        self._given += token.count
        return token.count

    def _put(
        self, index: int, topic: str, value: Any, partition: int | None, headers: Headers | None
    ) -> None:
        """Send a value, or a whole record."""
        if isinstance(value, ProducerRecord):
            self._put_fields(index, value.fields())
        else:
            self._put_fields(index, (topic, value, None, partition, headers, None))

    def _put_fields(self, index: int, fields: RecordFields) -> None:
        topic, value, key, partition, headers, timestamp_ms = fields
        token = OneRecord(self._result, index)
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
            self._core.put(fields, token, over_capacity=True)
        except ProducerError as error:
            token.set_exception(error)
