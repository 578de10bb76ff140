"""Kafka's own classes judge our messages, partitions, assignors, serializers and names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest

import aioproducer
from aioproducer import Producer, serialization, sync, testing
from aioproducer.config import ProducerConfig
from aioproducer.config.names import BY_JAVA_NAME, WITHOUT_EFFECT
from aioproducer.config.properties import CONFIG_PROVIDERS
from aioproducer.config.reader_options import READER_OPTIONS
from aioproducer.engine.groups.assignors import (
    Assignment,
    GroupMember,
    PartitionCounts,
    PartitionRacks,
    Steps,
    range_steps,
    round_robin_steps,
)
from aioproducer.engine.partitioning import murmur2_partition
from aioproducer.errors import ConfigError
from aioproducer.errors.broker import RETRIABLE, ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.documentation.pages import DOCS
from tests.kafka.conftest import said
from tests.protocol import tables
from tests.protocol.messages import Case, cases
from tests.support.reference_assignors import random_group, random_racks
from tests.support.responses import at_once

pytestmark = pytest.mark.kafka


EACH: Final = 20
"""Messages of each version."""


def test_kafka_reads_every_message_and_writes_the_same_bytes(
    newest: KafkaDistribution,
) -> None:
    written: list[tuple[Case, str]] = []
    for case in cases():
        random = Random(f"kafka {case.name}")
        for _ in range(EACH):
            data = case.schema.encode(case.draw(random), case.version)
            written.append((case, data.hex()))
    lines = [f"{case.api} {case.kind} {case.version} {data}" for case, data in written]
    answers = said(newest, "ReadMessages", "\n".join(lines) + "\n")
    assert len(answers) == len(written)
    wrong = [
        f"{case.name}: {data[:400]} -> {answer[:400]}"
        for (case, data), answer in zip(written, answers, strict=True)
        if answer != data
    ]
    assert not wrong, "\n".join(wrong[:10])


def test_the_tables_are_those_of_the_jar(newest: KafkaDistribution) -> None:
    assert tables.FILE.read_text("utf-8") == tables.generated(), "python -m tests.protocol.tables"


def test_the_error_codes_are_kafkas(newest: KafkaDistribution) -> None:
    theirs = dict(line.split(" ", 1) for line in said(newest, "ErrorCodes"))
    ours = {
        str(int(code)): f"{code.name} {'retriable' if code in RETRIABLE else 'final'}"
        for code in ErrorCode
    }
    assert ours == theirs


JAVA = Path(__file__).with_name("java")


def some_values() -> list[tuple[str, Any]]:
    random = Random("some values")
    values: list[tuple[str, Any]] = [
        *((kind, value) for kind in ("Float", "Double") for value in (0.0, -0.0, 1.5, math.inf)),
        ("Float", math.nan),
        ("Double", math.nan),
        *(("String", text) for text in ("a", "Grüße", "🗝", "e\u0301")),
    ]
    for kind, bits in (("Short", 16), ("Integer", 32), ("Long", 64)):
        values += [(kind, value) for value in (0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))]
        values += [(kind, random.getrandbits(bits) - 2 ** (bits - 1)) for _ in range(50)]
    for _ in range(50):
        values.append(("Float", random.uniform(-1e6, 1e6)))
        values.append(("Double", random.gauss(0, 1e100)))
        values.append(("UUID", UUID(int=random.getrandbits(128))))
    return values


async def test_kafka_reads_and_writes_the_same(kafka: KafkaCluster) -> None:
    values = some_values()
    made: list[bytes] = [
        getattr(serialization, f"{kind}Serializer")().serialize("orders", value, [])
        for kind, value in values
    ]
    lines = "".join(f"{kind} {data.hex()}\n" for (kind, _), data in zip(values, made, strict=True))
    java = await kafka.tool(str(JAVA / "SerializedValues.java"), input=lines, timeout=60)
    assert java.returncode == 0, java.stderr
    answers = java.stdout.splitlines()
    assert len(answers) == len(values)
    for (kind, value), data, line in zip(values, made, answers, strict=True):
        read, _, again = line.rpartition(" ")
        assert again == data.hex(), (kind, value)
        if kind in ("Short", "Integer", "Long"):
            assert int(read) == value
        elif kind == "Double":
            assert repr(float(read.replace("Infinity", "inf"))) == repr(float(value))
        elif kind == "UUID":
            assert read == str(value)


KEYS = 10_000
COUNTS = (1, 2, 3, 7, 12, 50, 64, 1000, 100_003)


def some_keys() -> list[bytes]:
    """Every length from 0 to 40, with corners that a wrong sign or a wrong tail would show."""
    random = Random("some keys")
    corners = [bytes(length) for length in range(41)]
    corners += [b"\xff" * length for length in range(1, 41)]
    corners += [b"\x80" * length for length in range(1, 41)]
    corners += [text.encode() for text in ("Schlüssel", "ключ", "鍵", "🗝️", "k\0y")]
    rest = [random.randbytes(random.randrange(41)) for _ in range(KEYS - len(corners))]
    return corners + rest


def in_hex(keys: list[bytes]) -> str:
    return "".join(f"{key.hex()}\n" for key in keys)


async def test_keys_have_the_partitions_that_java_computes(kafka: KafkaCluster) -> None:
    keys = some_keys()
    assert len(keys) == KEYS
    assert {len(key) for key in keys} == set(range(41))
    java = await kafka.tool(
        str(JAVA / "PartitionOf.java"), *map(str, COUNTS), input=in_hex(keys), timeout=60
    )
    assert java.returncode == 0, java.stderr
    theirs = [tuple(map(int, line.split())) for line in java.stdout.splitlines()]
    ours = [tuple(murmur2_partition(key, count) for count in COUNTS) for key in keys]
    assert ours == theirs

    topic = "partitions-of-keys"
    await kafka.create_topic(topic, partitions=12)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        futures = [producer.send(topic, b"", key=key) for key in keys]
        sent_to = [(await future).partition for future in futures]
    assert sent_to == [partitions[COUNTS.index(12)] for partitions in theirs]


async def test_kafkas_producer_and_ours_send_a_key_to_one_partition(kafka: KafkaCluster) -> None:
    keys = some_keys()[::10]
    topic = "partitions-of-two-clients"
    await kafka.create_topic(topic, partitions=7)
    java = await kafka.tool(
        str(JAVA / "SendKeys.java"),
        *(kafka.bootstrap_servers, topic),
        input=in_hex(keys),
        timeout=60,
    )
    assert java.returncode == 0, java.stderr
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        futures = [producer.send(topic, b"", key=key) for key in keys]
        ours = [(await future).partition for future in futures]
    assert ours == [int(line) for line in java.stdout.split()]
    assert set(ours) == set(range(7))


GROUPS = 10_000
Assignor = Callable[[list[GroupMember], PartitionCounts, PartitionRacks], Steps[Assignment]]


def line_of(
    name: str, members: list[GroupMember], counts: PartitionCounts, racks: PartitionRacks
) -> str:
    """A group, as the program in Java reads it."""

    def racks_of(topic: str) -> str:
        partitions = [TopicPartition(topic, number) for number in range(counts[topic])]
        return "".join(f"{','.join(sorted(racks[where]))};" for where in partitions)

    def said_by(member: GroupMember) -> str:
        topics = " ".join(member.topics)
        return f"{member.member_id}/{member.instance_id or ''}/{topics}/{member.rack or ''}"

    topics = " ".join(f"{topic}={racks_of(topic)}" for topic in counts)
    return "\t".join([name, topics, *map(said_by, members)])


@pytest.mark.parametrize(
    ("name", "assign"),
    [
        ("range", range_steps),
        ("roundrobin", lambda members, counts, _: round_robin_steps(members, counts)),
    ],
)
def test_the_partitions_of_each_member(
    newest: KafkaDistribution, name: str, assign: Assignor
) -> None:
    random = Random(name)
    groups = []
    for _ in range(GROUPS):
        members, counts = random_group(random)
        groups.append((counts, *random_racks(random, members, counts)))
    lines = [line_of(name, members, counts, racks) for counts, members, racks in groups]
    theirs = said(newest, "Assignors", "\n".join(lines))
    assert len(theirs) == GROUPS
    differs = 0
    for (counts, members, racks), line in zip(groups, theirs, strict=True):
        found = dict(each.split("=") for each in line.split("\t"))
        ours = at_once(assign(members, counts, racks))
        assert found == {
            member_id: " ".join(map(str, given)) for member_id, given in ours.items()
        }, (members, racks)
        differs += ours != at_once(assign(members, counts, {}))
    assert (differs > GROUPS // 100) == (name == "range"), "racks matter in some of the groups"


CLIENTS = "org.apache.kafka.clients"


async def documented(kafka: KafkaCluster, kind: str) -> list[str]:
    """The options in the page that Kafka's class prints."""
    printed = await kafka.tool(f"{CLIENTS}.{kind}", timeout=60)
    assert printed.returncode == 0, printed.stderr
    return sorted(set(re.findall(r'id="[a-z]+configs_([a-z0-9.]+)"', printed.stdout)))


def refusal(name: str) -> str:
    try:
        ProducerConfig.from_properties({"bootstrap.servers": "localhost:9092", name: "1"})
    except ConfigError as error:
        return str(error)
    return ""


async def test_every_option_of_kafkas_producer(kafka: KafkaCluster) -> None:
    names = await documented(kafka, "producer.ProducerConfig")
    assert len(names) > 100
    unknown = [each for each in names if each not in BY_JAVA_NAME and each not in WITHOUT_EFFECT]
    assert unknown == ["config.providers", "transaction.two.phase.commit.enable"]
    assert not refusal("config.providers")
    assert "two-phase commit is not available" in refusal(unknown[1])


async def test_every_option_of_kafkas_consumer(kafka: KafkaCluster) -> None:
    names = await documented(kafka, "consumer.ConsumerConfig")
    readers = {each.java_name for each in READER_OPTIONS.values()}
    for name in set(names) - set(BY_JAVA_NAME) - set(WITHOUT_EFFECT) - {"config.providers"}:
        assert name in readers or "Kafka's consumer" in refusal(name), name


async def test_every_option_of_kafkas_admin(kafka: KafkaCluster) -> None:
    names = await documented(kafka, "admin.AdminClientConfig")
    unknown = set(names) - set(BY_JAVA_NAME) - set(WITHOUT_EFFECT)
    assert unknown == {"config.providers", "bootstrap.controllers", "default.api.timeout.ms"}
    assert "requests go to brokers" in refusal("bootstrap.controllers")


RENAMED: Final = {"KafkaProducer": "Producer", "BufferExhaustedException": "BufferExhaustedError"}
HEADING: Final = "## Names without a counterpart"


def missing_names() -> Iterator[str]:
    """The names in the first column of the page's table; each row has a reason."""
    page = (DOCS / "explanation" / "differences.md").read_text("utf-8")
    section = page.partition(HEADING)[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:3] == "| `"]
    for theirs, ours, reason in rows:
        assert ours.strip(), theirs
        assert reason.strip(), theirs
        yield from re.findall(r"`([\w.]+)`", theirs)


def is_here(kind: str, name: str) -> bool:
    """True if the option, method or class of Kafka has a counterpart."""
    if kind == "option":
        return name in BY_JAVA_NAME or name in WITHOUT_EFFECT or name == CONFIG_PROVIDERS
    if kind == "method":
        ours = re.sub("([A-Z])", r"_\1", name).lower()
        return hasattr(Producer, ours) and hasattr(sync.Producer, ours)
    ours = RENAMED.get(name, name)
    return hasattr(aioproducer, ours) or hasattr(testing, ours)


def test_each_name_is_here_or_a_difference(newest: KafkaDistribution) -> None:
    names = [tuple(line.split()) for line in said(newest, "ProducerNames")]
    kinds = [kind for kind, _ in names]
    assert kinds.count("option") > 100
    assert kinds.count("method") >= 13
    assert kinds.count("class") >= 12
    absent = [name for kind, name in names if not is_here(kind, name)]
    assert sorted(absent) == sorted(missing_names()), "the page of differences has other names"
