"""The frames around compressed records: what Kafka's readers demand of them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import aiokafka.codec  # type: ignore[import-untyped]
import cramjam
import kafka.codec  # type: ignore[import-untyped]
import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard

from aioproducer.engine.records.compression import Compression, compression

TEXT = b"".join(b"flight %d was late\n" % number for number in range(8_000))
NOISE = Random(7).randbytes(100_000)
PAYLOADS = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"x", id="one byte"),
    pytest.param(TEXT, id="text"),
    pytest.param(NOISE, id="noise"),
    pytest.param(TEXT[: 32 * 1024], id="one block of snappy"),
    pytest.param(TEXT[: 32 * 1024 + 1], id="a byte over one block of snappy"),
    pytest.param(TEXT[: 64 * 1024 + 1], id="a byte over one block of lz4"),
]


def codec(name: str, level: int | None = None) -> Compression:
    made = compression(name, level=level)
    assert made is not None
    return made


def test_no_compression_is_none() -> None:
    assert compression("none") is None
    assert compression("none", level=3) is None


@pytest.mark.parametrize(("name", "number"), [("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)])
def test_the_numbers_are_kafkas(name: str, number: int) -> None:
    assert (codec(name).name, codec(name).id) == (name, number)


@pytest.mark.parametrize("client", [aiokafka.codec, kafka.codec], ids=["aiokafka", "kafka-python"])
@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("gzip", None),
        ("gzip", 1),
        ("gzip", 9),
        ("snappy", None),
        ("lz4", None),
        ("lz4", 1),
        ("lz4", 17),
        ("zstd", None),
        ("zstd", -131_072),
    ],
)
@pytest.mark.parametrize("payload", PAYLOADS[1:])
def test_the_other_clients_decompress_it(
    client: Any, name: str, level: int | None, payload: bytes
) -> None:
    decode: Callable[[bytes], bytes] = getattr(client, f"{name}_decode")
    assert decode(codec(name, level).compress(memoryview(payload))) == payload


@pytest.mark.parametrize("level", [None, *range(1, 18)])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_lz4_blocks_are_independent_and_the_frame_says_no_content_size(
    level: int | None, payload: bytes
) -> None:
    data = codec("lz4", level).compress(memoryview(payload))
    assert data[:4] == b"\x04\x22\x4d\x18"
    # version 01, independent blocks, no block checksum, no content size or checksum, no dictionary
    assert data[4] == 0b0110_0000
    assert data[5] == 0x40  # blocks of 64 KiB
    assert data.endswith(bytes(4))
    info = lz4.frame.get_frame_info(data)
    assert not info["block_linked"]
    assert info["content_size"] == 0


def test_lz4_9_is_the_fast_compressor_and_the_others_are_the_high_one() -> None:
    payload = memoryview(TEXT)
    fast = len(codec("lz4", 9).compress(payload))
    assert len(codec("lz4").compress(payload)) == fast
    high = [len(codec("lz4", level).compress(payload)) for level in (1, 8, 10, 17)]
    assert max(high) < fast
    assert high == sorted(high, reverse=True)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_snappy_is_framed_as_snappy_java_does_it(payload: bytes) -> None:
    data = codec("snappy").compress(memoryview(payload))
    assert data[:16] == bytes.fromhex("82534e41505059000000000100000001")
    blocks, rest = [], data[16:]
    while rest:
        size = int.from_bytes(rest[:4], "big")
        blocks.append(bytes(cramjam.snappy.decompress_raw(rest[4 : 4 + size])))
        rest = rest[4 + size :]
    assert b"".join(blocks) == payload
    assert all(len(block) == 32 * 1024 for block in blocks[:-1])
    assert all(0 < len(block) <= 32 * 1024 for block in blocks[-1:])


@pytest.mark.parametrize("level", [None, -1, 1, 6, 9])
def test_gzip_has_a_gzip_header_and_its_level(level: int | None) -> None:
    data = codec("gzip", level).compress(memoryview(TEXT))
    assert gzip.decompress(data) == TEXT
    wanted = zlib.compressobj(-1 if level is None else level, wbits=31)
    assert data == wanted.compress(TEXT) + wanted.flush()


@pytest.mark.parametrize(("level", "same"), [(None, 3), (-131_072, -131_072), (1, 1), (12, 12)])
def test_zstd_has_its_level(level: int | None, same: int) -> None:
    data = codec("zstd", level).compress(memoryview(TEXT))
    assert data == zstandard.ZstdCompressor(level=same).compress(TEXT)


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("writable", [True, False])
def test_any_memory_can_be_compressed(name: str, writable: bool) -> None:
    memory = memoryview(bytearray(TEXT) if writable else TEXT)[61:5_000]
    decode: Callable[[bytes], bytes] = getattr(aiokafka.codec, f"{name}_decode")
    assert decode(codec(name).compress(memory)) == TEXT[61:5_000]
