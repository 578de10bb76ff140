"""The blocking ``send_many()``: an iterator's values through the inbox, all others in the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from typing import Any

from aioproducer import errors
from aioproducer.engine.bulk.send_report import BulkResult, OneRecord, SendReport, carry, note
from aioproducer.engine.core.arguments import one_by_one
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.send_pipeline import RecordFields
from aioproducer.engine.core.tracing import TracedCall, in_context
from aioproducer.model import Headers, ProducerRecord
from aioproducer.serialization import shared_headers
from aioproducer.sync.loop_thread import LoopThread


def send_values(
    thread: LoopThread,
    core: ProducerCore,
    topic: str,
    values: Any,
    partition: int | None,
    headers: Headers | None,
) -> SendReport:
    """Put each value of an iterable into the inbox, and wait for all outcomes.

    The iterable runs in the caller's thread.
    """

    async def begin() -> BulkResult:
        under_way.enter_context(core.hold_commit())
        return BulkResult(asyncio.get_running_loop().create_future())

    async def finish() -> SendReport:
        await thread.catch_up()
        return await result.finish()

    async def end() -> None:
        await thread.catch_up()
        await result.end(0)

    def take_back() -> None:
        core.take_back_cancelled()
        result.listen()

    values = one_by_one(values, "an iterable")
    shared = None if headers is None else shared_headers(headers, topic)
    under_way = ExitStack()
    try:
        result = thread.ask(begin)
    except BaseException:  # an interrupt may come when it has begun
        thread.call_soon(under_way.close)
        raise
    call = TracedCall(core.tracing, topic, shared)
    error: BaseException | None = None
    try:
        for value in values:
            fields: RecordFields = (topic, value, None, partition, call.headers, None)
            if isinstance(value, ProducerRecord):
                fields = in_context(value.fields(), call.headers)
            thread.writer.enter(_BulkRecord(result), *fields, core.wall_clock_ns(), None)
        return thread.ask(finish)
    except KeyboardInterrupt as interrupt:
        error = interrupt
        carry(error, result)
        result.cancel()
        thread.call_soon(take_back)
        raise
    except Exception as raised:  # the producer's end, or the error of the iterable
        error = raised
        carry(error, result)
        with suppress(errors.ProducerError):  # closed: all records have their outcome by then
            thread.ask(end)
        note(error)
        raise
    finally:
        thread.call_soon(under_way.close)
        call.ended(result.report(), error)


def send_together(
    thread: LoopThread, call: Callable[[], Coroutine[Any, Any, SendReport]]
) -> SendReport:
    """Run the asynchronous ``send_many()``, of values that are all there, on the loop."""
    raised: list[BaseException] = []

    async def send() -> SendReport:
        await thread.catch_up()
        try:
            return await call()
        except BaseException as error:
            raised.append(error)
            raise

    try:
        return thread.ask(send)
    except (errors.ProducerError, KeyboardInterrupt) as error:
        if thread.ended:
            thread.join()  # then the call has raised as well
        report = SendReport.of(raised[0]) if raised else None
        if report is not None and SendReport.of(error) is None:
            carry(error, report)
            note(error)
        raise


class _BulkRecord(OneRecord):
    """A substitute for a future in the inbox: the record is counted once it leaves there."""

    def __init__(self, result: BulkResult) -> None:
        super().__init__(result, -1)
        self._added = result

    @staticmethod
    def cancel() -> bool:
        """Do nothing: a record that never leaves the inbox is not counted."""
        return False

    def set_running_or_notify_cancel(self) -> bool:
        """True if the record is to be sent."""
        if not self.cancelled():
            self._index = self._added.add()
        return not self.cancelled()
