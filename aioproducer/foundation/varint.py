"""Variable-length integers: seven bits in a byte, the lowest first.

Kafka's lengths and tags are unsigned (``ByteUtils.writeUnsignedVarint``), as the numbers of
protocol buffers are. The numbers inside a record are signed, in zigzag form
(``ByteUtils.writeVarlong``, protocol buffers' ``sint64``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final


def unsigned_varint(number: int) -> bytes:
    """``number``, which is not below 0."""
    if number <= 0x7F:
        return bytes((number,))
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def encode_varint(number: int) -> bytes:
    """``number``, a signed 64-bit integer, in zigzag form: one to ten bytes."""
    rest = ((number << 1) ^ (number >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    return unsigned_varint(rest)


_KEPT: Final = 8192
"""As many numbers as have at most two bytes: most lengths, and the offsets of a usual batch."""

varint = lru_cache(_KEPT)(encode_varint)
""":func:`encode_varint`, which keeps its results: a look-up costs a tenth of the computation."""
