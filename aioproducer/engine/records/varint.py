"""Zigzag variable-length integers, the numbers inside a record.

Source: Kafka's ``ByteUtils.writeVarlong`` (protocol buffers' ``sint64``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from aioproducer.foundation.varint import unsigned_varint


def encode_varint(number: int) -> bytes:
    """``number`` (a signed 64-bit integer) as one to ten bytes."""
    rest = ((number << 1) ^ (number >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    return unsigned_varint(rest)


_KEPT: Final = 8192
"""As many numbers as have at most two bytes: most lengths, and the offsets of a usual batch."""

varint = lru_cache(_KEPT)(encode_varint)
""":func:`encode_varint`, which keeps its results: a look-up costs a tenth of the computation."""
