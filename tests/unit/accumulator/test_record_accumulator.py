"""How records get into batches: at once, or from the line when it is their turn."""

from __future__ import annotations

from collections import Counter
from typing import Any

from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.errors import ProducerError
from aioproducer.model import RecordMetadata
from tests.support.tokens import Token
from tests.support.world import DELIVERY
from tests.unit.accumulator.world import (
    BATCH,
    BLOCK,
    FULL,
    START,
    TIMESTAMP_MS,
    AccumulatorWorld,
)


def test_a_new_batch_wakes_the_sender_and_a_record_in_an_old_one_does_not(
    world: AccumulatorWorld,
) -> None:
    world.send()
    assert world.wakes == 1
    world.send()
    assert world.wakes == 1
    world.send(size=FULL)
    assert world.wakes == 2


def test_the_next_deadline_is_the_earliest_of_batches_and_line(world: AccumulatorWorld) -> None:
    assert world.accumulator.next_deadline() is None
    world.send()
    assert world.accumulator.next_deadline() == START + DELIVERY
    world.send(topic="unknown")
    assert world.accumulator.next_deadline() == START + BLOCK
    world.now = START + BLOCK
    late = world.pending.expired(world.now)
    assert world.accumulator.pending.fail(late, ProducerError("late")) == 1
    assert world.accumulator.next_deadline() == START + DELIVERY


def test_the_fast_path_is_closed_while_records_wait() -> None:
    world = AccumulatorWorld(memory=BATCH)
    world.learn(1)
    sent = [world.send(None, size) for size in (FULL, FULL, 10)]
    assert not world.accumulator.routes.append(
        Token(), TIMESTAMP_MS * 1_000_000, None, "t", b"", None, None
    )
    assert len(world.pending) == 2
    batch = world.drain_one()
    assert batch.builder.tokens == sent[:1]
    world.deliver(batch)
    assert world.admit()
    assert world.drain_one().builder.tokens == sent[1:]


def test_other_threads_see_no_topic_whose_partitions_are_not_counted(
    world: AccumulatorWorld,
) -> None:
    seen = []

    class Fresh(dict[int, Partition]):
        def get(self, *_: Any) -> Any:
            seen.append("new" in world.accumulator.routes.topics)

    leaders = PartitionLeader(0, 1), PartitionLeader(1, 1)
    world.accumulator.update_topic(TopicInfo("new", None, leaders), world.now, Fresh())
    assert seen == [False, False]
    assert len(world.accumulator.routes.topics["new"].partitions) == 2


def test_a_cancelled_record_in_a_batch_is_sent_and_counted(world: AccumulatorWorld) -> None:
    tokens = [world.send() for _ in range(3)]
    tokens[1].cancelled = True
    batch = world.drain_one()
    assert batch.count == 3
    batch.deliver(70, -1)
    assert [token.outcome and token.outcome[2] for token in tokens] == [70, None, 72]  # type: ignore[index]


def test_whom_no_memory_was_found_for_stays_in_line() -> None:
    world = AccumulatorWorld(memory=BATCH)
    world.learn(1)
    world.send(0, FULL)
    token = world.send(0, FULL)
    assert not world.admit()
    assert not world.admit()
    world.deliver_all()
    assert isinstance(token.outcome, RecordMetadata)


def test_keyless_records_in_line_spread_over_the_partitions() -> None:
    world = AccumulatorWorld(memory=2 * BATCH, pending_memory=100 * BATCH)
    world.learn(*[1] * 6)
    tokens = [world.send(None, FULL) for _ in range(60)]
    world.deliver_all()
    assert len({token.delivered_to for token in tokens}) == 6
    assert max(Counter(token.delivered_to for token in tokens).values()) < 30


def test_a_full_accumulator_tells_when_to_wait() -> None:
    world = AccumulatorWorld(memory=3 * BATCH, pending_memory=2 * BATCH)
    world.learn(1)
    accumulator = world.accumulator
    full = []
    for _ in range(4):
        world.send(0, FULL)
        full.append(accumulator.waiters.is_full)
    assert full == [False, False, True, True]
    world.deliver_all()
    accumulator.waiters.update()
    assert not accumulator.waiters.is_full
    world.send(topic="unknown", size=900)
    accumulator.waiters.update()
    assert not accumulator.waiters.is_full
    world.send(topic="unknown", size=900)
    accumulator.waiters.update()
    assert accumulator.waiters.is_full
    closed = AccumulatorWorld()
    closed.accumulator.close()
    assert closed.accumulator.waiters.is_full


def test_small_records_fill_memory_by_their_futures_until_their_outcome(
    world: AccumulatorWorld,
) -> None:
    """Not those of the batch that is being filled, which is one for each partition."""
    world.learn(1)
    most = world.memory_quota.futures.room(1)
    while not world.accumulator.waiters.is_full:
        world.send(0, size=0)
    assert world.pool.available > BATCH
    full, last = sum(batch.futures for batch in world.batches), world.drain(1)
    assert most <= full <= most + BATCH
    for batch in last:
        world.deliver(batch)
    while world.batches:
        world.deliver(*world.drain(1))
    world.accumulator.waiters.update()
    assert not world.accumulator.waiters.is_full
    assert world.memory_quota.futures.used == 0


def test_a_node_keeps_no_memory_for_idle_partitions_that_a_recreated_topic_lacks() -> None:
    world = AccumulatorWorld()
    world.learn(1, 2)
    part = world.pool.quota.part
    world.learn(1)
    assert world.pool.quota.part == 2 * part
    world.learn(1, 2)
    assert world.pool.quota.part == part
