"""Positions and assignments as users give them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from aioproducer.engine.client.requests import EARLIEST, LATEST
from aioproducer.errors import ConfigError, InvalidPartitionError, InvalidTopicError
from aioproducer.model import TopicPartition
from aioproducer.reader.positions import (
    Assigned,
    assigned,
    checked_position,
    offset_of,
    timestamp_of,
)

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("orders", [Assigned("orders", None, 7)]),
        (TopicPartition("orders", 3), [Assigned("orders", 3, 7)]),
        (("orders", 3), [Assigned("orders", 3, 7)]),
        (["orders", "bills"], [Assigned("orders", None, 7), Assigned("bills", None, 7)]),
        ({("orders", 1)}, [Assigned("orders", 1, 7)]),
        (["orders", "orders"], [Assigned("orders", None, 7)]),
        (
            {("orders", 1): 5, ("bills", 0): -1},
            [Assigned("orders", 1, 5), Assigned("bills", 0, -1)],
        ),
    ],
)
def test_assignments(assignment: Any, expected: list[Assigned]) -> None:
    assert assigned(assignment, 7) == expected


@pytest.mark.parametrize(
    ("assignment", "error"),
    [
        ([], ConfigError),
        (None, ConfigError),
        (5, ConfigError),
        (b"orders", ConfigError),
        ([3], ConfigError),
        (["orders", ("orders", 0)], ConfigError),
        ({("orders", 0): "somewhere"}, ConfigError),
        ("no topic", InvalidTopicError),
        ("", InvalidTopicError),
        (("orders", -1), InvalidPartitionError),
    ],
)
def test_wrong_assignments(assignment: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        assigned(assignment, 0)


@pytest.mark.parametrize("position", [0, 5, -5, "beginning", "end", NEW_YEAR])
def test_positions(position: Any) -> None:
    assert checked_position("start", position) == position


@pytest.mark.parametrize("position", [None, 1.5, True, "earliest", b"end"])
def test_wrong_positions(position: Any) -> None:
    with pytest.raises(ConfigError, match="start is an offset"):
        checked_position("start", position)


@pytest.mark.parametrize("position", [2**63, 2**70, datetime.min])
def test_positions_that_no_request_can_have(position: Any) -> None:
    with pytest.raises(ConfigError, match=r"start (is an offset below|has no timestamp)"):
        checked_position("start", position)


@pytest.mark.parametrize(
    ("position", "timestamp"),
    [
        (0, None),
        (5, None),
        (-5, LATEST),
        ("beginning", EARLIEST),
        ("end", LATEST),
        (NEW_YEAR, 1_767_225_600_000),
        (datetime(1960, 1, 1, tzinfo=UTC), 0),
    ],
)
def test_a_position_is_looked_up_by_a_timestamp(position: Any, timestamp: int | None) -> None:
    assert timestamp_of(position) == timestamp


@pytest.mark.parametrize(
    ("position", "found", "offset"),
    [(5, -1, 5), (-5, 100, 95), (-500, 100, 10), ("end", 100, 100), (NEW_YEAR, 42, 42)],
)
def test_the_offset_of_a_position(position: Any, found: int, offset: int) -> None:
    assert offset_of(position, found, beginning=10, end=100) == offset


def test_a_time_behind_the_last_record_is_the_end() -> None:
    assert offset_of(NEW_YEAR, -1, beginning=10, end=100) == 100
