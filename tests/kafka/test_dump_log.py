"""What the brokers have on their disks, as Kafka's own DumpLogSegments reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from aioproducer import Producer, ProducerRecord
from aioproducer.testing.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

LEVELS: list[tuple[str, int | None]] = [
    ("none", None),
    *[("gzip", level) for level in (-1, 1, 9)],
    ("snappy", None),
    *[("lz4", level) for level in (1, 9, 17)],
    *[("zstd", level) for level in (-7, 3, 22)],
]
NOON = 1_700_000_000_000
LONG_AGO = 5

RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) CreateTime: (?P<time>\d+) keySize: (?P<key_size>-?\d+) "
    r"valueSize: (?P<value_size>-?\d+) sequence: (?P<sequence>-?\d+) "
    r"headerKeys: \[(?P<header_keys>.*?)\](?: key: (?P<key>.*?))?(?: payload: (?P<value>.*))?"
)


@dataclass
class Batch:
    """A batch as the tool prints it."""

    properties: dict[str, str]
    records: list[dict[str, Any]] = field(default_factory=list)

    def number(self, name: str) -> int:
        return int(self.properties[name])

    def all_numbers(self, *names: str) -> tuple[int, ...]:
        return tuple(self.number(name) for name in names)


async def dump(cluster: KafkaCluster, segments: Sequence[Path]) -> dict[str, list[Batch]]:
    """The batches by file."""
    tool = await cluster.tool(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--files", ",".join(map(str, segments)), "--print-data-log"),
    )
    assert tool.returncode == 0, tool.stderr
    assert tool.stderr == ""
    files: dict[str, list[Batch]] = {}
    for line in tool.stdout.splitlines():
        if line.startswith("Dumping "):
            batches = files.setdefault(line.removeprefix("Dumping "), [])
        elif line.startswith("baseOffset: "):
            batches.append(Batch(dict(re.findall(r"(\w+): (\S+)", line))))
        elif line.startswith("|"):
            found = RECORD.fullmatch(line)
            assert found, line
            batches[-1].records.append(found.groupdict())
        else:
            assert line.startswith("Log starting offset: "), line
    return files


def segment(cluster: KafkaCluster, topic: str, partition: int) -> Path:
    [found] = [
        path
        for broker in cluster.brokers
        for path in broker.data_dir.glob(f"{topic}-{partition}/*.log")
    ]
    return found


def batches_to_send(topic: str, partition: int) -> list[list[ProducerRecord]]:
    def record(value: Any, key: Any = None, headers: Any = None, time: int = NOON) -> Any:
        return ProducerRecord(topic, value, key, partition, headers, time)

    return [
        [record(None)],
        [
            record("", key=""),
            record("Grüße", key="schlüssel", headers={"trace": b"1"}, time=NOON - 3),
            record("v", headers=[("a", b"1"), ("a", b""), ("", None)], time=NOON + 7),
            record(None, key="tombstone", headers={}, time=LONG_AGO),
        ],
        [record("again and " * 20, key=f"{number:03}") for number in range(200)],
    ]


def as_printed(record: ProducerRecord, number: int) -> dict[str, Any]:
    def size(text: str | None) -> str:
        return "-1" if text is None else str(len(text.encode()))

    headers = record.headers or ()
    names = headers if isinstance(headers, Mapping) else [name for name, _ in headers]
    return {
        "offset": str(number),
        "time": str(record.timestamp_ms),
        "key_size": size(record.key),
        "value_size": size(record.value),
        "sequence": str(number),
        "header_keys": ",".join(names),
        "key": record.key,
        "value": record.value,
    }


def options_of(codec: str, level: int | None) -> dict[str, Any]:
    levels = {} if level is None else {f"compression_{codec}_level": level}
    return {"compression_type": codec, **levels}


async def write(producer: Producer, batches: list[list[ProducerRecord]]) -> None:
    """Each list is one batch: sent in one go, and awaited before the next."""
    for batch in batches:
        futures = [producer.send(record) for record in batch]
        assert {(await future).partition for future in futures} == {batch[0].partition}


def ranges(batches: list[list[ProducerRecord]]) -> Iterator[tuple[int, int, int]]:
    first = 0
    for batch in batches:
        yield first, first + len(batch) - 1, len(batch)
        first += len(batch)


async def test_every_codec_and_level_is_valid_on_disk(kafka: KafkaCluster) -> None:
    topic = "dumped"
    await kafka.create_topic(topic, partitions=len(LEVELS))
    for partition, (codec, level) in enumerate(LEVELS):
        async with Producer(
            bootstrap_servers=kafka.bootstrap_servers,
            batch_size=100_000,
            **options_of(codec, level),
        ) as producer:
            await write(producer, batches_to_send(topic, partition))

    segments = [segment(kafka, topic, partition) for partition in range(len(LEVELS))]
    files = await dump(kafka, segments)
    producer_ids = []
    plain_size = 0
    for partition, (codec, _) in enumerate(LEVELS):
        sent = batches_to_send(topic, partition)
        found = files[str(segments[partition])]
        assert [batch.all_numbers("baseOffset", "lastOffset", "count") for batch in found] == list(
            ranges(sent)
        )
        records = [record for batch in sent for record in batch]
        assert [record for batch in found for record in batch.records] == [
            as_printed(record, number) for number, record in enumerate(records)
        ]
        for batch, written in zip(found, sent, strict=True):
            assert batch.properties["isvalid"] == "true"
            assert batch.properties["magic"] == "2"
            assert batch.properties["compresscodec"] == codec
            assert batch.properties["isTransactional"] == "false"
            assert batch.properties["isControl"] == "false"
            assert batch.number("producerEpoch") == 0
            assert batch.number("CreateTime") == max(record.timestamp_ms or 0 for record in written)
            assert batch.all_numbers("baseSequence", "lastSequence") == batch.all_numbers(
                "baseOffset", "lastOffset"
            )
        producer_ids.append({batch.number("producerId") for batch in found})
        for before, after in pairwise(found):
            assert after.number("position") == before.number("position") + before.number("size")
        end = found[-1].number("position") + found[-1].number("size")
        assert end == segments[partition].stat().st_size
        if codec == "none":
            plain_size = end
        else:
            assert end < plain_size / 4
    assert all(len(ids) == 1 for ids in producer_ids)
    assert len(set.union(*producer_ids)) == len(LEVELS)


@pytest.mark.parametrize("acks", ["1", "all"])
async def test_without_idempotence_batches_carry_no_producer(
    kafka: KafkaCluster, acks: Any
) -> None:
    topic = f"dumped-anonymous-{acks}"
    await kafka.create_topic(topic)
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, acks=acks, enable_idempotence=False
    ) as producer:
        await producer.send(topic, b"value")
    path = segment(kafka, topic, 0)
    [[batch]] = (await dump(kafka, [path])).values()
    assert batch.properties["isvalid"] == "true"
    assert batch.all_numbers("producerId", "producerEpoch", "baseSequence") == (-1, -1, -1)
