"""Batches expire wherever they are, and are split in their place."""

from __future__ import annotations

from typing import Any, cast

import pytest

from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.errors import RecordTooLargeError
from aioproducer.model import RecordMetadata
from tests.support.tokens import FlushToken
from tests.support.world import DELIVERY
from tests.unit.accumulator.world import (
    BATCH,
    FULL,
    START,
    TIMESTAMP_MS,
    AccumulatorWorld,
)

# --- expiry ------------------------------------------------------------------------------------


def test_batches_expire_wherever_they_are(world: AccumulatorWorld) -> None:
    world.send(0)
    on_wire = world.drain_one()
    world.now += 1.0
    world.send(1)
    backing_off = world.drain_one()
    world.retry(backing_off, after=500.0)
    world.now += 1.0
    world.send(2)
    (_, _, waiting) = world.batches
    seen = []
    for seconds in (0.0, DELIVERY - 2.001, 0.001, 0.999, 0.001, 1.0):
        world.now += seconds
        late = world.batches.expired(world.now)
        seen.append(late)
        for batch in late:
            world.fail(batch)
    assert seen == [[], [], [on_wire], [], [backing_off], [waiting]]
    assert world.pool.available == world.pool.total
    assert world.backlogs.nodes() == []
    assert world.accumulator.next_deadline() is None


def test_the_batch_behind_an_expired_one_leaves(world: AccumulatorWorld) -> None:
    world.send(0, FULL)
    world.now += 1.0
    world.send(0, FULL)
    head, behind = world.batches
    world.now = START + DELIVERY
    assert world.batches.expired(world.now) == [head]
    world.fail(head)
    assert world.drain() == [behind]


def test_the_time_in_line_counts_for_the_delivery() -> None:
    world = AccumulatorWorld(memory=BATCH)
    world.learn(1)
    world.send(0, FULL)
    world.now += 3.0
    world.send(0, FULL)
    world.now += 5.0
    world.deliver(world.drain_one())
    assert world.admit()
    (batch,) = world.batches
    assert (batch.created, batch.deadline) == (START + 8.0, START + 3.0 + DELIVERY)


def test_a_batch_begun_later_may_expire_earlier() -> None:
    world = AccumulatorWorld(memory=2 * BATCH)
    world.learn(1, 1)
    for _ in range(2):
        world.send(0, FULL)
    world.now += 1.0
    waited = world.send(0, FULL)
    world.now += 4.0
    world.send(1, FULL)
    for _ in range(2):
        world.deliver(world.drain_one())
    assert world.admit(), "partition 1 holds less, so it comes first"
    (late,) = world.batches
    world.now = START + DELIVERY + 0.5
    assert world.batches.expired(world.now) == []
    assert world.admit()
    world.now = START + DELIVERY + 1.0
    (admitted,) = world.batches.expired(world.now)
    assert admitted.builder.tokens == [waited]
    world.fail(admitted)
    world.now += 4.0
    assert world.batches.expired(world.now) == [late]


# --- too large ---------------------------------------------------------------------------------


def test_a_batch_is_split_in_its_place(world: AccumulatorWorld) -> None:
    flushed = FlushToken()
    tokens = [world.send(0, 100) for _ in range(6)]
    big = world.drain_one()
    tokens.append(world.send(0, 100))
    world.accumulator.flush(flushed)
    assert world.batches.split(big, world.now) > 1
    assert big not in world.batches
    order = []
    while world.batches:
        assert not flushed.resolved
        batch = world.drain_one()
        order += batch.builder.tokens
        world.deliver(batch)
    assert order == tokens
    assert flushed.resolved
    assert world.pool.available == world.pool.total


def test_a_batch_over_the_batch_size_is_split_to_it_first() -> None:
    world = AccumulatorWorld(expansion=4.0)
    world.learn(1)
    for _ in range(30):
        world.send(0, 100)
    assert world.batches.split(world.drain_one(), world.now) == 4
    counts = []
    while world.batches:
        batch = world.drain_one()
        counts.append(batch.count)
        world.deliver(batch)
    assert sum(counts) == 30


def test_parts_are_halved_down_to_single_records(world: AccumulatorWorld) -> None:
    tokens = [world.send(0, 100) for _ in range(6)]
    while world.batches:
        batch = world.drain_one()
        if batch.count > 1:
            assert world.batches.split(batch, world.now) > 1
        else:
            world.deliver(batch)
    assert all(isinstance(token.outcome, RecordMetadata) for token in tokens)


def test_a_retried_part_stays_in_front_of_the_next(world: AccumulatorWorld) -> None:
    tokens = [world.send(0, 100) for _ in range(6)]
    world.batches.split(world.drain_one(), world.now)
    order: list[Any] = []
    for attempt in range(10):
        batch = world.drain_one()
        if attempt % 2:
            order += batch.builder.tokens
            world.deliver(batch)
        else:
            world.batches.retry(batch, world.now, world.now)
        if not world.batches:
            break
    assert order == tokens


def test_the_futures_of_a_full_batch_are_counted_and_what_came_in_later_too(
    world: AccumulatorWorld,
) -> None:
    """A span stands for records without futures; a batch may be full for a large record only."""
    world.learn(1)
    for _ in range(3):
        world.send(0)
    (batch,) = world.batches
    span = BulkToken(cast(Any, None), 0)
    assert batch.builder.append_values(span, TIMESTAMP_MS, [b"v"] * 4) == 4
    world.send(0, size=BATCH)
    assert batch.futures == 3
    assert world.memory_quota.futures.used == 3


def test_a_record_that_is_refused_does_not_end_the_counting(world: AccumulatorWorld) -> None:
    world.learn(1)
    world.send(0)
    with pytest.raises(RecordTooLargeError):
        world.send(0, size=10_000_000)
    for _ in range(3):
        world.send(0)
    (batch,) = world.batches
    world.send(0, size=FULL)
    assert batch.futures == world.memory_quota.futures.used == 4
