"""How large batches are, and which records are too large for any."""

from __future__ import annotations

import pytest

from aioproducer.engine.records.batch_header import BATCH_OVERHEAD
from aioproducer.engine.records.builder import MAX_RECORD_OVERHEAD, batch_size_bound
from aioproducer.errors import RecordTooLargeError
from tests.unit.accumulator.world import BATCH, AccumulatorWorld


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
