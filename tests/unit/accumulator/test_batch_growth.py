"""Batches that grow while they fill before they can leave, and shrink when load is over."""

from __future__ import annotations

import pytest

from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.accumulator.producer_batch import BatchGrowth
from tests.unit.accumulator.world import BATCH, FULL, AccumulatorWorld

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
