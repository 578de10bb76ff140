"""What members tell each other, judged by kio, and what damaged bytes can do."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from kio.schema.consumer_protocol_assignment.v1 import data as assignments
from kio.schema.consumer_protocol_subscription.v0 import data as oldest
from kio.schema.consumer_protocol_subscription.v3 import data as subscriptions
from kio.serial import entity_reader

from aioproducer.engine.groups.assignors import GroupMember
from aioproducer.engine.groups.requests import (
    assigned_in,
    assignment_bytes,
    subscription_bytes,
    subscription_of,
)
from aioproducer.errors import ProtocolError
from aioproducer.model import TopicPartition
from aioproducer.testing.fault_proxy.faults import damaged
from tests.support.kio_messages import encode

OWNED = (TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0))
SUBSCRIPTION = subscription_bytes(["b", "a"], OWNED, 7, "rack-1")
ASSIGNMENT = assignment_bytes(OWNED)
NOBODY = GroupMember("m", ())


def kios(kind: Any, data: bytes) -> Any:
    entity, size = entity_reader(kind)(data, 2)
    assert 2 + size == len(data)
    return entity


def test_a_subscription_as_others_read_it() -> None:
    assert SUBSCRIPTION[:2] == b"\0\3"
    said = kios(subscriptions.ConsumerProtocolSubscription, SUBSCRIPTION)
    assert (said.topics, said.generation_id, said.rack_id) == (("a", "b"), 7, "rack-1")
    owned = [(each.topic, each.partitions) for each in said.owned_partitions]
    assert owned == [("a", (1, 2)), ("b", (0,))]


def test_a_subscription_is_read_as_it_was_written() -> None:
    assert subscription_of("m", "s", SUBSCRIPTION) == GroupMember(
        "m", ("a", "b"), "s", OWNED, 7, "rack-1"
    )


def test_an_old_subscription_owns_nothing() -> None:
    old = b"\0\0" + encode(
        oldest.ConsumerProtocolSubscription(topics=("a", "a", "b"), user_data=b"x")
    )
    assert subscription_of("m", None, old) == GroupMember("m", ("a", "b"))


def test_a_newer_subscription_begins_as_the_newest_that_is_known() -> None:
    newer = b"\0\x09" + SUBSCRIPTION[2:] + b"more"
    assert subscription_of("m", None, newer).owned == OWNED


def test_an_assignment_as_others_read_it() -> None:
    said = kios(assignments.ConsumerProtocolAssignment, ASSIGNMENT)
    found = [(each.topic, each.partitions) for each in said.assigned_partitions]
    assert found == [("a", (1, 2)), ("b", (0,))]
    assert assigned_in(ASSIGNMENT) == [*OWNED]
    assert assigned_in(b"") == []


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\3", SUBSCRIPTION[:-1]])
def test_a_member_that_can_t_be_understood_gets_nothing(data: bytes) -> None:
    assert subscription_of("m", None, data) == NOBODY


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff", b"\0\1", ASSIGNMENT[:-1]])
def test_an_assignment_that_can_t_be_understood_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=f"{len(data)} bytes can't be understood"):
        assigned_in(data)


def test_damage_ends_in_nothing_or_in_one_error() -> None:
    random = Random(1)
    errors = 0
    for _ in range(3_000):
        found = subscription_of("m", None, damaged(SUBSCRIPTION, random))
        assert all(isinstance(topic, str) for topic in found.topics)
        try:
            assigned_in(damaged(ASSIGNMENT, random))
        except ProtocolError:
            errors += 1
    assert errors
