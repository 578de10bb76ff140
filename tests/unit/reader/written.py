"""Record batches for readers, by the project's own builder."""

from __future__ import annotations

from aioproducer.engine.records.acceleration import RecordsBuilder
from aioproducer.engine.records.batch_header import (
    BEFORE_CHECKSUM,
    CHECKED,
    CONTROL,
    TRANSACTIONAL,
    crc32c,
)


def batch(
    base_offset: int,
    *values: bytes,
    epoch: int = 0,
    producer_id: int = -1,
    transactional: bool = False,
    control: bytes | None = None,
    removed: int = 0,
) -> bytes:
    """A whole batch. ``control``: the key of a control record, instead of values. ``removed``: the
    number of records that the log cleaner has removed at its end."""
    builder = RecordsBuilder(bytearray(100_000), 100_000)
    for value in values:
        assert builder.append(None, 1000, None, value)
    if control is not None:
        assert builder.append(None, 1000, control, b"")
    data = bytearray(memoryview(builder.buffer)[: builder.position])
    attributes = TRANSACTIONAL * transactional | CONTROL * (control is not None)
    CHECKED.pack_into(
        data,
        BEFORE_CHECKSUM.size,
        attributes,
        builder.count - 1 + removed,
        builder.base_timestamp_ms,
        builder.max_timestamp_ms,
        producer_id,
        0,
        0,
        builder.count,
    )
    checksum = crc32c(memoryview(data)[BEFORE_CHECKSUM.size :])
    BEFORE_CHECKSUM.pack_into(data, 0, base_offset, len(data) - 12, epoch, 2, checksum)
    return bytes(data)


def marker(offset: int, producer_id: int, *, commits: bool, epoch: int = 0) -> bytes:
    """The control batch that ends a transaction."""
    key = b"\0\0\0\1" if commits else b"\0\0\0\0"
    return batch(offset, epoch=epoch, producer_id=producer_id, transactional=True, control=key)
