"""Pending records: their number, their memory in turn, those without bytes, and their end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import Future
from time import process_time

import pytest

from aioproducer.engine.accumulator import PendingRecord, SerializedRecord, Unserialized
from aioproducer.engine.accumulator.pending_records import TopicQueues
from aioproducer.engine.interceptors import Interceptors
from aioproducer.engine.partitioning import murmur2_partition
from aioproducer.engine.records.acceleration import hide
from aioproducer.errors import (
    BufferExhaustedError,
    NotPreparedError,
    ProducerError,
    RecordTooLargeError,
    SerializationError,
)
from aioproducer.model import ProducerRecord, RecordMetadata
from tests.support.tokens import Token
from tests.unit.accumulator.world import (
    BATCH,
    BLOCK,
    FULL,
    START,
    TIMESTAMP_MS,
    AccumulatorWorld,
)


def test_a_full_line_refuses_at_once_and_keeps_what_it_has() -> None:
    world = AccumulatorWorld(pending_memory=200)
    sent = [world.send(topic="unknown", size=10) for _ in range(2)]
    with pytest.raises(BufferExhaustedError, match=r"2 pending records \(184 bytes\).*drain\(\)"):
        world.send(topic="unknown", size=10)
    assert [record.record.token for record in world.pending] == sent
    assert world.pending_memory.quota.used == 184
    assert world.pending_memory.is_half_full(None)


def test_one_record_larger_than_the_line_may_wait_alone() -> None:
    world = AccumulatorWorld(pending_memory=200)
    world.send(topic="unknown", size=500)
    with pytest.raises(BufferExhaustedError):
        world.send(topic="unknown", size=0)


def test_a_withdrawn_record_makes_place_in_a_full_line() -> None:
    world = AccumulatorWorld(pending_memory=200)
    first, second = (world.send(topic="unknown", size=10) for _ in range(2))
    with pytest.raises(BufferExhaustedError):
        world.send(topic="unknown", size=10)
    world.withdraw(first)
    third = world.send(topic="unknown", size=10)
    assert [record.record.token for record in world.pending] == [second, third]
    assert [record.record.token for record in world.pending.awaiting_metadata.of("unknown")] == [
        second,
        third,
    ]


def test_a_record_that_was_placed_is_not_withdrawn(world: AccumulatorWorld) -> None:
    token = world.send(topic="later")
    (record,) = world.pending
    world.learn(1, topic="later")
    token.cancelled = True
    world.pending.withdraw(record)
    (batch,) = world.drain(1)
    assert batch.count == 1


def test_the_line_borrows_what_batches_leave() -> None:
    world = AccumulatorWorld(memory=20 * BATCH, pending_memory=BATCH, kept_memory=5 * BATCH)
    sent = [world.send(topic="unknown", size=FULL) for _ in range(16)]
    with pytest.raises(BufferExhaustedError):
        world.send(topic="unknown", size=FULL)
    assert world.pool.available >= 5 * BATCH
    assert world.pending_memory.quota.used > 14 * BATCH
    assert world.accumulator.waiters.is_full
    world.learn(*[1, 2, 3] * 10, topic="unknown")
    while world.batches or world.pending:
        while world.admit():
            pass
        for node in (1, 2, 3):
            for batch in world.drain(node) if node in world.backlogs.nodes() else ():
                world.deliver(batch)
    assert all(isinstance(token.outcome, RecordMetadata) for token in sent)
    assert world.pool.available == world.pool.total


def test_records_leave_the_line_when_their_time_is_over() -> None:
    world = AccumulatorWorld()
    world.send(topic="unknown")
    world.now += 1.0
    token = world.send(topic="unknown")
    world.now = START + BLOCK
    (late,) = world.pending.expired(world.now)
    world.pending.fail([late], BufferExhaustedError("late"))
    assert isinstance(late.record.token.exception(), BufferExhaustedError)
    assert not token.done()
    assert [record.record.token for record in world.pending] == [token]
    assert world.pending.fail([late], ProducerError("again")) == 0


def test_a_record_that_gets_no_memory_after_its_topic_is_known_expires_after_its_own_time() -> None:
    world = AccumulatorWorld(memory=4 * BATCH, kept_memory=4 * BATCH)
    world.learn(1)
    token = world.send(topic="late")
    world.now += 1.0
    for _ in range(8):
        world.send(size=FULL)
    assert len(world.pending) > 1
    world.learn(1, topic="late")
    assert not world.pending.awaiting_metadata.of("late")
    assert world.accumulator.next_deadline() == START + BLOCK
    [first] = world.pending.expired(START + BLOCK)
    assert first.record.token is token


def test_records_that_all_failed_leave_no_trace_of_their_topic() -> None:
    world = AccumulatorWorld()
    for _ in range(3):
        world.send(topic="typo")
    world.now += BLOCK
    assert not world.accumulator.forget_topic("typo", world.now)
    for late in world.pending.expired(world.now):
        world.pending.fail([late], BufferExhaustedError("late"))
    assert world.pending.awaiting_metadata.of("typo") == []
    assert world.accumulator.forget_topic("typo", world.now)
    token = world.send(topic="forbidden")
    refused = ProducerError("not allowed")
    assert world.pending.fail(world.pending.awaiting_metadata.of("forbidden"), refused) == 1
    assert token.outcome is refused
    assert world.pending.awaiting_metadata.of("forbidden") == []
    assert world.accumulator.forget_topic("forbidden", world.now)
    assert world.pending_memory.quota.used == 0


def test_records_of_an_unknown_topic_are_placed_in_order() -> None:
    world = AccumulatorWorld()
    tokens = [world.send(None, key=b"%d" % (number % 3)) for number in range(30)]
    assert len(world.pending) == 30
    assert world.pending.awaiting_metadata.of("t") == list(world.pending)
    world.learn(1, 1, 1)
    assert not world.pending
    assert world.pending.awaiting_metadata.of("t") == []
    batches = world.drain()
    assert sorted(token for batch in batches for token in map(id, batch.builder.tokens)) == sorted(
        map(id, tokens)
    )
    for batch in batches:
        numbers = [tokens.index(token) for token in batch.builder.tokens]
        assert numbers == sorted(numbers)
        assert {murmur2_partition(b"%d" % (number % 3), 3) for number in numbers} == {
            batch.topic_partition.partition
        }


def test_a_record_never_overtakes_one_in_line_for_its_partition() -> None:
    world = AccumulatorWorld(memory=2 * BATCH)
    world.learn(1, 1)
    sent = [world.send(0, size) for size in (FULL, FULL, FULL, 10, 10, FULL, 10)]
    assert len(world.pending) == 5
    world.deliver(world.drain_one())
    sent.append(world.send(0, 10))
    assert len(world.pending) == 6, "memory is there again, but others were first"
    log: list[Token] = [*sent[:1]]
    while world.batches or world.pending:
        world.admit()
        sent.append(world.send(0, 10))
        for batch in world.drain():
            log.extend(batch.builder.tokens)
            world.deliver(batch)
        if len(sent) > 20:
            world.deliver_all()
            break
    assert log == sent[: len(log)]
    assert all(token.done() for token in sent)


def test_who_holds_least_memory_is_served_first() -> None:
    world = AccumulatorWorld(memory=6 * BATCH)
    world.learn(1, 2, 2)
    for _ in range(4):
        world.send(0, FULL)
    for partition in (1, 2):
        world.send(partition, FULL)
    waiting = [world.send(0, FULL), world.send(2, FULL), world.send(1, FULL)]
    for batch in world.drain(2):
        world.deliver(batch)
        assert world.admit()
    assert [record.record.token for record in world.pending] == waiting[:1]


def test_a_dead_partition_does_not_keep_memory_from_the_others() -> None:
    world = AccumulatorWorld(memory=4 * BATCH)
    world.learn(1, 2)
    dead = [world.send(0, FULL) for _ in range(8)]
    alive = [world.send(1, FULL) for _ in range(8)]
    world.fail(world.drain_one(1))
    for _ in range(8):
        assert world.admit()
        world.deliver(world.drain_one(2))
    assert all(isinstance(token.outcome, RecordMetadata) for token in alive)
    assert sum(token.done() for token in dead) == 1


def test_a_cancelled_record_in_line_is_not_sent() -> None:
    world = AccumulatorWorld(memory=BATCH)
    world.learn(1)
    early = world.send(topic="unknown")
    first, second, third, fourth = (world.send(0, FULL) for _ in range(4))
    for token in (second, fourth, early):
        token.cancelled = True
    world.learn(1, topic="unknown")
    world.deliver_all()
    assert [first.done(), third.done()] == [True, True]
    assert [second.outcome, fourth.outcome, early.outcome] == [None] * 3
    assert (world.pending_memory.quota.used, len(world.pending)) == (0, 0)


def test_a_record_is_cancelled_by_its_caller_not_by_its_token() -> None:
    world = AccumulatorWorld(memory=BATCH)
    told: list[object] = []

    class Hook:
        def on_acknowledgement(self, metadata: object, error: object) -> None:
            told.append(error)

    caller: Future[RecordMetadata] = Future()
    token = Interceptors([Hook()]).follow(caller, ProducerRecord("t", None))
    record = SerializedRecord("t", 0, TIMESTAMP_MS, None, b"v", (), token)
    pending = world.accumulator.enqueue(record, world.now)
    assert not pending.cancelled
    caller.cancel()
    assert pending.cancelled
    assert not token.done()
    world.learn(1)
    assert not world.batches
    assert not world.pending
    (error,) = told
    assert isinstance(error, ProducerError), "interceptors are told"


def test_a_larger_record_does_not_get_the_buffer_of_one_that_gave_up() -> None:
    world = AccumulatorWorld(memory=6 * BATCH)
    world.learn(1)
    for _ in range(6):
        world.send(0, FULL)
    small, large = world.send(0, FULL), world.send(0, 3 * BATCH)
    small.cancelled = True
    world.deliver(world.drain_one())
    assert not world.admit()
    assert all(batch.count for batch in world.batches)
    assert world.memory_quota.is_awaited(2, world.now), "it waits still"
    world.deliver_all()
    assert isinstance(large.outcome, RecordMetadata)
    assert world.pool.available == world.pool.total


def test_admission_without_anybody_left_uses_nothing() -> None:
    world = AccumulatorWorld(memory=BATCH)
    world.learn(1)
    world.send(0, FULL)
    token = world.send(0, FULL)
    token.cancelled = True
    assert not world.admit()
    assert len(world.batches) == 1
    assert not world.memory_quota.is_awaited(1, world.now)


NOT_PREPARED = NotPreparedError("no schema yet")


class Line:
    """Unserialized records of the topic ``t`` in a world."""

    def __init__(self, world: AccumulatorWorld) -> None:
        self.world = world

    def put(self, value: bytes | Exception, size: int = 600) -> PendingRecord:
        world, token = self.world, Token()
        record = SerializedRecord("t", None, 0, None, None, (), token)
        return world.accumulator.enqueue(
            record,
            world.now,
            unserialized=Unserialized(size, self._maker(value, token)),
        )

    def _maker(self, value: bytes | Exception, token: Token) -> Callable[[], SerializedRecord]:
        def make() -> SerializedRecord:
            if isinstance(value, Exception):
                raise value
            return SerializedRecord("t", None, 0, None, value, (), token)

        return make

    def serialize(self, most: int = 100) -> None:
        self.world.accumulator.serialize_pending("t", most, self.world.now)


def test_they_count_for_their_estimate_and_then_for_their_bytes() -> None:
    world = AccumulatorWorld()
    line = Line(world)
    record = line.put(b"x" * 10, size=600)
    assert world.pending_memory.quota.used == 600
    wakes = world.wakes
    line.serialize()
    assert world.pending_memory.quota.used == record.size < 600
    assert world.wakes > wakes, "callers that wait may have room"
    assert world.pending.awaiting_metadata.of("t") == [record], "its topic is not known yet"
    world.learn(1, topic="t")
    assert record.is_done
    assert world.pending_memory.quota.used == 0


def test_they_wait_although_their_topic_is_known() -> None:
    world = AccumulatorWorld()
    world.learn(1, topic="t")
    line = Line(world)
    records = [line.put(b"1"), line.put(b"2")]
    world.learn(1, topic="t")
    assert not any(record.is_done for record in records)
    line.serialize()
    assert all(record.is_done for record in records)
    (batch,) = world.drain(1)
    assert batch.count == 2


def test_the_first_one_that_is_not_prepared_stops_those_behind_it() -> None:
    world = AccumulatorWorld()
    world.learn(1, topic="t")
    line = Line(world)
    first, second, third = line.put(b"1"), line.put(NOT_PREPARED), line.put(b"3")
    line.serialize()
    assert (first.is_done, second.is_done, third.is_done) == (True, False, False)
    assert world.pending.unserialized.first("t") is second
    world.pending.fail([second], SerializationError("expired"))
    line.serialize()
    assert third.is_done


def test_one_that_can_not_be_serialized_fails_alone() -> None:
    world = AccumulatorWorld()
    world.learn(1, topic="t")
    line = Line(world)
    wrong = line.put(SerializationError("no such field"))
    large, right = line.put(b"x" * 2_000_000), line.put(b"3")
    line.serialize()
    assert isinstance(wrong.record.token.exception(), SerializationError)
    assert isinstance(large.record.token.exception(), RecordTooLargeError)
    assert right.is_done
    assert world.pending_memory.quota.used == 0
    assert [each[:2] for each in world.pending.take_refused()] == [("t", 1), ("t", 1)]


def test_a_slice_takes_the_oldest() -> None:
    world = AccumulatorWorld()
    world.learn(1, topic="t")
    line = Line(world)
    records = [line.put(b"%d" % number) for number in range(5)]
    line.serialize(2)
    assert [record.is_done for record in records] == [True, True, False, False, False]


def test_a_withdrawn_record_leaves_the_queue_at_once() -> None:
    world = AccumulatorWorld()
    record = Line(world).put(NOT_PREPARED)
    world.pending.withdraw(record)
    assert not world.pending.unserialized.first("t")
    assert world.pending_memory.quota.used == 0


def test_a_topic_stays_known_while_records_wait_for_their_serializer() -> None:
    world = AccumulatorWorld()
    world.learn(1, topic="t")
    record = Line(world).put(NOT_PREPARED)
    assert not world.accumulator.forget_topic("t", world.now)
    world.pending.withdraw(record)
    assert world.accumulator.forget_topic("t", world.now)


def test_the_first_of_many_records_is_found_at_once() -> None:
    world = AccumulatorWorld()
    queues, count = TopicQueues(), 50_000
    record = SerializedRecord("t", None, 0, None, None, (), Token())
    records = [PendingRecord(record, 600, world.now, world.now) for _ in range(count)]
    for each in records:
        queues.add(each)
    began = process_time()
    for each in records:
        assert queues.first("t") is each
        queues.remove(each)
    assert process_time() - began < 2, "in a plain dict it takes ten seconds"
    assert not queues.topics


async def test_the_collector_sees_the_future_of_a_record_that_fails() -> None:
    """Its error leads back to it, through the frames of those who await it."""
    future = asyncio.get_running_loop().create_future()
    hide(future)
    record = SerializedRecord("t", None, 1, None, b"v", (), future)
    PendingRecord(record, 100, 10.0, 70.0).fail(BufferExhaustedError("no memory"))
    assert gc.is_tracked(future)
    assert isinstance(future.exception(), BufferExhaustedError)
