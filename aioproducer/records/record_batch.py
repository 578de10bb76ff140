"""The frame around the records of a batch, magic 2 (KIP-98; Kafka's ``DefaultRecordBatch``)."""

from __future__ import annotations

from typing import Final, NamedTuple

from aioproducer.records.batch_header import (
    BEFORE_CHECKSUM,
    CHECKED,
    LENGTH_COUNTS_FROM,
    MAGIC,
    TRANSACTIONAL,
)
from aioproducer.records.builder import BATCH_OVERHEAD, RecordsBuilder
from aioproducer.records.checksum import crc32c
from aioproducer.records.compression import Compression

_MAX_SEQUENCE: Final = 2**31 - 1


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
) -> bytearray | memoryview:
    """The whole batch: the builder's own buffer in place, or a new one around ``compressed``."""
    if compressed is None or compression is None:
        attributes = 0
        batch: bytearray | memoryview = memoryview(builder.buffer)[: builder.position]
    else:
        attributes = compression.id
        batch = bytearray(BATCH_OVERHEAD + len(compressed))
        batch[BATCH_OVERHEAD:] = compressed
    if state.transactional:
        attributes |= TRANSACTIONAL
    CHECKED.pack_into(
        batch,
        BEFORE_CHECKSUM.size,
        attributes,
        builder.count - 1,
        builder.base_timestamp_ms,
        builder.max_timestamp_ms,
        state.producer_id,
        state.producer_epoch,
        state.base_sequence,
        builder.count,
    )
    checksum = crc32c(memoryview(batch)[BEFORE_CHECKSUM.size :])
    length = len(batch) - LENGTH_COUNTS_FROM
    BEFORE_CHECKSUM.pack_into(batch, 0, 0, length, -1, MAGIC, checksum)
    return batch
