"""Batches and frames that this project wrote, read by programs that share no code with it."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, NamedTuple

import aiokafka.codec  # type: ignore[import-untyped]
import cramjam
import kafka.codec  # type: ignore[import-untyped]
import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard
from aiokafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatchBuilder as AiokafkaBuilder,
)
from aiokafka.record.memory_records import (  # type: ignore[import-untyped]
    MemoryRecords as AiokafkaRecords,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords as KafkaPythonRecords  # type: ignore[import-untyped]
from kafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatchBuilder as KafkaPythonBuilder,
)
from kio.records.readers import read_batch

from aioproducer.engine.records.acceleration import RecordsBuilder
from aioproducer.engine.records.batch_header import BATCH_OVERHEAD
from aioproducer.engine.records.builder import (
    NO_PRODUCER_STATE,
    SMALL_BATCH,
    ProducerState,
    batch_size_bound,
    compress_records,
    frame_batch,
)
from aioproducer.engine.records.compression import Compression, compression
from aioproducer.model import Header

NOW = 1_700_000_000_000
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TRANSACTIONAL = 0x10
NO_LEADER_EPOCH = b"\xff\xff\xff\xff"


class Rec(NamedTuple):
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class ReadRecord(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class Batch(NamedTuple):
    """The fields of a batch as they stand in its header, and its records."""

    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: list[ReadRecord]


def encode(
    sent: Sequence[Rec],
    codec: str = "none",
    level: int | None = None,
    state: ProducerState = NO_PRODUCER_STATE,
) -> bytes:
    """The batch of ``sent``, written into a buffer that was used before."""
    size = sum(batch_size_bound(each.key, each.value, each.headers) for each in sent)
    builder = RecordsBuilder(bytearray(b"\xa5") * size, size)
    for each in sent:
        assert builder.append(None, each.timestamp_ms, each.key, each.value, each.headers)
    codec_used = compression(codec, level=level)
    return bytes(frame_batch(builder, state, codec_used, compress_records(builder, codec_used)))


def expected(sent: Sequence[Rec], codec: str, state: ProducerState) -> Batch:
    return Batch(
        CODECS[codec] | (TRANSACTIONAL if state.transactional else 0),
        len(sent) - 1,
        sent[0].timestamp_ms,
        max(each.timestamp_ms for each in sent),
        state.producer_id,
        state.producer_epoch,
        state.base_sequence,
        [ReadRecord(offset, *each) for offset, each in enumerate(sent)],
    )


# --- the readers -------------------------------------------------------------------------------


def read_with_aiokafka(data: bytes) -> Batch:
    return _read(AiokafkaRecords(data))


def read_with_kafka_python(data: bytes) -> Batch:
    return _read(KafkaPythonRecords(data))


def _read(memory: Any) -> Batch:
    batch = memory.next_batch()
    assert not memory.has_next()
    assert batch.magic == 2
    assert batch.base_offset == 0
    assert batch.timestamp_type == 0
    assert not batch.is_control_batch
    assert batch.validate_crc()
    fields = (
        batch.attributes,
        batch.last_offset_delta,
        batch.first_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
    )
    records = [
        ReadRecord(each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
        for each in batch
    ]
    return Batch(*fields, records)


def check_with_kio(data: bytes, sent: Sequence[Rec], state: ProducerState) -> None:
    """kio reads what is not compressed; timestamps of records to the second."""
    batch, size = read_batch(data, 0)
    assert size == len(data)
    assert batch.partition_leader_epoch == -1
    wanted = expected(sent, "none", state)
    assert wanted[:-1] == (
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
    )
    assert wanted.records == [
        ReadRecord(
            each.offset,
            record.timestamp_ms,
            each.key,
            each.value,
            tuple(((header.key or b"").decode(), header.value) for header in each.headers),
        )
        for each, record in zip(batch.records, sent, strict=True)
    ]
    assert [each.timestamp for each in batch.records] == [
        datetime.fromtimestamp(record.timestamp_ms // 1000, UTC) for record in sent
    ]


READERS = [read_with_aiokafka, read_with_kafka_python]
reader = pytest.mark.parametrize("read", READERS, ids=["aiokafka", "kafka-python"])


# --- round trips -------------------------------------------------------------------------------

few_bytes = st.none() | st.sampled_from([b"", b"k", b"x" * 64, b"y" * 9_000]) | st.binary()
any_timestamp = st.integers(0, 2**63 - 1)
near_timestamp = st.sampled_from([NOW, NOW, NOW, NOW + 1, NOW - 64, NOW - 65, NOW + 1_000_000])
header = st.tuples(
    st.sampled_from(["", "trace", "trace", "größe", "鍵", "\U0001f511", "n" * 100]) | st.text(),
    st.none() | st.sampled_from([b"", b"\xff" * 70]) | st.binary(),
)
headers = st.just(()) | st.lists(header, max_size=4).map(tuple)


def batches(timestamps: st.SearchStrategy[int]) -> st.SearchStrategy[list[Rec]]:
    """Runs of equal records, broken by others: both ways through the builder, and back."""
    record = st.builds(Rec, timestamps, few_bytes, few_bytes, headers)
    run = st.tuples(record, st.sampled_from([1, 1, 2, 3, 4, 70]))
    return st.lists(run, min_size=1, max_size=8).map(
        lambda groups: [each for each, times in groups for _ in range(times)]
    )


states = st.just(NO_PRODUCER_STATE) | st.builds(
    ProducerState,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(0, 2**31 - 1),
    st.booleans(),
)


@reader
@given(
    sent=batches(near_timestamp) | batches(any_timestamp),
    codec=st.sampled_from(list(CODECS)),
    state=states,
)
@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
def test_others_read_what_was_sent(
    read: Callable[[bytes], Batch], sent: list[Rec], codec: str, state: ProducerState
) -> None:
    assert read(encode(sent, codec, state=state)) == expected(sent, codec, state)


@given(sent=batches(near_timestamp), state=states)
@settings(max_examples=60)
def test_kio_reads_what_was_sent(sent: list[Rec], state: ProducerState) -> None:
    check_with_kio(encode(sent, state=state), sent, state)


@given(sent=batches(near_timestamp) | batches(any_timestamp), state=states)
@settings(max_examples=60)
def test_others_write_the_same_bytes(sent: list[Rec], state: ProducerState) -> None:
    assert encode(sent, state=state) == written_by_aiokafka(sent, 0, state)
    assert encode(sent, state=state) == written_by_kafka_python(sent, state)


def written_by_aiokafka(sent: Sequence[Rec], codec: int, state: ProducerState) -> bytes:
    builder = AiokafkaBuilder(
        2,
        codec,
        int(state.transactional),
        state.producer_id,
        state.producer_epoch,
        state.base_sequence,
        2**30,
    )
    for offset, each in enumerate(sent):
        assert builder.append(offset, each.timestamp_ms, each.key, each.value, list(each.headers))
    return bytes(builder.build())


def written_by_kafka_python(sent: Sequence[Rec], state: ProducerState) -> bytes:
    """With our leader epoch: kafka-python writes 0. The checksum does not cover it."""
    builder = KafkaPythonBuilder(
        2,
        0,
        state.transactional,
        state.producer_id,
        state.producer_epoch,
        state.base_sequence,
        2**30,
    )
    for offset, each in enumerate(sent):
        assert builder.append(offset, each.timestamp_ms, each.key, each.value, each.headers)
    data = bytes(builder.build())
    return data[:12] + NO_LEADER_EPOCH + data[16:]


LARGE = {
    "more than 64 records": [Rec(NOW, None, b"v%02d" % (i % 100)) for i in range(200)],
    "more than 8192 records": [Rec(NOW, b"%05d" % i, b"v") for i in range(8_300)],
    "8192 records and changing shapes": [
        Rec(NOW + i % 3 // 2, None if i % 5 else b"k", b"v" * (i % 7 // 5)) for i in range(8_300)
    ],
    "one large value": [Rec(NOW, b"k", b"0123456789abcdef" * 65_536)],
    "large values": [Rec(NOW + i, None, bytes([i]) * 200_000) for i in range(4)],
    "incompressible": [Rec(NOW, None, Random(i).randbytes(50_000)) for i in range(4)],
    "nothing in it": [Rec(0, None, None)],
    "a day backwards": [Rec(NOW - i * 3_600_000, None, b"v") for i in range(24)],
    "the ends of time": [Rec(0, None, None), Rec(2**63 - 1, None, None), Rec(0, None, None)],
    "from the end of time": [Rec(2**63 - 1, None, b"v"), Rec(0, None, b"v")],
}
EXTREMES = [
    *(("gzip", level) for level in (-1, 1, 9)),
    *(("lz4", level) for level in (1, 9, 17)),
    *(("zstd", level) for level in (-131_072, 1, 22)),
]


@reader
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("codec", CODECS)
def test_others_read_unusual_batches(read: Callable[[bytes], Batch], name: str, codec: str) -> None:
    state = ProducerState(2**63 - 1, 2**15 - 1, 2**31 - 1)
    data = encode(LARGE[name], codec, state=state)
    assert read(data) == expected(LARGE[name], codec, state)


@reader
@pytest.mark.parametrize("name", ["more than 64 records", "incompressible", "nothing in it"])
@pytest.mark.parametrize(("codec", "level"), EXTREMES)
def test_others_read_every_level(
    read: Callable[[bytes], Batch], name: str, codec: str, level: int
) -> None:
    data = encode(LARGE[name], codec, level)
    assert read(data) == expected(LARGE[name], codec, NO_PRODUCER_STATE)


def test_incompressible_records_go_compressed_as_the_java_client_sends_them() -> None:
    sent = LARGE["incompressible"]
    for codec in ("snappy", "lz4", "zstd", "gzip"):
        data = encode(sent, codec)
        assert len(data) > len(encode(sent)) - 100
        assert int.from_bytes(data[21:23], "big") == CODECS[codec]


# --- golden bytes ------------------------------------------------------------------------------


def hexes(text: str) -> bytes:
    """The bytes of a hex dump with comments."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in text.splitlines()))


ONE_RECORD = [Rec(NOW, b"key", b"value")]
GOLDEN_ONE_RECORD = hexes(
    """
    00 00 00 00 00 00 00 00  # base offset
    00 00 00 40              # length of what follows: 64
    ff ff ff ff              # partition leader epoch
    02                       # magic
    db 5e 9c dd              # CRC-32C of what follows
    00 00                    # attributes
    00 00 00 00              # last offset delta
    00 00 01 8b cf e5 68 00  # base timestamp
    00 00 01 8b cf e5 68 00  # max timestamp
    ff ff ff ff ff ff ff ff  # producer id
    ff ff                    # producer epoch
    ff ff ff ff              # base sequence
    00 00 00 01              # count
    1c 00 00 00              # 14 bytes, attributes, timestamp delta, offset delta
    06 6b 65 79              # key
    0a 76 61 6c 75 65        # value
    00                       # headers
    """
)

TRANSACTION = ProducerState(producer_id=258, producer_epoch=3, base_sequence=4, transactional=True)
THREE_RECORDS = [
    Rec(NOW, None, b"", (("a", None), ("a", b""), ("ü", b"1"))),
    Rec(NOW + 64, b"", None),
    Rec(NOW - 64, b"k", b"v"),
]
GOLDEN_THREE_RECORDS = hexes(
    """
    00 00 00 00 00 00 00 00  # base offset
    00 00 00 54              # length of what follows: 84
    ff ff ff ff              # partition leader epoch
    02                       # magic
    2e 3f c3 e4              # CRC-32C of what follows
    00 10                    # attributes: transactional
    00 00 00 02              # last offset delta
    00 00 01 8b cf e5 68 00  # base timestamp
    00 00 01 8b cf e5 68 40  # max timestamp
    00 00 00 00 00 00 01 02  # producer id
    00 03                    # producer epoch
    00 00 00 04              # base sequence
    00 00 00 03              # count
    22 00 00 00              # 17 bytes, attributes, timestamp delta, offset delta
    01 00 06                 # no key, empty value, 3 headers
    02 61 01                 # a: null
    02 61 00                 # a: empty
    04 c3 bc 02 31           # ü: 1
    0e 00 80 01 02           # 7 bytes, +64 ms, offset 1
    00 01 00                 # empty key, no value, no headers
    10 00 7f 04              # 8 bytes, -64 ms, offset 2
    02 6b 02 76 00           # k, v, no headers
    """
)


def crc32c(data: bytes) -> int:
    """CRC-32C bit by bit, from the Castagnoli polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_checksum_of_this_test_is_crc_32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720's check value


GOLDEN = [
    pytest.param(ONE_RECORD, NO_PRODUCER_STATE, GOLDEN_ONE_RECORD, id="one record"),
    pytest.param(THREE_RECORDS, TRANSACTION, GOLDEN_THREE_RECORDS, id="three records"),
]


@pytest.mark.parametrize(("sent", "state", "golden"), GOLDEN)
def test_golden_bytes(sent: list[Rec], state: ProducerState, golden: bytes) -> None:
    assert encode(sent, state=state) == golden


@pytest.mark.parametrize(("sent", "state", "golden"), GOLDEN)
def test_others_agree_on_the_golden_bytes(
    sent: list[Rec], state: ProducerState, golden: bytes
) -> None:
    assert written_by_aiokafka(sent, 0, state) == golden
    assert written_by_kafka_python(sent, state) == golden
    for read in READERS:
        assert read(golden) == expected(sent, "none", state)
    check_with_kio(golden, sent, state)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("state", [NO_PRODUCER_STATE, TRANSACTION])
def test_the_checksum_covers_everything_behind_it(codec: str, state: ProducerState) -> None:
    data = encode(THREE_RECORDS, codec, state=state)
    assert struct.unpack_from(">I", data, 17) == (crc32c(data[21:]),)
    assert struct.unpack_from(">i", data, 8) == (len(data) - 12,)


def test_snappy_is_what_aiokafka_writes() -> None:
    sent = [Rec(NOW, None, b"abc" * 30_000), *LARGE["more than 64 records"]]
    assert encode(sent, "snappy") == written_by_aiokafka(sent, CODECS["snappy"], NO_PRODUCER_STATE)


# --- the frame ---------------------------------------------------------------------------------


def filled(sent: Sequence[Rec]) -> RecordsBuilder:
    builder = RecordsBuilder(bytearray(5_000), 5_000)
    for each in sent:
        assert builder.append(None, each.timestamp_ms, each.key, each.value, each.headers)
    return builder


def test_a_small_batch_is_a_copy() -> None:
    builder = filled(THREE_RECORDS)
    batch = frame_batch(builder, TRANSACTION, None, None)
    assert type(batch) is bytes
    assert batch == GOLDEN_THREE_RECORDS


@pytest.mark.parametrize("size", [SMALL_BATCH - 10, SMALL_BATCH + 10, 10 * SMALL_BATCH])
def test_a_large_uncompressed_batch_is_framed_in_place(size: int) -> None:
    overhead = BATCH_OVERHEAD + RecordsBuilder(bytearray(size), size).append(None, 1, None, b"") + 5
    value = bytes(size - overhead)
    builder = RecordsBuilder(bytearray(size), size)
    builder.append(None, 1, None, value)
    batch = frame_batch(builder, TRANSACTION, None, None)
    if builder.position < SMALL_BATCH:
        assert type(batch) is bytes
    else:
        assert isinstance(batch, memoryview)
        assert batch.obj is builder.buffer
    assert len(batch) == builder.position
    assert struct.unpack_from(">I", batch, 17) == (crc32c(bytes(batch[21:])),)


def test_a_batch_can_be_framed_again_under_other_numbers() -> None:
    lz4 = compression("lz4")
    for codec, wanted in ((None, "none"), (lz4, "lz4")):
        builder = filled(THREE_RECORDS)
        compressed = compress_records(builder, codec)
        frame_batch(builder, TRANSACTION, codec, compressed)
        again = ProducerState(9, 0, 77)
        data = bytes(frame_batch(builder, again, codec, compressed))
        assert read_with_aiokafka(data) == expected(THREE_RECORDS, wanted, again)
        assert data == encode(THREE_RECORDS, wanted, state=again)


def test_the_overhead_is_the_size_of_the_header() -> None:
    assert KafkaPythonBuilder.header_size_in_bytes() == BATCH_OVERHEAD


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
