"""Who gets memory, and in which order; the pool and the accumulator are real."""

from __future__ import annotations

import asyncio
import gc
from random import Random

import pytest

from aioproducer.engine.accumulator import SerializedRecord
from aioproducer.engine.accumulator.memory_quota import Pressure
from aioproducer.engine.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.engine.core.producer_core import drain
from aioproducer.engine.interceptors import Interceptors
from aioproducer.errors import BufferExhaustedError, ProducerClosedError
from aioproducer.foundation.tuning import STUCK_AFTER
from aioproducer.model import ProducerRecord, RecordMetadata
from tests.support.world import World
from tests.unit.accumulator.world import delivered

BATCH = 1000


class Caller:
    """Stands for a task or a thread."""


class DrainingWorld(World):
    """Partitions led by ``leaders``; the sender's rounds are calls of :meth:`round`."""

    def __init__(self, batches: int, *leaders: int, pending: int = 20_000) -> None:
        super().__init__(
            now=0.0,
            random=lambda: Random(1),
            memory=batches * BATCH,
            pending_memory=pending,
            batch_size=BATCH,
            max_request_size=100_000,
            adaptive_linger=0.0,
            in_order=True,
        )
        self.waiters = self.accumulator.waiters
        self.learn(*leaders or (1, 1, 1, 1))

    def learn(self, *leaders: int) -> None:
        partitions = tuple(PartitionLeader(*each) for each in enumerate(leaders))
        self.accumulator.update_topic(TopicInfo("orders", None, partitions), self.now)

    def wake(self, now: float | None = None) -> None:
        """There is no sender to wake."""
        self.wakes += 1

    def send(
        self, partition: int = 0, size: int = 900, *, caller: object = None, topic: str = "orders"
    ) -> asyncio.Future[RecordMetadata]:
        """A record that fills a batch by itself; ``caller`` stands for the task that sends it."""
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        value, accumulator = bytes(size), self.accumulator
        record = SerializedRecord(topic, partition, 1, None, value, (), future)
        if not accumulator.append(record, self.now):
            accumulator.enqueue(record, self.now)
            if caller is not None:
                self.waiters.caller_stalls(caller)
        return future

    def fill(self, partition: int, *, caller: object = None) -> None:
        """Until the partition's leader has no room: one record stands in line."""
        before = len(self.pending)
        while len(self.pending) == before:
            self.send(partition, caller=caller)

    def crowd(self, partition: int, *, caller: object = None) -> None:
        """Until the line of the partition's leader is half full."""
        leader = self.accumulator._topics["orders"].partitions[partition].leader
        while self.accumulator.memory_quota.pressure(leader) is not Pressure.CRITICAL:
            self.send(partition, caller=caller)

    def has_room(self, caller: object) -> bool:
        """What ``drain()`` looks at before it waits."""
        return caller not in self.waiters.stalled and self.waiters.last_has_room()

    def round(self) -> float | None:
        return self.waiters.serve(self.now)

    def turn(self, caller: object, *, patient: bool = False) -> asyncio.Future[None] | None:
        turn: asyncio.Future[None] | None = self.waiters.room_for(caller, self.now, patient=patient)
        return turn

    async def drain(self, caller: object) -> None:
        await drain(self.waiters, caller, lambda: self.now)

    async def deliver_first(self) -> None:
        """The oldest batch is acknowledged and its memory comes back."""
        batch = next(iter(self.batches))
        delivered(batch)
        self.batches.complete(batch, self.now)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            self.round()
            await asyncio.sleep(0)


async def test_a_record_in_line_gets_the_memory_that_comes_back() -> None:
    world = DrainingWorld(1)
    first, second = world.send(), world.send()
    await world.settle()
    assert len(world.pending) == 1
    await world.deliver_first()
    assert first.done()
    assert len(world.pending) == 0
    await world.deliver_first()
    assert second.done()
    assert world.pool.available == world.pool.total


async def test_records_of_one_partition_keep_their_order() -> None:
    world = DrainingWorld(1)
    futures = [world.send() for _ in range(4)]
    done = []
    for index, future in enumerate(futures):
        future.add_done_callback(lambda _, index=index: done.append(index))  # type: ignore[misc]
    for _ in range(4):
        await world.settle()
        await world.deliver_first()
    await world.settle()
    assert done == [0, 1, 2, 3]


async def test_a_cancelled_record_takes_no_memory() -> None:
    world = DrainingWorld(1)
    world.send()
    cancelled, last = world.send(), world.send()
    await world.settle()
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

    world = DrainingWorld(1)
    world.send()
    future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
    token = Interceptors([Hook()]).follow(future, ProducerRecord("orders", None))
    record = SerializedRecord("orders", 0, 1, None, bytes(900), (), token)
    world.accumulator.enqueue(record, 0.0)
    await world.settle()
    future.cancel()
    await world.deliver_first()
    assert len(world.pending) == 0
    assert not world.batches, "it must not be sent"
    assert world.pool.available == world.pool.total


async def test_drain_waits_while_there_is_no_room_and_goes_on_when_there_is() -> None:
    world = DrainingWorld(1)
    world.send()
    draining = asyncio.get_running_loop().create_task(world.drain(asyncio.current_task()))
    await world.settle()
    assert not draining.done()
    await world.deliver_first()
    await asyncio.wait_for(draining, 60)


async def test_records_in_line_come_before_drains_and_drains_in_turn() -> None:
    world = DrainingWorld(1)
    world.send()
    world.send()
    order: list[int] = []

    async def drain(number: int) -> None:
        await world.drain(asyncio.current_task())
        order.append(number)
        world.send()

    tasks = [asyncio.get_running_loop().create_task(drain(number)) for number in range(3)]
    await world.settle()
    await world.deliver_first()
    assert order == [], "the record in line took the memory"
    await world.deliver_first()
    assert order == [0], "one batch is free, so one goes on"
    await world.deliver_first()
    await world.deliver_first()
    assert order == [0, 1, 2]
    await asyncio.gather(*tasks)


async def test_a_cancelled_drain_lets_the_next_one_go() -> None:
    world = DrainingWorld(1)
    world.send()
    tasks = [
        asyncio.get_running_loop().create_task(world.drain(asyncio.current_task()))
        for _ in range(5)
    ]
    await world.settle()
    for task in tasks[:4]:
        task.cancel()
    await world.settle()
    await world.deliver_first()
    await asyncio.wait_for(tasks[4], 60)


async def test_close_wakes_every_drain_with_the_error() -> None:
    world = DrainingWorld(1)
    world.send()
    tasks = [
        asyncio.get_running_loop().create_task(world.drain(asyncio.current_task()))
        for _ in range(3)
    ]
    await world.settle()
    error = ProducerClosedError("closed")
    world.waiters.close(error)
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert [(type(each), str(each)) for each in told] == [(ProducerClosedError, "closed")] * 3
    with pytest.raises(ProducerClosedError):
        await world.drain(asyncio.current_task())


async def test_drains_that_gave_up_leave_the_line() -> None:
    world = DrainingWorld(1)
    world.fill(0)
    for _ in range(1_000):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await world.drain(asyncio.current_task())
    await world.settle()
    assert not world.waiters.lines
    assert not world.accumulator.memory_quota._awaited


# --- each node by itself ---------------------------------------------------------------------


async def test_a_caller_waits_for_the_node_of_its_last_record_alone() -> None:
    world = DrainingWorld(32, 1, 2)
    me = Caller()
    world.fill(0, caller=me)
    assert world.turn(me) is not None
    world.send(1)
    assert world.has_room(me)
    assert world.turn(me) is None


async def test_a_caller_waits_for_every_node_where_its_records_stand_in_line() -> None:
    world = DrainingWorld(32, 1, 2, 3)
    me = Caller()
    world.fill(0, caller=me)
    world.fill(1, caller=me)
    world.send(2)
    assert world.waiters.last_has_room()
    assert not world.has_room(me)
    assert world.has_room(Caller())
    assert [world.turn(me) is not None for _ in range(3)] == [True, True, False]


async def test_a_task_that_is_done_is_forgotten() -> None:
    world = DrainingWorld(32, 1, 2)

    async def send() -> None:
        world.fill(0, caller=asyncio.current_task())

    await asyncio.create_task(send())
    await asyncio.sleep(0)
    gc.collect()
    assert not world.waiters.stalled


async def test_memory_that_comes_back_serves_whom_it_can() -> None:
    """One node waits for its first batch; another may have what is free."""
    world = DrainingWorld(32, 1, 2)
    world.fill(0)
    dead = len(world.pending)
    alive = [world.send(1) for _ in range(20)]
    for _ in range(100):
        for batch in list(world.batches):
            if batch.topic_partition.partition == 1:
                delivered(batch)
                world.batches.complete(batch, world.now)
        await world.settle()
    assert all(future.done() for future in alive)
    assert len(world.pending) == dead


async def test_nobody_else_waits_for_a_node_that_is_stuck() -> None:
    world = DrainingWorld(32, 1, 2)
    owner, other = Caller(), Caller()
    world.crowd(0, caller=owner)
    turns = [world.turn(caller) for caller in (owner, other, None)]
    assert None not in turns
    world.now = STUCK_AFTER
    assert world.round() is None
    assert [turn is not None and turn.done() for turn in turns] == [False, True, True]
    assert world.turn(other) is None
    world.send(0, caller=owner)
    assert world.turn(owner) is not None


async def test_a_stuck_node_is_not_waited_for_before_its_line_is_half_full() -> None:
    world = DrainingWorld(32, 1, 2)
    owner = Caller()
    world.fill(0, caller=owner)
    turn = world.turn(owner)
    assert turn is not None
    assert world.round() == STUCK_AFTER
    world.now = STUCK_AFTER
    world.round()
    assert turn.done()
    assert world.turn(owner) is None


async def test_a_caller_that_need_not_wait_for_a_stuck_node_lets_others_have_their_turn() -> None:
    world = DrainingWorld(32, 1, 2)
    task = asyncio.current_task()
    world.fill(0, caller=task)
    world.now = STUCK_AFTER
    others = 0

    def count() -> None:
        nonlocal others
        others += 1

    for _ in range(10):
        asyncio.get_running_loop().call_soon(count)
        world.waiters.caller_stalls(task)
        await world.drain(task)
    assert others == 10


async def test_a_patient_caller_waits_for_a_stuck_node_until_it_has_room() -> None:
    world = DrainingWorld(32, 1, 2)
    thread = Caller()
    world.fill(0, caller=thread)
    turn = world.turn(thread, patient=True)
    assert turn is not None
    world.now = 100 * STUCK_AFTER
    world.round()
    assert not turn.done()
    for _ in range(3):
        await world.deliver_first()
    assert turn.done()


async def test_a_delivery_shows_that_a_node_is_not_stuck() -> None:
    world = DrainingWorld(32, 1, 2)
    world.crowd(0, caller=world)
    world.now = STUCK_AFTER
    await world.deliver_first()
    world.crowd(0, caller=world)
    assert world.turn(None) is not None


async def test_a_record_beyond_the_capacity_is_pending_while_its_node_is_waited_for() -> None:
    world = DrainingWorld(32, 1, 2, pending=4_000)
    world.crowd(0)
    future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
    record = SerializedRecord("orders", 0, 1, None, bytes(5_000), (), future)
    with pytest.raises(BufferExhaustedError, match=r"'orders'.*drain\(\)"):
        world.accumulator.enqueue(record, 0.0)
    pending = world.accumulator.enqueue(record, 0.0, over_capacity=True)
    assert pending in world.pending


async def test_who_waits_for_a_partition_that_moves_finds_out_where() -> None:
    world = DrainingWorld(32, 1, 2)
    world.fill(0)
    turn = world.turn(None)
    assert turn is not None
    world.learn(2, 2)
    world.round()
    assert turn.done()


async def test_records_for_an_unknown_topic_make_only_their_own_callers_wait() -> None:
    world = DrainingWorld(32, 1, 2, pending=4_000)
    owner = Caller()
    while not world.pending_memory.is_half_full(None):
        world.send(0, topic="unknown", caller=owner)
    assert world.turn(owner) is not None
    world.send(1)
    assert world.waiters.last_has_room()


async def test_it_is_asked_for_a_round_as_long_as_callers_can_go_on() -> None:
    """Four batches are free: four go on at once, and the rest in later rounds."""
    world = DrainingWorld(32, 1)
    world.fill(0)
    turns = [world.turn(None) for _ in range(6)]
    for _ in range(5):
        batch = next(iter(world.batches))
        delivered(batch)
        world.batches.complete(batch, world.now)
    world.round()
    assert sum(turn is not None and turn.done() for turn in turns) == 4
    asked = world.wakes
    world.round()
    assert world.wakes > asked
    assert all(turn is not None and turn.done() for turn in turns)
