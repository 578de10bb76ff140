"""Topics that come, grow, shrink and go; partitioners, and partitions of keyless records."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.accumulator.topic import load
from aioproducer.engine.partitioning import murmur2_partition
from aioproducer.engine.records.batch_header import BATCH_OVERHEAD
from aioproducer.errors import InvalidPartitionError
from tests.support.world import DELIVERY
from tests.unit.accumulator.world import BATCH, FULL, AccumulatorWorld, places

# --- topics come, grow, shrink and go ----------------------------------------------------------


def test_more_partitions_are_used_as_soon_as_they_are_known() -> None:
    world = AccumulatorWorld()
    world.learn(1)
    early = [world.send(3), world.send(2), world.send(3)]
    world.send(0)
    assert places(world.drain()) == [0]
    world.learn(1, 1, 1)
    assert places(world.drain()) == [2]
    world.learn(1, 1, 1, 1)
    late = world.send(3)
    (batch,) = world.drain()
    assert batch.builder.tokens == [early[0], early[2], late], "in the order of their sends"
    key = next(b"%d" % n for n in range(100) if murmur2_partition(b"%d" % n, 4) == 2)
    world.send(None, key=key)
    assert places(world.drain()) == [2]


def test_a_topic_made_anew_with_fewer_partitions_gets_no_more_records_in_the_others() -> None:
    world = AccumulatorWorld(memory=8 * BATCH)
    world.learn(1, 1, 1, 1)
    old = [world.send(partition, FULL) for partition in range(4) for _ in range(2)]
    in_flight = world.drain()
    stuck = world.send(3, FULL)
    keyed = {n: world.send(None, FULL, key=b"%d" % n) for n in range(8)}
    world.learn(2, 2)
    later = world.send(3)
    assert not stuck.done()
    assert world.pending.awaiting_metadata.of("t")[0].record.token is stuck
    assert [each.record.token for each in world.pending.awaiting_metadata.of("t")] == [
        stuck,
        later,
    ]
    for token in (stuck, later):
        token.cancelled = True
    world.pending.withdraw_cancelled()
    assert world.backlogs.topics_without_leader() == {"t"}
    assert world.ready(1) is None
    for batch in in_flight:
        if batch.topic_partition.partition < 2:
            world.deliver(batch)
        else:
            world.retry(batch, after=0.1)
            assert batch.partition.leader is None
    keyless = [world.send(None) for _ in range(50)]
    world.now += DELIVERY
    for batch in world.batches.expired(world.now):
        if batch.topic_partition.partition >= 2:
            world.fail(batch)
    world.deliver_all(2)
    assert {token.delivered_to for token in keyless} <= {0, 1}
    assert {n: token.delivered_to for n, token in keyed.items()} == {
        n: murmur2_partition(b"%d" % n, 2) for n in keyed
    }
    assert all(token.done() for token in old)
    assert world.pool.available == world.pool.total
    world.learn(2, 2)
    assert world.accumulator.forget_topic("t", world.now)


def test_keyless_records_leave_a_partition_that_is_gone() -> None:
    world = AccumulatorWorld()
    world.learn(None, 1)
    first = world.send(None, 10)
    world.learn(1)
    later = [world.send(None, 10) for _ in range(3)]
    batch = world.drain_one()
    assert batch.topic_partition.partition == 0
    assert batch.builder.tokens == later
    (retired,) = (each for each in world.batches if each is not batch)
    assert retired.builder.tokens == [first]


def test_partitions_that_come_back_take_their_batches_up_again() -> None:
    world = AccumulatorWorld()
    world.learn(1, 1, 1)
    tokens = [world.send(2, FULL) for _ in range(2)]
    first = world.drain_one()
    world.learn(1)
    assert world.backlogs.topics_without_leader() == {"t"}
    world.learn(1, 1, 1)
    tokens.append(world.send(2, FULL))
    world.deliver(first)
    world.deliver_all()
    assert [token.delivered_to for token in tokens] == [2, 2, 2]
    assert world.pool.available == world.pool.total


def test_a_topic_is_forgotten_once_nothing_of_it_is_left(world: AccumulatorWorld) -> None:
    forget = partial(world.accumulator.forget_topic, now=world.now)
    world.send(None)
    assert not forget("t")
    batch = world.drain(1)[0] if 1 in world.backlogs.nodes() else world.drain(2)[0]
    assert not forget("t")
    world.deliver(batch)
    assert forget("t")
    assert "t" not in world.accumulator.routes.topics
    token = world.send(None)
    assert [record.record.token for record in world.pending.awaiting_metadata.of("t")] == [token]
    assert not forget("t")
    world.learn(1)
    assert [each.builder.tokens for each in world.batches] == [[token]]
    assert forget("never seen")


# --- partitioners ------------------------------------------------------------------------------


def test_a_partitioner_of_the_users_sees_the_topic_and_is_obeyed() -> None:
    seen: list[Any] = []

    def choose(topic: str, key: bytes | None, value: bytes | None, partitions: Any) -> int:
        seen.append((topic, key, value, partitions.count, list(partitions.available)))
        return 2

    world = AccumulatorWorld(partitioner=choose)
    waiting = world.send(None, 1, key=b"k")
    assert seen == []
    world.learn(1, None, 1)
    world.send(None, 2)
    assert seen == [("t", b"k", b"\0", 3, [0, 2]), ("t", None, b"\0\0", 3, [0, 2])]
    batch = world.drain_one()
    assert batch.topic_partition.partition == 2
    assert batch.builder.tokens[0] is waiting


def test_a_partitioner_sees_leaders_that_come_and_go() -> None:
    seen: list[Any] = []

    def choose(topic: str, key: bytes | None, value: bytes | None, partitions: Any) -> int:
        seen.append(partitions)
        return 0

    world = AccumulatorWorld(partitioner=choose)
    for leaders in ((1, None), (1, None), (1, 2), (None, 2, 1), (1,)):
        world.learn(*leaders)
        world.send(None)
        world.send(None)
        assert seen[-1] is seen[-2], "one view for all records until the metadata changes"
        led = tuple(number for number, leader in enumerate(leaders) if leader is not None)
        assert (seen[-1].count, seen[-1].available) == (len(leaders), led)


@pytest.mark.parametrize("known", [True, False])
def test_a_partitioner_chooses_again_for_a_pending_record_whose_partition_is_gone(
    known: bool,
) -> None:
    """The topic is made anew with fewer partitions; one that a caller has named is waited for."""
    world = AccumulatorWorld(partitioner=lambda *args: args[3].count - 1, memory=BATCH)
    if known:
        world.learn(1, 1, 1)
    tokens = [world.send(None, FULL) for _ in range(2)]
    named = world.send(2, FULL)
    world.learn(1, 1, 1)
    sent = world.drain_one()
    world.learn(1, 1)
    assert [each.record.token for each in world.pending.awaiting_metadata.of("t")] == [named]
    world.withdraw(named)
    world.fail(sent)
    world.deliver_all()
    assert [token.delivered_to for token in tokens[1:]] == [1]


@pytest.mark.parametrize("answer", [-1, 3, None, "1", 1.0])
def test_a_partitioner_that_names_no_partition_fails_the_record(answer: Any) -> None:
    world = AccumulatorWorld(partitioner=lambda *_: answer)
    waiting, also = world.send(None), world.send(1)
    world.learn(1, 1, 1)
    assert isinstance(waiting.outcome, InvalidPartitionError)
    assert not also.done()
    with pytest.raises(InvalidPartitionError, match="returned"):
        world.send(None)


def test_a_partitioner_that_raises_fails_the_record() -> None:
    def fails(*_: Any) -> int:
        raise KeyError("oops")

    world = AccumulatorWorld(partitioner=fails)
    waiting, also = world.send(None), world.send(1)
    world.learn(1, 1)
    assert isinstance(waiting.outcome, InvalidPartitionError)
    assert isinstance(waiting.outcome.__cause__, KeyError)
    assert world.drain_one().builder.tokens == [also]
    with pytest.raises(InvalidPartitionError, match="KeyError"):
        world.send(None)


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


def test_a_broker_that_was_refusing_is_available_once_no_batch_waits_for_it() -> None:
    world = AccumulatorWorld(availability_timeout=1.0)
    world.learn(3, 3, 1)
    for partition in (0, 1):
        world.send(partition, FULL)
    refusing = world.backlogs.of(3)
    refusing.not_ready_since = since = world.now - 1.5
    world.learn(1, 3, 1)
    assert refusing.not_ready_since == since, "a batch of the other partition still waits"
    world.learn(1, 1, 1)
    assert refusing.not_ready_since is None


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
    assert [*map(load, partitions)] == [1, 1, 1, 1, 0]
    world.backlogs.of(1).not_ready_since = world.now
    assert [*map(load, partitions)] == [5, 5, 5, 5, 0]


def test_other_threads_see_the_old_number_of_partitions_or_the_new_one() -> None:
    world = AccumulatorWorld()
    world.learn(1, 1, 1)
    builders = world.accumulator.routes.topics["t"]
    before = builders.partitions
    world.learn(*[1] * 9)
    assert (len(before), len(builders.partitions)) == (3, 9)
    before = builders.partitions
    world.learn(1, 1)
    assert (len(before), len(builders.partitions)) == (9, 2)
