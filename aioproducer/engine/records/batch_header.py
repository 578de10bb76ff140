"""The layout of a batch's header, magic 2 (KIP-98; Kafka's ``DefaultRecordBatch``)."""

from __future__ import annotations

from struct import Struct
from typing import Final

BEFORE_CHECKSUM: Final = Struct(">qiibI")
"""Base offset, length, partition leader epoch, magic, CRC."""
CHECKED: Final = Struct(">hiqqqhii")
"""The part after the CRC, which covers it and the records: attributes, last offset delta, base and
max timestamp, producer id and epoch, base sequence, count."""

BATCH_OVERHEAD: Final = BEFORE_CHECKSUM.size + CHECKED.size
"""Bytes of a batch before its first record: 61."""

LENGTH_COUNTS_FROM: Final = 12
"""The length in the header leaves out the base offset and itself."""
MAGIC: Final = 2

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
