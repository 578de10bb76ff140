"""Rows by topic, and rows that may go anywhere."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from aioproducer.errors import IllegalStateError, SerializationError
from aioproducer.spark.plan import SinkPlan, plan_write
from aioproducer.spark.rows import by_topic, free_rows, placed
from aioproducer.spark.writing import OwnPlace


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


@pytest.mark.parametrize(
    ("columns", "free"),
    [
        ({}, [True, True, True]),
        ({"key": ["k", None, None]}, [False, True, True]),
        ({"partition": [None, 3, None]}, [True, False, True]),
        ({"key": ["k", None, None], "partition": [None, 3, None]}, [False, False, True]),
    ],
)
def test_rows_with_neither_key_nor_partition_may_go_anywhere(
    columns: dict[str, list[Any]], free: list[bool]
) -> None:
    rows = batch(value=["1", "2", "3"], **columns)
    assert free_rows(rows).to_pylist() == free
    there = placed(rows, free_rows(rows), 7).to_pydict()
    before = columns.get("partition", [None] * 3)
    assert there["partition"] == [
        7 if is_free else old for is_free, old in zip(free, before, strict=True)
    ]
    assert there["value"] == ["1", "2", "3"]


def test_each_task_has_a_partition_of_its_own_and_another_in_each_batch() -> None:
    partitions = range(4)
    for shift in range(9):
        chosen = [OwnPlace(task, shift).among(partitions, "t") for task in range(4)]
        assert sorted(chosen) == [0, 1, 2, 3]
    assert [OwnPlace(1, shift).among(partitions, "t") for shift in range(4)] == [1, 2, 3, 0]
    with pytest.raises(IllegalStateError, match=r"task 4 .* 4 partitions.*df\.coalesce\(4\)"):
        OwnPlace(4, 0).among(partitions, "t")
