"""Decompression of a batch's records, bounded: no claim of the data decides on memory.

Every format is unpacked in steps that begin small and grow, so that the memory taken follows the
bytes that came out. The libraries release the interpreter lock, so a large batch may be
decompressed in another thread. A library is imported when its compression is met.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from aioproducer.foundation import tuning
from aioproducer.foundation.codecs import codec_library

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor

Unpacked: TypeAlias = bytes | bytearray | memoryview

_USUAL_RATIO: Final = 4
"""The first step is that many times the compressed size, if that is more: usually one will do."""


class DecompressionError(ValueError):
    """The data can't be unpacked. It does not leave ``records``."""


class UnpackedTooLargeError(DecompressionError):
    """The data unpacks to more than the limit."""


def decompress(compression_id: int, data: memoryview, limit: int) -> Unpacked:
    """The bytes that ``data`` unpacks to, at most ``limit``.

    ``compression_id`` is the number in the attributes of a batch; 0 gives ``data`` itself. Raises
    DecompressionError, UnpackedTooLargeError where the limit is passed, and MissingExtraError where
    the library of the compression is not installed.
    """
    if not compression_id:
        return data
    try:
        unpack = _FORMATS[compression_id]
    except KeyError:
        raise DecompressionError(f"the compression {compression_id} is unknown") from None
    return unpack(data, limit)


class _Output:
    """The pieces that were unpacked so far, and the size of the next one."""

    def __init__(self, compressed_size: int, limit: int) -> None:
        self._pieces: list[bytes] = []
        self._limit = self._left = limit
        self._step = max(tuning.DECOMPRESSION_STEP, _USUAL_RATIO * compressed_size)

    @property
    def step(self) -> int:
        """The most bytes of the next piece; one more than the limit shows that there is more."""
        return min(self._step, self._left + 1)

    def add(self, piece: bytes) -> None:
        """Take a piece. Raises UnpackedTooLargeError."""
        self._left -= len(piece)
        if self._left < 0:
            raise _too_large(self._limit)
        self._pieces.append(piece)
        self._step = min(2 * self._step, self._limit + 1)

    def joined(self) -> bytes:
        """All pieces."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


def _too_large(limit: int) -> UnpackedTooLargeError:
    return UnpackedTooLargeError(f"the records decompress to more than {limit} bytes")


def _invalid(name: str, reason: object) -> DecompressionError:
    return DecompressionError(f"the {name} data is invalid: {reason}")


_ENDS_EARLY: Final = "it ends too early"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_MOST_MEMBERS: Final = 1_000


def _gunzip(data: memoryview, limit: int) -> bytes:
    """One member or several; bytes after the last one are ignored, as Java does."""
    output = _Output(len(data), limit)
    position = 0
    for _ in range(_GZIP_MOST_MEMBERS):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            part = data[position : position + tuning.COMPRESSED_SLICE]
            try:
                piece = member.decompress(part, output.step)
            except zlib.error as error:
                raise _invalid("gzip", error) from error
            left = member.unused_data if member.eof else member.unconsumed_tail
            position += len(part) - len(left)
            if piece:
                output.add(piece)
            elif not part:
                raise _invalid("gzip", _ENDS_EARLY)
        if bytes(data[position : position + 2]) != _GZIP_MAGIC:
            return output.joined()
    raise _invalid("gzip", "it has too many members")


_SNAPPY_MAGIC: Final = b"\x82SNAPPY\0"
_SNAPPY_HEADER_SIZE: Final = 16
_SNAPPY_MOST_GROWTH: Final = 32
"""Snappy's shortest instruction for 64 bytes takes 3 bytes: a claim of more is wrong."""


def _unsnappy(data: memoryview, limit: int) -> bytearray:
    """The blocks of the snappy-java library, or one block without their header."""
    cramjam = codec_library("snappy")

    size = 0
    unpacked = bytearray()
    try:
        for block in _snappy_blocks(data):
            claimed = cramjam.snappy.decompress_raw_len(block)
            if claimed > _SNAPPY_MOST_GROWTH * len(block):
                raise _invalid("snappy", f"{len(block)} bytes can't decompress to {claimed}")
            size += claimed
            if size > limit:
                raise _too_large(limit)
        unpacked = bytearray(size)
        free = memoryview(unpacked)
        for block in _snappy_blocks(data):
            free = free[cramjam.snappy.decompress_raw_into(block, free) :]
    except cramjam.DecompressionError as error:
        raise _invalid("snappy", error) from error
    return unpacked


def _snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    if bytes(data[: len(_SNAPPY_MAGIC)]) != _SNAPPY_MAGIC:
        yield data
        return
    end = _SNAPPY_HEADER_SIZE
    while end < len(data):
        begin = end + 4
        end = begin + int.from_bytes(data[begin - 4 : begin], "big")
        if end > len(data) or begin == end:
            raise _invalid("snappy", "a block is empty or longer than the data")
        yield data[begin:end]


def _unlz4(data: memoryview, limit: int) -> bytes:
    """One frame; bytes after it are ignored, as Java does."""
    lz4 = codec_library("lz4")
    output = _Output(len(data), limit)
    context = lz4.create_decompression_context()
    position, is_whole = 0, False
    try:
        while not is_whole:
            part = data[position : position + tuning.COMPRESSED_SLICE]
            piece, size, is_whole = lz4.decompress_chunk(context, part, max_length=output.step)
            position += size
            if piece:
                output.add(piece)
            elif not part:
                raise _invalid("lz4", _ENDS_EARLY)
    except RuntimeError as error:  # the library has no error of its own
        raise _invalid("lz4", error) from error
    return output.joined()


_ZSTD_KEPT_WINDOW: Final = 8 * 1024 * 1024
"""A decompressor keeps its window's memory. Level 19 and lower need no larger one."""


def _unzstd(data: memoryview, limit: int) -> bytes:
    """One frame or several. The library does not tell a frame that ends early from a whole one."""
    zstandard = codec_library("zstd")
    try:
        decompressor = _kept_zstd.pop()  # so no other thread has it
    except IndexError:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_KEPT_WINDOW)
    try:
        try:
            return _unzstd_with(decompressor, data, limit)
        except zstandard.ZstdError:
            return _unzstd_with(zstandard.ZstdDecompressor(), data, limit)
    except zstandard.ZstdError as error:
        raise _invalid("zstd", error) from error
    finally:
        _kept_zstd.append(decompressor)


def _unzstd_with(decompressor: ZstdDecompressor, data: memoryview, limit: int) -> bytes:
    output = _Output(len(data), limit)
    reader = decompressor.stream_reader(data, read_across_frames=True)
    while piece := reader.read(output.step):
        output.add(piece)
    return output.joined()


_kept_zstd: Final[list[ZstdDecompressor]] = []
"""Decompressors for further batches: making one takes as long as unpacking 16 KiB."""

_FORMATS: Final[dict[int, Callable[[memoryview, int], Unpacked]]] = {
    1: _gunzip,
    2: _unsnappy,
    3: _unlz4,
    4: _unzstd,
}
