"""Who gets memory, and in which order; the pool and the accumulator are real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from aioproducer.accumulator.batching_rules import BatchingRules
from aioproducer.accumulator.buffer_pool import BufferPool
from aioproducer.accumulator.record_accumulator import RecordAccumulator
from aioproducer.accumulator.sticky import StickyChoice
from aioproducer.accumulator.waiting_line import WaitingLine, WaitingRecord
from aioproducer.cluster.snapshot import PartitionInfo, TopicInfo
from aioproducer.errors import ProducerClosedError
from aioproducer.interceptors import InterceptedFuture, Interceptors
from aioproducer.metrics import ProducerMetrics
from aioproducer.model import ProducerRecord, RecordMetadata
from aioproducer.sender.admission import Admission

BATCH = 1000


class World:
    def __init__(self, batches: int, max_block: float = 60.0) -> None:
        rules = BatchingRules(
            batch_size=BATCH,
            max_request_size=100_000,
            linger=0.0,
            adaptive_linger=0.0,
            delivery_timeout=120.0,
        )
        self.pool = BufferPool(batches * BATCH, BATCH)
        self.accumulator = RecordAccumulator(
            rules,
            self.pool,
            WaitingLine(20_000, self.pool, self.pool.total),
            StickyChoice(Random(1), BATCH, adaptive=False, unavailable=lambda _: False),
            lambda: self.admission.wake(),
            lambda _: 1.0,
        )
        self.admission = Admission(
            self.accumulator, ProducerMetrics(now=0.0), lambda: 0.0, max_block
        )
        partitions = tuple(PartitionInfo(index, 1) for index in range(4))
        self.accumulator.update_topic(TopicInfo("orders", None, partitions), 0.0)

    def send(self, partition: int = 0, size: int = 900) -> asyncio.Future[RecordMetadata]:
        """A record that fills a batch by itself."""
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        value = bytes(size)
        if not self.accumulator.append("orders", partition, 1, None, value, (), future, 0.0):
            self.accumulator.wait_in_line(
                WaitingRecord(
                    "orders",
                    partition,
                    1,
                    None,
                    value,
                    (),
                    future,
                    size=self.accumulator.sizes.checked("orders", None, value, ()),
                    sent=0.0,
                    deadline=60,
                )
            )
        return future

    async def deliver_first(self) -> None:
        """The oldest batch is acknowledged and its memory comes back."""
        batch = next(iter(self.accumulator.incomplete))
        batch.deliver(0, -1)
        buffer = self.accumulator.incomplete.complete(batch, 0.0)
        assert buffer is not None
        await self.pool.deallocate(buffer)
        self.admission.wake()
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@asynccontextmanager
async def running(batches: int, max_block: float = 60.0) -> AsyncIterator[World]:
    world = World(batches, max_block)
    task = asyncio.get_running_loop().create_task(world.admission.run())
    await settle()
    yield world
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_record_in_line_gets_the_memory_that_comes_back() -> None:
    async with running(1) as world:
        first, second = world.send(), world.send()
        await settle()
        assert len(world.accumulator.line) == 1
        await world.deliver_first()
        assert first.done()
        assert len(world.accumulator.line) == 0
        await world.deliver_first()
        assert second.done()
        assert world.pool.available == world.pool.total


async def test_records_of_one_partition_keep_their_order() -> None:
    async with running(1) as world:
        futures = [world.send() for _ in range(4)]
        done = []
        for index, future in enumerate(futures):
            future.add_done_callback(lambda _, index=index: done.append(index))  # type: ignore[misc]
        for _ in range(4):
            await settle()
            await world.deliver_first()
        await settle()
        assert done == [0, 1, 2, 3]


async def test_a_cancelled_record_takes_no_memory() -> None:
    async with running(1) as world:
        world.send()
        cancelled, last = world.send(), world.send()
        await settle()
        cancelled.cancel()
        await world.deliver_first()
        await world.deliver_first()
        assert last.done()
        assert world.pool.available == world.pool.total


async def test_a_record_with_interceptors_may_be_taken_back_too() -> None:
    fates: list[object] = []

    class Hook:
        def on_acknowledgement(self, metadata: object, error: object) -> None:
            fates.append(metadata)

    async with running(1) as world:
        world.send()
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        token = InterceptedFuture(future, Interceptors([Hook()]), ProducerRecord("orders"))
        world.accumulator.wait_in_line(
            WaitingRecord(
                "orders", 0, 1, None, bytes(900), (), token,
                size=900, sent=0.0, deadline=60, caller=future,
            )
        )  # fmt: skip
        await settle()
        future.cancel()
        await world.deliver_first()
        assert len(world.accumulator.line) == 0
        assert not world.accumulator.incomplete, "it must not be sent"
        assert world.pool.available == world.pool.total


async def test_drain_waits_while_there_is_no_room_and_goes_on_when_there_is() -> None:
    async with running(1) as world:
        world.send()
        draining = asyncio.get_running_loop().create_task(world.admission.drain())
        await settle()
        assert not draining.done()
        await world.deliver_first()
        await asyncio.wait_for(draining, 60)


async def test_records_in_line_come_before_drains_and_drains_in_turn() -> None:
    async with running(1) as world:
        world.send()
        world.send()
        order: list[int] = []

        async def drain(number: int) -> None:
            await world.admission.drain()
            order.append(number)
            world.send()

        tasks = [asyncio.get_running_loop().create_task(drain(number)) for number in range(3)]
        await settle()
        await world.deliver_first()
        assert order == [], "the record in line took the memory"
        await world.deliver_first()
        assert order == [0], "one batch is free, so one goes on"
        await world.deliver_first()
        await world.deliver_first()
        assert order == [0, 1, 2]
        await asyncio.gather(*tasks)


async def test_a_cancelled_drain_lets_the_next_one_go() -> None:
    async with running(1) as world:
        world.send()
        tasks = [asyncio.get_running_loop().create_task(world.admission.drain()) for _ in range(5)]
        await settle()
        for task in tasks[:4]:
            task.cancel()
        await settle()
        await world.deliver_first()
        await asyncio.wait_for(tasks[4], 60)


async def test_running_out_of_time_keeps_the_line() -> None:
    """The sender fails records by their own deadline; here they only stay where they are."""
    async with running(1, max_block=0.0) as world:
        world.send()
        world.send()
        await settle()
        assert len(world.accumulator.line) == 1
        await world.deliver_first()
        await settle()
        assert len(world.accumulator.line) == 0


async def test_close_wakes_every_drain_with_the_error() -> None:
    async with running(1) as world:
        world.send()
        tasks = [asyncio.get_running_loop().create_task(world.admission.drain()) for _ in range(3)]
        await settle()
        error = ProducerClosedError("closed")
        world.admission.close(error)
        assert await asyncio.gather(*tasks, return_exceptions=True) == [error] * 3
        with pytest.raises(ProducerClosedError):
            await world.admission.drain()


async def test_cancelling_it_gives_back_what_was_gathered() -> None:
    async with running(2) as world:
        world.send(0)
        world.send(1)
        world.send(2, size=1900)
        await settle()
        await world.deliver_first()
        assert world.pool.waiting == 1
    assert world.pool.available == BATCH
    assert world.pool.waiting == 0
