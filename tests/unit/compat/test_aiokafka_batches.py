"""Batches that callers fill, and the futures of records and batches."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import aiokafka.structs  # type: ignore[import-untyped]
import pytest
from aiokafka.producer.message_accumulator import (  # type: ignore[import-untyped]
    BatchBuilder as TheirBuilder,
)

from aioproducer import RecordTooLargeError, SerializationError, errors, model
from aioproducer.compat.aiokafka.batch_builder import BatchBuilder, check_records
from aioproducer.compat.aiokafka.results import BatchToken, RecordFuture, UnacknowledgedFuture
from aioproducer.engine.records.acceleration import batch_size_bound
from aioproducer.engine.records.field_reader import read_records
from tests.support.world import settings_of

RECORDS: list[tuple[Any, Any, Any]] = [
    (None, b"v", ()),
    (b"k", None, ()),
    (b"key", b"x" * 300, [("h", b"1"), ("h", None)]),
    (bytearray(b"k"), memoryview(b"abc"), ()),
]


def test_a_batch_has_the_sizes_that_aiokafka_gives_it() -> None:
    own, known = BatchBuilder(1000), TheirBuilder(1000, 0)
    assert own.size() == known.size()
    for number in range(40):
        key, value, headers = RECORDS[number % len(RECORDS)]
        now = 1_700_000_000_000 + number
        made = own.append(timestamp=now, key=key, value=value, headers=headers)
        expected = known.append(timestamp=now, key=key, value=value, headers=list(headers))
        if expected is None:
            assert made is None
            break
        assert made is not None
        found = made.offset, made.size, made.timestamp, made.crc
        assert found == (expected.offset, expected.size, expected.timestamp, expected.crc)
        assert own.size() == known.size()
        assert own.record_count() == known.record_count()
    assert own.closed()
    assert known.closed()
    assert 3 < own.record_count() < 40
    assert own.append(timestamp=None, key=None, value=b"v") is None


def test_the_first_record_may_be_larger_than_the_batch() -> None:
    batch = BatchBuilder(100)
    assert batch.append(timestamp=None, key=None, value=b"m" * 101) is not None
    assert batch.append(timestamp=None, key=None, value=b"") is None
    assert batch.record_count() == 1
    check_records("t", batch.encoded, settings_of(200))
    with pytest.raises(RecordTooLargeError, match="max_request_size"):
        check_records("t", batch.encoded, settings_of(150))


@pytest.mark.parametrize(("key", "value", "headers"), RECORDS)
def test_a_record_of_a_batch_is_too_large_where_send_refuses_it(
    key: Any, value: Any, headers: Any
) -> None:
    """To the byte, and a batch that was refused can still be filled."""
    batch = BatchBuilder(1 << 20)
    batch.append(timestamp=None, key=None, value=b"")
    batch.append(timestamp=None, key=key, value=value, headers=headers)
    needed = batch_size_bound(key, value, headers)
    check_records("t", batch.encoded, settings_of(needed))
    with pytest.raises(RecordTooLargeError, match=f"a record of {needed} bytes for topic 't'"):
        check_records("t", batch.encoded, settings_of(needed - 1))
    assert batch.append(timestamp=None, key=None, value=bytes(100_000)) is not None


def test_records_have_the_present_time_or_their_own() -> None:
    before = time.time() * 1000
    batch = BatchBuilder(1000)
    made = batch.append(timestamp=None, key=None, value=b"v")
    assert made is not None
    assert before - 1 <= made.timestamp <= time.time() * 1000
    own = batch.append(timestamp=7, key=None, value=b"v", headers=None)  # type: ignore[arg-type]
    assert own is not None
    assert own.timestamp == 7
    cut = batch.append(timestamp=8.9, key=None, value=b"v")
    assert cut is not None
    assert cut.timestamp == 8
    read = [each.timestamp_ms for each in read_records(batch.encoded)]
    assert read == [made.timestamp, 7, 8]
    wrong: list[Any] = ["1", -1, 2**63, True, float("nan"), float("inf")]
    for timestamp in wrong:
        with pytest.raises(TypeError, match="timestamp"):
            batch.append(timestamp=timestamp, key=None, value=b"v")
    assert batch.record_count() == 3


def test_wrong_headers_are_refused_as_they_are_added() -> None:
    batch = BatchBuilder(1000)
    wrong: list[Any] = [[("a", 1)], [(1, b"v")], [("a", b"v", 1)], ["abc"], 5]
    for headers in wrong:
        with pytest.raises(SerializationError, match="header"):
            batch.append(timestamp=None, key=None, value=b"v", headers=headers)
    assert batch.record_count() == 0
    mutable: Any = [("é", bytearray(b"1"))]
    batch.append(timestamp=None, key=None, value=b"v", headers=mutable)
    [read] = read_records(batch.encoded)
    assert list(read.headers) == [("é", b"1")]


def test_serializers_make_the_bytes() -> None:
    batch = BatchBuilder(1000, lambda key: key.upper().encode(), lambda value: b"%d" % value)
    batch.append(timestamp=None, key="k", value=7)
    [made] = read_records(batch.encoded)
    assert (made.key, made.value) == (b"K", b"7")
    with pytest.raises(SerializationError, match="Not supported type for key"):
        BatchBuilder(1000).append(timestamp=None, key="text", value=b"")


def test_a_buffer_may_be_used_again() -> None:
    buffer = bytearray(b"one")
    batch = BatchBuilder(1000)
    batch.append(timestamp=None, key=None, value=buffer)
    buffer[:] = b"two"
    assert [each.value for each in read_records(batch.encoded)] == [b"one"]


# --- futures -------------------------------------------------------------------------------


def metadata(offset: int, timestamp: int = 5) -> model.RecordMetadata:
    return model.RecordMetadata("orders", 3, offset, timestamp, -1, 7)


async def test_results_are_aiokafkas() -> None:
    futures = [RecordFuture() for _ in range(4)]
    futures[1].cancel()
    RecordFuture.set_results(futures, [metadata(n, 10 + n) for n in range(4)], True, 17)
    assert futures[1].cancelled()
    result = await futures[2]
    assert type(result) is aiokafka.structs.RecordMetadata
    place = aiokafka.structs.TopicPartition("orders", 3)
    assert result == ("orders", 3, place, 2, 12, 1, 17)
    assert type(result.topic_partition) is aiokafka.structs.TopicPartition
    assert hash(result) == hash(tuple(result))
    gc.collect()
    assert result.log_start_offset == 17


async def test_a_record_that_is_traced_has_the_same_result() -> None:
    future = RecordFuture()
    future.set_result(metadata(8))
    assert (await future).offset == 8
    assert (await future).timestamp_type == 0


async def test_without_acknowledgement_the_result_is_none() -> None:
    futures = [UnacknowledgedFuture() for _ in range(3)]
    futures[0].cancel()
    UnacknowledgedFuture.set_results(futures, [metadata(-1)] * 3, False, -1)
    assert await futures[1] is None
    assert futures[0].cancelled()


async def test_the_error_is_translated() -> None:
    future = RecordFuture()
    future.set_exception(errors.DeliveryTimeoutError("late"))
    with pytest.raises(aiokafka.errors.KafkaTimeoutError, match="late"):
        await future


async def test_a_batch_has_the_metadata_of_its_first_record() -> None:
    future = RecordFuture()
    token = BatchToken(future, 3)
    BatchToken.set_results([token], [metadata(12)], True, 4)
    BatchToken.set_results([token, token], [metadata(10), metadata(11)], False, 4)
    assert token.done()
    result = await future
    assert (result.offset, result.timestamp_type, result.log_start_offset) == (10, 0, 4)


async def test_a_batch_fails_when_all_its_records_have_their_outcome() -> None:
    future = RecordFuture()
    token = BatchToken(future, 3)
    token.set_exception(errors.DeliveryTimeoutError("late"))
    token.set_result(metadata(1))
    assert not future.done()
    assert not token.done()
    token.set_exception(errors.ProducerClosedError("closed"))
    assert isinstance(token.exception(), errors.DeliveryTimeoutError)
    with pytest.raises(aiokafka.errors.KafkaTimeoutError):
        await future


async def test_cancelling_the_future_of_a_batch_takes_no_record_back() -> None:
    future = RecordFuture()
    token = BatchToken(future, 2)
    future.cancel()
    assert not token.done()
    token.set_result(metadata(0))
    token.set_exception(errors.ProducerClosedError("closed"))
    with pytest.raises(asyncio.CancelledError):
        await future


async def test_the_records_behind_the_first_one_are_counted_at_once() -> None:
    future = RecordFuture()
    first, *rest = BatchToken(future, 4).all()
    assert len(rest) == 3
    assert len(set(rest)) == 1
    rest[0].deliver("orders", 3, 11)
    assert not future.done()
    BatchToken.set_results([first], [metadata(10)], False, 4)
    assert (await future).offset == 10
    assert BatchToken(RecordFuture(), 1).all()[1:] == []


def test_a_batch_grows_to_its_size() -> None:
    own, known = BatchBuilder(100_000), TheirBuilder(100_000, 0)
    for number in range(3_000):
        made = own.append(timestamp=5, key=b"k", value=b"v" * (number % 90))
        expected = known.append(timestamp=5, key=b"k", value=b"v" * (number % 90))
        assert (made is None) == (expected is None)
        assert own.size() == known.size()
    assert own.closed()
    assert own.record_count() == known.record_count()
