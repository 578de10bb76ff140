"""What each record of a batch is told."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from aioproducer.engine.accumulator import ProducerBatch, SerializedRecord
from aioproducer.engine.records.acceleration import hide
from aioproducer.errors import ProducerError
from aioproducer.model import RecordMetadata, TopicPartition
from tests.support.tokens import Token
from tests.unit.accumulator.world import TIMESTAMP_MS, AccumulatorWorld


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
    batch.deliver(100, -1)
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
    world.drain_one().deliver(base_offset, log_append_time_ms)
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
    there = batch.encode(None)
    before = bytes(there)
    batch.lent = True
    released = batch.release()
    assert released is not None
    assert len(released) == size
    released[:] = b"x" * size
    assert bytes(there) == before
