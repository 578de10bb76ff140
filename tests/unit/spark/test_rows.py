"""Rows by topic."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from aioproducer.errors import SerializationError
from aioproducer.spark.plan import SinkPlan, plan_write
from aioproducer.spark.rows import by_topic


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
