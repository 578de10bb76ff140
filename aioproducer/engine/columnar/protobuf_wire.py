"""The wire format of Protocol Buffers.

Source: "Encoding", https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from enum import IntEnum

from aioproducer.foundation.varint import unsigned_varint


class WireType(IntEnum):
    """The form of the bytes after a tag."""

    VARINT = 0
    EIGHT_BYTES = 1
    SIZED = 2
    FOUR_BYTES = 5


def varint(number: int) -> bytes:
    """A number of 64 bits; a negative one has ten bytes."""
    return unsigned_varint(number & 0xFFFF_FFFF_FFFF_FFFF)


def tag(number: int, wire_type: WireType) -> bytes:
    """The number of a field and the form of its value."""
    return varint(number << 3 | wire_type)


def sized(data: bytes) -> bytes:
    """``data`` with its size before it."""
    return varint(len(data)) + data
