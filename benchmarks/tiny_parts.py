"""What a batch of tiny compressed parts costs its reader: ``python -m benchmarks.tiny_parts``.

A batch may be compressed into parts of two bytes each, which every broker accepts: blocks of snappy
and LZ4, members of gzip, frames of zstd. A Reader, aiokafka and confluent-kafka read such a batch.
Printed is the longest that the event loop of the first two stood still, in CPU time of its thread,
and the CPU time that each process took from the first byte of the batch to its record.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import zlib
from collections.abc import Callable, Sequence
from statistics import median
from time import process_time
from typing import Any, Final

import lz4.frame  # type: ignore[import-untyped]
import zstandard
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from aiokafka import TopicPartition as Place
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition

from aioproducer import Producer
from aioproducer.engine.records import compression
from aioproducer.reader import Reader
from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.metadata import stall
from benchmarks.report import Measurement, Section, add_options

_PART: Final = 2
_MOST: Final = 16 * 1024 * 1024
_SNAPPY: Final = b"\x82SNAPPY\0" + b"\0\0\0\1" * 2
_LZ4_HEADER_SIZE: Final = 7


def parts_of(data: memoryview) -> list[bytes]:
    """``data`` in pieces of two bytes."""
    return [bytes(data[start : start + _PART]) for start in range(0, len(data), _PART)]


def _gzip(data: memoryview) -> bytes:
    packed = zlib.compressobj(wbits=31)
    flushed = [packed.compress(part) + packed.flush(zlib.Z_FULL_FLUSH) for part in parts_of(data)]
    return b"".join(flushed) + packed.flush()


def _snappy(data: memoryview) -> bytes:
    blocks = (bytes((len(part), 4 * (len(part) - 1))) + part for part in parts_of(data))
    return _SNAPPY + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


def _lz4(data: memoryview) -> bytes:
    header = lz4.frame.compress(b"", store_size=False)[:_LZ4_HEADER_SIZE]
    stored = 1 << 31
    blocks = ((stored | len(part)).to_bytes(4, "little") + part for part in parts_of(data))
    return bytes(header + b"".join(blocks) + bytes(4))


def _zstd(data: memoryview) -> bytes:
    compressor = zstandard.ZstdCompressor()
    return b"".join(compressor.compress(part) for part in parts_of(data))


_CODECS: Final[dict[str, tuple[Callable[[memoryview], bytes], int]]] = {
    "gzip": (_gzip, 11),
    "snappy": (_snappy, 8),
    "lz4": (_lz4, 6),
    "zstd": (_zstd, 15),
}
"""How each compresses, and about how many bytes a part takes."""


async def write(servers: str, topic: str, codec: Any, size: int) -> None:
    """One record to ``topic``, in a batch of about ``size`` compressed bytes."""
    compress, part = _CODECS[codec]
    usual = compression._COMPRESSIONS[codec]
    compression._COMPRESSIONS[codec] = (usual[0], lambda _: compress, usual[2])
    try:
        async with Producer(
            bootstrap_servers=servers, compression_type=codec, max_request_size=_MOST
        ) as producer:
            await producer.send(topic, bytes(size // part * _PART), partition=0)
    finally:
        compression._COMPRESSIONS[codec] = usual


async def with_reader(servers: str, topic: str) -> float:
    """The longest turn, in milliseconds."""
    async with Reader(topic, bootstrap_servers=servers, max_batch_bytes=_MOST) as reader:
        return await stall(lambda: anext(aiter(reader)))


async def with_aiokafka(servers: str, topic: str) -> float:
    """The longest turn, in milliseconds."""
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, max_partition_fetch_bytes=_MOST)
    await consumer.start()
    try:
        consumer.assign([Place(topic, 0)])
        await consumer.seek_to_beginning()
        return await stall(consumer.getone)
    finally:
        await consumer.stop()


async def with_confluent(servers: str, topic: str) -> float | None:
    """Its thread has no event loop."""
    consumer = ConfluentConsumer({"bootstrap.servers": servers, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    while consumer.poll(1.0) is None:
        pass
    consumer.close()
    return None


_READERS: Final = {
    "aioproducer": with_reader,
    "aiokafka": with_aiokafka,
    "confluent": with_confluent,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tiny_parts", description=__doc__)
    parser.add_argument("--bytes", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5)
    add_options(parser)
    options = parser.parse_args(arguments)
    peers = ["aiokafka", "confluent-kafka"]
    measurement = Measurement.begin(parser, arguments, options, peers, seconds=60)
    rows = []
    with MockCluster(brokers=1) as cluster:
        servers = cluster.bootstrap_servers
        for codec in _CODECS:
            topic = f"tiny-{codec}"
            cluster.create_topic(topic, 1)
            asyncio.run(write(servers, topic, codec, options.bytes))
            for client, read in _READERS.items():
                stalls, times = [], []
                for _ in range(options.rounds):
                    began = process_time()
                    longest = asyncio.run(read(servers, topic))
                    times.append((process_time() - began) * 1000)
                    stalls.append(longest)
                known = [each for each in stalls if each is not None]
                turn = f"{median(known):.1f}" if known else "-"
                rows.append((codec, client, turn, f"{median(times):.1f}"))
    section = Section(
        title=f"tiny parts: a batch of {options.bytes:,} bytes; {options.rounds} rounds",
        headings=("codec", "client", "longest turn ms", "CPU ms"),
        rows=tuple(rows),
        labels=2,
    )
    measurement.publish([section])
    return 0


if __name__ == "__main__":
    sys.exit(main())
