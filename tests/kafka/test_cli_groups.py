"""`aioproducer groups` on a real cluster, beside Kafka's own tool and another client."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.cli.app import run
from aioproducer.model import TopicPartition
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
START = 1_700_000_000
RECORDS = 20
"""The records of each partition, a second apart; the first five are deleted."""
FIRST = 5
PATIENCE = 60.0


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
    assert told.endswith("nothing was changed: --execute does it\n")
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
