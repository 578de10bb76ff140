"""Batches expire wherever they are, are split in their place, and grow while they wait."""

from __future__ import annotations

from typing import Any, cast

import pytest

from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.accumulator.producer_batch import BatchGrowth
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


MOST = 5
LARGEST = BATCH << MOST


def growing(**given: object) -> AccumulatorWorld:
    defaults = {
        "most_doublings": MOST,
        "memory": 100 * LARGEST,
        "max_request_size": LARGEST,
        "adaptive_partitioning": False,
    }
    return AccumulatorWorld(**(defaults | given))


def partition(world: AccumulatorWorld, number: int) -> Partition:
    return world.accumulator._topics["t"].partitions[number]


def sizes(world: AccumulatorWorld) -> list[int]:
    return [len(batch.builder.buffer) for batch in world.batches]


def test_a_lone_record_gets_a_small_batch() -> None:
    world = growing()
    world.learn(1)
    for _ in range(20):
        world.send()
        assert sizes(world) == [BATCH]
        world.deliver(world.drain_one())


@pytest.mark.parametrize("partition", [0, None])
def test_batches_that_fill_double_up_to_the_largest(partition: int | None) -> None:
    world = growing()
    world.learn(1)
    while len(world.batches) < MOST + 4:
        world.send(partition, FULL)
    assert sizes(world) == [BATCH << n for n in range(MOST)] + [LARGEST] * 4


def test_a_number_for_batch_size_is_the_size_of_every_batch() -> None:
    world = growing(most_doublings=0)
    world.learn(1)
    for _ in range(10):
        world.send(0, FULL)
    assert sizes(world) == [BATCH] * 10


def test_batches_shrink_when_they_leave_mostly_empty() -> None:
    world = growing()
    world.learn(1)
    while len(world.batches) < MOST + 2:
        world.send(0, FULL)
    while batches := world.drain():
        world.deliver(*batches)
    seen = []
    for _ in range(MOST):
        world.send()
        seen += sizes(world)
        world.deliver(world.drain_one())
    assert seen == [LARGEST >> n for n in range(1, MOST + 1)]


def test_a_batch_that_is_a_quarter_full_keeps_the_size() -> None:
    growth = BatchGrowth()
    growth.filled(1, MOST, False)
    growth.left(LARGEST // 4, LARGEST)
    assert growth.doublings == 1
    growth.left(LARGEST // 4 - 1, LARGEST)
    assert growth.doublings == 0
    growth.left(0, LARGEST)
    assert growth.doublings == 0


def test_a_batch_that_is_sent_again_shrinks_nothing() -> None:
    world = growing()
    world.learn(1)
    world.send(0, FULL)
    world.send(0, FULL)
    world.deliver(world.drain_one())
    last = world.drain_one()
    last.growth.doublings = 3  # type: ignore[union-attr]
    for _ in range(3):
        world.retry(last)
        assert world.drain_one() is last
    assert last.growth is not None
    assert last.growth.doublings == 3


def test_each_partition_grows_by_itself() -> None:
    world = growing()
    world.learn(1, 1)
    for _ in range(20):
        world.send(0, FULL)
    world.send(1)
    assert sizes(world)[-1] == BATCH


def test_keyless_records_stay_spread_evenly_while_batches_grow() -> None:
    world = growing(memory=10_000 * LARGEST)
    world.learn(1, 1, 1, 1)
    for _ in range(20_000):
        world.send(None, FULL)
    partitions = world.accumulator._topics["t"].partitions
    held = [sum(batch.size for batch in partition.queue) for partition in partitions]
    assert max(held) < 1.3 * min(held)


def test_a_slow_broker_gets_no_more_keyless_records_because_its_batches_grow() -> None:
    """KIP-794: batches of broker 1 leave at once, and batches of broker 2 when they are full."""
    world = growing(memory=1_000 * LARGEST)
    world.learn(1, 2)
    sent = [0, 0]
    for _ in range(30_000):
        world.send(None, 90)
        ready = world.drain_if_any(1)
        if len(partition(world, 1).queue) > 1:
            ready += world.drain_if_any(2)
        for batch in ready:
            sent[batch.topic_partition.partition] += batch.count
        world.deliver(*ready)
    assert max(sent) < 1.1 * min(sent), sent


def test_a_batch_that_has_grown_takes_a_small_part_of_its_nodes_memory() -> None:
    world = growing(memory=2 * LARGEST)
    world.learn(1)
    while not world.pending:
        world.send(0, FULL)
    assert max(sizes(world)) == 2 * LARGEST // 8


def test_a_grown_batch_may_be_large_though_other_nodes_use_more_memory() -> None:
    """Three nodes share the memory; one takes more of it, as it got records first."""
    world = growing(memory=24 * LARGEST)
    world.learn(1, 2, 3)
    partitions = world.accumulator._topics["t"].partitions
    for each, batches in zip(partitions, (10, 9, 4), strict=True):
        for _ in range(batches):
            assert world.memory_quota.allocate(each, LARGEST, world.now) is not None
    assert world.memory_quota.fair_size(LARGEST, 3, grown=True) == LARGEST


@pytest.mark.parametrize("partition", [0, None])
def test_as_few_batches_leave_at_the_memory_bound_as_below_it(partition: int | None) -> None:
    def batches(memory: int) -> int:
        world = growing(memory=memory)
        world.learn(1)
        delivered = 0
        for _ in range(5_000):
            while world.pending or len(world.batches) > 2 * memory // LARGEST:
                world.deliver(world.drain_one())
                world.admit()
                delivered += 1
            world.send(partition, FULL)
        return delivered + len(world.batches)

    assert batches(16 * LARGEST) <= 1.2 * batches(10_000 * LARGEST)


def test_the_buffers_of_every_size_are_used_again() -> None:
    world = growing()
    world.learn(1)
    for _ in range(3):
        while len(world.batches) < MOST + 1:
            world.send(0, FULL)
        seen = {id(batch.builder.buffer) for batch in world.batches}
        while batches := world.drain():
            world.deliver(*batches)
        free = {id(buffer) for kept in world.pool._kept.values() for buffer in kept}
        assert seen <= free
    assert world.pool.available == world.pool.total


def test_a_topic_whose_broker_refuses_large_batches_gets_no_larger_ones() -> None:
    world = growing()
    world.learn(1)
    while len(world.batches) < MOST + 1:
        world.send(0, FULL)
    for _ in range(MOST - 1):
        world.deliver(world.drain_one())
    refused = world.drain_one()
    assert len(refused.builder.buffer) == LARGEST // 2
    size = refused.size
    world.batches.split(refused, world.now)
    assert all(batch.size <= max(size // 2, BATCH) for batch in world.batches)
    while batches := world.drain():
        world.deliver(*batches)
    for _ in range(100):
        world.send(0, FULL)
    assert max(sizes(world)) <= max(size // 2, BATCH)
    while batches := world.drain():
        world.deliver(*batches)
    assert world.accumulator.forget_topic("t", world.now)
    assert not world.accumulator._sizes._limits


def test_batches_of_many_small_records_stop_growing() -> None:
    world = growing(batch_size=16_384, memory=10**9, max_request_size=2**20)
    world.learn(1)
    for _ in range(30_000):
        world.send(0, 4)
    assert max(batch.count for batch in world.batches) < 3_000
    assert len({*sizes(world)}) > 1


@pytest.mark.parametrize("partitions", [1, 2])
def test_batches_of_many_small_records_grow_while_requests_to_their_broker_are_short(
    partitions: int,
) -> None:
    """All requests to the broker are in flight, and the next one would be half empty."""
    most = 2**20
    world = growing(batch_size=16_384, memory=10**9, max_request_size=most, most_doublings=6)
    world.learn(*[1] * partitions)
    world.backlogs.of(1).not_ready_since = world.now
    for _ in range(60_000):
        for number in range(partitions):
            world.send(number, 16)
    assert max(sizes(world)) == most // partitions


def test_batches_of_many_small_records_do_not_grow_if_they_fill_a_request_together() -> None:
    world = growing(batch_size=16_384, memory=10**9, max_request_size=2**20, most_doublings=6)
    world.learn(*[1] * 64)
    world.backlogs.of(1).not_ready_since = world.now
    for number in range(1, 64):
        world.send(number, 4)
    for _ in range(30_000):
        world.send(0, 4)
    assert max(batch.count for batch in world.batches) < 3_000


def test_low_memory_does_not_make_the_batches_of_a_limited_topic_smaller_than_the_first() -> None:
    world = growing(memory=8 * LARGEST)
    world.learn(1)
    while len(world.batches) < MOST + 2:
        world.send(0, FULL)
    for _ in range(MOST):
        world.deliver(world.drain_one())
    world.batches.split(world.drain_one(), world.now)
    before = len(world.batches)
    while not world.pending:
        world.send(0, FULL // 10)
    assert min(sizes(world)[before:]) >= BATCH
