"""The partition that keyless records stick to (KIP-794)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from itertools import pairwise

import pytest

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.records.batch_header import BATCH_OVERHEAD
from tests.unit.accumulator.world import BATCH, FULL, AccumulatorWorld


def test_keyless_records_stick_to_a_partition_until_a_batch_is_full() -> None:
    world = AccumulatorWorld()
    world.learn(*[1] * 5)
    tokens = [world.send(None, 10) for _ in range(500)]
    world.deliver_all()
    partitions = [token.delivered_to for token in tokens]
    changes = [n for n in range(1, 500) if partitions[n] != partitions[n - 1]]
    assert len(set(partitions)) == 5
    per_batch = (BATCH - BATCH_OVERHEAD) // 17
    assert all(after - before >= per_batch for before, after in pairwise(changes))


def test_small_batches_add_up_before_keyless_records_move_on() -> None:
    world = AccumulatorWorld()
    world.learn(*[1] * 50)
    partitions = []
    for _ in range(40):
        token = world.send(None, 100)
        world.deliver_all()
        partitions.append(token.delivered_to)
    runs = [1]
    for before, after in pairwise(partitions):
        if before == after:
            runs[-1] += 1
        else:
            runs.append(1)
    # A record is 108 bytes here, and 182 at most: the eighth that would begin a batch at 756 goes.
    assert set(runs[:-1]) == {8}


def test_keyless_records_join_the_batch_that_keyed_ones_began() -> None:
    world = AccumulatorWorld()
    world.learn(1, None)
    for partition in (0, 1):
        world.send(partition, 100)
    world.send(None, 400)
    world.send(None, 400)
    world.learn(None, 1)
    world.send(None, 400)
    assert [batch.count for batch in world.batches] == [3, 2]


def test_ignore_keys_makes_keyed_records_stick() -> None:
    world = AccumulatorWorld(ignore_keys=True)
    world.learn(*[1] * 12)
    for n in range(20):
        world.send(None, 1, key=b"%d" % n)
    assert len(world.batches) == 1
    waiting = AccumulatorWorld(ignore_keys=True, memory=BATCH)
    waiting.learn(*[1] * 12)
    for n in range(4):
        waiting.send(None, FULL, key=b"%d" % n)
    waiting.deliver_all()


def test_keyless_records_avoid_leaderless_and_unavailable_partitions() -> None:
    world = AccumulatorWorld(availability_timeout=1.0)
    world.backlogs.of(3).not_ready_since = world.now - 1.5
    world.learn(None, 1, 3, None, 3)
    tokens = [world.send(None, FULL) for _ in range(20)]
    world.deliver_all(1)
    assert {token.delivered_to for token in tokens} == {1}
    world.learn(None, None, 3, None, 3)
    tokens = [world.send(None, FULL) for _ in range(20)]
    world.deliver_all(3)
    assert {token.delivered_to for token in tokens[1:]} == {2, 4}
    world.learn(*[None] * 5)
    for _ in range(40):
        world.send(None, FULL)
    assert {batch.topic_partition.partition for batch in world.batches} == set(range(5))


def test_keyless_records_avoid_a_broker_without_memory_for_another_batch() -> None:
    world = AccumulatorWorld(memory=16 * BATCH)
    world.learn(1, 2, 1, 1, 1)
    while not world.pending:
        waiting = world.send(0, FULL)
    world.withdraw(waiting)
    before = len(world.batches)
    for _ in range(3):
        world.send(None, FULL)
    assert [each.topic_partition.partition for each in world.batches][before:] == [1, 1, 1]


def test_keyless_records_stay_near_while_a_near_leader_takes_batches() -> None:
    near = {1}
    world = AccumulatorWorld(availability_timeout=1.0, is_near=near.__contains__)
    world.learn(2, 1, None, 1, 2)

    def chosen() -> set[int]:
        tokens = [world.send(None, FULL) for _ in range(40)]
        world.deliver_all(1, 2)
        return {token.delivered_to for token in tokens[1:]}

    assert chosen() == {1, 3}
    world.backlogs.of(1).not_ready_since = world.now - 1.5
    assert chosen() == {0, 4}, "no near leader takes batches"
    world.backlogs.of(1).not_ready_since = None
    world.learn(2, 2, 1, 2, 2)
    assert chosen() == {2}
    near.clear()
    assert chosen() == {0, 1, 2, 3, 4}, "no leader is near"


def test_a_single_near_leader_is_found_among_thousands() -> None:
    world = AccumulatorWorld(memory=10_000 * BATCH, is_near=lambda node: node == 1)
    world.learn(*[1 if number == 4_321 else 2 for number in range(10_000)])
    for _ in range(20):
        world.send(None, FULL)
    assert {each.topic_partition.partition for each in world.batches} == {4_321}


def test_keyed_records_go_where_their_keys_belong_however_far() -> None:
    world, far = AccumulatorWorld(is_near=lambda node: node == 1), AccumulatorWorld()
    for each in (world, far):
        each.learn(1, 2, 2, 2)
        for number in range(20):
            each.send(None, 10, key=b"%d" % number)
    places = [[batch.topic_partition for batch in each.batches] for each in (world, far)]
    assert places[0] == places[1]


@pytest.mark.source_form
def test_a_choice_among_thousands_of_partitions_does_not_go_through_them() -> None:
    class Watched(list[Partition]):
        """A list that may be indexed only."""

        def __iter__(self) -> Iterator[Partition]:
            raise AssertionError("the choice goes through all partitions")

    world = AccumulatorWorld(memory=10_000 * BATCH)
    world.learn(*[number % 3 for number in range(10_000)])
    topic = world.accumulator._topics["t"]
    topic.partitions = Watched(topic.partitions)
    for _ in range(200):
        world.send(None, FULL)
    chosen = {each.topic_partition.partition for each in world.batches}
    assert len(chosen) > 150


def test_batches_that_pending_records_began_count_in_the_share() -> None:
    """Otherwise records stick to the partition of a leader whose memory is full."""
    world = AccumulatorWorld(memory=2 * BATCH, pending_memory=100 * BATCH)
    world.learn(*[1] * 20)
    seen = []
    in_flight: deque[ProducerBatch] = deque()
    for _ in range(100):
        while not world.pending:
            world.send(None, 40)
        in_flight += world.drain_if_any(1)
        seen.append(in_flight[0].topic_partition.partition)
        world.deliver(in_flight.popleft())
        assert world.admit()
    assert max(Counter(seen).values()) < 20, seen


def test_partitions_of_a_leader_that_takes_no_batch_are_chosen_less_often() -> None:
    world = AccumulatorWorld(memory=1_000 * BATCH)
    world.learn(1, 1, 1, 1, 2)
    for number in range(4):
        world.send(number)
    partitions = world.accumulator._topics["t"].partitions
    assert [each.load for each in partitions] == [1, 1, 1, 1, 0]
    world.backlogs.of(1).not_ready_since = world.now
    assert [each.load for each in partitions] == [5, 5, 5, 5, 0]
