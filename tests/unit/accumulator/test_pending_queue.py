"""Pending records get memory in turn, and go into their batches in order."""

from __future__ import annotations

from concurrent.futures import Future

from aioproducer.engine.accumulator import SerializedRecord
from aioproducer.engine.interceptors import Interceptors
from aioproducer.engine.partitioning import murmur2_partition
from aioproducer.errors import ProducerError
from aioproducer.model import ProducerRecord, RecordMetadata
from tests.support.tokens import Token
from tests.unit.accumulator.world import (
    BATCH,
    BLOCK,
    FULL,
    TIMESTAMP_MS,
    AccumulatorWorld,
)


def test_records_of_an_unknown_topic_are_placed_in_order() -> None:
    world = AccumulatorWorld()
    tokens = [world.send(None, key=b"%d" % (number % 3)) for number in range(30)]
    assert len(world.pending) == 30
    assert world.accumulator.pending.awaiting("t") == list(world.pending)
    world.learn(1, 1, 1)
    assert not world.pending
    assert world.accumulator.pending.awaiting("t") == []
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
    assert (world.records.bytes, len(world.pending)) == (0, 0)


def test_a_record_is_cancelled_by_its_caller_not_by_its_token() -> None:
    world = AccumulatorWorld(memory=BATCH)
    told: list[object] = []

    class Hook:
        def on_acknowledgement(self, metadata: object, error: object) -> None:
            told.append(error)

    caller: Future[RecordMetadata] = Future()
    token = Interceptors([Hook()]).follow(caller, ProducerRecord("t", None))
    record = SerializedRecord("t", 0, TIMESTAMP_MS, None, b"v", (), token)
    pending = world.accumulator.enqueue(record, world.now, world.now + BLOCK)
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
    assert world.memory_quota.skips_linger(2, world.now), "it waits still"
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
    assert not world.memory_quota.skips_linger(1, world.now)
