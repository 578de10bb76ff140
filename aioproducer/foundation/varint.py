"""Unsigned variable-length integers: seven bits in a byte, the lowest first.

Kafka's lengths and tags have this form (``ByteUtils.writeUnsignedVarint``), and so have the numbers
of protocol buffers.
"""

from __future__ import annotations


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
