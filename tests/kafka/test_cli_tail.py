"""`aioproducer tail` against a real cluster: times, transactions, codecs, several partitions."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from aioproducer import Producer
from aioproducer.testing.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

PATIENCE = 120.0
FIRST_MS = 1_700_000_000_000


@pytest.fixture
async def topic(kafka: KafkaCluster) -> str:
    name = f"topic-{uuid4().hex[:8]}"
    await kafka.create_topic(name)
    return name


def tail(kafka: KafkaCluster, topic: str, *arguments: str) -> list[bytes]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "aioproducer", "tail", topic),
            *("-b", kafka.bootstrap_servers, *arguments),
        ],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.split()


async def test_times_are_positions(kafka: KafkaCluster, topic: str) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(10):
            time_ms = FIRST_MS + number * 1000
            await producer.send(topic, b"%d" % number, timestamp_ms=time_ms)
    fifth = f"@{FIRST_MS / 1000 + 5:.0f}"
    eighth = datetime.fromtimestamp(FIRST_MS / 1000 + 8, UTC).isoformat()
    assert tail(kafka, topic, "--from", fifth, "--until", eighth) == [b"5", b"6", b"7"]
    assert tail(kafka, topic, "--from", eighth, "-e") == [b"8", b"9"]


async def test_records_of_aborted_transactions_are_left_out(
    kafka: KafkaCluster, topic: str
) -> None:
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"id-{topic}"
    ) as producer:
        for number in range(6):
            await producer.begin_transaction()
            await producer.send(topic, b"%d" % number)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    begin = ("--from", "beginning", "-e")
    assert tail(kafka, topic, *begin) == [b"%d" % number for number in range(6)]
    assert tail(kafka, topic, *begin, "--read-committed") == [b"0", b"2", b"4"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_is_read(kafka: KafkaCluster, topic: str, codec: str) -> None:
    async with Producer(  # type: ignore[call-overload]
        bootstrap_servers=kafka.bootstrap_servers,
        compression_type=codec,
    ) as producer:
        report = await producer.send_many(topic, [b"%d" % number for number in range(5000)])
        assert report.delivered == 5000
    found = tail(kafka, topic, "--from", "beginning", "-e")
    assert found == [b"%d" % number for number in range(5000)]
