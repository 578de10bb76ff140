"""Rows by topic, and those of a task that has partitions of its own."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, StructField, StructType

from aioproducer.config import ProducerConfig
from aioproducer.engine.accumulator import accumulator_settings
from aioproducer.engine.partitioning import murmur2_partition
from aioproducer.engine.records.builder import batch_size_bound
from aioproducer.errors import IllegalStateError, SerializationError
from aioproducer.failed_records import ERROR_MESSAGE, DeadLetter
from aioproducer.model import ConsumerRecord
from aioproducer.spark.exactly_once import Batch, TaskPartitions
from aioproducer.spark.plan import SinkPlan, plan_write
from aioproducer.spark.planning import plan_sink
from aioproducer.spark.rows import by_topic, too_large
from aioproducer.spark.task import BATCH, QUERY_ID, DeadLetters, Letters, letters_batch
from tests.support.world import settings_of


def plan(topic: str | None, *columns: str) -> SinkPlan:
    kinds = dict.fromkeys(columns, "string") | (
        {"partition": "int"} if "partition" in columns else {}
    )
    options = {"kafka.bootstrap.servers": "localhost:1"} | ({"topic": topic} if topic else {})
    return plan_write(options, kinds)


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            name: pa.array(values, pa.int32() if name == "partition" else pa.string())
            for name, values in columns.items()
        }
    )


def test_with_the_option_all_rows_go_there_without_the_other_columns() -> None:
    rows = batch(topic=["a", None], value=["1", "2"], extra=["x", "y"])
    [(topic, columns)] = by_topic(rows, plan("t", "topic", "value", "extra"))
    assert topic == "t"
    assert columns.to_pydict() == {"value": ["1", "2"]}


def test_rows_are_parted_by_topic_in_their_order() -> None:
    rows = batch(topic=["b", "a", "b"], value=["1", "2", "3"], key=["k", "l", "m"])
    parted = list(by_topic(rows, plan(None, "topic", "value", "key")))
    assert [(topic, columns.to_pydict()) for topic, columns in parted] == [
        ("a", {"value": ["2"], "key": ["l"]}),
        ("b", {"value": ["1", "3"], "key": ["k", "m"]}),
    ]


def test_a_row_without_a_topic_is_refused_in_sparks_words() -> None:
    rows = batch(topic=["b", None], value=["1", "2"])
    with pytest.raises(SerializationError, match="contains a null topic"):
        list(by_topic(rows, plan(None, "topic", "value")))


def headers_column(*rows: list[tuple[str, bytes]] | None) -> pa.Array:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    fields = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in rows]
    return pa.array(fields, kind)


@pytest.mark.parametrize("name", ["value", "key", "headers"])
def test_a_row_is_too_large_where_the_producer_refuses_it(name: str) -> None:
    """To the byte: 0 to 4 bytes more than a batch may have."""
    lengths = [1000 + more for more in range(-4, 5)]
    columns = {"value": pa.array([b"v"] * 9), "key": pa.array([None, b"k"] * 4 + [None])}
    if name == "headers":
        columns["headers"] = headers_column(
            *([("h", b"x" * length)] if length % 2 else None for length in lengths)
        )
    else:
        columns[name] = pa.array([b"x" * length for length in lengths])
    rows = pa.RecordBatch.from_pydict(columns)
    records = [
        (each["key"], each["value"], [(h["key"], h["value"]) for h in each.get("headers") or ()])
        for each in rows.to_pylist()
    ]
    most = sorted(batch_size_bound(*record) for record in records)[-4]
    refused = [row for row, each in enumerate(records) if batch_size_bound(*each) > most]
    found = too_large(rows, "t", settings_of(most))
    assert [row for row, _ in found] == refused
    assert len(refused) in (1, 2, 3)
    told = str(found[0][1])
    assert f"topic 't' is larger than the {most} bytes of kafka.max.request.size: raise k" in told
    assert too_large(rows.slice(0, 0), "t", settings_of(most)) == []


def test_the_option_of_a_write_is_named_that_would_let_a_large_row_pass() -> None:
    config = ProducerConfig(bootstrap_servers="localhost:1", buffer_memory=400_000)
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"x" * 300_000])})
    [(_, error)] = too_large(rows, "t", accumulator_settings(config, None))
    told = str(error)
    assert "300000 bytes of the share of kafka.buffer.memory for batches: raise kafka.b" in told


def letters_of(letters: Letters) -> list[tuple[str, bytes | None, bytes | None, str]]:
    found = []
    for each in letters_batch(letters, None).to_pylist():
        headers = tuple((header["key"], header["value"]) for header in each["headers"])
        record = ConsumerRecord("failed", 0, 0, 0, "", each["key"], each["value"], headers)
        letter = DeadLetter.of_record(record)
        found.append((letter.topic, letter.key, letter.value, letter.error_name))
    return found


def test_rows_that_no_broker_would_take_become_dead_letters() -> None:
    rows = batch(
        topic=["b", None, "a", "b"], value=["1", "2", "x" * 1500, "4"], key=["k", "l", "m", "n"]
    )
    planned = plan(None, "topic", "value", "key")
    topics, letters = DeadLetters(planned, settings_of(1000), Batch(7, "q")).sift(rows)
    assert [(topic, columns.to_pydict()) for topic, columns in topics] == [
        ("b", {"value": ["1", "4"], "key": ["k", "n"]}),
    ]
    assert letters_of(letters) == [
        ("", b"l", b"2", "SerializationError"),
        ("a", b"m", None, "RecordTooLargeError"),
    ]
    [first, _] = letters_batch(letters, 3).to_pylist()
    assert first["partition"] == 3
    facts = {each["key"]: each["value"] for each in first["headers"]}
    assert facts[BATCH] == b"7"
    assert facts[QUERY_ID] == b"q"
    assert b"null topic" in facts[ERROR_MESSAGE]


def test_values_that_do_not_fit_their_format_become_dead_letters() -> None:
    options = {"value.format": "json", "topic": "t", "kafka.bootstrap.servers": "localhost:1"}
    schema = StructType([StructField("value", StructType([StructField("x", DoubleType())]))])
    typed = plan_sink(options, schema)
    numbers = [0.0, math.nan, 2.0, 3.0, math.inf, 5.0, 6.0]
    rows = pa.RecordBatch.from_pydict({"value": pa.array([{"x": each} for each in numbers])})
    [(topic, columns)], letters = DeadLetters(typed, settings_of(1000), None).sift(rows)
    assert topic == "t"
    assert [json.loads(each)["x"] for each in columns.column("value").to_pylist()] == [
        0.0, 2.0, 3.0, 5.0, 6.0,
    ]  # fmt: skip
    assert letters_of(letters) == [
        ("t", None, b'{"x": NaN}', "SerializationError"),
        ("t", None, b'{"x": Infinity}', "SerializationError"),
    ]
    only_bad = rows.slice(1, 1)
    assert DeadLetters(typed, settings_of(1000), None).sift(only_bad)[0] == []


PARTITIONS = range(4)


def parts(
    own: TaskPartitions, rows: pa.RecordBatch, topic: str = "t"
) -> list[dict[str, list[Any]]]:
    return [part.to_pydict() for part in own.parts(topic, rows, PARTITIONS)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, [2, 2, 2]),
        ({"key": ["k", None, None]}, [murmur2_partition(b"k", 4), 2, 2]),
        ({"partition": [None, 3, None]}, [2, 3, 2]),
        (
            {"key": ["k", "k", None], "partition": [1, None, None]},
            [1, murmur2_partition(b"k", 4), 2],
        ),
    ],
)
def test_each_row_has_a_partition(columns: dict[str, list[Any]], expected: list[int]) -> None:
    rows = batch(value=["0", "1", "2"], **columns)
    sent = parts(TaskPartitions(task=2, shift=0, attempt=60), rows)
    found = {
        value: partition
        for part in sent
        for value, partition in zip(part["value"], part["partition"], strict=True)
    }
    assert [found[value] for value in ("0", "1", "2")] == expected


def test_rows_without_a_key_go_where_no_other_task_writes_and_elsewhere_the_next_time() -> None:
    for shift in range(9):
        chosen = [
            parts(TaskPartitions(task, shift, 0), batch(value=["v"]))[0]["partition"][0]
            for task in PARTITIONS
        ]
        assert sorted(chosen) == [0, 1, 2, 3]
    moved = [
        parts(TaskPartitions(1, shift, 0), batch(value=["v"]))[0]["partition"] for shift in range(4)
    ]
    assert moved == [[1], [2], [3], [0]]
    with pytest.raises(IllegalStateError, match=r"task 4 .* 4 partitions.*df\.coalesce\(4\)"):
        parts(TaskPartitions(4, 0, 0), batch(value=["v"]))


def test_the_first_rows_of_a_partition_are_a_part_whose_length_tells_attempts_apart() -> None:
    lengths = set()
    for attempt in range(61):
        own = TaskPartitions(0, 0, attempt)
        rows = batch(value=[str(number) for number in range(200)], partition=[0, 1] * 100)
        first, rest = parts(own, rows)
        lengths.add(first["partition"].count(0))
        assert first["partition"].count(0) == first["partition"].count(1)
        for partition in (0, 1):
            in_order = [
                int(value)
                for part in (first, rest)
                for value, there in zip(part["value"], part["partition"], strict=True)
                if there == partition
            ]
            assert in_order == list(range(partition, 200, 2))
    assert lengths == set(range(1, 62))


def test_few_rows_tell_few_attempts_apart() -> None:
    lengths = [
        [
            len(part["value"])
            for part in parts(TaskPartitions(0, 0, attempt), batch(value=["v"] * 3))
        ]
        for attempt in range(4)
    ]
    assert lengths == [[1, 2], [2, 1], [3], [1, 2]]


def test_only_the_first_rows_of_each_partition_are_apart() -> None:
    own = TaskPartitions(0, 0, attempt=4)
    assert len(parts(own, batch(value=["v"] * 10))) == 2
    assert len(parts(own, batch(value=["v"] * 10))) == 1
    assert len(parts(own, batch(value=["v"] * 10), topic="other")) == 2
    assert len(parts(own, batch(value=["v"] * 10, partition=[3] * 10))) == 2
    assert parts(own, batch(value=[])) == []
