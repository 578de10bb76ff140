"""Rows by topic, and those of a task that has partitions of its own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from aioproducer.engine.partitioning import murmur2_partition
from aioproducer.errors import IllegalStateError, SerializationError
from aioproducer.spark.plan import SinkPlan, plan_write
from aioproducer.spark.rows import TaskPartitions, by_topic


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
