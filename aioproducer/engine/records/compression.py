"""The four compressions of a batch, each written as Kafka's readers expect it, and their ratios.

The libraries release the interpreter lock, so a large payload may be compressed in another thread.
A library is imported when its compression is chosen. The ratios of each topic are learnt from the
batches that were sealed; source: Kafka's ``CompressionRatioEstimator``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from aioproducer.foundation.codecs import codec_library

if TYPE_CHECKING:
    from zstandard import ZstdCompressor

    from aioproducer.config import ProducerConfig


class Compression(NamedTuple):
    """A compression with its level chosen."""

    name: str
    id: int
    """The number of the compression in the attributes of a batch."""
    compress: Callable[[memoryview], bytes]


def compression(name: str, *, level: int | None = None) -> Compression | None:
    """The compression that ``compression_type`` names, or None for ``"none"``.

    ``level``: as in Kafka's ``compression.<name>.level``; None is Kafka's default. Raises
    MissingExtraError if the library of the compression is not installed.
    """
    if name == "none":
        return None
    number, make, default_level = _COMPRESSIONS[name]
    return Compression(name, number, make(default_level if level is None else level))


def configured_compression(config: ProducerConfig) -> Compression | None:
    """The compression and level of ``config``; raises as :func:`compression`."""
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return compression(config.compression_type, level=levels.get(config.compression_type))


def _gzip(level: int) -> Callable[[memoryview], bytes]:
    def compress(data: memoryview) -> bytes:
        compressor = zlib.compressobj(level, wbits=31)
        return compressor.compress(data) + compressor.flush()

    return compress


_SNAPPY_BLOCK: Final = 32 * 1024
_SNAPPY_HEADER: Final = b"\x82SNAPPY\0" + b"\0\0\0\1" * 2


def _snappy(_level: int) -> Callable[[memoryview], bytes]:
    """Blocks after a header of the snappy-java library: the format that Kafka reads."""
    snappy = codec_library("snappy").snappy

    def compress(data: memoryview) -> bytes:
        parts = [_SNAPPY_HEADER]
        for start in range(0, len(data), _SNAPPY_BLOCK):
            block = bytes(snappy.compress_raw(data[start : start + _SNAPPY_BLOCK]))
            parts += (len(block).to_bytes(4, "big"), block)
        return b"".join(parts)

    return compress


_LZ4_DEFAULT_LEVEL: Final = 9
_LZ4_HIGH_LEVELS: Final = (3, 9)
"""The least and the highest of LZ4's levels in use; higher ones take ten times as long for 3 %."""


def _lz4(level: int) -> Callable[[memoryview], bytes]:
    """Independent blocks of 64 KiB, no content size: the format that every Kafka client reads.

    Kafka's default level 9 means LZ4's fast compressor; other levels mean its high compressor.
    """
    frame = codec_library("lz4")
    least, highest = _LZ4_HIGH_LEVELS
    return partial(
        frame.compress,
        compression_level=0 if level == _LZ4_DEFAULT_LEVEL else min(max(level, least), highest),
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )


def _zstd(level: int) -> Callable[[memoryview], bytes]:
    """Keeps compressors: making one takes as long as compressing a few kilobytes."""
    zstandard = codec_library("zstd")
    free: list[ZstdCompressor] = []

    def compress(data: memoryview) -> bytes:
        try:
            compressor = free.pop()  # so no other thread has it
        except IndexError:
            compressor = zstandard.ZstdCompressor(level=level)
        try:
            return compressor.compress(data)
        finally:
            free.append(compressor)

    return compress


_COMPRESSIONS: Final[dict[str, tuple[int, Callable[[int], Callable[[memoryview], bytes]], int]]] = {
    "gzip": (1, _gzip, zlib.Z_DEFAULT_COMPRESSION),
    "snappy": (2, _snappy, 0),
    "lz4": (3, _lz4, _LZ4_DEFAULT_LEVEL),
    "zstd": (4, _zstd, 3),
}


_IMPROVING_STEP: Final = 0.005
_DETERIORATING_STEP: Final = 0.05
_SAFETY_FACTOR: Final = 1.05


class CompressionRatios:
    """Estimates per topic: compressed size divided by uncompressed size, at first 1.

    An estimate gets better slowly and worse fast, so that batches seldom come out too large.
    """

    def __init__(self) -> None:
        self._ratios: dict[str, float] = {}

    def estimate(self, topic: str) -> float:
        """The expected ratio with a margin for error."""
        return self._ratios.get(topic, 1.0) * _SAFETY_FACTOR

    def observe(self, topic: str, ratio: float) -> None:
        """Learn from a batch that was compressed to ``ratio`` of its size."""
        known = self._ratios.get(topic, 1.0)
        if ratio > known:
            self._ratios[topic] = max(known + _DETERIORATING_STEP, ratio)
        else:
            self._ratios[topic] = max(known - _IMPROVING_STEP, ratio)

    def reset(self, topic: str, ratio: float = 1.0) -> None:
        """Take ``ratio`` as the estimate, after a batch came out too large."""
        self._ratios[topic] = max(ratio, 1.0)

    def forget(self, topic: str) -> None:
        """Drop the estimate of a topic that is no longer written to."""
        self._ratios.pop(topic, None)
