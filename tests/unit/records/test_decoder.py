"""The records of a batch, as Kafka's readers understand them, and the errors of invalid ones."""

from __future__ import annotations

import gc
import zlib
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from aioproducer.engine.records import decoder, parsed_records
from aioproducer.engine.records.compression import compression
from aioproducer.engine.records.decoder import RecordBatch, decode, decode_at_once
from aioproducer.errors import CorruptRecordsError
from aioproducer.foundation import tuning
from aioproducer.foundation.varint import encode_varint
from aioproducer.model import TopicPartition
from tests.support.encoded_batches import (
    FORMS,
    LIMIT,
    NOW,
    WHERE,
    batch,
    consumer_record,
    decoded,
    field,
    only_batch,
    record,
)


@pytest.fixture(autouse=True, params=FORMS.values(), ids=list(FORMS))
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(decoder, "ParsedRecords", request.param.ParsedRecords)
    return request.param


def refused(data: bytes) -> str:
    with pytest.raises(CorruptRecordsError) as caught:
        decoded(data)
    message = str(caught.value)
    start = "the batch of flights-3 at offset 0 is corrupt: "
    assert message.startswith(start)
    return message.removeprefix(start).partition(";")[0]


# --- the meaning of the fields -----------------------------------------------------------------


def test_all_fields_of_a_record() -> None:
    headers = [(b"a", b"1"), (b"a", None), (b"", b""), ("größe".encode(), b"\xff")]
    found = decoded(
        batch(
            record(0, b"value", b"key", headers, timestamp_delta=7),
            base_offset=2**40,
            leader_epoch=5,
        )
    )
    text = (("a", b"1"), ("a", None), ("", b""), ("größe", b"\xff"))
    assert list(found) == [
        consumer_record(2**40, b"value", b"key", text, NOW + 7, leader_epoch=5),
    ]
    assert found[0].topic_partition == WHERE


def test_null_and_empty_are_not_the_same() -> None:
    data = batch(record(0, None, b"") + record(1, b"", None), 2)
    assert [(each.key, each.value) for each in decoded(data)] == [(b"", None), (None, b"")]


def test_the_broker_gives_the_time_of_all_records() -> None:
    """With LogAppendTime the largest timestamp of the batch is that of each record."""
    data = batch(
        record(0, timestamp_delta=1) + record(1, timestamp_delta=-4),
        2,
        attributes=0x08,
        timestamps=(NOW, NOW + 99),
    )
    assert [(each.timestamp_ms, each.timestamp_type) for each in decoded(data)] == [
        (NOW + 99, "LogAppendTime"),
        (NOW + 99, "LogAppendTime"),
    ]


def test_a_delete_horizon_is_the_base_of_the_timestamps_all_the_same() -> None:
    """The log cleaner writes the differences anew. Source: ``MemoryRecordsBuilder``, KIP-534."""
    data = batch(record(0, timestamp_delta=-500), attributes=0x40, timestamps=(NOW, NOW))
    assert decoded(data)[0].timestamp_ms == NOW - 500


@pytest.mark.parametrize(
    ("base", "delta", "timestamp"),
    [(-1, 0, -1), (0, 2**63 - 1, 2**63 - 1), (2**63 - 1, 1, -(2**63)), (-(2**63), -1, 2**63 - 1)],
)
def test_timestamps_are_numbers_of_64_bits(base: int, delta: int, timestamp: int) -> None:
    data = batch(record(0, timestamp_delta=delta), timestamps=(base, base))
    assert decoded(data)[0].timestamp_ms == timestamp


def test_a_batch_that_the_log_cleaner_went_through() -> None:
    data = batch(record(3) + record(70), 2, base_offset=1_000, last_offset_delta=99)
    found = decoded(data)
    assert [each.offset for each in found] == [1_003, 1_070]
    assert (found.first_offset, found.next_offset) == (1_003, 1_100)


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_the_log_cleaner_emptied(codec: int) -> None:
    data = batch(b"", 0, base_offset=1_000, last_offset_delta=9, attributes=codec)
    found = decoded(data)
    assert list(found) == []
    assert len(found) == 0
    assert (found.first_offset, found.next_offset) == (1_010, 1_010)


@pytest.mark.parametrize("name", [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80"])
def test_a_header_key_that_is_not_utf_8(name: bytes) -> None:
    """As Java's, the reader replaces the bytes."""
    found = decoded(batch(record(0, headers=[(name, b"1"), ("ü".encode(), b"2")])))
    assert found[0].headers == ((name.decode("utf-8", "replace"), b"1"), ("ü", b"2"))
    assert "\ufffd" in found[0].headers[0][0]


def test_any_negative_length_is_null() -> None:
    """Source: Kafka's ``Utils.readBytes``."""
    body = b"\0\0\0" + encode_varint(-9) + encode_varint(-(2**31)) + b"\0"
    assert list(decoded(batch(field(body)))) == [consumer_record(0, None, None)]


def test_numbers_may_have_needless_bytes() -> None:
    body = b"\0" + b"\x80\x80\0" + b"\x80\0" + field(None) + b"\x82\x80\0v" + b"\x80\x80\x80\x80\0"
    assert list(decoded(batch(field(body)))) == [consumer_record(0)]


def test_attributes_of_a_record_have_no_meaning_yet() -> None:
    body = b"\xff\0\0" + field(None) + field(b"v") + b"\0"
    assert list(decoded(batch(field(body)))) == [consumer_record(0)]


@pytest.mark.parametrize(
    ("from_offset", "left"),
    [
        (-5, [40, 41, 44]),
        (0, [40, 41, 44]),
        (40, [40, 41, 44]),
        (41, [41, 44]),
        (42, [44]),
        (44, [44]),
        (45, []),
        (2**63, []),
        (2**80, []),
    ],
)
def test_reading_can_begin_within_a_batch(from_offset: int, left: list[int]) -> None:
    data = batch(record(0) + record(1) + record(4), 3, base_offset=40, last_offset_delta=9)
    found = decoded(data, from_offset)
    assert [each.offset for each in found] == left
    assert [found[index].offset for index in range(len(found))] == left
    assert found.first_offset == (left[0] if left else 50)


@pytest.mark.parametrize(
    ("from_offset", "until_offset", "left"),
    [
        (0, 2**63, [40, 41, 44]),
        (0, 45, [40, 41, 44]),
        (0, 44, [40, 41]),
        (41, 43, [41]),
        (0, 40, []),
        (0, -5, []),
        (42, 41, []),
        (44, 2**80, [44]),
    ],
)
def test_reading_can_end_within_a_batch(
    form: Any, from_offset: int, until_offset: int, left: list[int]
) -> None:
    data = batch(record(0) + record(1) + record(4), 3, base_offset=40, last_offset_delta=9)
    encoded = only_batch(data)
    found = decode(encoded, from_offset=from_offset, until_offset=until_offset, limit=0)
    assert [each.offset for each in found] == left
    assert [found[index].offset for index in range(len(found))] == left
    rows = form.arrow_buffers([form.ParsedRecords(encoded, data[61:], from_offset, until_offset)])
    assert rows.rows == len(left)


# --- invalid records ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "a record ends in the middle of a field"),
        (b"\x80", "a record ends in the middle of a field"),
        (b"\0", "a record ends in the middle of a field"),
        (field(b"\0"), "a record ends in the middle of a field"),
        (field(b"\0\0\0\1\1"), "a record ends in the middle of a field"),
        (record(0, length=-1), "a record is longer than its batch"),
        (record(0, length=100), "a record is longer than its batch"),
        (record(0, length=2**31 - 1), "a record is longer than its batch"),
        (record(0, behind=b"x"), "a record is shorter than its length"),
        (record(0, headers=[(b"a", b"")], behind=b"\0"), "a record is shorter than its length"),
        (record(0) + b"\0", "there are bytes behind its 1 records"),
        (record(0) + record(1), "there are bytes behind its 1 records"),
        (b"\x80" * 5 + b"\0", "a number is too long"),
        (field(b"\0" + b"\x80" * 10 + b"\0\0\1\1\0"), "a number is too long"),
        (b"\xff\xff\xff\xff\x10", "a number is too large"),
        (field(b"\0" + b"\xff" * 9 + b"\x02\0\1\1\0"), "a number is too large"),
        (field(b"\0\0\0\x06ab"), "a field is longer than its record"),
        (field(b"\0\0\0\1" + encode_varint(2**31 - 1)), "a field is longer than its record"),
        (field(b"\0\0\0\1\1" + encode_varint(-1)), "a record can't have -1 headers"),
        (field(b"\0\0\0\1\1" + encode_varint(2) + b"\0\0\0"), "a record can't have 2 headers"),
        (field(b"\0\0\0\1\1" + encode_varint(2**31 - 1)), f"a record can't have {2**31 - 1} heade"),
        (field(b"\0\0\0\1\1" + b"\2" + b"\1\1"), "a header has no key"),
        (field(b"\0\0\0\1\1" + b"\2" + b"\4a"), "a field is longer than its record"),
        (field(b"\0\0\0\1\1" + b"\2" + b"\0\4a"), "a field is longer than its record"),
        (field(b"\0\0\0\1\1" + b"\2" + b"\2a"), "a record ends in the middle of a field"),
    ],
)
def test_invalid_records(payload: bytes, reason: str) -> None:
    assert refused(batch(payload)).startswith(reason)


def test_a_field_does_not_reach_into_the_next_record() -> None:
    first = field(b"\0\0\0\1" + encode_varint(20) + b"short")
    assert refused(batch(first + record(1, b"v" * 50), 2)) == "a field is longer than its record"


@pytest.mark.parametrize(
    ("deltas", "wrong"),
    [([0, 0], 0), ([1, 0], 0), ([0, 2], 2), ([-1, 0], -1), ([0, 2**31 - 1], 2**31 - 1)],
)
def test_offsets_grow_within_the_batch(deltas: Sequence[int], wrong: int) -> None:
    data = batch(b"".join(record(delta) for delta in deltas), 2)
    assert refused(data) == f"offset {wrong} is out of order"


def test_a_claimed_number_of_records_takes_no_memory() -> None:
    count = 2**31 - 1
    data = batch(record(0), count, last_offset_delta=count - 1)
    assert refused(data) == "a record ends in the middle of a field"


def test_records_before_the_first_one_wanted_are_checked_as_well() -> None:
    data = batch(record(0, headers=[(b"a", b"")], behind=b"x") + record(1), 2)
    with pytest.raises(CorruptRecordsError, match="a record is shorter than its length"):
        decoded(data, from_offset=1)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_compression(number: int) -> None:
    assert refused(batch(record(0), attributes=number)) == f"the compression {number} is unknown"


def test_the_limit_does_not_hold_for_records_that_are_not_compressed() -> None:
    """They are in memory as they are."""
    encoded = only_batch(batch(record(0, b"v" * 1_000)))
    assert len(decode(encoded, limit=10)) == 1


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_that_unpack_to_more_than_the_limit(codec: str) -> None:
    used = compression(codec)
    assert used is not None
    payload = used.compress(memoryview(record(0, bytes(100_000))))
    data = batch(payload, base_offset=7, last_offset_delta=2, attributes=used.id)
    encoded = only_batch(data)
    assert len(decode(encoded, limit=101_000)) == 1
    with pytest.raises(CorruptRecordsError) as caught:
        decode(encoded, limit=100_000)
    assert str(caught.value) == (
        f"the batch of flights-3 at offset 7 has {len(data)} bytes and decompresses to more than "
        "100000: raise max_batch_bytes if that is right, or continue after it, at offset 10"
    )


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_few_bytes_that_unpack_to_many_are_not_decoded_at_once(codec: str) -> None:
    used = compression(codec)
    assert used is not None

    def at_once(value_size: int, limit: int = LIMIT) -> RecordBatch | None:
        payload = used.compress(memoryview(record(0, bytes(value_size))))
        encoded = only_batch(batch(payload, attributes=used.id))
        return decode_at_once(encoded, from_offset=0, until_offset=None, limit=limit)

    most = tuning.DECODED_AT_ONCE
    found = at_once(most - 100)
    assert found is not None
    assert len(found) == 1
    assert at_once(most) is None
    assert at_once(5_000, limit=5_000) is None, "the other way raises the error"


@pytest.mark.parametrize(("attributes", "most"), [(0, 2**20), (1, 2**16)])
def test_large_batches_are_not_decoded_at_once(attributes: int, most: int) -> None:
    payload = record(0, Random(1).randbytes(most))
    if attributes:
        payload = zlib.compressobj(0, wbits=31).compress(payload)
    encoded = only_batch(batch(payload, attributes=attributes))
    assert decode_at_once(encoded, from_offset=0, until_offset=None, limit=LIMIT) is None


# --- RecordBatch -------------------------------------------------------------------------------


def three() -> RecordBatch:
    return decoded(batch(record(0) + record(2) + record(3), 3, base_offset=7, last_offset_delta=5))


def test_a_batch_is_a_sequence() -> None:
    found = three()
    records = [consumer_record(7), consumer_record(9), consumer_record(10)]
    assert isinstance(found, Sequence)
    assert list(found) == records
    assert len(found) == 3
    assert [found[0], found[1], found[2], found[-1]] == [*records, records[-1]]
    assert (found[1:], found[::-1], found[5:]) == (records[1:], records[::-1], [])
    assert list(reversed(found)) == records[::-1]
    assert records[1] in found
    assert found.index(records[1]) == 1
    for index in (3, -4):
        with pytest.raises(IndexError):
            found[index]


def test_a_batch_is_iterated_as_often_as_wanted() -> None:
    found = three()
    assert list(found) == list(found)
    assert [(one.offset, other.offset) for one, other in zip(found, found, strict=True)] == [
        (7, 7),
        (9, 9),
        (10, 10),
    ]


def test_a_batch_knows_its_place() -> None:
    found = three()
    assert (found.topic, found.partition) == found.topic_partition == TopicPartition(*WHERE)
    assert (found.first_offset, found.next_offset) == (7, 13)
    assert (found.leader_epoch, found.timestamp_type) == (None, "CreateTime")
    assert found.size == 61 + 3 * len(record(0))
    assert repr(found) == "<RecordBatch of flights-3: 3 records from offset 7, before offset 13>"


def test_parsing_many_records_at_once() -> None:
    """More than are parsed without the release of the interpreter lock."""
    data = batch(b"".join(record(number, b"v" * 100) for number in range(2_000)), 2_000)
    found = decoded(data, 500)
    assert [each.offset for each in found] == list(range(500, 2_000))
    assert found[1_499] == consumer_record(1_999, b"v" * 100)


def test_the_collector_does_not_visit_compiled_records(form: Any) -> None:
    """It would drop their buffer without releasing it."""
    found = decoded(batch(record(0, b"value")))
    assert gc.is_tracked(found._records) is (form.ParsedRecords is parsed_records.ParsedRecords)
