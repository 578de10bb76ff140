"""The changes of a table become a compacted topic that equals the table, on a real Kafka."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from aioproducer import Reader
from aioproducer.spark import publish_partitions, repartition_by_key
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.documentation.pages import DOCS, blocks
from tests.spark.sink import for_each_batch, forget_last_commit

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("protocol", [2], indirect=True),
]

Row = dict[str, Any]

PARTITIONS: Final = 6

DELTA: Final = (
    "id long, name string, price double, "
    "_change_type string, _commit_version long, _commit_timestamp timestamp"
)
ICEBERG: Final = (
    "id long, name string, price double, "
    "_change_type string, _change_ordinal int, _commit_snapshot_id long"
)


def page(cluster: KafkaCluster) -> SimpleNamespace:
    """The functions of the page, for this cluster."""
    found = blocks(DOCS / "how-to" / "spark.md", "python")
    [text] = [each.text for each in found if "def newest_rows" in each.text]
    functions, a_stream, _ = text.partition("\nspark = SparkSession")
    assert a_stream
    names: dict[str, Any] = {}
    exec(functions.replace("localhost:9092", cluster.bootstrap_servers), names)
    return SimpleNamespace(**names)


class Table:
    """A table with a key, and the rows that its format gives for each commit."""

    def __init__(self, seed: int, *, updates: bool = True) -> None:
        """``updates``: an update is not a delete and an insert, as it is in Iceberg's default."""
        self.rows: dict[int, Row] = {}
        self._random = random.Random(seed)
        self._updates = updates

    def commit(self, changes: int) -> list[Row]:
        """A commit of a few changes of different keys, in an order that means nothing."""
        told: list[Row] = []
        untouched = self._random.sample(range(40), 2 * changes)
        for old, new in zip(untouched[:changes], untouched[changes:], strict=True):
            told += self._change(old, new)
        self._random.shuffle(told)
        return told

    def _change(self, key: int, new_key: int) -> Iterator[Row]:
        if key not in self.rows:
            yield self._put(key, "insert")
            return
        before = self.rows.pop(key)
        change = self._random.choice(["update", "update", "replace", "delete", "move"])
        if change == "move" and new_key in self.rows:  # the two rows exchange their keys
            yield before | {"_change_type": "update_preimage"}
            yield self.rows[new_key] | {"_change_type": "update_preimage"}
            yield self._put(new_key, "update_postimage")
            yield self._put(key, "update_postimage")
            return
        if change == "delete":
            yield before | {"_change_type": "delete"}
            return
        names = ("update_preimage", "update_postimage")
        if change == "replace" or not self._updates:
            names = ("delete", "insert")
        yield before | {"_change_type": names[0]}
        yield self._put(new_key if change == "move" else key, names[1])

    def _put(self, key: int, change: str) -> Row:
        name = self._random.choice(["tea", "kaffee \N{HOT BEVERAGE}", None])
        self.rows[key] = {"id": key, "name": name, "price": self._random.randrange(1, 99) / 4}
        return self.rows[key] | {"_change_type": change}


async def records(cluster: KafkaCluster, topic: str) -> list[tuple[int, Row | None]]:
    """Key and row of each committed record; those of a partition in its order."""
    options: dict[str, Any] = {"isolation_level": "read_committed", "end": "end"}
    async with Reader(topic, bootstrap_servers=cluster.bootstrap_servers, **options) as reader:
        return [
            (int(each.key or b""), None if each.value is None else json.loads(each.value))
            async for each in reader
        ]


def view(found: list[tuple[int, Row | None]]) -> dict[int, Row]:
    """The rows after compaction: the last record of each key, without tombstones."""
    return {key: row for key, row in dict(found).items() if row is not None}


def without_nulls(table: Table) -> dict[int, Row]:
    """As ``to_json()`` writes rows."""
    return {
        key: {name: value for name, value in row.items() if value is not None}
        for key, row in table.rows.items()
    }


async def compacted(cluster: KafkaCluster, topic: str) -> None:
    await cluster.create_topic(topic, PARTITIONS, 3, {"cleanup.policy": "compact"})


async def test_a_stream_of_changes_in_deltas_form(
    spark: SparkSession, transactional: KafkaCluster, tmp_path: Path
) -> None:
    """Also if a micro-batch comes again."""
    await compacted(transactional, "products")
    table, files, keys = Table(seed=1), tmp_path / "feed", Counter[int]()
    files.mkdir()

    def add_commits(numbers: range) -> None:
        told = [
            row | {"_commit_version": number, "_commit_timestamp": f"2026-11-30T06:{number:02}:00Z"}
            for number in numbers
            for row in table.commit(changes=6)
        ]
        keys.update({row["id"] for row in told})
        file = files / f"{numbers[0]}.json"
        file.write_text("".join(json.dumps(row) + "\n" for row in told))
        os.utime(file, (numbers[0], numbers[0]))  # Spark reads the older one first

    changes = spark.readStream.schema(DELTA).option("maxFilesPerTrigger", 1).json(str(files))
    write = page(transactional).publish
    for first in (0, 5, 10):
        add_commits(range(first, first + 5))
    for_each_batch(changes, write, tmp_path / "checkpoint")
    forget_last_commit(tmp_path / "checkpoint")
    add_commits(range(15, 20))
    for_each_batch(changes, write, tmp_path / "checkpoint")

    found = await records(transactional, "products")
    assert view(found) == without_nulls(table)
    assert None in dict(found).values()  # a tombstone is the last record of a key
    assert Counter(key for key, _ in found) == keys  # a record for each key of a micro-batch


@pytest.mark.parametrize("updates", [True, False], ids=["updates", "deletes and inserts"])
async def test_ranges_of_changes_in_icebergs_form(
    spark: SparkSession, transactional: KafkaCluster, updates: bool
) -> None:
    """The same range again writes nothing."""
    topic = f"iceberg-{updates}".lower()
    await compacted(transactional, topic)
    table = Table(seed=2, updates=updates)
    names = {"update_preimage": "UPDATE_BEFORE", "update_postimage": "UPDATE_AFTER"}
    options: dict[str, Any] = {
        "kafka.bootstrap.servers": transactional.bootstrap_servers,
        "topic": topic,
        "delivery.guarantee": "exactly_once",
        "sink.id": f"sink-of-{topic}",
    }
    for number in range(3):
        told = [
            row
            | {
                "_change_type": names.get(row["_change_type"], row["_change_type"].upper()),
                "_change_ordinal": ordinal,
                "_commit_snapshot_id": table._random.randrange(1 << 62),
            }
            for ordinal in range(4)
            for row in table.commit(changes=8)
        ]
        changes = spark.createDataFrame(told, ICEBERG)
        rows = page(transactional).newest_rows(changes, col("id"), "_change_ordinal")
        options["sink.batch.id"] = number
        for expected in (len({row["id"] for row in told}), 0):
            report = publish_partitions(repartition_by_key(rows, PARTITIONS), **options)
            assert report.records == expected
    found = await records(transactional, topic)
    assert view(found) == without_nulls(table)
    assert None in dict(found).values()
