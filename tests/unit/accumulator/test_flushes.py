"""A flush ends when all that was there has its fate, and waits for nothing later."""

from __future__ import annotations

from aioproducer.errors import ProducerError
from tests.support.tokens import FlushToken
from tests.unit.accumulator.world import BATCH, FULL, LINGER, AccumulatorWorld


def test_flush_of_nothing_is_done_at_once() -> None:
    world, flushed = AccumulatorWorld(), FlushToken()
    world.accumulator.flush(flushed)
    assert flushed.resolved


def test_flush_waits_for_what_was_there_and_for_nothing_later() -> None:
    world, flushed = AccumulatorWorld(memory=2 * BATCH), FlushToken()
    world.learn(1, 1)
    for partition in (0, 1):
        world.send(partition, FULL)
    in_line = world.send(0, FULL)
    world.send(topic="unknown")
    world.accumulator.flush(flushed)
    later = world.send(1, FULL)
    first, second = world.drain()
    world.deliver(second)
    world.retry(first)
    unknown = world.accumulator.pending.awaiting("unknown")
    assert world.accumulator.pending.fail(unknown, ProducerError("no such topic")) == 1
    world.deliver(world.drain_one())
    assert world.admit()
    assert not flushed.resolved
    batch = world.drain_one()
    assert batch.builder.tokens == [in_line]
    world.fail(batch)
    assert flushed.resolved
    assert not later.done()


def test_flushes_can_be_ended_with_an_error(world: AccumulatorWorld) -> None:
    going_on, given_up = FlushToken(), FlushToken()
    world.send()
    for flushed in (going_on, given_up):
        world.accumulator.flush(flushed)
    given_up.given_up = True
    error = ProducerError("broken")
    world.accumulator.fail_flushes(error)
    assert (going_on.error, given_up.error) == (error, None)
    assert world.ready() == LINGER
    world.deliver(world.drain_one())


def test_a_record_withdrawn_from_the_line_ends_its_flush() -> None:
    world, flushed = AccumulatorWorld(), FlushToken()
    token = world.send(topic="unknown")
    world.accumulator.flush(flushed)
    assert not flushed.resolved
    world.withdraw(token)
    assert flushed.resolved
    assert not world.pending


def test_several_flushes_end_each_at_its_own_time(world: AccumulatorWorld) -> None:
    flushes = [FlushToken(), FlushToken(), FlushToken()]
    for partition, flushed in enumerate(flushes):
        world.send(partition)
        world.accumulator.flush(flushed)
    first, second = world.drain(1)
    world.deliver(second)
    assert [flushed.resolved for flushed in flushes] == [False, False, False]
    world.deliver(first)
    assert [flushed.resolved for flushed in flushes] == [True, True, False]
    flushes[2].given_up = True
    world.deliver(world.drain_one(2))
    assert not flushes[2].resolved
