"""Topics that come, grow, shrink and go; and what a user's partitioner is told of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from aioproducer.engine.partitioning import murmur2_partition
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
    assert world.accumulator.pending.awaiting("t")[0].record.token is stuck
    assert [each.record.token for each in world.accumulator.pending.awaiting("t")] == [stuck, later]
    for token in (stuck, later):
        token.cancelled = True
    world.accumulator.pending.withdraw_cancelled()
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
    assert [record.record.token for record in world.accumulator.pending.awaiting("t")] == [token]
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
