"""What each record of a batch is told, and batches that are split for their size."""

from __future__ import annotations

import asyncio
import gc
import weakref
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.engine.accumulator import ProducerBatch, SerializedRecord
from aioproducer.engine.accumulator.producer_batch import split_batch
from aioproducer.engine.records.acceleration import hide
from aioproducer.engine.records.builder import NO_PRODUCER_STATE, ProducerState, frame_batch
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.engine.records.field_reader import read_records
from aioproducer.errors import ProducerError
from aioproducer.model import RecordMetadata, TopicPartition
from tests.support.tokens import Token
from tests.unit.accumulator.world import TIMESTAMP_MS, AccumulatorWorld, delivered


def test_delivery_tells_each_record_its_offset_time_and_sizes(world: AccumulatorWorld) -> None:
    def send(timestamp_ms: int, key: bytes | None, value: bytes | None) -> Token:
        token = Token()
        assert world.accumulator.append(
            SerializedRecord("t", 0, timestamp_ms, key, value, (), token), world.now
        )
        return token

    tokens = [
        send(5, None, b"aa"),
        send(5, None, b"aa"),
        send(5, None, b"aa"),
        send(9, b"k", None),
        send(5, None, b"aa"),
        send(5, b"", b""),
    ]
    batch = world.drain_one()
    delivered(batch, 100)
    assert [token.outcome for token in tokens] == [
        RecordMetadata("t", 0, 100, 5, -1, 2),
        RecordMetadata("t", 0, 101, 5, -1, 2),
        RecordMetadata("t", 0, 102, 5, -1, 2),
        RecordMetadata("t", 0, 103, 9, 1, -1),
        RecordMetadata("t", 0, 104, 5, -1, 2),
        RecordMetadata("t", 0, 105, 5, 0, 0),
    ]
    assert isinstance(tokens[0].outcome, RecordMetadata)


@pytest.mark.parametrize(
    ("base_offset", "log_append_time_ms", "offsets", "time"),
    [(7, -1, [7, 8], TIMESTAMP_MS), (-1, -1, [-1, -1], TIMESTAMP_MS), (0, 99, [0, 1], 99)],
)
def test_delivery_without_offsets_or_with_the_brokers_time(
    world: AccumulatorWorld,
    base_offset: int,
    log_append_time_ms: int,
    offsets: list[int],
    time: int,
) -> None:
    tokens = [world.send(), world.send()]
    delivered(world.drain_one(), base_offset, log_append_time_ms)
    assert [token.outcome for token in tokens] == [
        RecordMetadata("t", 0, offset, time, -1, 10) for offset in offsets
    ]


def test_each_record_may_fail_with_its_own_error(world: AccumulatorWorld) -> None:
    tokens = [world.send() for _ in range(4)]
    tokens[3].cancelled = True
    own, others = ProducerError("own"), ProducerError("others")
    world.drain_one().fail_records({1: own, 3: own}, others)
    assert [token.outcome for token in tokens] == [others, own, others, None]


@pytest.mark.parametrize("several", [False, True])
async def test_a_failed_batch_is_collected_although_its_errors_lead_to_it(several: bool) -> None:
    def fail() -> weakref.ref[object]:
        future = asyncio.get_running_loop().create_future()
        hide(future)
        batch = ProducerBatch(TopicPartition("t", 0), bytearray(99), 99, 0.0, 1.0)
        batch.builder.append(future, TIMESTAMP_MS, None, b"v")
        tokens = batch.builder.tokens
        try:
            raise ProducerError("lost")
        except ProducerError as error:
            if several:
                batch.fail_records({0: error}, error)
            else:
                batch.fail(error)
        assert tokens == [future]
        return weakref.ref(future)

    gone = fail()
    gc.collect()
    assert gone() is None


def test_a_finished_batch_lets_go_of_its_records(world: AccumulatorWorld) -> None:
    world.send()
    batch = world.drain_one()
    world.deliver(batch)
    assert batch.builder.tokens == []
    assert batch.buffer is None
    assert batch.release() is None


def test_while_the_buffer_is_lent_another_one_is_released(world: AccumulatorWorld) -> None:
    """Else the next batch would be written into bytes that have not left yet."""
    world.send()
    batch = world.drain_one()
    assert batch.buffer is not None
    size = len(batch.buffer)
    there = frame_batch(batch.builder, batch.state, None, None)
    before = bytes(there)
    batch.lent = True
    released = batch.release()
    assert released is not None
    assert len(released) == size
    released[:] = b"x" * size
    assert bytes(there) == before


LAST_SEQUENCE = 2**31 - 1


def batch_of(sizes: list[int]) -> ProducerBatch:
    batch = ProducerBatch(TopicPartition("t", 3), bytearray(1_000_000), 1_000_000, 10.0, 130.0)
    for number, size in enumerate(sizes):
        assert batch.builder.append(
            number, 1_000 + number, b"k%d" % number, bytes(size), (("h", b"v"),)
        )
    return batch


@given(st.lists(st.integers(0, 500), min_size=2, max_size=60), st.integers(100, 2_000))
def test_every_record_is_in_one_part(sizes: list[int], size: int) -> None:
    batch = batch_of(sizes)
    written = list(read_records(batch.builder))
    parts = split_batch(batch, size)
    assert [record for part in parts for record in read_records(part.builder)] == written
    assert [token for part in parts for token in part.builder.tokens] == list(range(len(sizes)))
    for part in parts:
        assert part.count == 1 or part.size <= size
        assert part.is_part
        assert (part.topic_partition, part.created, part.deadline) == (("t", 3), 10.0, 130.0)


class BulkOutcomes:
    """Of one call: its tokens are the indices of records."""

    def done(self) -> bool:
        return False

    def arrived(self, *told: Any) -> None:
        raise AssertionError

    def one(self, index: int) -> Any:
        return index


def test_records_of_one_span_part() -> None:
    batch = batch_of([])
    span = BulkToken(BulkOutcomes(), 40)
    span.count = batch.builder.append_values(span, 1_000, [bytes(400)] * 5)
    parts = split_batch(batch, 1_000)
    assert [part.builder.tokens for part in parts] == [[40, 41], [42, 43], [44]]


def test_a_large_part_and_its_neighbour_would_not_fit_together() -> None:
    parts = split_batch(batch_of([400] * 10), 1_000)
    assert [part.count for part in parts] == [2] * 5


def test_sequence_numbers_go_on_and_wrap() -> None:
    batch = batch_of([400] * 6)
    batch.state = ProducerState(7, 2, LAST_SEQUENCE - 2)
    parts = split_batch(batch, 1_000)
    assert [part.state for part in parts] == [
        ProducerState(7, 2, LAST_SEQUENCE - 2),
        ProducerState(7, 2, LAST_SEQUENCE),
        ProducerState(7, 2, 1),
    ]


def test_without_idempotence_there_are_no_numbers() -> None:
    assert {part.state for part in split_batch(batch_of([400] * 6), 1_000)} == {NO_PRODUCER_STATE}


def test_parts_of_parts_keep_their_places() -> None:
    batch = batch_of([10] * 64)
    batch.order = 5 * batch.order_share
    after = 6 * batch.order_share
    parts = [batch]
    while any(part.count > 1 for part in parts):
        split = [split_batch(part, part.size // 2) if part.count > 1 else [part] for part in parts]
        parts = [part for each in split for part in each]
    orders = [part.order for part in parts]
    assert orders[0] == batch.order
    assert all(earlier < later for earlier, later in pairwise([*orders, after]))


def test_the_pooled_memory_goes_with_the_last_part() -> None:
    batch = batch_of([400] * 6)
    pooled = batch.buffer
    parts = split_batch(batch, 1_000)
    assert batch.release() is None
    assert [part.release() for part in parts] == [None, None, pooled]


def test_a_closed_part_takes_no_more() -> None:
    for part in split_batch(batch_of([10] * 4), 200):
        assert not part.builder.append(object(), 0, None, b"x", ())


@pytest.mark.parametrize("field", ["uncertain", "attempts"])
def test_what_is_known_of_the_batch_is_known_of_its_parts(field: str) -> None:
    batch = batch_of([400] * 6)
    setattr(batch, field, 3 if field == "attempts" else True)
    assert {getattr(part, field) for part in split_batch(batch, 1_000)} == {getattr(batch, field)}
