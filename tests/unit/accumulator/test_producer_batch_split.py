"""A batch that is too large becomes several that agree with it in all but size."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.engine.accumulator.producer_batch import ProducerBatch, split_batch
from aioproducer.engine.records.builder import NO_PRODUCER_STATE, ProducerState
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.engine.records.field_reader import read_records
from aioproducer.model import TopicPartition

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
