"""The asynchronous ``send_many()``: values one by one, or Arrow columns; a report at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Coroutine, Iterable
from itertools import chain
from typing import Any

from aioproducer.engine.bulk.send_report import BulkResult, SendReport, carry, note
from aioproducer.engine.bulk.writers import ColumnWriter
from aioproducer.engine.core.arguments import one_by_one
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.tracing import TracedCall
from aioproducer.engine.records.acceleration import take_ahead
from aioproducer.engine.records.arrow import is_arrow, read_columns
from aioproducer.engine.records.columns import Columns
from aioproducer.foundation import tuning
from aioproducer.model import Headers
from aioproducer.serialization.serializer import SharedHeaders, shared_headers


class ValueSender(ColumnWriter):
    """Sends many records of one ``send_many()``, and waits for their outcomes."""

    def __init__(self, core: ProducerCore) -> None:
        self._result = BulkResult(core.lifecycle.loop.create_future())
        super().__init__(core, self._result)

    async def send_all(
        self,
        topic: str,
        values: Iterable[Any] | AsyncIterable[Any],
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> SendReport:
        """Send ``values`` and wait for all outcomes. If cancelled, take back pending records."""
        if isinstance(values, AsyncIterable):
            return await self._reported(self._send_each(topic, values, partition, headers))
        return await self._reported(self._send_chunks(topic, values, partition, headers))

    async def send_columns(
        self,
        topic: str,
        batches: Iterable[Columns],
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> SendReport:
        """Send each row of ``batches`` and wait for all outcomes, as :meth:`send_all` does."""
        return await self._reported(self._send_columns(topic, batches, partition, headers))

    async def _send_columns(
        self,
        topic: str,
        batches: Iterable[Columns],
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> None:
        for columns in batches:
            await self.write_columns(topic, columns, partition, headers)

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
            self._core.withdraw_cancelled()
            result.listen()
            raise

    async def _send_each(
        self,
        topic: str,
        values: AsyncIterable[Any],
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> None:
        core, result, put = self._core, self._result, self._put
        async for value in values:
            index = result.add()
            put(index, topic, value, partition, headers)
            if core.back_pressure.is_full:
                await core.drain()
            elif not index % tuning.BULK_RECORDS_PER_TURN:
                await asyncio.sleep(0)

    async def _send_one_by_one(
        self,
        topic: str,
        values: Iterable[Any],
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> None:
        """Send each value before the next one is read, up to the first that is bytes."""
        core, result, put = self._core, self._result, self._put
        for value in values:
            if self._stopped:
                return
            put(result.add(), topic, value, partition, headers)
            self._worked_on_one(0)
            if core.back_pressure.is_full:
                await core.drain()
            if self._work >= tuning.BULK_ROWS_PER_TURN:
                self._work = 0
                await asyncio.sleep(0)
            if type(value) is bytes:
                return

    async def _send_chunks(
        self,
        topic: str,
        values: Iterable[Any],
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> None:
        chunk: list[Any]
        if isinstance(values, list | tuple):
            at = 0
            while chunk := list(values[at : at + tuning.BULK_ROWS_PER_TURN]):
                await self.write(topic, chunk, partition, headers)
                at += len(chunk)
            return
        iterator = iter(values)
        ahead = tuning.BULK_AHEAD
        error: Exception | None = None
        while error is None:
            chunk = []
            try:
                take_ahead(iterator, ahead, chunk)
            except Exception as raised:
                error = raised  # the records before it are sent
            if not chunk:
                break
            if len(chunk) == 1 and type(chunk[0]) is not bytes:
                await self._send_one_by_one(topic, chain(chunk, iterator), partition, headers)
                continue
            fitting = await self.write(topic, chunk, partition, headers)
            ahead = min(max(tuning.BULK_AHEAD, 2 * fitting), tuning.BULK_RECORDS_PER_TURN)
        if error is not None:
            raise error


async def send_many(
    core: ProducerCore, topic: str, values: Any, partition: int | None, headers: Headers | None
) -> SendReport:
    """Send every value and wait for all outcomes; see :meth:`aioproducer.Producer.send_many`."""
    core.check_usable()
    columns = read_columns(values) if is_arrow(values) else None
    if columns is None and not isinstance(values, AsyncIterable):
        values = one_by_one(values, "an iterable or async iterable")
    shared = None if headers is None else shared_headers(headers, topic)
    sender = ValueSender(core)
    with core.hold_commit():
        call = TracedCall(core.tracing, topic, shared)
        if columns is None or all(each.headers is None for each in columns):
            shared = call.headers
        report: SendReport | None = None
        raised: BaseException | None = None
        try:
            if columns is None:
                report = await sender.send_all(topic, values, partition, shared)
            else:
                report = await sender.send_columns(topic, columns, partition, shared)
            return report
        except BaseException as error:
            report, raised = SendReport.of(error), error
            raise
        finally:
            call.ended(report, raised)
            if report is not None and report.first_failure is not None:
                core.record_failed(report.first_failure)
