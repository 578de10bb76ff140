"""The commands of a partition, and its views after each of them."""

from __future__ import annotations

import pytest

from aioproducer.engine.accumulator import PendingRecord, ProducerBatch, SerializedRecord
from aioproducer.engine.accumulator.partition import Backlogs, Partition
from aioproducer.engine.records.acceleration import OpenBuilders
from aioproducer.engine.records.builder import NO_PRODUCER_STATE, ProducerState
from aioproducer.model import TopicPartition
from tests.support.tokens import Token
from tests.unit.accumulator.world import place_of, requested

NAME = TopicPartition("t", 0)


NOW = 10.0


def a_partition() -> Partition:
    partition = Partition(NAME, Backlogs(one_at_a_time=False, in_order=False), 1)
    builders = OpenBuilders()
    builders.partitions = [None]
    partition.join(builders)
    return partition


def with_batches(count: int) -> tuple[Partition, list[ProducerBatch]]:
    """A partition led by node 1, and its queued batches."""
    partition = a_partition()
    batches = [ProducerBatch(NAME, bytearray(100), 100, 10.0, 130.0) for _ in range(count)]
    for batch in batches:
        partition.open(batch, NOW)
    return partition, batches


def pending() -> PendingRecord:
    record = SerializedRecord("t", 0, 1, None, b"v", (), Token())
    return PendingRecord(record, 100, 10.0, 70.0)


def test_a_new_batch_closes_the_one_before() -> None:
    partition, (first, second) = with_batches(2)
    assert partition.open_batch is second
    assert partition.queue[0] is first
    assert len(partition.queue) == 2
    assert second.builder.owner is partition
    record = SerializedRecord("t", 0, 1, None, b"v", (), Token())
    assert not first.append(record)
    assert second.append(record)


def test_a_batch_gets_its_place_when_it_first_leaves_and_keeps_it() -> None:
    partition, (first, second) = with_batches(2)
    assert partition.take(NOW) is first
    partition.move_leader(2, NOW)
    assert partition.take(NOW) is second
    assert (place_of(first), place_of(second)) == (0, 1)
    assert (first.node, second.node) == (1, 2)
    assert partition.open_batch is None
    assert not partition.queue
    partition.requeue(second, [second], NOW)
    partition.requeue(first, [first], NOW)
    assert list(partition.in_flight) == []
    assert partition.take(NOW) is first
    assert place_of(first) == 0


def test_first_in_line_is_the_batch_that_no_earlier_one_precedes() -> None:
    partition, (first, second) = with_batches(2)
    partition.take(NOW)
    partition.take(NOW)
    partition.requeue(first, [first], NOW)
    assert partition.is_first_in_line(first)
    assert not partition.is_first_in_line(second)
    partition.complete(first, NOW)
    assert partition.is_first_in_line(second)
    partition.complete(second, NOW)
    assert not partition.is_busy


@pytest.mark.parametrize("queued", [True, False])
@pytest.mark.parametrize(("offset", "proves"), [(10, False), (11, False), (12, True), (-1, True)])
def test_a_later_batch_proves_an_earlier_one_if_it_leaves_room_for_it(
    offset: int, proves: bool, queued: bool
) -> None:
    partition = a_partition()
    first, second = (ProducerBatch(NAME, bytearray(1000), 1000, 10.0, 130.0) for _ in range(2))
    partition.open(first, NOW)
    for _ in range(12):
        assert first.append(SerializedRecord("t", 0, 1, None, b"", (), Token()))
    partition.open(second, NOW)
    partition.take(NOW)
    partition.take(NOW)
    if queued:
        partition.requeue(first, [first], NOW)
    requested(second).note_delivered(offset)
    partition.complete(second, NOW)
    assert partition.later_was_delivered(first) is proves


def test_a_barrier_blocks_batches_without_a_number_before_it() -> None:
    partition, (first, second) = with_batches(2)
    for number, batch in enumerate((first, second)):
        partition.take(NOW)
        batch.state = ProducerState(7, 0, number)
    assert not partition.block(second.order, NOW), "both are in flight"
    partition.requeue(second, [second], NOW)
    partition.requeue(first, [first], NOW)
    assert not partition.is_blocked, "the first batch is before the barrier"
    assert partition.block(0, NOW)
    assert partition.is_blocked
    partition.renumber(NOW)
    assert not partition.is_blocked
    assert first.state is second.state is NO_PRODUCER_STATE
    assert not partition.block(None, NOW)


def test_a_backoff_grows_and_ends_with_the_leader() -> None:
    partition, (first, _) = with_batches(2)
    partition.delay(20.0, NOW)
    partition.delay(15.0, NOW)
    assert partition.delayed_until == 20.0
    partition.move_leader(None, 12.0)
    assert (partition.leader, partition.delayed_until) == (None, 20.0)
    partition.move_leader(2, 13.0)
    assert partition.leader == 2
    partition.complete(first, 12.5)
    assert partition.is_listed, "a round that began before the move sends the batch, too"


def test_a_pending_record_closes_the_open_batch_and_keeps_its_turn() -> None:
    partition, _ = with_batches(1)
    first, second = pending(), pending()
    assert partition.enqueue(first), "the first one begins to wait for memory"
    assert not partition.enqueue(second)
    assert partition.open_batch is None
    assert partition.first_pending is first
    partition.pop_pending()
    assert list(partition.take_pending()) == [second]
    assert partition.first_pending is None


def test_memory_and_futures_add_up() -> None:
    partition, _ = with_batches(0)
    partition.hold(100)
    partition.hold(-40)
    partition.count_futures(3)
    assert (partition.held, partition.futures) == (60, 3)
