"""The task that calls the hook for failed records: order, errors, bounds, the producer's end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
import pytest_asyncio

from aioproducer.config import ProducerConfig
from aioproducer.engine.accumulator import PendingRecord, SerializedRecord
from aioproducer.engine.core.failures import (
    FailedRecordHandler,
    FailureFunction,
    FailureWorker,
    handler_of,
)
from aioproducer.errors import DeliveryTimeoutError, ProducerError
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.model import FailedRecord

PATIENCE = 20.0
FAILED = DeliveryTimeoutError("late")


def everything(_error: ProducerError) -> bool:
    return True


class Failures:
    """A worker with records to give to its handler."""

    def __init__(self) -> None:
        self.deaths: list[BaseException] = []
        self.owner = TaskOwner(self.deaths.append)
        self.worker: FailureWorker

    def serve(self, handler: Any, capacity: int = 1_000_000, timeout: float = PATIENCE) -> None:
        if not hasattr(handler, "handle"):
            handler = FailureFunction(handler, timeout)
        self.worker = FailureWorker(handler, capacity, everything, self.owner)

    def fail(self, *values: bytes) -> None:
        records = []
        for value in values:
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            record = SerializedRecord("orders", 0, 7, None, value, (), future)
            records.append(PendingRecord(record, 100, 0.0, 1.0))
        self.worker.queue.add_pending(FAILED, records)

    async def finish(self, timeout: float) -> None:
        await self.worker.finish(timeout, asyncio.get_running_loop().create_future())


@pytest_asyncio.fixture
async def failures() -> AsyncIterator[Failures]:
    made = Failures()
    yield made
    await made.owner.close(1.0)
    assert not made.deaths


async def test_each_record_once_and_in_order(failures: Failures) -> None:
    seen: list[bytes | None] = []
    failures.serve(lambda record: seen.append(record.value))
    values = [b"%d" % number for number in range(1_200)]
    failures.fail(*values[:700])
    failures.fail(*values[700:])
    assert not seen, "the hook is not called by the part that failed the records"
    await asyncio.wait_for(failures.worker.join(), PATIENCE)
    assert seen == values
    assert failures.worker.left == 0
    failures.fail(b"later")
    await asyncio.wait_for(failures.worker.join(), PATIENCE)
    assert seen[-1] == b"later"


async def test_an_async_hook_is_called_one_record_after_another(failures: Failures) -> None:
    running, seen = 0, []

    async def hook(record: FailedRecord) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        running -= 1
        seen.append(record.value)

    failures.serve(hook)
    failures.fail(b"1", b"2", b"3")
    await asyncio.wait_for(failures.worker.join(), PATIENCE)
    assert seen == [b"1", b"2", b"3"]


@pytest.mark.parametrize("error", [RuntimeError("broken"), asyncio.CancelledError()])
@pytest.mark.parametrize("is_async", [False, True])
async def test_an_error_of_the_hook_is_logged_and_ends_nothing(
    failures: Failures, caplog: pytest.LogCaptureFixture, error: BaseException, is_async: bool
) -> None:
    seen = []

    def plain(record: FailedRecord) -> None:
        seen.append(record.value)
        raise error

    async def asynchronous(record: FailedRecord) -> None:
        plain(record)

    failures.serve(asynchronous if is_async else plain)
    failures.fail(b"1", b"2")
    await asyncio.wait_for(failures.worker.join(), PATIENCE)
    assert seen == [b"1", b"2"]
    assert "failed for 1 failed record of topic orders" in caplog.text


async def test_an_async_call_that_hangs_is_cancelled(
    failures: Failures, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []

    async def hook(record: FailedRecord) -> None:
        seen.append(record.value)
        if record.value == b"1":
            await asyncio.get_running_loop().create_future()

    failures.serve(hook, timeout=0.01)
    failures.fail(b"1", b"2")
    await asyncio.wait_for(failures.worker.join(), PATIENCE)
    assert seen == [b"1", b"2"]
    assert "TimeoutError" in caplog.text


class Handler:
    """A handler that waits for :attr:`go` in each call."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.calls: list[int] = []
        self.cancelled = False

    async def handle(self, records: Sequence[FailedRecord]) -> None:
        self.calls.append(len(records))
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    async def close(self) -> None: ...


async def test_a_handler_gets_many_records_at_once_and_a_slow_one_bounded_memory(
    failures: Failures, caplog: pytest.LogCaptureFixture
) -> None:
    handler = Handler()
    failures.serve(handler, capacity=200_000)
    failures.fail(*[bytes(10)] * 2_000)
    await asyncio.sleep(0)
    assert handler.calls == [500], "the others wait"
    before = failures.worker.left
    for _ in range(10):
        failures.fail(*[bytes(10)] * 1_000)
    assert failures.worker.left - before <= 500, "the queue is full again"
    assert "orders: records fail faster, and" in caplog.text
    handler.go.set()
    await asyncio.wait_for(failures.worker.join(), PATIENCE)
    assert max(handler.calls) == 500


async def test_join_waits_for_the_records_before_it_alone(failures: Failures) -> None:
    handler = Handler()
    failures.serve(handler)
    failures.fail(b"1")
    await asyncio.sleep(0)
    joined = asyncio.ensure_future(failures.worker.join())
    await asyncio.sleep(0)
    failures.fail(b"2")
    assert not joined.done()
    handler.go.set()
    await asyncio.wait_for(joined, PATIENCE)


async def itself(call: Callable[[], Awaitable[None]]) -> None:
    await call()


async def in_a_task(call: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(itself(call))


@pytest.mark.parametrize("way", [itself, in_a_task])
async def test_join_by_the_hook_returns_at_once(
    failures: Failures, way: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
) -> None:
    """``asyncio.wait_for()`` in Python 3.11, ``gather()`` and ``shield()`` begin tasks as well."""

    async def hook(_record: FailedRecord) -> None:
        await way(failures.worker.join)

    failures.serve(hook)
    failures.fail(b"1", b"2")
    await asyncio.wait_for(failures.worker.join(), PATIENCE)


async def test_a_task_that_outlives_its_hook_waits_for_later_ones(failures: Failures) -> None:
    first, second, go = asyncio.Event(), asyncio.Event(), asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    async def join_later() -> None:
        await first.wait()
        failures.fail(b"2")
        await failures.worker.join()

    async def hook(record: FailedRecord) -> None:
        if record.value == b"1":
            tasks.append(asyncio.create_task(join_later()))
        else:
            second.set()
            await go.wait()

    failures.serve(hook)
    failures.fail(b"1")
    await asyncio.wait_for(failures.worker.join(), PATIENCE)
    first.set()
    await asyncio.wait_for(second.wait(), PATIENCE)
    assert not tasks[0].done()
    go.set()
    await asyncio.wait_for(tasks[0], PATIENCE)


@pytest.mark.parametrize("way", [itself, in_a_task])
async def test_the_end_does_not_wait_for_a_hook_that_asks_for_it(
    failures: Failures, way: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
) -> None:
    ended = asyncio.Event()

    async def close() -> None:
        failures.worker.closing()
        await failures.finish(PATIENCE * 10)

    async def hook(_record: FailedRecord) -> None:
        await way(close)
        ended.set()

    failures.serve(hook)
    failures.fail(b"1")
    await asyncio.wait_for(ended.wait(), PATIENCE)


async def test_a_cancelled_join_is_forgotten(failures: Failures) -> None:
    handler = Handler()
    failures.serve(handler)
    failures.fail(b"1")
    joined = asyncio.ensure_future(failures.worker.join())
    await asyncio.sleep(0)
    joined.cancel()
    handler.go.set()
    await asyncio.wait_for(failures.worker.join(), PATIENCE)


# --- the end -----------------------------------------------------------------------------------


async def test_the_end_waits_for_the_handler(failures: Failures) -> None:
    handler = Handler()
    failures.serve(handler)
    failures.fail(b"1")
    ending = asyncio.ensure_future(failures.finish(PATIENCE))
    await asyncio.sleep(0)
    handler.go.set()
    await asyncio.wait_for(ending, PATIENCE)
    assert not handler.cancelled


async def test_the_end_cancels_a_handler_that_hangs_and_tells_the_rest(
    failures: Failures, caplog: pytest.LogCaptureFixture
) -> None:
    handler = Handler()
    failures.serve(handler)
    failures.fail(*[b"1"] * 700)
    joined = asyncio.ensure_future(failures.worker.join())
    await asyncio.sleep(0)
    await asyncio.wait_for(failures.finish(0), PATIENCE)
    await asyncio.wait_for(joined, PATIENCE)
    await failures.owner.close(PATIENCE)
    assert handler.cancelled
    assert "on_failed did not handle 700 failed records" in caplog.text
    failures.fail(b"too late")
    assert handler.calls == [500], "no task begins after the end"


async def test_a_close_that_is_cut_short_ends_the_handler(failures: Failures) -> None:
    handler = Handler()
    failures.serve(handler)
    failures.fail(b"1")
    cut_short: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ending = asyncio.ensure_future(failures.worker.finish(PATIENCE * 10, cut_short))
    await asyncio.sleep(0)
    cut_short.set_result(None)
    await asyncio.wait_for(ending, PATIENCE)


# --- the hook that a configuration names ---------------------------------------------------------


class Description:
    def __init__(self, handler: FailedRecordHandler) -> None:
        self._handler = handler

    def handler_for(self, _config: ProducerConfig) -> FailedRecordHandler:
        return self._handler


async def test_a_description_makes_its_handler() -> None:
    config = ProducerConfig(bootstrap_servers="localhost:9092")
    handler = Handler()
    assert handler_of(Description(handler), config) is handler
    function: Callable[[FailedRecord], object] = print
    assert isinstance(handler_of(function, config), FailureFunction)


def test_the_time_that_close_keeps_for_the_handler() -> None:
    assert FailureWorker.time_to_finish(0) == 0
    assert FailureWorker.time_to_finish(4) == 1
    assert FailureWorker.time_to_finish(120) == 5
