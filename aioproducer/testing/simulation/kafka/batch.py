"""A record batch as a broker stores it: its header is read and checked, its records are kept.

Sources: Kafka's ``DefaultRecordBatch``, ``LogValidator``, ``UnifiedLog.analyzeAndValidateRecords``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from aioproducer.engine.records.batch_header import (
    BEFORE_CHECKSUM,
    CHECKED,
    COMPRESSION_MASK,
    CONTROL,
    LENGTH_COUNTS_FROM,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    crc32c,
)
from aioproducer.engine.records.decoder import decode
from aioproducer.engine.records.encoded_batch import batches_in
from aioproducer.errors import CorruptRecordsError
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation.varint import encode_varint
from aioproducer.model import TopicPartition

HEADER_BYTES: Final = BEFORE_CHECKSUM.size + CHECKED.size
_UP_TO_MAGIC: Final = Struct(">qiib")
_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_LEADER_EPOCH_AT: Final = 12
_MAX_SEQUENCE: Final = 2**31 - 1
_MAGIC_AT: Final = 16
_LEAST_LENGTH: Final = 14
"""Of a batch of any magic. Source: ``LegacyRecord.RECORD_OVERHEAD_V0``."""
_ZSTD: Final = 4
_FIRST_PRODUCE_WITH_ZSTD: Final = 7
_MOST_BYTES: Final = 100 * 1024 * 1024
_CONTROL_KEY: Final = Struct(">hh")
_CONTROL_VALUE: Final = Struct(">hi")
_ANYWHERE: Final = TopicPartition("", 0)

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1


class RecordsError(ValueError):
    """Bytes that a broker takes for no batch; ``code`` is its answer."""

    def __init__(self, code: ErrorCode, message: str, records: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.records = records
        """The places of the records that are wrong in themselves."""


class StoredRecord(NamedTuple):
    """A record in the log of a partition."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    sequence: int
    """-1: the producer is not idempotent."""
    transactional: bool
    visible: bool | None
    """True: to readers of any isolation level; False: aborted; None: its transaction is open."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch. ``data`` holds the whole of it, header included."""

    data: bytes
    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Source: ``DefaultRecordBatch.lastSequence``."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def commits(self) -> bool:
        """Of a marker: the transaction is committed."""
        return bool(self.data[-1 - _CONTROL_VALUE.size - 1 - 1])

    @property
    def coordinator_epoch(self) -> int:
        """Of a marker."""
        return int.from_bytes(self.data[-1 - 4 : -1], "big")

    @property
    def has_producer(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    def at(self, offset: int, leader_epoch: int, log_append_time_ms: int | None) -> Batch:
        """The batch as the leader stores it: offset and epoch are no part of the checksum."""
        data = bytearray(self.data)
        attributes, max_timestamp = self.attributes & ~LOG_APPEND_TIME, self.max_timestamp_ms
        if log_append_time_ms is not None:
            attributes, max_timestamp = attributes | LOG_APPEND_TIME, log_append_time_ms
        if (attributes, max_timestamp) != (self.attributes, self.max_timestamp_ms):
            data = bytearray(self._with(attributes, max_timestamp))
        _BASE_OFFSET.pack_into(data, 0, offset)
        _LEADER_EPOCH.pack_into(data, _LEADER_EPOCH_AT, leader_epoch)
        return _parsed(bytes(data))

    def records(self, visible: bool | None) -> Iterator[StoredRecord]:
        """The records; a control batch has none. Raises CorruptRecordsError."""
        if self.control:
            return
        [encoded] = batches_in(self.data, _ANYWHERE, check_crcs=False)
        for place, record in enumerate(decode(encoded, limit=_MOST_BYTES)):
            yield StoredRecord(
                record.offset,
                record.key,
                record.value,
                tuple(record.headers),
                record.timestamp_ms,
                self.producer_id,
                self.producer_epoch,
                NO_SEQUENCE
                if self.base_sequence < 0
                else increment_sequence(self.base_sequence, place),
                self.transactional,
                visible,
            )

    def _with(self, attributes: int, max_timestamp_ms: int) -> bytes:
        return _assembled(
            self.base_offset,
            self.leader_epoch,
            (
                attributes,
                self.last_offset_delta,
                self.base_timestamp_ms,
                max_timestamp_ms,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.count,
            ),
            self.data[HEADER_BYTES:],
        )


def increment_sequence(sequence: int, by: int) -> int:
    """Source: ``DefaultRecordBatch.incrementSequence``: 0 comes after 2^31 - 1."""
    return (sequence + by) % (_MAX_SEQUENCE + 1)


def only_batch(records: bytes | None, version: int) -> Batch:
    """The one batch of a partition in a produce request of ``version``. Raises RecordsError.

    Source: ``ProduceRequest.validateRecords``, which comes before the log is looked at.
    """
    size = _size_of_first(records or b"")
    if not records or not 0 < size <= len(records):
        raise RecordsError(ErrorCode.INVALID_RECORD, "a produce request must have one batch")
    if 0 < _size_of_first(records[size:]) <= len(records) - size:
        raise RecordsError(ErrorCode.INVALID_RECORD, "a produce request must have one batch")
    if records[_MAGIC_AT] != MAGIC:
        raise RecordsError(ErrorCode.INVALID_RECORD, "only batches of magic 2 may be written")
    batch = _parsed(records[:size])
    if batch.attributes & COMPRESSION_MASK == _ZSTD and version < _FIRST_PRODUCE_WITH_ZSTD:
        raise RecordsError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "this version has no zstd")
    return batch


def check_batch(batch: Batch, config: Mapping[str, str], now_ms: int) -> None:
    """Raise RecordsError for a batch that a leader does not append.

    Sources: ``UnifiedLog.analyzeAndValidateRecords``, ``LogValidator``. Kafka renumbers offsets of
    records that don't count up, here they are an error.
    """
    if batch.base_offset != 0:
        raise RecordsError(ErrorCode.INVALID_RECORD, "the base offset of a new batch is 0")
    if len(batch.data) > int(config["max.message.bytes"]):
        raise RecordsError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(batch.data)} bytes")
    stored = BEFORE_CHECKSUM.unpack_from(batch.data)[4]
    if stored != crc32c(memoryview(batch.data)[BEFORE_CHECKSUM.size :]):
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, "the checksum is wrong")
    if batch.last_offset_delta < 0 or batch.count != batch.last_offset_delta + 1:
        raise RecordsError(ErrorCode.INVALID_RECORD, "the number of records and the offsets differ")
    if batch.control:
        raise RecordsError(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if batch.has_producer and batch.base_sequence < 0:
        raise RecordsError(ErrorCode.INVALID_RECORD, "a producer id without a sequence number")
    _check_records(batch, config, now_ms)


def _check_records(batch: Batch, config: Mapping[str, str], now_ms: int) -> None:
    """Source: ``LogValidator.validateRecord``."""
    try:
        records = list(batch.records(None))
    except CorruptRecordsError as error:
        raise RecordsError(ErrorCode.INVALID_RECORD, str(error)) from error
    if len(records) != batch.count:
        raise RecordsError(ErrorCode.INVALID_RECORD, f"there are {len(records)} records")
    if config["message.timestamp.type"] == "CreateTime":
        earliest = now_ms - int(config["message.timestamp.before.max.ms"])
        latest = now_ms + int(config["message.timestamp.after.max.ms"])
        times = [record.timestamp_ms for record in records]
        late = [
            place
            for place, time in enumerate(times)
            if time != NO_TIMESTAMP and not earliest <= time <= latest
        ]
        if late:
            raise RecordsError(ErrorCode.INVALID_TIMESTAMP, "timestamps are out of range", late)
    lacking = [place for place, record in enumerate(records) if record.key is None]
    if lacking and "compact" in config["cleanup.policy"]:
        raise RecordsError(ErrorCode.INVALID_RECORD, "compacted topics want keys", lacking)


def control_batch(
    producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, now_ms: int
) -> Batch:
    """The marker that ends a transaction. Source: ``MemoryRecords.withEndTransactionMarker``."""
    key = _CONTROL_KEY.pack(0, int(commit))
    value = _CONTROL_VALUE.pack(0, coordinator_epoch)
    return _of_one(TRANSACTIONAL | CONTROL, producer_id, producer_epoch, key, value, now_ms)


def transactional_batch(producer_id: int, producer_epoch: int, key: bytes, now_ms: int) -> Batch:
    """A record of a coordinator in a transaction; it has no sequence number."""
    return _of_one(TRANSACTIONAL, producer_id, producer_epoch, key, b"", now_ms)


def _of_one(
    attributes: int, producer_id: int, epoch: int, key: bytes, value: bytes, now_ms: int
) -> Batch:
    body = b"\0\0\0" + b"".join(encode_varint(len(part)) + part for part in (key, value)) + b"\0"
    checked = (attributes, 0, now_ms, now_ms, producer_id, epoch, NO_SEQUENCE, 1)
    return _parsed(_assembled(0, 0, checked, encode_varint(len(body)) + body))


def _size_of_first(data: bytes) -> int:
    """The size of the batch that begins here, more than there is if its end is missing; 0: none.

    Source: ``ByteBufferLogInputStream.nextBatchSize``.
    """
    if len(data) < _UP_TO_MAGIC.size:
        return 0
    _, length, _, magic = _UP_TO_MAGIC.unpack_from(data)
    if length < _LEAST_LENGTH or not 0 <= magic <= MAGIC:
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, f"{length} bytes of magic {magic}")
    if magic == MAGIC and length < HEADER_BYTES - LENGTH_COUNTS_FROM:
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, f"a batch can't have {length} bytes")
    return int(length) + LENGTH_COUNTS_FROM


def _parsed(data: bytes) -> Batch:
    base_offset, _, leader_epoch, _, _ = BEFORE_CHECKSUM.unpack_from(data)
    return Batch(data, base_offset, leader_epoch, *CHECKED.unpack_from(data, BEFORE_CHECKSUM.size))


def _assembled(
    base_offset: int, leader_epoch: int, checked: tuple[int, ...], records: bytes
) -> bytes:
    covered = CHECKED.pack(*checked) + records
    length = BEFORE_CHECKSUM.size + len(covered) - LENGTH_COUNTS_FROM
    head = BEFORE_CHECKSUM.pack(base_offset, length, leader_epoch, MAGIC, crc32c(covered))
    return head + covered
