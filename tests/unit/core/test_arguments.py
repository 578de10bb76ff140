"""Consumed offsets and their group, as users of several clients have them."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import pytest

from aioproducer.engine.core.arguments import checked_group, checked_offsets, one_by_one
from aioproducer.errors import InvalidOffsetError, InvalidTopicError, SerializationError
from aioproducer.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

PLACE = TopicPartition("events", 3)
Theirs = namedtuple("Theirs", "topic partition")
TheirOffset = namedtuple("TheirOffset", "offset metadata")
KafkaPython = namedtuple("KafkaPython", "offset metadata leader_epoch")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, {}),
        ({PLACE: 7}, {PLACE: OffsetAndMetadata(7)}),
        ({("events", 3): 7}, {PLACE: OffsetAndMetadata(7)}),
        ({Theirs("events", 3): TheirOffset(7, "note")}, {PLACE: OffsetAndMetadata(7, "note")}),
        ({PLACE: KafkaPython(7, None, 4)}, {PLACE: OffsetAndMetadata(7, "", 4)}),
        (
            {PLACE: OffsetAndMetadata(2**63 - 1, "n", 0)},
            {PLACE: OffsetAndMetadata(2**63 - 1, "n", 0)},
        ),
        ({PLACE: (0, "note")}, {PLACE: OffsetAndMetadata(0, "note")}),
        (
            [SimpleNamespace(topic="events", partition=3, offset=7)],
            {PLACE: OffsetAndMetadata(7)},
        ),
        (iter([]), {}),
    ],
)
def test_offsets(given: Any, read: dict[TopicPartition, OffsetAndMetadata]) -> None:
    assert checked_offsets(given) == read
    assert all(type(place) is TopicPartition for place in checked_offsets(given))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, "a mapping of TopicPartition to the next offset to read, not int"),
        (None, "not NoneType"),
        ({"events": 7}, "by topic and partition"),
        ({("events", "3"): 7}, "by topic and partition"),
        ({("events", True): 7}, "by topic and partition"),
        ({("events", -1): 7}, "by topic and partition"),
        ({(3, "events"): 7}, "by topic and partition"),
        ({PLACE: -1}, "events-3: an offset is an int from 0"),
        ({PLACE: True}, "an offset is an int"),
        ({PLACE: "7"}, "an offset is an int"),
        ({PLACE: 2**63}, "an offset is an int"),
        ({PLACE: None}, "an offset is an int"),
        ({PLACE: (7, b"note")}, "metadata is a str"),
        ([SimpleNamespace(topic="events", partition=3)], "an offset is an int"),
        ([7], "by topic and partition"),
    ],
)
def test_what_is_no_offset(given: Any, said: str) -> None:
    with pytest.raises(InvalidOffsetError, match=said) as caught:
        checked_offsets(given)
    assert isinstance(caught.value, ValueError)


def test_a_topic_that_can_be_none() -> None:
    with pytest.raises(InvalidTopicError):
        checked_offsets({("", 0): 7})


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("readers", ConsumerGroupMetadata("readers")),
        (
            ConsumerGroupMetadata("readers", 3, "member", "static"),
            ConsumerGroupMetadata("readers", 3, "member", "static"),
        ),
        (
            SimpleNamespace(group_id="readers", generation_id=3, member_id="member"),
            ConsumerGroupMetadata("readers", 3, "member"),
        ),
        (SimpleNamespace(group_id="readers"), ConsumerGroupMetadata("readers")),
    ],
)
def test_groups(given: Any, read: ConsumerGroupMetadata) -> None:
    assert checked_group(given) == read


@pytest.mark.parametrize("given", ["", None, 7, SimpleNamespace(group_id=None), {}, b"readers"])
def test_what_is_no_group(given: Any) -> None:
    with pytest.raises(InvalidOffsetError, match="the consumer group is its id"):
        checked_group(given)


@pytest.mark.parametrize("values", ["abc", b"abc", {"k": "v"}])
def test_one_value_is_not_many(values: Any) -> None:
    """Else each character, or each key alone, would be a record."""
    with pytest.raises(SerializationError, match=r"not a single (str|bytes|dict)"):
        one_by_one(values, "an iterable")
