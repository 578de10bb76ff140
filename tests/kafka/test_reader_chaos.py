"""A reader while brokers are killed at random, judged by the ledger of the writer."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

import pytest

from aioproducer import Producer, ProducerError, RecordMetadata
from aioproducer.errors import FatalTransactionError
from aioproducer.model import TopicPartition
from aioproducer.reader import ConsumerRecord, Reader
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.kafka.conftest import RACK_AWARE

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LONG: Final = [1, *range(100, 120)]
PARTITIONS: Final = 4
TRANSACTIONS: Final = 60
RECORDS: Final = 40
LAST: Final = b"the last one"
PATIENCE: Final = 240.0


@pytest.fixture(scope="module")
def cluster(kafka_distribution: KafkaDistribution) -> Iterator[KafkaCluster]:
    """Three brokers for this module, which kills them."""
    with KafkaCluster(
        brokers=3,
        config={"offsets.topic.num.partitions": 1, "min.insync.replicas": 2},
        broker_config={
            broker: {"broker.rack": f"rack-{broker}", "replica.selector.class": RACK_AWARE}
            for broker in (1, 2, 3)
        },
    ) as cluster:
        yield cluster


class AbortedOnPurposeError(Exception):
    """The writer ends a transaction by it."""


@dataclass
class Ledger:
    """The writer's account of every record, by value."""

    committed: dict[bytes, RecordMetadata] = field(default_factory=dict)
    aborted: set[bytes] = field(default_factory=set)
    acknowledged: dict[bytes, RecordMetadata] = field(default_factory=dict)
    """With or without a commit."""
    unknown: list[list[bytes]] = field(default_factory=list)
    """The transactions whose end the writer does not know."""

    def records(self, futures: dict[bytes, asyncio.Future[RecordMetadata]]) -> None:
        for value, future in futures.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                self.acknowledged[value] = future.result()


async def write(cluster: KafkaCluster, topic: str, random: Random, ledger: Ledger) -> None:
    """Transactions, a fifth of them aborted; a new producer follows a broken one."""
    number = 0
    while number < TRANSACTIONS:
        try:
            async with Producer(
                bootstrap_servers=cluster.bootstrap_servers,
                transactional_id=topic,
                request_timeout_ms=3_000,
                compression_type=random.choice(["none", "lz4", "zstd", "snappy", "gzip"]),
            ) as producer:
                while number < TRANSACTIONS:
                    await one_transaction(producer, topic, number, random, ledger)
                    number += 1
        except ProducerError:
            number += 1
    async with (
        Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic) as producer,
        producer.transaction(),
    ):
        for partition in range(PARTITIONS):
            producer.send(topic, LAST, partition=partition)


async def one_transaction(
    producer: Producer, topic: str, number: int, random: Random, ledger: Ledger
) -> None:
    futures: dict[bytes, asyncio.Future[RecordMetadata]] = {}
    aborts = random.random() < 0.2
    try:
        async with producer.transaction():
            for each in range(RECORDS):
                value = b"%d-%d-%s" % (number, each, random.randbytes(random.randrange(60)))
                futures[value] = producer.send(topic, value, partition=random.randrange(PARTITIONS))
            await asyncio.sleep(random.random() * 0.2)
            if aborts:
                await producer.flush()
                raise AbortedOnPurposeError
    except AbortedOnPurposeError:
        ledger.records(futures)
        ledger.aborted |= futures.keys()
    except ProducerError as error:
        ledger.records(futures)
        if aborts:
            ledger.aborted |= futures.keys()
        else:
            ledger.unknown.append(list(futures))
        if isinstance(error, FatalTransactionError):
            raise
    else:
        ledger.records(futures)
        ledger.committed |= {value: future.result() for value, future in futures.items()}


async def disturb(cluster: KafkaCluster, random: Random) -> None:
    """Kill a broker, or hold it still, again and again."""
    while True:
        broker = random.randint(1, 3)
        await asyncio.sleep(1 + random.random() * 2)
        if random.random() < 0.3:
            await cluster.pause_broker(broker)
            await asyncio.sleep(random.random() * 5)
            await cluster.resume_broker(broker)
        else:
            await cluster.kill_broker(broker)
            await asyncio.sleep(random.random() * 2)
            await cluster.start_broker(broker)


async def heal(cluster: KafkaCluster) -> None:
    for broker in cluster.brokers:
        if broker.paused:
            await cluster.resume_broker(broker.node_id)
        if not broker.is_running:
            await cluster.start_broker(broker.node_id)


async def steps(reading: Reader, random: Random) -> AsyncIterator[list[ConsumerRecord]]:
    """The records, one by one or batch by batch, in stretches of any length."""
    while True:
        stretch = random.randint(1, 200)
        if random.random() < 0.5:
            async for record in reading:
                yield [record]
                stretch -= 1
                if not stretch:
                    break
        else:
            async for batch in reading.batches():
                yield list(batch)
                stretch -= len(batch)
                if stretch < 1:
                    break


async def read(cluster: KafkaCluster, topic: str, seed: int, level: str) -> list[ConsumerRecord]:
    """Everything up to the last record of each partition, by readers that replace each other."""
    random = Random(f"{seed} {level}")
    found: list[ConsumerRecord] = []
    ended: set[int] = set()
    positions: dict[TopicPartition, int] | str = topic
    while len(ended) < PARTITIONS:
        one_life = random.randint(200, 2000)
        async with Reader(
            positions,
            bootstrap_servers=cluster.bootstrap_servers,
            isolation_level="read_committed" if level == "read_committed" else "read_uncommitted",
            request_timeout_ms=3_000,
            max_partition_fetch_bytes=random.choice([1_000, 10_000, 1_000_000]),
            read_ahead_bytes=random.choice([20_000, 1_000_000]),
            client_rack=f"rack-{1 + len(found) % 4}",  # the last one has no broker
        ) as reading:
            async for records in steps(reading, random):
                found += records
                one_life -= len(records)
                ended |= {record.partition for record in records if record.value == LAST}
                if len(ended) == PARTITIONS or one_life < 1:
                    break
            positions = reading.positions
    return found


def judge(found: list[ConsumerRecord], ledger: Ledger, level: str) -> None:
    offsets: defaultdict[int, list[int]] = defaultdict(list)
    for record in found:
        offsets[record.partition].append(record.offset)
    for partition, seen in offsets.items():
        assert seen == sorted(set(seen)), f"partition {partition} is out of order, or twice"
    places = {
        record.value: (record.partition, record.offset)
        for record in found
        if record.value is not None and record.value != LAST
    }
    assert len(places) == len(found) - PARTITIONS, "a value came twice"
    expected = ledger.committed if level == "read_committed" else ledger.acknowledged
    for value, metadata in expected.items():
        if metadata.offset >= 0:
            assert places.get(value) == (metadata.partition, metadata.offset)
        else:
            assert value in places
    if level == "read_committed":
        assert not places.keys() & ledger.aborted
        for values in ledger.unknown:
            assert len(places.keys() & set(values)) in (0, len(values))


async def one_seed(cluster: KafkaCluster, seed: int) -> Ledger:
    random, topic, ledger = Random(seed), f"chaos-{seed}", Ledger()
    await heal(cluster)
    await cluster.create_topic(topic, PARTITIONS, replication_factor=3)
    disturbing = asyncio.ensure_future(disturb(cluster, Random(seed + 1)))
    levels = ("read_committed", "read_uncommitted")
    try:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            reads = {
                level: group.create_task(read(cluster, topic, seed, level)) for level in levels
            }
            await write(cluster, topic, random, ledger)
            disturbing.cancel()
            await asyncio.wait([disturbing])
            await heal(cluster)
    finally:
        disturbing.cancel()
        await asyncio.wait([disturbing])
    for level in levels:
        judge(reads[level].result(), ledger, level)
    return ledger


async def test_each_record_is_read_once_and_in_order(cluster: KafkaCluster) -> None:
    ledger = await one_seed(cluster, int(os.environ.get("AIOPRODUCER_CHAOS_SEED") or 0))
    assert ledger.committed
    assert ledger.aborted


@pytest.mark.soak
@pytest.mark.parametrize("seed", LONG)
async def test_each_record_is_read_once_and_in_order_by_many_seeds(
    cluster: KafkaCluster, seed: int
) -> None:
    await one_seed(cluster, seed)
