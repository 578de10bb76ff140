"""Record batches made field by field, so that each field can be wrong."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import Struct
from types import SimpleNamespace
from typing import Any, Final

from aioproducer.engine.records import parsed_records
from aioproducer.engine.records.batch_header import crc32c
from aioproducer.engine.records.decoder import RecordBatch, decode
from aioproducer.engine.records.encoded_batch import EncodedBatch, batches_in
from aioproducer.foundation.varint import encode_varint
from aioproducer.model import ConsumerRecord, Header, TopicPartition

FORMS: Final[dict[str, Any]] = {
    "reference": SimpleNamespace(
        ParsedRecords=parsed_records.ParsedRecords, arrow_buffers=parsed_records.arrow_buffers
    )
}
"""The forms of the decoder that are installed."""

try:
    from aioproducer.engine.records import _speedups

    FORMS["compiled"] = _speedups
except ImportError:
    pass

WHERE: Final = TopicPartition("flights", 3)
NOW: Final = 1_700_000_000_000
LIMIT: Final = 2**26

_BEFORE_CHECKSUM: Final = Struct(">qiibI")
_CHECKED: Final = Struct(">hiqqqhii")
_CHECKSUM: Final = Struct(">I")


def exact(data: bytes | bytearray | memoryview) -> array[int]:
    """The bytes in memory of just their size. ``bytes`` have a zero behind them, which hides from
    AddressSanitizer (``make sanitize``) that somebody reads one byte too many.
    """
    return array("B", data)[:]  # a slice is as large as it needs to be, and no larger


def field(content: bytes | None) -> bytes:
    """Bytes behind their length."""
    return encode_varint(-1) if content is None else encode_varint(len(content)) + content


def record(
    offset_delta: int,
    value: bytes | None = b"v",
    key: bytes | None = None,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    *,
    timestamp_delta: int = 0,
    behind: bytes = b"",
    length: int | None = None,
) -> bytes:
    """A record; ``behind``: bytes after its last field, ``length``: the one that it claims."""
    body = b"\0" + encode_varint(timestamp_delta) + encode_varint(offset_delta)
    body += field(key) + field(value) + encode_varint(len(headers))
    body += b"".join(field(name) + field(content) for name, content in headers) + behind
    return encode_varint(len(body) if length is None else length) + body


def batch(
    payload: bytes,
    count: int = 1,
    *,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    leader_epoch: int = -1,
    magic: int = 2,
    attributes: int = 0,
    timestamps: tuple[int, int] = (NOW, NOW),
    producer: tuple[int, int, int] = (-1, -1, -1),
    length: int | None = None,
) -> bytes:
    """A batch around ``payload``, its records as they are stored; ``timestamps``: base and max."""
    last = count - 1 if last_offset_delta is None else last_offset_delta
    checked = _CHECKED.pack(attributes, last, *timestamps, *producer, count) + payload
    size = len(checked) + 9 if length is None else length
    return _BEFORE_CHECKSUM.pack(base_offset, size, leader_epoch, magic, crc32c(checked)) + checked


def with_right_checksum(data: bytes | bytearray) -> bytes:
    """``data``, one batch, with the checksum of its bytes."""
    fixed = bytearray(data)
    if len(fixed) >= _BEFORE_CHECKSUM.size:
        _CHECKSUM.pack_into(fixed, 17, crc32c(fixed[_BEFORE_CHECKSUM.size :]))
    return bytes(fixed)


def only_batch(data: bytes) -> EncodedBatch:
    """The batch that ``data`` consists of."""
    (found,) = batches_in(data, WHERE, check_crcs=True)
    return found


def decoded(data: bytes, from_offset: int = 0) -> RecordBatch:
    """The records of the batch that ``data`` consists of."""
    return decode(only_batch(data), from_offset=from_offset, limit=LIMIT)


def consumer_record(
    offset: int,
    value: bytes | None = b"v",
    key: bytes | None = None,
    headers: tuple[Header, ...] = (),
    timestamp_ms: int = NOW,
    timestamp_type: str = "CreateTime",
    leader_epoch: int | None = None,
) -> ConsumerRecord:
    """A record of the partition of these tests."""
    return ConsumerRecord(
        *WHERE, offset, timestamp_ms, timestamp_type, key, value, headers, leader_epoch
    )


def delete_horizon_ms(batch: EncodedBatch) -> int | None:
    """The time from which the log cleaner may remove the batch's tombstones (KIP-534)."""
    return batch.base_timestamp_ms if batch.attributes & 0x40 else None
