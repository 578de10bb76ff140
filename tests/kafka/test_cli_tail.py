"""`aioproducer tail` against a real cluster: times, transactions, codecs, several partitions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from aioproducer import Producer, TopicPartition
from aioproducer.admin import Admin
from aioproducer.errors import GroupIdNotFoundError
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.support.waiting import until

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


# --- members of a group ------------------------------------------------------------------------

EARLIEST = ("-X", "auto.offset.reset=earliest")


@contextmanager
def member(
    kafka: KafkaCluster, topic: str, *arguments: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`aioproducer tail --group`, and the end of a pipe with its output."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    command = [sys.executable, "-m", "aioproducer", "tail", topic, "-b", kafka.bootstrap_servers]
    with subprocess.Popen(
        [*command, "--group", f"of-{topic}", *EARLIEST, *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(writer)
        try:
            yield process, reader
        finally:
            process.kill()
            os.close(reader)


def shown(reader: int) -> list[bytes]:
    """The lines since the last call."""
    try:
        return os.read(reader, 1 << 20).split()
    except BlockingIOError:
        return []


async def send(kafka: KafkaCluster, topic: str, numbers: range, partitions: int = 1) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, partition=number % partitions)


async def committed(admin: Admin, topic: str) -> int:
    try:
        offsets = await admin.group_offsets(f"of-{topic}")
    except GroupIdNotFoundError:
        return 0
    return sum(each.offset for each in offsets.values())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_share_a_topic_and_an_interrupt_commits_and_leaves(
    kafka: KafkaCluster, protocol: str
) -> None:
    topic = f"topic-{uuid4().hex[:8]}"
    await kafka.create_topic(topic, 4)
    quick = ("-X", "heartbeat.interval.ms=300", "-X", f"group.protocol={protocol}")
    sent = 40
    await send(kafka, topic, range(sent), 4)
    seen: list[list[bytes]] = [[], []]
    async with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:

        async def members() -> int:
            found = await admin.describe_groups(f"of-{topic}")
            return sum(bool(each.partitions) for each in found[f"of-{topic}"].members)

        with member(kafka, topic, *quick) as (first, output):

            def first_has(count: int) -> bool:
                seen[0] += shown(output)
                return len(seen[0]) >= count

            await until(lambda: first_has(40), "the first one has shown all")
            with member(kafka, topic, *quick) as (second, other):

                async def both() -> bool:
                    return await members() == 2

                await until(both, "both have partitions")
                await send(kafka, topic, range(sent, sent + 40), 4)

                def both_have(count: int) -> bool:
                    seen[1] += shown(other)
                    return first_has(0) and len(seen[0]) + len(seen[1]) >= count

                await until(lambda: both_have(80), "they have shown all")
                assert len(seen[1]) == 20, "half of the partitions are the second one's"
                second.send_signal(signal.SIGINT)
                assert second.wait(PATIENCE) == 0

            async def alone() -> bool:
                found = await admin.describe_groups(f"of-{topic}")
                return len(found[f"of-{topic}"].members) == 1

            await until(alone, "the second one has left")
            await send(kafka, topic, range(80, 100), 4)
            await until(lambda: first_has(100 - len(seen[1])), "the first one has the rest")
            first.send_signal(signal.SIGTERM)
            assert first.wait(PATIENCE) == 0
            assert first.stderr is not None
            assert first.stderr.read() == b""
        assert sorted(map(int, seen[0] + seen[1])) == list(range(100)), "each record once"
        assert await committed(admin, topic) == 100
        assert (await admin.describe_groups(f"of-{topic}"))[f"of-{topic}"].members == ()


async def test_a_count_of_a_member_commits_so_many(kafka: KafkaCluster, topic: str) -> None:
    await send(kafka, topic, range(10))
    arguments = ("--group", f"of-{topic}", *EARLIEST)
    assert tail(kafka, topic, *arguments, "--count", "3") == [b"0", b"1", b"2"]
    async with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        offsets = await admin.group_offsets(f"of-{topic}")
        assert offsets[TopicPartition(topic, 0)].offset == 3
    assert tail(kafka, topic, *arguments, "-c", "2", "-f", "%o:%s ") == [b"3:3", b"4:4"]
    found = tail(kafka, topic, *arguments, "-c", "1", "--json", "--read-committed")
    assert found[0].startswith(b'{"topic":"%s","partition":0,"offset":5,' % topic.encode())
