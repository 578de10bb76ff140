"""`aioproducer groups`, `tail`, `topics` and `cluster` on a real cluster, beside other tools."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.cli import app
from aioproducer.cli.app import run
from aioproducer.errors import GroupIdNotFoundError
from aioproducer.model import TopicPartition
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.support.terminal import Terminal
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.kafka


COMMAND = [sys.executable, "-m", "aioproducer"]
PATIENCE = 120.0

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def program(
    kafka: KafkaCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """The program in this process, with the cluster's addresses."""

    def program(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*arguments, "-b", kafka.bootstrap_servers]
        code = app.run(command)
        return subprocess.CompletedProcess(command, code, *capsys.readouterr())

    with open(os.devnull, encoding="utf-8") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        yield program


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"


def found(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_life_of_a_topic(program: Run, topic: str) -> None:
    numbers = ("--partitions", "3", "--replication-factor", "2")
    setting = ("--config", "retention.ms=3600000")
    made = program("topics", "create", topic, *numbers, *setting)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout == f"{topic} created: 3 partitions, 2 replicas each\n"

    wait_until(lambda: topic in program("topics", "list").stdout.splitlines())
    wait_until(lambda: topic in found(program("topics", "list", "--json"))["topics"])

    described(program, topic)
    told = program("topics", "describe", topic).stdout.splitlines()
    assert told[0] == f"{topic}: 3 partitions, 2 replicas each"
    assert "  retention.ms=3600000" in told
    assert told[-4] == "  partition  leader  replicas  in sync"
    assert [line.split()[0] for line in told[-3:]] == ["0", "1", "2"]

    more = program("topics", "add-partitions", topic, "--partitions", "5")
    assert (more.returncode, more.stdout) == (0, f"{topic} has 5 partitions\n")
    wait_until(lambda: len(described(program, topic)["partitions"]) == 5)

    gone = program("topics", "delete", topic, "--yes")
    assert (gone.returncode, gone.stdout) == (0, f"deleted {topic}\n")
    wait_until(lambda: topic not in program("topics", "list").stdout.splitlines())


def described(program: Run, topic: str) -> dict[str, Any]:
    """Wait until the broker that is asked knows the topic: another one may have created it."""
    answers = []

    def is_known() -> bool:
        answers.append(program("topics", "describe", topic, "--json"))
        return "UNKNOWN_TOPIC_OR_PARTITION" not in answers[-1].stderr

    wait_until(is_known)
    (only,) = found(answers[-1])["topics"]
    assert only["name"] == topic
    result: dict[str, Any] = only
    return result


def test_replicas_by_assignment(program: Run, topic: str) -> None:
    made = program("topics", "create", topic, "--replica-assignment", "1:2,2:3,3:1", "--json")
    result = found(made)
    assert result.pop("id")
    assert result == {"topic": topic, "created": True, "partitions": 3, "replication_factor": 2}
    partitions = described(program, topic)["partitions"]
    assert [each["replicas"] for each in partitions] == [[1, 2], [2, 3], [3, 1]]
    assert partitions[0]["leader"] == 1

    grown = program(
        *("topics", "add-partitions", topic, "--partitions", "4"),
        *("--replica-assignment", "3:2", "--json"),
    )
    assert found(grown) == {"topic": topic, "partitions": 4, "added": True}
    wait_until(lambda: len(described(program, topic)["partitions"]) == 4)
    assert described(program, topic)["partitions"][3]["replicas"] == [3, 2]


def test_validation_changes_nothing(program: Run, topic: str) -> None:
    checked = program("topics", "create", topic, "--partitions", "2", "--validate-only")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.startswith(f"{topic} would be created: 2 partitions")
    assert topic not in program("topics", "list").stdout.splitlines()


def test_a_topic_that_is_there_already(program: Run, topic: str) -> None:
    assert program("topics", "create", topic).returncode == 0
    again = program("topics", "create", topic)
    assert (again.returncode, again.stdout, again.stderr.count("\n")) == (1, "", 1)
    assert topic in again.stderr
    assert "exists" in again.stderr
    kept = program("topics", "create", topic, "--if-not-exists", "--json")
    assert found(kept)["created"] is False


def test_a_topic_that_is_not_there(program: Run, topic: str) -> None:
    for command in (
        ("describe", topic),
        ("delete", topic, "--yes"),
        ("add-partitions", topic, "--partitions", "2"),
    ):
        done = program("topics", *command)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert topic in done.stderr
    assert found(program("topics", "delete", topic, "--yes", "--if-exists", "--json")) == {
        "deleted": []
    }


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--replication-factor", "9"], "replica"),
        (["--config", "retention.ms=soon"], "retention.ms"),
        (["--replica-assignment", "1:77"], "77"),
    ],
)
def test_the_refusal_of_the_brokers_is_one_line(
    program: Run, topic: str, options: list[str], word: str
) -> None:
    done = program("topics", "create", topic, *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert topic in done.stderr
    assert word in done.stderr


def test_all_replicas_are_in_sync(program: Run, topic: str) -> None:
    program("topics", "create", topic, "--replication-factor", "3")
    wait_until(
        lambda: (
            found(program("topics", "describe", topic, "--under-replicated-partitions", "--json"))
            == {"topics": []}
        )
    )


def test_deletion_asks_on_a_terminal(program: Run, kafka: KafkaCluster, topic: str) -> None:
    program("topics", "create", topic)
    for answer, code in ((b"n\n", 1), (b"y\n", 0)):
        terminal = Terminal()
        command = [*COMMAND, "topics", "delete", topic, "-b", kafka.bootstrap_servers]
        with subprocess.Popen(
            command, stdin=terminal.theirs, stdout=subprocess.PIPE, stderr=terminal.theirs
        ) as process:
            wait_until(lambda seen=terminal: seen.shows(f"Delete {topic} with all records? [y/N]"))  # type: ignore[misc]
            terminal.type(answer)
            out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == code
        assert out == (b"" if code else f"deleted {topic}\n".encode())
        terminal.close()


def test_the_cluster(program: Run, kafka: KafkaCluster) -> None:
    result = found(program("cluster", "--json", "--versions"))
    assert list(result) == ["cluster_id", "controller", "brokers", "features"]
    addresses = {f"{each['host']}:{each['port']}" for each in result["brokers"]}
    assert addresses == set(kafka.bootstrap_servers.split(","))
    assert result["features"]["metadata.version"] > 0
    for broker in result["brokers"]:
        assert broker["versions"]["PRODUCE"][1] >= 9

    told = program("cluster").stdout.splitlines()
    assert told[0] == f"cluster      {result['cluster_id']}"
    assert sum(line.startswith("broker ") for line in told) == 3
    assert any(line.startswith("feature      metadata.version ") for line in told)


TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
START = 1_700_000_000
RECORDS = 20
"""The records of each partition, a second apart; the first five are deleted."""
FIRST = 5


class Group:
    """A group that reads a topic of two partitions, and the commands about it."""

    def __init__(self, kafka: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.topic = f"topic-{uuid4().hex[:8]}"
        self.name = f"group-{self.topic}"
        self.kafka = kafka
        self._capsys = capsys

    async def run(self, command: str, *arguments: str, code: int = 0) -> tuple[str, str]:
        """What a command of ours tells and says."""
        words = ["groups", command, *arguments, "-b", self.kafka.bootstrap_servers]
        assert await asyncio.to_thread(run, words) == code
        return self._capsys.readouterr()

    async def found(self, command: str, *arguments: str) -> Any:
        told, said = await self.run(command, *arguments, "--json")
        assert said == ""
        return json.loads(told)

    async def reset(self, *options: str) -> dict[int, int]:
        """The new offsets by our command."""
        found = await self.found("reset-offsets", self.name, *options)
        return {each["partition"]: each["new"] for each in found["offsets"]}

    async def reset_by_kafka(self, *options: str) -> dict[int, int]:
        """The new offsets by Kafka's own tool, which changes nothing either."""
        rows = await self._rows("--reset-offsets", "--dry-run", *options)
        return {int(row[2]): int(row[3]) for row in rows}

    async def described_by_kafka(self) -> dict[int, tuple[str, ...]]:
        """Offset, end, lag, member and host of each partition by Kafka's own tool."""
        rows = await self._rows("--describe")
        return {int(row[2]): tuple(row[3:8]) for row in rows}

    async def _rows(self, *options: str) -> list[list[str]]:
        servers = ("--bootstrap-server", self.kafka.bootstrap_servers, "--group", self.name)
        done = await self.kafka.tool(TOOL, *servers, *options)
        return [line.split() for line in done.stdout.splitlines() if f" {self.topic} " in line]

    def consumer(self) -> Consumer:
        """Another client's member."""
        return Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap_servers,
                "group.id": self.name,
                "client.id": "reader-1",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )


@pytest.fixture
async def group(kafka: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> Group:
    group = Group(kafka, capsys)
    async with (
        Admin(bootstrap_servers=kafka.bootstrap_servers) as admin,
        Producer(bootstrap_servers=kafka.bootstrap_servers) as producer,
    ):
        await admin.create_topic(group.topic, 2, 1)
        await admin.wait_for_leaders(group.topic)
        for number in range(RECORDS * 2):
            second = number // 2
            producer.send(
                group.topic,
                b"%d" % second,
                partition=number % 2,
                timestamp_ms=(START + second) * 1000,
            )
        await producer.flush()
        zero, one = (TopicPartition(group.topic, number) for number in range(2))
        await admin.delete_records({zero: FIRST, one: FIRST})
        await admin.alter_group_offsets(group.name, {zero: 8, one: 16})
    return group


async def test_new_offsets_are_those_of_kafkas_own_tool(group: Group) -> None:
    """What is out of the log is clamped by both."""
    topic = ("--topic", group.topic)
    for ours, theirs, new in (
        (["--shift-by", "-6"], ["--shift-by", "-6"], {0: 5, 1: 10}),
        (["--to-offset", "99"], ["--to-offset", "99"], {0: 20, 1: 20}),
        (
            ["--to-time", f"@{START + 12}"],
            ["--to-datetime", "2023-11-14T22:13:32.000+00:00"],
            {0: 12, 1: 12},
        ),
    ):
        assert await group.reset(*topic, *ours) == new
        assert await group.reset_by_kafka(*topic, *theirs) == new
    assert await group.reset("--all-topics", "--to-beginning") == {0: 5, 1: 5}
    assert await group.reset("--topic", f"{group.topic}:1", "--to-time", "1h") == {1: 20}
    told, _ = await group.run("reset-offsets", group.name, *topic, "--to-offset", "2")
    assert f"{group.topic}-1" in told
    assert told.count("2 is before the log: its beginning") == 2
    assert told.endswith("nothing was changed: add --execute\n")
    described = await group.described_by_kafka()
    assert {number: row[0] for number, row in described.items()} == {0: "8", 1: "16"}


async def test_another_client_goes_on_from_the_new_offset(group: Group) -> None:
    consumer = group.consumer()
    read: dict[int, bytes] = {}
    try:
        await group.run(
            *("reset-offsets", group.name, "--topic", group.topic, "--to-offset", "12"),
            "--execute",
        )
        await asyncio.to_thread(consumer.subscribe, [group.topic])

        async def first_of_each() -> bool:
            message = await asyncio.to_thread(consumer.poll, 0.2)
            if message is not None:
                assert message.error() is None
                read.setdefault(message.partition() or 0, message.value() or b"")
            return len(read) == 2

        await until(first_of_each, "a record of each partition", PATIENCE)
        assert read == {0: b"12", 1: b"12"}

        (told,) = (await group.found("describe", group.name))["groups"]
        assert (told["group"], told["state"], told["assignor"]) == (group.name, "Stable", "range")
        (member,) = told["members"]
        assert member["client_id"] == "reader-1"
        assert {
            each["partition"]: (
                *(str(each[name]) for name in ("committed", "end", "lag", "member_id")),
                member["client_host"],
            )
            for each in told["partitions"]
        } == await group.described_by_kafka()
        lines, _ = await group.run("describe", group.name)
        assert lines.startswith(f"{group.name}: Stable, 1 member, classic protocol, ")

        for command in (
            ("reset-offsets", group.name, "--topic", group.topic, "--to-end", "--execute"),
            ("delete", group.name, "--yes"),
        ):
            told, said = await group.run(*command, code=1)
            assert (told, said.count("\n")) == ("", 1)
            assert "and try again" in said, said
    finally:
        consumer.close()


async def test_a_group_is_listed_and_deleted(group: Group) -> None:
    listed = (await group.found("list"))["groups"]
    assert {"group": group.name, "type": "classic", "state": "Empty", "protocol_type": ""} in listed
    told, _ = await group.run("list")
    assert [group.name, "classic", "Empty"] in [line.split() for line in told.splitlines()]
    assert await group.found("delete", group.name, "--yes") == {"deleted": [group.name]}
    assert await group.found("delete", group.name, "--yes", "--if-exists") == {"deleted": []}
    told, said = await group.run("describe", group.name, code=1)
    assert (told, said.count("\n")) == ("", 1)
    assert group.name in said


FIRST_MS = 1_700_000_000_000


@pytest.fixture
async def existing_topic(kafka: KafkaCluster) -> str:
    name = f"topic-{uuid4().hex[:8]}"
    await kafka.create_topic(name)
    return name


def tail(kafka: KafkaCluster, existing_topic: str, *arguments: str) -> list[bytes]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "aioproducer", "tail", existing_topic),
            *("-b", kafka.bootstrap_servers, *arguments),
        ],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.split()


async def test_times_are_positions(kafka: KafkaCluster, existing_topic: str) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(10):
            time_ms = FIRST_MS + number * 1000
            await producer.send(existing_topic, b"%d" % number, timestamp_ms=time_ms)
    fifth = f"@{FIRST_MS / 1000 + 5:.0f}"
    eighth = datetime.fromtimestamp(FIRST_MS / 1000 + 8, UTC).isoformat()
    assert tail(kafka, existing_topic, "--from", fifth, "--until", eighth) == [b"5", b"6", b"7"]
    assert tail(kafka, existing_topic, "--from", eighth, "-e") == [b"8", b"9"]


async def test_records_of_aborted_transactions_are_left_out(
    kafka: KafkaCluster, existing_topic: str
) -> None:
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"id-{existing_topic}"
    ) as producer:
        for number in range(6):
            await producer.begin_transaction()
            await producer.send(existing_topic, b"%d" % number)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    begin = ("--from", "beginning", "-e")
    assert tail(kafka, existing_topic, *begin) == [b"%d" % number for number in range(6)]
    assert tail(kafka, existing_topic, *begin, "--read-committed") == [b"0", b"2", b"4"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_is_read(kafka: KafkaCluster, existing_topic: str, codec: str) -> None:
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        compression_type=codec,  # type: ignore[arg-type]
    ) as producer:
        report = await producer.send_many(
            existing_topic, [b"%d" % number for number in range(5000)]
        )
        assert report.delivered == 5000
    found = tail(kafka, existing_topic, "--from", "beginning", "-e")
    assert found == [b"%d" % number for number in range(5000)]


# --- members of a group ------------------------------------------------------------------------

EARLIEST = ("-X", "auto.offset.reset=earliest")


@contextmanager
def member(
    kafka: KafkaCluster, existing_topic: str, *arguments: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`aioproducer tail --group`, and the end of a pipe with its output."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    command = [
        sys.executable,
        "-m",
        "aioproducer",
        "tail",
        existing_topic,
        "-b",
        kafka.bootstrap_servers,
    ]
    with subprocess.Popen(
        [*command, "--group", f"of-{existing_topic}", *EARLIEST, *arguments],
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


async def send(
    kafka: KafkaCluster, existing_topic: str, numbers: range, partitions: int = 1
) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in numbers:
            producer.send(existing_topic, b"%d" % number, partition=number % partitions)


async def committed(admin: Admin, existing_topic: str) -> int:
    try:
        offsets = await admin.group_offsets(f"of-{existing_topic}")
    except GroupIdNotFoundError:
        return 0
    return sum(each.offset for each in offsets.values())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_share_a_topic_and_an_interrupt_commits_and_leaves(
    kafka: KafkaCluster, protocol: str
) -> None:
    existing_topic = f"topic-{uuid4().hex[:8]}"
    await kafka.create_topic(existing_topic, 4)
    quick = ("-X", "heartbeat.interval.ms=300", "-X", f"group.protocol={protocol}")
    sent = 40
    await send(kafka, existing_topic, range(sent), 4)
    seen: list[list[bytes]] = [[], []]
    async with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:

        async def members() -> int:
            found = await admin.describe_groups(f"of-{existing_topic}")
            return sum(bool(each.partitions) for each in found[f"of-{existing_topic}"].members)

        with member(kafka, existing_topic, *quick) as (first, output):

            def first_has(count: int) -> bool:
                seen[0] += shown(output)
                return len(seen[0]) >= count

            await until(lambda: first_has(40), "the first one has shown all")
            with member(kafka, existing_topic, *quick) as (second, other):

                async def both() -> bool:
                    return await members() == 2

                await until(both, "both have partitions")
                await send(kafka, existing_topic, range(sent, sent + 40), 4)

                def both_have(count: int) -> bool:
                    seen[1] += shown(other)
                    return first_has(0) and len(seen[0]) + len(seen[1]) >= count

                await until(lambda: both_have(80), "they have shown all")
                assert len(seen[1]) == 20, "half of the partitions are the second one's"
                second.send_signal(signal.SIGINT)
                assert second.wait(PATIENCE) == 0

            async def alone() -> bool:
                found = await admin.describe_groups(f"of-{existing_topic}")
                return len(found[f"of-{existing_topic}"].members) == 1

            await until(alone, "the second one has left")
            await send(kafka, existing_topic, range(80, 100), 4)
            await until(lambda: first_has(100 - len(seen[1])), "the first one has the rest")
            first.send_signal(signal.SIGTERM)
            assert first.wait(PATIENCE) == 0
            assert first.stderr is not None
            assert first.stderr.read() == b""
        assert sorted(map(int, seen[0] + seen[1])) == list(range(100)), "each record once"
        assert await committed(admin, existing_topic) == 100
        assert (await admin.describe_groups(f"of-{existing_topic}"))[
            f"of-{existing_topic}"
        ].members == ()


async def test_a_count_of_a_member_commits_so_many(
    kafka: KafkaCluster, existing_topic: str
) -> None:
    await send(kafka, existing_topic, range(10))
    arguments = ("--group", f"of-{existing_topic}", *EARLIEST)
    assert tail(kafka, existing_topic, *arguments, "--count", "3") == [b"0", b"1", b"2"]
    async with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        offsets = await admin.group_offsets(f"of-{existing_topic}")
        assert offsets[TopicPartition(existing_topic, 0)].offset == 3
    assert tail(kafka, existing_topic, *arguments, "-c", "2", "-f", "%o:%s ") == [b"3:3", b"4:4"]
    found = tail(kafka, existing_topic, *arguments, "-c", "1", "--json", "--read-committed")
    assert found[0].startswith(b'{"topic":"%s","partition":0,"offset":5,' % existing_topic.encode())
