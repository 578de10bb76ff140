"""How records get into batches: their sizes, the line of those that wait, thousands of topics."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer.engine.accumulator import PendingRecord, SerializedRecord, Unserialized
from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.engine.records.acceleration import RecordsBuilder
from aioproducer.engine.records.batch_header import BATCH_OVERHEAD
from aioproducer.engine.records.builder import MAX_RECORD_OVERHEAD, batch_size_bound
from aioproducer.errors import ProducerError, RecordTooLargeError
from aioproducer.model import RecordMetadata
from tests.support.operations import counted_lines
from tests.support.tokens import Token
from tests.support.world import DELIVERY
from tests.unit.accumulator.world import (
    BATCH,
    BLOCK,
    FULL,
    START,
    TIMESTAMP_MS,
    AccumulatorWorld,
    delivered,
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


def enqueued(world: AccumulatorWorld, topic: str, prepared: bool = True) -> PendingRecord:
    record = SerializedRecord(topic, None, TIMESTAMP_MS, None, b"v", (), Token())
    unserialized = None if prepared else Unserialized(600, lambda: record)
    return world.accumulator.enqueue(record, world.now, unserialized=unserialized)


def encoded(world: AccumulatorWorld) -> bool:
    builder = RecordsBuilder(bytearray(BATCH), BATCH)
    assert builder.append(None, TIMESTAMP_MS, None, b"v", (), 0)
    return world.accumulator.append_encoded("t", 0, builder, [Token()], 0, world.now)


@pytest.mark.parametrize(
    ("prepare", "step", "sought"),
    [
        (None, lambda world, _: enqueued(world, "t"), []),
        (None, lambda world, _: enqueued(world, "new"), ["new"]),
        (None, lambda world, _: enqueued(world, "new", prepared=False), ["new"]),
        (None, lambda world, _: encoded(world), []),
        (
            lambda world: enqueued(world, "new", prepared=False),
            lambda world, _: world.accumulator.serialize_pending("new", 1, world.now),
            ["new"],
        ),
        (
            lambda world: enqueued(world, "t"),
            lambda world, pending: world.accumulator.pending.withdraw(pending),
            [],
        ),
    ],
    ids=["waits", "waits for its topic", "waits for bytes", "is encoded", "has bytes", "withdrawn"],
)
def test_whatever_a_record_waits_for_the_sender_learns_it(
    prepare: Callable[[AccumulatorWorld], Any] | None,
    step: Callable[[AccumulatorWorld, Any], Any],
    sought: list[str],
    world: AccumulatorWorld,
) -> None:
    prepared = None if prepare is None else prepare(world)
    wakes = world.wakes
    world.sought.clear()
    step(world, prepared)
    assert world.wakes > wakes
    assert world.sought == sought


def test_an_encoded_batch_is_the_one_that_callers_wait_for(world: AccumulatorWorld) -> None:
    assert encoded(world)
    (batch,) = world.drain()
    assert world.accumulator.routes.last is batch.builder


def test_the_next_deadline_is_the_earliest_of_batches_and_line(world: AccumulatorWorld) -> None:
    assert world.accumulator.next_deadline() is None
    world.send()
    assert world.accumulator.next_deadline() == START + DELIVERY
    world.send(topic="unknown")
    assert world.accumulator.next_deadline() == START + BLOCK
    world.now = START + BLOCK
    late = world.pending.expired(world.now)
    assert world.pending.fail(late, ProducerError("late")) == 1
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
    delivered(batch, 70)
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


def test_a_record_over_the_limits_is_refused_and_the_option_named() -> None:
    world = AccumulatorWorld(max_request_size=2 * BATCH)
    world.learn(1)
    most = 2 * BATCH - BATCH_OVERHEAD - MAX_RECORD_OVERHEAD
    world.send(0, most)
    with pytest.raises(RecordTooLargeError, match="max_request_size"):
        world.send(0, most + 1)
    with pytest.raises(RecordTooLargeError, match="max_request_size"):
        world.send(topic="unknown", size=most + 1)
    small = AccumulatorWorld(memory=2 * BATCH)
    small.learn(1)
    with pytest.raises(RecordTooLargeError, match="buffer_memory"):
        small.send(0, most + 1)
    assert small.pool.available == small.pool.total
    both = AccumulatorWorld(memory=BATCH, max_request_size=2 * BATCH)
    both.learn(1)
    with pytest.raises(
        RecordTooLargeError, match=r"raise max_request_size and buffer_memory \(and the topic's"
    ):
        both.send(0, most + 1)


def test_a_large_record_has_a_batch_of_its_own_size() -> None:
    world = AccumulatorWorld()
    world.learn(1)
    world.send(0, 5 * BATCH)
    (batch,) = world.batches
    assert batch.buffer is not None
    assert len(batch.buffer) == batch_size_bound(None, bytes(5 * BATCH), ())
    world.deliver_all()
    assert world.pool.available == world.pool.total


@pytest.mark.parametrize(
    ("expansion", "max_request_size", "size"),
    [(1.0, 100_000, 1_000), (2.5, 100_000, 2_500), (2.5, 1_700, 1_700), (500.0, 10**6, 100_000)],
)
def test_batches_are_larger_where_compression_will_make_them_smaller(
    expansion: float, max_request_size: int, size: int
) -> None:
    world = AccumulatorWorld(expansion=expansion, max_request_size=max_request_size)
    world.learn(1)
    world.send()
    assert world.pool.total - world.pool.available == size


FEW, MANY = 100, 1_000
ROUNDING = 1.15
MOST_OBJECTS = 11
MEMORY = {"memory": 4_000_000, "pending_memory": 4_000_000}


def _known_first(world: AccumulatorWorld, topics: list[str]) -> None:
    for topic in topics:
        world.learn(1, topic=topic)
        world.send(None, topic=topic)


def _known_later(world: AccumulatorWorld, topics: list[str]) -> None:
    for topic in topics:
        world.send(None, topic=topic)
    for topic in topics:
        world.learn(1, topic=topic)


def _delivered_one_by_one(world: AccumulatorWorld, topics: list[str]) -> None:
    for topic in topics:
        world.send(None, topic=topic)
        world.learn(1, topic=topic)
        world.deliver_all()


@pytest.mark.source_form
@pytest.mark.parametrize("cold_start", [_known_first, _known_later, _delivered_one_by_one])
def test_the_work_grows_with_the_number_of_topics(
    cold_start: Callable[[AccumulatorWorld, list[str]], None],
) -> None:
    lines = []
    for count in (FEW, MANY):
        world = AccumulatorWorld(**MEMORY)
        topics = [f"topic-{number}" for number in range(count)]
        with counted_lines() as counted:
            cold_start(world, topics)
            world.deliver_all()
        assert not world.batches
        assert not world.pending
        lines.append(counted.count / count)
    few, many = lines
    assert many <= few * ROUNDING


def test_a_delivered_batch_leaves_no_object_at_its_topic() -> None:
    world = AccumulatorWorld()
    world.learn(1, 1)
    for partition in (None, 0, 1):
        world.send(partition)
    topic = world.accumulator._topics["t"]
    assert isinstance(topic.open_builders.partitions[0], RecordsBuilder)
    world.deliver_all()
    assert topic.open_builders.partitions == [None, None]


def test_a_batch_that_is_done_leaves_a_newer_one_alone() -> None:
    world = AccumulatorWorld(linger=0.0)
    world.learn(1)
    world.send(None)
    first = world.drain_one()
    second = world.send(None)
    world.deliver(first)
    (open_batch,) = world.batches
    topic = world.accumulator._topics["t"]
    assert topic.open_builders.sticky == 0
    assert topic.open_builders.partitions == [open_batch.builder]
    world.send(None)
    assert open_batch.count == 2
    world.deliver_all()
    assert second.done()


def test_a_known_topic_is_few_objects_for_the_garbage_collector() -> None:
    world = AccumulatorWorld(**MEMORY)
    topics = [f"topic-{number}" for number in range(FEW)]
    world.send(None, topic="warm")
    world.learn(1, topic="warm")
    world.deliver_all()
    gc.collect()
    before = len(gc.get_objects())
    _known_later(world, topics)
    world.deliver_all()
    gc.collect()
    assert (len(gc.get_objects()) - before) / FEW <= MOST_OBJECTS
