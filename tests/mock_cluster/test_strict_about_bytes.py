"""``python -bb``: comparing bytes with anything else is an error, and so is bytes as text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

A_WHOLE_LIFE = """
import asyncio
import logging
import sys

from aioproducer import Producer, ProducerRecord, sync
from aioproducer.admin import Admin
from aioproducer.consumer import Consumer
from aioproducer.reader import Reader
from aioproducer.testing import simulate
from aioproducer.testing.mock_cluster import MockCluster

logging.basicConfig(level=logging.DEBUG, stream=open(sys.argv[1], "w"))
FIELDS = {"key": "customer-7", "headers": {"a": b"1", "b": "2", "c": None}}


async def produce(servers):
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        async with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
            await producer.send("orders", b"one espresso", **FIELDS)
            await producer.send("orders", "one espresso", key=b"customer-7")
            await producer.send(ProducerRecord("orders", None, partition=1, timestamp_ms=5))
            report = await producer.send_many("orders", [b"bytes", "text", None] * 100)
            report.raise_for_failures()
            await producer.check(topics=["orders"])
            repr([producer, producer.config, producer.metrics(), producer.health()])
    async with Producer(bootstrap_servers=servers, transactional_id="bills") as producer:
        async with producer.transaction():
            await producer.send("orders", "one more", **FIELDS)


async def read(servers):
    async with Reader("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as reader:
        async for record in reader:
            repr(record)
            if record.value == b"one more":
                break


def produce_and_read(servers):
    with sync.Producer(bootstrap_servers=servers) as producer:
        producer.send("orders", "text", key=b"bytes").result()
        producer.send("orders", b"bytes", key="text").result()
    asyncio.run(produce(servers))
    asyncio.run(read(servers))


async def consume(world):
    servers = world.cluster.bootstrap_servers
    async with Producer(bootstrap_servers=servers) as producer:
        await producer.send("orders", "one espresso", **FIELDS)
    for protocol in ("classic", "consumer"):
        options = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
        async with Consumer(
            "orders", group_id=protocol, group_protocol=protocol, **options
        ) as consumer:
            async for record in consumer:
                await consumer.commit()
                break
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic("payments", partitions=2)
        repr([await admin.describe_topics("payments"), await admin.list_groups()])


with MockCluster(brokers=2, topics={"orders": 3}) as cluster:
    produce_and_read(cluster.bootstrap_servers)
simulate(consume, topics={"orders": 3})
"""


def test_a_whole_life_compares_no_bytes_with_text(tmp_path: Path) -> None:
    command = [sys.executable, "-bb", "-W", "error::BytesWarning", "-c", A_WHOLE_LIFE]
    done = subprocess.run(
        [*command, str(tmp_path / "log")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    log = (tmp_path / "log").read_text()
    assert (done.returncode, done.stderr, "BytesWarning" in log) == (0, "", False)
