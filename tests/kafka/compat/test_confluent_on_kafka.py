"""confluent-kafka's interface on real brokers, beside confluent-kafka's producer and consumer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import Consumer, TopicPartition

from aioproducer.compat import confluent
from aioproducer.compat.confluent import AIOProducer, KafkaError, Producer
from aioproducer.compat.confluent.transactions import group_of
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.transactional import committed, visible

pytestmark = pytest.mark.kafka

PARTITIONS = 2
PATIENCE = 60.0
ROOT = Path(__file__).parents[3]
FORKING = """
import importlib, os, sys

client = importlib.import_module(sys.argv[1])
options, topic = {"bootstrap.servers": sys.argv[2]}, sys.argv[3]
producer = client.Producer(options)
producer.produce(topic, "before")
print("before", producer.flush(30), flush=True)
child = os.fork()
if child == 0:
    try:
        producer.produce(topic, "inherited")
        print("inherited", producer.flush(1))
    except client.KafkaException as error:
        print("inherited", error.args[0].name())
    own = client.Producer(options)
    own.produce(topic, "own")
    print("own", own.flush(30), flush=True)
    os._exit(0)
os.waitpid(child, 0)
producer.produce(topic, "after")
print("after", producer.flush(30), flush=True)
"""


async def new_topic(kafka: KafkaCluster, what: str) -> str:
    name = f"confluent-{what}-{uuid4().hex[:8]}"
    await kafka.create_topic(name, PARTITIONS, replication_factor=3)
    return name


def conf(kafka: KafkaCluster, **options: Any) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return {"bootstrap.servers": kafka.bootstrap_servers, **named}


async def test_reports_tell_where_records_are(kafka: KafkaCluster) -> None:
    topic, records = await new_topic(kafka, "reports"), 1_000
    places: dict[tuple[int, int], bytes] = {}

    def delivered(error: KafkaError | None, message: confluent.Message) -> None:
        assert error is None, error
        places[message.partition() or 0, message.offset() or 0] = message.value()

    def program() -> None:
        with Producer(conf(kafka, compression_type="zstd", acks="all")) as producer:
            for number in range(records):
                producer.produce(topic, f"{number}", key=f"{number}", on_delivery=delivered)
                producer.poll(0)

    await asyncio.to_thread(program)
    assert len(places) == records
    consumer = Consumer(conf(kafka, group_id="unused", auto_offset_reset="earliest"))
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: dict[Any, Any] = {}
    while len(found) < records:
        messages = await asyncio.to_thread(consumer.consume, records, 10)
        assert messages
        found |= {(each.partition(), each.offset()): each.value() for each in messages}
    consumer.close()
    assert found == places


async def test_a_transaction_is_seen_once_it_is_committed(kafka: KafkaCluster) -> None:
    topic = await new_topic(kafka, "transactions")
    reports: list[tuple[bytes | None, KafkaError | None]] = []

    def delivered(error: KafkaError | None, message: confluent.Message) -> None:
        reports.append((message.value(), error))

    def program() -> None:
        producer = Producer({**conf(kafka, transactional_id=topic), "on_delivery": delivered})
        producer.init_transactions(PATIENCE)
        for value, end in (
            ("a", producer.commit_transaction),
            ("lost", producer.abort_transaction),
            ("b", producer.commit_transaction),
        ):
            producer.begin_transaction()
            producer.produce(topic, value, partition=0)
            producer.flush()
            end(PATIENCE)
        producer.close()

    await asyncio.to_thread(program)
    assert reports == [(b"a", None), (b"lost", None), (b"b", None)]
    assert await committed(kafka, topic) == [b"a", b"b"]
    assert await visible(kafka, topic, isolation="read_uncommitted") == [b"a", b"b", b"lost"]
    async with AIOProducer(conf(kafka, transactional_id=topic)) as newer:
        await newer.init_transactions()
        await newer.begin_transaction()
        future = await newer.produce(topic, "c")
        await newer.commit_transaction()
        assert (await future).error() is None
    assert await committed(kafka, topic) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_offsets_of_a_joined_member(kafka: KafkaCluster, protocol: str) -> None:
    """Its generation is in the metadata, so the coordinator refuses that of an earlier one."""
    topic = await new_topic(kafka, "group")
    group = f"{topic}-group"

    def member() -> Consumer:
        consumer = Consumer(
            conf(kafka, group_id=group, group_protocol=protocol, enable_auto_commit=False)
        )
        consumer.subscribe([topic])
        return consumer

    def assigned(count: int, *members: Consumer) -> None:
        deadline = time.monotonic() + PATIENCE
        while any(len(each.assignment()) != count for each in members):
            assert time.monotonic() < deadline
            for each in members:
                each.poll(0.1)

    def send(client: ModuleType, metadata: Any, offset: int) -> tuple[Any, ...] | None:
        """The error of a transaction with one offset; None: it was committed."""
        producer = client.Producer(conf(kafka, transactional_id=f"{topic}-writer"))
        producer.init_transactions(PATIENCE)
        producer.begin_transaction()
        try:
            place = client.TopicPartition(topic, 0, offset)
            producer.send_offsets_to_transaction([place], metadata, PATIENCE)
        except client.KafkaException as raised:
            error = raised.args[0]
            producer.abort_transaction(PATIENCE)
            return error.name(), error.fatal(), error.retriable(), error.txn_requires_abort()
        producer.commit_transaction(PATIENCE)
        return None

    def offset_of(consumer: Consumer) -> int:
        return int(consumer.committed([TopicPartition(topic, 0)], PATIENCE)[0].offset)

    def program() -> None:
        first = member()
        assigned(PARTITIONS, first)
        stale = first.consumer_group_metadata()
        known = group_of(stale)
        assert (known.group_id, known.member_id) == (group, first.memberid())
        assert 1 <= known.generation_id < 100
        assert send(confluent, stale, 7) is None
        assert offset_of(first) == 7
        second = member()
        assigned(1, first, second)
        newest = first.consumer_group_metadata()
        assert group_of(newest).generation_id > known.generation_id
        assert send(confluent, newest, 8) is None
        assert offset_of(first) == 8
        gone = second.consumer_group_metadata()
        second.close()
        refused = [gone] if protocol == "consumer" else [stale, gone]
        for metadata in refused:  # KIP-1251: a partition that stays has the older epoch, too
            theirs = send(confluent_kafka, metadata, 9)
            assert theirs is not None
            assert send(confluent, metadata, 9) == theirs
        assert offset_of(first) == 8
        first.close()

    await asyncio.to_thread(program)


@pytest.mark.parametrize(
    ("client", "inherited"),
    [("confluent_kafka", "1"), ("aioproducer.compat.confluent", "_STATE")],
)
async def test_the_producer_of_a_parent_is_of_no_use_in_its_child(
    kafka: KafkaCluster, client: str, inherited: str
) -> None:
    """The original takes records that never leave; ours says so. A new producer works there."""
    topic = await new_topic(kafka, "fork")
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", FORKING, client, kafka.bootstrap_servers, topic],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=ROOT,
        check=True,
    )
    said = [line.split() for line in ended.stdout.splitlines()]
    assert said == [["before", "0"], ["inherited", inherited], ["own", "0"], ["after", "0"]]
    assert await visible(kafka, topic) == [b"after", b"before", b"own"]


async def test_a_newer_producer_fences_the_older_one(kafka: KafkaCluster) -> None:
    topic = await new_topic(kafka, "fenced")

    def fenced(client: ModuleType) -> list[tuple[Any, ...]]:
        """The errors of the older producer, as calls raise them."""
        told: list[tuple[Any, ...]] = []
        older, newer = (client.Producer(conf(kafka, transactional_id=topic)) for _ in range(2))
        older.init_transactions(PATIENCE)
        newer.init_transactions(PATIENCE)
        older.begin_transaction()
        older.produce(topic, "never")
        for call in (older.commit_transaction, older.abort_transaction, older.begin_transaction):
            try:
                call(*(() if call == older.begin_transaction else (PATIENCE,)))
            except client.KafkaException as raised:
                error = raised.args[0]
                told.append((error.name(), error.fatal(), error.txn_requires_abort()))
            else:
                told.append(())
        newer.begin_transaction()
        newer.produce(topic, "newer")
        newer.commit_transaction(PATIENCE)
        return told

    fatal = ("_FENCED", True, False)
    assert (await asyncio.to_thread(fenced, confluent_kafka))[0] == fatal
    first, *later = await asyncio.to_thread(fenced, confluent)
    assert first == ("INVALID_PRODUCER_EPOCH", False, True)  # as Java's: it may be late alone
    assert later == [fatal, fatal]
    assert await committed(kafka, topic) == [b"newer"] * 2
