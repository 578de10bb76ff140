"""Every form of the four compressions is unpacked, and never beyond the limit."""

from __future__ import annotations

import contextlib
import gzip
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Final

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis.strategies import binary, integers

from aioproducer.engine.records import encoded_batch
from aioproducer.engine.records.compression import compression
from aioproducer.engine.records.encoded_batch import DecompressionError, decompress

pytestmark = pytest.mark.any_form

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
NAMES: Final = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
TEXT: Final = b"".join(b"flight %d was late\n" % number for number in range(20_000))
NOISE: Final = Random(7).randbytes(300_000)
ZEROS: Final = bytes(3_000_000)
PAYLOADS: Final = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"x", id="one byte"),
    pytest.param(TEXT, id="text"),
    pytest.param(NOISE, id="noise"),
    pytest.param(ZEROS, id="zeros"),
]
SNAPPY_HEADER: Final = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"


def written(number: int, payload: bytes) -> bytes:
    made = compression(NAMES[number])
    assert made is not None
    return made.compress(memoryview(payload))


def unpacked(number: int, data: bytes, limit: int = 2**26) -> bytes:
    return bytes(decompress(number, memoryview(data), limit))


def refused(number: int, data: bytes, limit: int = 2**26) -> str:
    with pytest.raises(DecompressionError) as caught:
        decompress(number, memoryview(data), limit)
    return str(caught.value)


def zstd_stream(payload: bytes, level: int = 3) -> bytes:
    """A frame without its content's size, as Java's producer writes it."""
    stream = zstandard.ZstdCompressor(level=level).compressobj()
    return stream.compress(payload) + stream.flush()


def raw_snappy(payload: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(payload))


def blocks(*payloads: bytes) -> bytes:
    packed = [raw_snappy(payload) for payload in payloads]
    return SNAPPY_HEADER + b"".join(len(each).to_bytes(4, "big") + each for each in packed)


# --- the formats -------------------------------------------------------------------------------


def test_what_is_not_compressed_is_itself() -> None:
    data = memoryview(TEXT)
    assert decompress(0, data, 5) is data


@pytest.mark.parametrize("number", NAMES)
@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_this_project_writes(number: int, payload: bytes) -> None:
    data = written(number, payload)
    assert unpacked(number, data) == payload
    assert unpacked(number, data, len(payload)) == payload


@pytest.mark.parametrize("number", NAMES)
def test_any_memory_is_read(number: int) -> None:
    data = bytearray(b"##") + written(number, TEXT) + b""
    assert decompress(number, memoryview(data)[2:], 2**26) == TEXT


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_compressions(number: int) -> None:
    assert refused(number, b"x") == f"the compression {number} is unknown"


def test_gzip_members() -> None:
    assert unpacked(GZIP, gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(b"x")) == (
        TEXT + b"x"
    )


def test_bytes_behind_gzip_are_ignored_as_java_does() -> None:
    assert unpacked(GZIP, gzip.compress(TEXT) + b"behind") == TEXT


def test_a_gzip_header_with_all_its_fields() -> None:
    packed = zlib.compressobj(wbits=-15)
    body = packed.compress(TEXT) + packed.flush()
    header = b"\x1f\x8b\x08\x1c" + bytes(4) + b"\0\xff\2\0ab" + b"name\0" + b"comment\0"
    end = zlib.crc32(TEXT).to_bytes(4, "little") + len(TEXT).to_bytes(4, "little")
    assert unpacked(GZIP, header + body + end) == TEXT


def test_raw_snappy_as_librdkafka_takes_it() -> None:
    assert unpacked(SNAPPY, raw_snappy(TEXT)) == TEXT
    assert unpacked(SNAPPY, raw_snappy(b"")) == b""


def test_snappy_blocks() -> None:
    assert unpacked(SNAPPY, blocks()) == b""
    assert unpacked(SNAPPY, blocks(TEXT, b"", NOISE)) == TEXT + NOISE
    old = b"\x82SNAPPY\0" + b"\0\0\0\0" * 2 + blocks(TEXT)[16:]
    assert unpacked(SNAPPY, old) == TEXT


@pytest.mark.parametrize("store_size", [True, False])
@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_lz4_frames(store_size: bool, checksums: bool, block_size: int) -> None:
    for payload in (b"", TEXT, NOISE, ZEROS):
        frame = lz4.frame.compress(
            payload,
            block_linked=False,
            store_size=store_size,
            content_checksum=checksums,
            block_checksum=checksums,
            block_size=block_size,
        )
        assert unpacked(LZ4, frame) == payload


def test_linked_blocks_of_lz4_are_read_as_librdkafka_does() -> None:
    assert unpacked(LZ4, lz4.frame.compress(TEXT, block_linked=True)) == TEXT


@pytest.mark.parametrize("damaged", [5, 6, 100, -1])
def test_checksums_of_lz4_are_checked(damaged: int) -> None:
    """Of the header, a block and the content."""
    frame = bytearray(lz4.frame.compress(NOISE, block_checksum=True, content_checksum=True))
    frame[damaged] ^= 1
    assert refused(LZ4, bytes(frame)).startswith("the lz4 data is invalid: ")


@settings(max_examples=150)
@given(binary(min_size=1, max_size=64), integers(1, 3_000), integers(0, 2**32))
def test_lz4_frames_of_both_libraries_are_the_same_to_each(
    piece: bytes, times: int, seed: int
) -> None:
    payload = piece * times + Random(seed).randbytes(seed % 300)
    assert lz4.frame.decompress(written(LZ4, payload)) == payload
    assert unpacked(LZ4, lz4.frame.compress(payload, block_linked=False)) == payload


@settings(max_examples=250)
@given(binary(max_size=400), integers(0, 2**32))
def test_damaged_lz4_frames_are_read_within_the_limit_or_refused(payload: bytes, seed: int) -> None:
    random = Random(seed)
    frame = bytearray(written(LZ4, payload * 9))
    for _ in range(random.randrange(1, 5)):
        frame[random.randrange(len(frame))] = random.randrange(256)
    frame[:4] = b"\x04\x22\x4d\x18"
    with contextlib.suppress(DecompressionError):
        assert len(unpacked(LZ4, bytes(frame), 4_000)) <= 4_000


def test_bytes_behind_an_lz4_frame_are_ignored_as_java_does() -> None:
    assert unpacked(LZ4, written(LZ4, TEXT) + b"behind") == TEXT


@pytest.mark.parametrize("level", [-50, 1, 19, 22])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_zstd_frames_without_the_content_size(level: int, payload: bytes) -> None:
    """Level 22 writes a window of 128 MiB."""
    assert unpacked(ZSTD, zstd_stream(payload, level)) == payload


def test_zstd_frames_with_a_checksum_one_behind_another() -> None:
    parameters = zstandard.ZstdCompressionParameters(write_checksum=True)
    frame = zstandard.ZstdCompressor(compression_params=parameters).compress(TEXT)
    skipped = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert unpacked(ZSTD, frame + skipped + zstd_stream(b"x") + frame) == TEXT + b"x" + TEXT


@pytest.mark.parametrize("number", NAMES)
def test_several_threads_at_once(number: int) -> None:
    payloads = [TEXT[start:] for start in range(0, 40_000, 1_000)]
    with ThreadPoolExecutor(4) as pool:
        packed = list(pool.map(lambda payload: written(number, payload), payloads))
        assert list(pool.map(lambda data: unpacked(number, data), packed)) == payloads


# --- damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", NAMES)
def test_noise_is_refused(number: int) -> None:
    assert refused(number, NOISE[:1_000]).startswith(f"the {NAMES[number]} data is invalid: ")


@pytest.mark.parametrize("number", [GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("size", [0, 1, 5, 19, -1])
def test_data_that_ends_early(number: int, size: int) -> None:
    assert "data is invalid: " in refused(number, written(number, TEXT)[:size])


@pytest.mark.parametrize("size", [0, 1, 5, 100, -1])
def test_a_zstd_frame_that_ends_early_gives_less(size: int) -> None:
    """The library does not tell; then there are fewer records than the batch has."""
    found = unpacked(ZSTD, written(ZSTD, TEXT)[:size])
    assert len(found) < len(TEXT)
    assert TEXT.startswith(found)


def test_a_kept_decompressor_is_none_the_worse_for_damage() -> None:
    data = written(ZSTD, TEXT)
    for size in range(0, len(data), 997):
        unpacked(ZSTD, data[:size])
        refused(ZSTD, data[:size] + b"\xff" * 60 + data[size:])
        assert unpacked(ZSTD, data) == TEXT


@pytest.mark.parametrize("length", [0, 100, 2**31, 2**32 - 1])
def test_impossible_blocks_of_snappy(length: int) -> None:
    data = SNAPPY_HEADER + length.to_bytes(4, "big") + raw_snappy(b"x")
    assert refused(SNAPPY, data) == (
        "the snappy data is invalid: a block is empty or longer than the data"
    )


# --- bombs -------------------------------------------------------------------------------------

TOO_LARGE: Final = "the records decompress to more than {} bytes"


@pytest.mark.parametrize("number", NAMES)
@pytest.mark.parametrize("limit", [0, 1, 65_535, 65_536, len(TEXT) - 1])
def test_the_limit_is_exact(number: int, limit: int) -> None:
    assert refused(number, written(number, TEXT), limit) == TOO_LARGE.format(limit)


@pytest.mark.parametrize("limit", [0, 1_000, len(TEXT)])
def test_the_limit_is_of_all_frames_together(limit: int) -> None:
    too_large = TOO_LARGE.format(limit)
    assert refused(GZIP, gzip.compress(TEXT) * 2, limit) == too_large
    assert refused(SNAPPY, blocks(TEXT, TEXT), limit) == too_large
    assert refused(ZSTD, zstd_stream(TEXT) * 2, limit) == too_large


def claimed_by_snappy(size: int) -> bytes:
    number = bytearray()
    while size > 0x7F:
        number.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(number) + bytes([size]) + b"\0x"


def claimed_by_zstd(size: int) -> bytes:
    """A frame of one segment that claims its content's size; its block has one byte."""
    return b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + b"\x09\0\0x"


def claimed_by_lz4(size: int) -> bytes:
    header = lz4.frame.LZ4FrameCompressor(block_linked=False).begin(size)
    return bytes(header) + b"\1\0\0\x80x" + bytes(4)


def takes_less_than(size: int, attempt: Callable[[], object]) -> bool:
    """The most memory of Python's at one time is less; other threads may take some now and then."""

    def most() -> int:
        tracemalloc.start()
        try:
            attempt()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return any(most() < size for _ in range(3))


@pytest.mark.parametrize("size", [2**27, 2**30, 2**32 - 1])
@pytest.mark.parametrize("framed", [True, False])
def test_a_size_that_snappy_claims_takes_no_memory(size: int, framed: bool) -> None:
    data = claimed_by_snappy(size)
    if framed:
        data = SNAPPY_HEADER + len(data).to_bytes(4, "big") + data
    assert takes_less_than(1_000_000, lambda: refused(SNAPPY, data, 2**40))


@pytest.mark.parametrize("size", [2**20, 2**30, 2**63])
def test_a_size_that_zstd_claims_takes_no_memory(size: int) -> None:
    data = claimed_by_zstd(size)
    assert takes_less_than(1_000_000, lambda: refused(ZSTD, data, 2**40))


@pytest.mark.parametrize("size", [2**30, 2**63])
def test_a_size_that_lz4_claims_takes_no_memory(size: int) -> None:
    data = claimed_by_lz4(size)
    assert takes_less_than(1_000_000, lambda: refused(LZ4, data, 2**40))


@pytest.mark.parametrize("size", [1, 100, 16_000])
def test_a_block_size_that_lz4_claims_takes_no_memory(size: int) -> None:
    """The largest block has 4 MiB."""
    data = b"\x04\x22\x4d\x18\x60\x70\x73" + size.to_bytes(4, "little") + bytes(size)
    assert takes_less_than(300 * size + 100_000, lambda: refused(LZ4, data, 2**40))


BOMB: Final = """
import sys, zlib, zstandard, cramjam, resource
from lz4 import frame
from aioproducer.engine.records.encoded_batch import DecompressionError, decompress

MIB = bytes(2**20)
packer = {
    1: lambda: zlib.compressobj(9, wbits=31),
    3: lambda: Lz4(),
    4: lambda: zstandard.ZstdCompressor().compressobj(),
}

class Lz4(frame.LZ4FrameCompressor):
    def __init__(self):
        super().__init__(block_linked=False)
        self.start = self.begin()
    def compress(self, data):
        start, self.start = self.start, b""
        return start + super().compress(data)

def bomb(number, mib):
    if number == 2:
        block = bytes(cramjam.snappy.compress_raw(MIB))
        block = len(block).to_bytes(4, "big") + block
        return b"\\x82SNAPPY\\0\\0\\0\\0\\1\\0\\0\\0\\1" + block * mib
    made = packer[number]()
    return b"".join(made.compress(MIB) for _ in range(mib)) + made.flush()

number = int(sys.argv[1])
assert len(decompress(number, memoryview(bomb(number, 1)), 2**20)) == 2**20
data = bomb(number, 1024)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(number, memoryview(data), 2 * 2**20)
except DecompressionError as error:
    assert "more than 2097152 bytes" in str(error)
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(len(data), taken // 1024)
"""


@pytest.mark.parametrize("number", NAMES)
def test_a_gigabyte_that_was_compressed_takes_no_memory(number: int) -> None:
    """All memory of the process counts, that of the libraries as well."""
    ended = subprocess.run(
        [sys.executable, "-c", BOMB, str(number)], capture_output=True, text=True, check=True
    )
    size, mib = map(int, ended.stdout.split())
    assert size < 64 * 2**20
    assert mib < 16 + 4 * size // 2**20


def test_many_empty_members_are_refused() -> None:
    assert refused(GZIP, gzip.compress(b"") * 100_000) == (
        "the gzip data is invalid: it has too many members"
    )


def test_many_empty_blocks_and_frames_take_no_memory() -> None:
    empty = blocks(b"")[16:]
    data = SNAPPY_HEADER + empty * 100_000
    assert takes_less_than(1_000_000, lambda: unpacked(SNAPPY, data))
    frames = zstd_stream(b"") * 100_000
    assert takes_less_than(20_000_000, lambda: unpacked(ZSTD, frames))


# --- many small parts --------------------------------------------------------------------------


def tiny_parts(number: int, count: int) -> bytes:
    """``count`` parts of two bytes each, with whatever separates parts in this compression."""
    match NAMES[number]:
        case "gzip":
            packed = zlib.compressobj(wbits=31)
            return b"".join(
                packed.compress(b"xy") + packed.flush(zlib.Z_FULL_FLUSH) for _ in range(count)
            ) + (packed.flush())
        case "snappy":
            return SNAPPY_HEADER + blocks(b"xy")[len(SNAPPY_HEADER) :] * count
        case "lz4":
            return written(LZ4, b"")[:7] + b"\2\0\0\x80xy" * count + bytes(4)
    return zstd_stream(b"xy") * count


@pytest.mark.parametrize("number", NAMES)
def test_tiny_parts_take_no_longer_than_their_bytes(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls of a library are few, and the numbers that are counted with stay small."""
    steps: list[int] = []

    class CountedOutput(encoded_batch._Output):
        @property
        def step(self) -> int:
            steps.append(super().step)
            return steps[-1]

    monkeypatch.setattr(encoded_batch, "_Output", CountedOutput)
    count = 20_000
    data = tiny_parts(number, count)
    assert unpacked(number, data, 10_000_000) == b"xy" * count
    assert len(steps) <= (count if number == ZSTD else 20)
    assert max(steps, default=0) <= 10_000_001
