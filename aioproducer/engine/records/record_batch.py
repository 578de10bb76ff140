"""The frame around the records of a batch, magic 2 (KIP-98; Kafka's ``DefaultRecordBatch``)."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from aioproducer.engine.records.batch_header import (
    BEFORE_CHECKSUM,
    CHECKED,
    LENGTH_COUNTS_FROM,
    MAGIC,
    TRANSACTIONAL,
)
from aioproducer.engine.records.builder import BATCH_OVERHEAD, RecordsBuilder
from aioproducer.engine.records.checksum import crc32c
from aioproducer.engine.records.compression import Compression

_MAX_SEQUENCE: Final = 2**31 - 1

Buffer: TypeAlias = bytes | bytearray | memoryview


class ProducerState(NamedTuple):
    """The producer and sequence number of a batch, for the broker to find duplicates and gaps."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool = False


NO_PRODUCER_STATE: Final = ProducerState(-1, -1, -1)
"""A batch of a producer that is not idempotent."""


def next_sequence(sequence: int, count: int) -> int:
    """The number after ``count`` records; wraps to 0 after 2^31 - 1.

    Source: ``DefaultRecordBatch.incrementSequence``.
    """
    return (sequence + count) % (_MAX_SEQUENCE + 1)


def compress_records(builder: RecordsBuilder, compression: Compression | None) -> bytes | None:
    """The records' compressed bytes; None: the batch is not compressed.

    The attributes of a batch name its compression, so a payload that grows under compression is
    sent compressed all the same. The Java client does this as well.
    """
    return None if compression is None else compression.compress(builder.records)


def frame_batch(
    builder: RecordsBuilder,
    state: ProducerState,
    compression: Compression | None,
    compressed: bytes | None,
) -> Buffer:
    """The whole batch.

    A large batch that is not compressed is a view of the builder's buffer; any other is a copy.
    """
    producer_id, epoch, sequence, transactional = state
    attributes = TRANSACTIONAL if transactional else 0
    if compressed is None or compression is None:
        return builder.framed(attributes, producer_id, epoch, sequence)
    whole = bytearray(BATCH_OVERHEAD + len(compressed))
    whole[BATCH_OVERHEAD:] = compressed
    CHECKED.pack_into(
        whole,
        BEFORE_CHECKSUM.size,
        attributes | compression.id,
        builder.count - 1,
        builder.base_timestamp_ms,
        builder.max_timestamp_ms,
        producer_id,
        epoch,
        sequence,
        builder.count,
    )
    length = len(whole) - LENGTH_COUNTS_FROM
    checksum = crc32c(memoryview(whole)[BEFORE_CHECKSUM.size :])
    BEFORE_CHECKSUM.pack_into(whole, 0, 0, length, -1, MAGIC, checksum)
    return whole
