"""The arguments of an Admin's calls, before anything is sent."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest

from aioproducer.admin import Append, NewTopic, PartitionLag, Subtract
from aioproducer.admin.values import (
    by_name,
    checked_assignment,
    checked_changes,
    checked_groups,
    checked_names,
    checked_offsets,
    checked_partitions,
    checked_positions,
    checked_resources,
    checked_topics,
)
from aioproducer.errors import (
    InvalidConfigError,
    InvalidGroupIdError,
    InvalidOffsetError,
    InvalidPartitionError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    ProducerError,
)
from aioproducer.model import TopicPartition


def test_a_new_topic_is_checked_and_frozen() -> None:
    topic = NewTopic("orders", assignment={1: [2, 1], 0: [1, 2]}, configs={"a": 1, "b": False})
    assert topic.assignment == {0: (1, 2), 1: (2, 1)}
    assert topic.configs == {"a": "1", "b": "false"}
    assert pickle.loads(pickle.dumps(topic)) == topic
    with pytest.raises(AttributeError):
        topic.name = "x"  # type: ignore[misc]


class Days(IntEnum):
    WEEK = 7


class Ratio(float):
    def __repr__(self) -> str:
        return "a ratio"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3_600_000, "3600000"),
        (3_600_000.0, "3600000"),
        (60 * 60 * 1e3, "3600000"),
        (1e18, "1000000000000000000"),
        (-1.0, "-1"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (Ratio(0.25), "0.25"),
        (Days.WEEK, "7"),
        (False, "false"),
        ("3600000.0", "3600000.0"),
    ],
)
def test_numbers_of_a_configuration_are_texts_that_kafka_reads(value: Any, text: str) -> None:
    """An integer setting takes no ``3600000.0``; one of a double takes ``1``."""
    assert NewTopic("a", configs={"x": value}).configs == {"x": text}
    assert checked_changes({"a": {"x": value}}) == {"a": {"x": text}}
    assert checked_changes({"a": {"x": Append(value)}}) == {"a": {"x": Append(text)}}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, Decimal(1), b"1"])
def test_values_of_a_configuration_that_no_setting_takes(value: Any) -> None:
    with pytest.raises(InvalidConfigError, match=r"topic 'a', x: a value is a str .* or a finite"):
        NewTopic("a", configs={"x": value})


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: NewTopic("a b"), InvalidTopicError, "not 'a b'"),
        (lambda: NewTopic("a", 0), InvalidPartitionsError, "topic 'a': partitions .* not 0"),
        (lambda: NewTopic("a", True), InvalidPartitionsError, "not True"),
        (lambda: NewTopic("a", 2**31), InvalidPartitionsError, "from 1 to 2147483647"),
        (lambda: NewTopic("a", 1, 2**15), InvalidReplicationFactorError, "'a'.* to 32767"),
        (
            lambda: NewTopic("a", 1, assignment={0: [1]}),
            InvalidReplicaAssignmentError,
            "'a': .*leave out partitions",
        ),
        (
            lambda: NewTopic("a", assignment=[[1]]),  # type: ignore[arg-type]
            InvalidReplicaAssignmentError,
            "a mapping of partitions",
        ),
        (lambda: NewTopic("a", assignment={}), InvalidReplicaAssignmentError, "from 0 on"),
        (lambda: NewTopic("a", assignment={1: [1]}), InvalidReplicaAssignmentError, "from 0 on"),
        (lambda: NewTopic("a", assignment={0: []}), InvalidReplicaAssignmentError, "one replica"),
        (
            lambda: NewTopic("a", assignment={0: [1], 1: [2, 2]}),
            InvalidReplicaAssignmentError,
            r"partition 1: .*different brokers, not on \[2, 2\]",
        ),
        (lambda: NewTopic("a", assignment={0: [-1]}), InvalidReplicaAssignmentError, "not -1"),
        (
            lambda: NewTopic("a", configs={"x": None}),  # type: ignore[dict-item]
            InvalidConfigError,
            "topic 'a', x: a value is",
        ),
        (lambda: NewTopic("a", configs={"": 1}), InvalidConfigError, "by names"),
        (lambda: NewTopic("a", configs={"x": "\ud800"}), InvalidConfigError, "topic 'a', x"),
        (lambda: NewTopic("a", configs={"x": "y" * 40_000}), InvalidConfigError, "32767 bytes"),
        (lambda: by_name([NewTopic("a"), NewTopic("a")]), InvalidTopicError, "'a' is named twice"),
        (lambda: by_name(["a"]), InvalidTopicError, "NewTopic objects, not str"),  # type: ignore[list-item]
        (lambda: checked_topics(["a", 1]), InvalidTopicError, "of type int"),
        (lambda: checked_groups(["g", ""]), InvalidGroupIdError, "not ''"),
        (lambda: checked_groups([1]), InvalidGroupIdError, "not 1"),
        (lambda: checked_names(["a", ""]), InvalidConfigError, "not ''"),
        (lambda: checked_resources(["a", -1]), InvalidConfigError, "not -1"),
        (lambda: checked_resources([True]), InvalidConfigError, "not True"),
        (lambda: checked_changes({"a b": {}}), InvalidTopicError, "'a b'"),
        (lambda: checked_changes({1: {"x": Append(b"y")}}), InvalidConfigError, "1, x: .*bytes"),  # type: ignore[arg-type]
        (lambda: checked_offsets({("a", -1): 0}), InvalidPartitionError, "not -1"),
        (lambda: checked_offsets({"a": 0}), InvalidOffsetError, "not 'a'"),
        (lambda: checked_offsets({("a", 0): -2}), InvalidOffsetError, "a-0: .*not -2"),
        (lambda: checked_offsets({("a", 0): None}), InvalidOffsetError, "not None"),
        (lambda: checked_partitions("ab"), InvalidOffsetError, "not 'a'"),
        (lambda: checked_partitions([("a", -1)]), InvalidPartitionError, "not -1"),
        (lambda: checked_positions({("a", 0): 7}), InvalidOffsetError, "a-0: .*'end' .*not 7"),
        (lambda: checked_positions({("a", 0): []}), InvalidOffsetError, r"not \[\]"),
        (lambda: checked_positions({("a", 0): datetime.min}), InvalidOffsetError, "not datetime"),
    ],
)
def test_what_cannot_be(make: Callable[[], Any], error: type[ProducerError], said: str) -> None:
    with pytest.raises(error, match=said) as caught:
        make()
    assert isinstance(caught.value, ProducerError)


def test_one_or_several() -> None:
    assert checked_topics("orders") == ("orders",)
    assert checked_topics(["b", "a", "b"]) == ("b", "a")
    assert checked_groups("readers") == ("readers",)
    assert checked_resources("orders") == ("orders",)
    assert checked_resources(3) == (3,)
    assert checked_resources(["3", 3]) == ("3", 3)
    assert checked_names(None) is None
    assert checked_names("a") == ("a",)
    where = TopicPartition("a", 1)
    assert checked_offsets({("a", 1): -1}) == {where: -1}
    assert checked_partitions([("a", 1), where, ("a", 0)]) == (where, ("a", 0))
    assert checked_positions({where: datetime(1969, 1, 1)}) == {where: 0}


def test_the_assignment_of_added_partitions() -> None:
    assert checked_assignment({7: [1], 6: [2]}, "t", 6) == {6: (2,), 7: (1,)}
    with pytest.raises(InvalidReplicaAssignmentError, match=r"t: .*each partition from 6 on"):
        checked_assignment({0: [1]}, "t", 6)


def test_changes_are_text() -> None:
    changes = {"orders": {"a": 1, "b": None, "c": Append("x"), "d": Subtract("y")}, 1: {"e": 0.5}}
    assert checked_changes(changes) == {
        "orders": {"a": "1", "b": None, "c": Append("x"), "d": Subtract("y")},
        1: {"e": "0.5"},
    }


@pytest.mark.parametrize(("committed", "end", "lag"), [(3, 10, 7), (11, 10, 0), (3, None, None)])
def test_a_lag(committed: int, end: int | None, lag: int | None) -> None:
    assert PartitionLag(committed, end).lag == lag
