"""How long the line of waiting records is, and how they leave it."""

from __future__ import annotations

import pytest

from aioproducer.errors import BufferExhaustedError, ProducerError
from aioproducer.model import RecordMetadata
from tests.unit.accumulator.world import BATCH, BLOCK, FULL, START, AccumulatorWorld


def test_a_full_line_refuses_at_once_and_keeps_what_it_has() -> None:
    world = AccumulatorWorld(pending_memory=200)
    sent = [world.send(topic="unknown", size=10) for _ in range(2)]
    with pytest.raises(BufferExhaustedError, match=r"2 pending records \(184 bytes\).*drain\(\)"):
        world.send(topic="unknown", size=10)
    assert [record.record.token for record in world.pending] == sent
    assert world.records.bytes == 184
    assert world.records.is_half_full(None)


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
    assert [record.record.token for record in world.accumulator.pending.awaiting("unknown")] == [
        second,
        third,
    ]


def test_a_record_that_was_placed_is_not_withdrawn(world: AccumulatorWorld) -> None:
    token = world.send(topic="later")
    (record,) = world.pending
    world.learn(1, topic="later")
    token.cancelled = True
    world.accumulator.pending.withdraw(record)
    (batch,) = world.drain(1)
    assert batch.count == 1


def test_the_line_borrows_what_batches_leave() -> None:
    world = AccumulatorWorld(memory=20 * BATCH, pending_memory=BATCH, kept_memory=5 * BATCH)
    sent = [world.send(topic="unknown", size=FULL) for _ in range(16)]
    with pytest.raises(BufferExhaustedError):
        world.send(topic="unknown", size=FULL)
    assert world.pool.available >= 5 * BATCH
    assert world.records.bytes > 14 * BATCH
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
    world.accumulator.pending.fail([late], BufferExhaustedError("late"))
    assert isinstance(late.record.token.exception(), BufferExhaustedError)
    assert not token.done()
    assert [record.record.token for record in world.pending] == [token]
    assert world.accumulator.pending.fail([late], ProducerError("again")) == 0


def test_records_that_all_failed_leave_no_trace_of_their_topic() -> None:
    world = AccumulatorWorld()
    for _ in range(3):
        world.send(topic="typo")
    world.now += BLOCK
    assert not world.accumulator.forget_topic("typo", world.now)
    for late in world.pending.expired(world.now):
        world.accumulator.pending.fail([late], BufferExhaustedError("late"))
    assert world.accumulator.pending.awaiting("typo") == []
    assert world.accumulator.forget_topic("typo", world.now)
    token = world.send(topic="forbidden")
    refused = ProducerError("not allowed")
    assert (
        world.accumulator.pending.fail(world.accumulator.pending.awaiting("forbidden"), refused)
        == 1
    )
    assert token.outcome is refused
    assert world.accumulator.pending.awaiting("forbidden") == []
    assert world.accumulator.forget_topic("forbidden", world.now)
    assert world.records.bytes == 0
