"""LZ4's frames around blocks, as every Kafka client writes and reads them.

A frame of ours has independent blocks of 64 KiB, and no checksums and no size of its content: the
checksum of the batch covers all of it. Source: the LZ4 Frame Format, 1.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = [
    "BLOCK_SIZE",
    "END",
    "HEADER",
    "Block",
    "FrameError",
    "blocks_in",
    "framed_block",
    "only_block",
]

BLOCK_SIZE: Final = 64 * 1024
_MAGIC: Final = b"\x04\x22\x4d\x18"
HEADER: Final = _MAGIC + b"\x60\x40\x82"
"""Version 1 and independent blocks, of 64 KiB at most, and the checksum of these two bytes."""
END: Final = bytes(4)

_STORED: Final = 1 << 31
"""In the size of a block: its data is not compressed."""
_VERSION: Final = 0b01
_INDEPENDENT: Final = 1 << 5
_BLOCK_CHECKSUMS: Final = 1 << 4
_CONTENT_SIZE: Final = 1 << 3
_DICTIONARY: Final = 1 << 0
_BLOCK_SIZES: Final = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
_MOST_GROWTH: Final = 255
"""A byte of a block adds at most as many to a match."""


class FrameError(ValueError):
    """The data is no frame that Kafka's clients read. It does not leave ``records``."""


class Block(NamedTuple):
    """A block of a frame."""

    data: memoryview
    is_stored: bool
    """True: the data is not compressed."""
    largest: int
    """The most bytes that the data may unpack to."""


def framed_block(plain: memoryview, packed: memoryview) -> tuple[bytes, memoryview]:
    """The size of a block and its data: ``packed``, or ``plain`` if that is not longer."""
    if len(packed) < len(plain):
        return len(packed).to_bytes(4, "little"), packed
    return (len(plain) | _STORED).to_bytes(4, "little"), plain


def only_block(frame: memoryview) -> memoryview:
    """The data of the first block of a frame without the size of its content."""
    begin = 7 + 4
    return frame[begin : begin + (_number(frame, begin - 4) & ~_STORED)]


def blocks_in(data: memoryview) -> Iterator[Block]:
    """The blocks of one frame; bytes after it are ignored, as Java does.

    Raises FrameError for data that is no frame, or ends early, and for blocks that refer to earlier
    ones, which no client of Kafka writes and Java refuses.
    """
    if bytes(data[:4]) != _MAGIC:
        raise FrameError("it does not begin as a frame does")
    flags, descriptor = _byte(data, 4), _byte(data, 5)
    largest = _BLOCK_SIZES.get(descriptor >> 4 & 0x7)
    if flags >> 6 != _VERSION or largest is None:
        raise FrameError("its header is of no version that is known")
    if flags & _DICTIONARY or not flags & _INDEPENDENT:
        raise FrameError("its blocks depend on others")
    position = 7 + (8 if flags & _CONTENT_SIZE else 0)
    checksum = 4 if flags & _BLOCK_CHECKSUMS else 0
    while size := _number(data, position):
        begin, size, is_stored = position + 4, size & ~_STORED, size >= _STORED
        position = begin + size + checksum
        if size > largest:
            raise FrameError("a block is larger than the header allows")
        if position > len(data):
            raise FrameError("it ends too early")
        yield Block(data[begin : begin + size], is_stored, min(largest, _MOST_GROWTH * size))


def _byte(data: memoryview, position: int) -> int:
    if position >= len(data):
        raise FrameError("it ends too early")
    return data[position]


def _number(data: memoryview, position: int) -> int:
    if position + 4 > len(data):
        raise FrameError("it ends too early")
    return int.from_bytes(data[position : position + 4], "little")
