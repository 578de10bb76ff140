"""The numbers of a batch's producer, its attributes and its compression.

:meth:`RecordsBuilder.framed` writes the numbers and the attributes into the header. Source: KIP-98,
Kafka's ``DefaultRecordBatch``.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from aioproducer.engine.records.batch_header import TRANSACTIONAL
from aioproducer.engine.records.builder import RecordsBuilder
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
"""A batch without a number: it has none yet, or its producer is not idempotent."""


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
    """The whole batch; see :meth:`RecordsBuilder.framed`."""
    producer_id, epoch, sequence, transactional = state
    attributes = TRANSACTIONAL if transactional else 0
    if compression is None:
        compressed = None
    elif compressed is not None:
        attributes |= compression.id
    return builder.framed(attributes, producer_id, epoch, sequence, compressed)
