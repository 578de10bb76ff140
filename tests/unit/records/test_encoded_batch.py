"""The batches of a fetch response: their borders, their headers, their checksums."""

from __future__ import annotations

import pytest

from aioproducer.engine.records.encoded_batch import EncodedBatch, batches_in
from aioproducer.errors import CorruptRecordsError
from tests.support.encoded_batches import (
    NOW,
    WHERE,
    batch,
    delete_horizon_ms,
    field,
    only_batch,
    record,
)

FIRST = batch(record(0) + record(1), 2, base_offset=40, leader_epoch=9)
SECOND = batch(record(0), 1, base_offset=42)


def batches(data: bytes, *, check_crcs: bool = True) -> list[EncodedBatch]:
    return list(batches_in(data, WHERE, check_crcs=check_crcs))


def refused(data: bytes, *, check_crcs: bool = True) -> str:
    with pytest.raises(CorruptRecordsError) as caught:
        batches(data, check_crcs=check_crcs)
    return str(caught.value)


def test_nothing_has_no_batches() -> None:
    assert batches(b"") == []


def test_the_fields_of_a_header() -> None:
    data = batch(
        record(0),
        1,
        base_offset=2**40,
        last_offset_delta=6,
        leader_epoch=5,
        attributes=0x14,
        timestamps=(NOW, NOW + 9),
        producer=(2**50, 3, 77),
    )
    (found,) = batches(data)
    assert (found.base_offset, found.last_offset, found.next_offset) == (
        2**40,
        2**40 + 6,
        2**40 + 7,
    )
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (2**50, 3, 77)
    assert (found.base_timestamp_ms, found.max_timestamp_ms) == (NOW, NOW + 9)
    assert (found.leader_epoch, found.record_count, found.compression_id) == (5, 1, 4)
    assert (found.size, bytes(found.data)) == (len(data), data)
    assert found.where == WHERE


@pytest.mark.parametrize(
    ("attributes", "transactional", "control", "timestamp_type", "horizon"),
    [
        (0x00, False, False, "CreateTime", None),
        (0x08, False, False, "LogAppendTime", None),
        (0x10, True, False, "CreateTime", None),
        (0x30, True, True, "CreateTime", None),
        (0x40, False, False, "CreateTime", NOW),
        (0x7F80 - 0x80, False, False, "CreateTime", None),  # bits that have no meaning yet
    ],
)
def test_attributes(
    attributes: int, transactional: bool, control: bool, timestamp_type: str, horizon: int | None
) -> None:
    found = only_batch(batch(record(0), attributes=attributes))
    assert found.is_transactional is transactional
    assert found.is_control is control
    assert found.timestamp_type == timestamp_type
    assert delete_horizon_ms(found) == horizon


def test_a_batch_without_a_leader_epoch() -> None:
    assert only_batch(batch(record(0), leader_epoch=-1)).leader_epoch is None


def test_several_batches_and_a_gap_between_them() -> None:
    third = batch(record(0), 1, base_offset=99)
    found = batches(FIRST + SECOND + third)
    assert [each.base_offset for each in found] == [40, 42, 99]
    assert [each.next_offset for each in found] == [42, 43, 100]


@pytest.mark.parametrize("size", range(len(SECOND)))
def test_a_batch_that_is_cut_off_is_left_out(size: int) -> None:
    """KIP-74: the broker may cut the last batch at any byte."""
    assert [each.base_offset for each in batches(FIRST + SECOND[:size])] == [40]


def test_the_batches_before_a_corrupt_one_come_first() -> None:
    damaged = SECOND[:-1] + b"\xff"
    found = batches_in(FIRST + damaged, WHERE, check_crcs=True)
    assert next(found).base_offset == 40
    with pytest.raises(
        CorruptRecordsError, match="flights-3 at offset 42 is corrupt: its CRC-32C"
    ) as caught:
        next(found)
    assert (caught.value.offset, caught.value.next_offset) == (42, 43)


@pytest.mark.parametrize(("base_offset", "delta"), [(-1, 0), (0, -1)])
def test_a_header_that_contradicts_itself_does_not_tell_where_to_read_on(
    base_offset: int, delta: int
) -> None:
    with pytest.raises(CorruptRecordsError) as caught:
        batches(batch(record(0), 1, base_offset=base_offset, last_offset_delta=delta))
    assert caught.value.next_offset is None


def test_checksums_are_checked_on_request_alone() -> None:
    damaged = bytearray(SECOND)
    damaged[-1] ^= 1
    assert len(batches(bytes(damaged), check_crcs=False)) == 1
    assert "its CRC-32C is 0x" in refused(bytes(damaged))


def test_the_message_says_what_to_do() -> None:
    assert refused(SECOND[:-1] + b"\xff").endswith(
        "; read it again, and if the error persists, the leader's log is damaged: continue after it"
    )


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_named(magic: int) -> None:
    message = refused(batch(record(0), base_offset=7, magic=magic))
    assert message.startswith(
        f"the messages of flights-3 at offset 7 have the old format {magic}, of a client before "
        "Kafka 0.11"
    )


@pytest.mark.parametrize("magic", [-1, 3, 127])
def test_other_formats_are_refused(magic: int) -> None:
    assert f"its magic number is {magic}, not 2" in refused(batch(record(0), magic=magic))


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48])
def test_impossible_lengths(length: int) -> None:
    assert f"it can't have {length} bytes" in refused(batch(record(0), length=length))


def test_an_impossible_length_shows_before_the_whole_header_is_there() -> None:
    assert "it can't have 48 bytes" in refused(batch(record(0), length=48)[:17])
    assert "its magic number is 3" in refused(batch(record(0), magic=3)[:17])


def test_a_length_beyond_the_response_is_a_batch_that_was_cut_off() -> None:
    assert len(batches(FIRST + batch(record(0), base_offset=42, length=2**31 - 1))) == 1


@pytest.mark.parametrize(
    "data", [b"\0", SECOND[:16], SECOND[:17], SECOND[:-1], batch(record(0), length=2**31 - 1)]
)
def test_a_response_has_a_whole_batch(data: bytes) -> None:
    """KIP-74. Else the same bytes would be fetched again and again."""
    assert refused(data).startswith(
        f"the records of flights-3 are corrupt: the response has {len(data)} bytes of them, but no "
        "complete batch; read it again"
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (batch(record(0), base_offset=-1), "an offset can't be negative"),
        (batch(record(0), last_offset_delta=-1), "its last record can't be -1 offsets later"),
        (batch(record(0), base_offset=2**63 - 1), "its last record can't be 0 offsets later"),
        (batch(record(0), -1, last_offset_delta=0), "it can't have -1 records at 1 offsets"),
        (batch(record(0), 3, last_offset_delta=1), "it can't have 3 records at 2 offsets"),
    ],
)
def test_headers_that_contradict_themselves(data: bytes, reason: str) -> None:
    assert reason in refused(data)


def test_the_last_offset_there_is() -> None:
    assert only_batch(batch(record(0), base_offset=2**63 - 2)).next_offset == 2**63 - 1


def test_batches_that_overlap() -> None:
    assert "at offset 42 is corrupt: the batch before it goes up to offset 42" in refused(
        SECOND + SECOND
    )


# --- control batches ---------------------------------------------------------------------------


def control(key: bytes | None, *, count: int = 1, attributes: int = 0x30) -> EncodedBatch:
    return only_batch(batch(record(0, bytes(6), key), count, attributes=attributes))


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (b"\0\0\0\0", "abort"),
        (b"\0\0\0\1", "commit"),
        (b"\0\1\0\1", "commit"),  # a later version
        (b"\0\0\0\1more", "commit"),
        (b"\0\0\0\2", None),  # a leader change, of KRaft
        (b"\0\0\x7f\xff", None),
        (b"\0\0\xff\xff", None),
    ],
)
def test_control_types(key: bytes, kind: str | None) -> None:
    assert control(key).control_type == kind


def test_other_batches_have_no_control_type() -> None:
    assert control(b"\0\0\0\1", attributes=0x10).control_type is None


def test_a_control_batch_that_was_emptied() -> None:
    empty = only_batch(batch(b"", 0, last_offset_delta=0, attributes=0x30))
    assert empty.control_type is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\1"])
def test_invalid_keys_of_control_records(key: bytes | None) -> None:
    with pytest.raises(CorruptRecordsError, match="the key of a control record"):
        _ = control(key).control_type


def test_a_large_control_batch_is_not_decompressed() -> None:
    large = control(b"\0\0\0\1", attributes=0x32)
    large = large._replace(data=memoryview(bytes(large.data) + bytes(16 * 1024)))
    with pytest.raises(CorruptRecordsError, match=f"control batch can't have {large.size} bytes"):
        _ = large.control_type


def test_a_control_record_that_is_cut_off() -> None:
    broken = only_batch(batch(b"\x20\0\0\0" + field(b"\0\0\0\1")[:-1], attributes=0x30))
    with pytest.raises(CorruptRecordsError, match="a field is longer than its record"):
        _ = broken.control_type
