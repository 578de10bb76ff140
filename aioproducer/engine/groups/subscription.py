"""The data that members of a group exchange through the coordinator. No I/O.

Source: Kafka's ``ConsumerProtocol``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from aioproducer.engine.groups.assignors import Assignment, GroupMember, Steps
from aioproducer.engine.groups.assignors.member import Pace
from aioproducer.engine.protocol import data_schema
from aioproducer.engine.transactions.requests import by_topic
from aioproducer.errors import ProtocolError
from aioproducer.model import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
_SUBSCRIPTION: Final = "consumer_protocol_subscription"
_ASSIGNMENT: Final = "consumer_protocol_assignment"
_NEWEST: Final = 3
_WRITTEN: Final = 1
"""The version of assignments: it has nothing that a later one would add."""
_VERSION_BYTES: Final = 2
_BYTES_OF_PARTITION: Final = 4


class Subscribed(NamedTuple):
    """A member with its subscription, as it has come."""

    member_id: str
    instance_id: str | None
    data: bytes


def subscription_bytes(
    topics: Iterable[str], owned: Iterable[TopicPartition], generation: int, rack: str | None
) -> bytes:
    """The subscription of a member, with what it had in ``generation`` (KIP-429, KIP-792)."""
    schema = data_schema(_SUBSCRIPTION)
    subscription = schema.ConsumerProtocolSubscription(
        topics=tuple(sorted(topics)),
        owned_partitions=tuple(
            schema.TopicPartition(topic=topic, partitions=tuple(numbers))
            for topic, numbers in by_topic(owned).items()
        ),
        generation_id=generation,
        rack_id=rack,
    )
    return _NEWEST.to_bytes(_VERSION_BYTES, "big") + schema.encode(subscription, _NEWEST)


def subscription_of(member_id: str, instance_id: str | None, data: bytes) -> GroupMember:
    """The member with its subscription. One that can't be understood gets no partition."""
    try:
        version = _version(data)
        schema = data_schema(_SUBSCRIPTION)
        said, _ = schema.decode(data, _VERSION_BYTES, version)
        owned = _partitions((each.topic, each.partitions) for each in said.owned_partitions or ())
        topics = tuple(dict.fromkeys(said.topics))
        return GroupMember(
            member_id, topics, instance_id, tuple(owned), said.generation_id, said.rack_id
        )
    except Exception:
        return GroupMember(member_id, (), instance_id)


def subscriptions_of(members: Iterable[Subscribed]) -> Steps[list[GroupMember]]:
    """The members with their subscriptions (:func:`subscription_of`)."""
    found, pace = [], Pace()
    for member in members:
        found.append(subscription_of(*member))
        if pace.due(1 + len(member.data) // _BYTES_OF_PARTITION):
            yield
    return found


def assignments_bytes(assignment: Assignment) -> Steps[Mapping[str, bytes]]:
    """The partitions of each member (:func:`assignment_bytes`)."""
    found, pace = {}, Pace()
    for member_id, partitions in assignment.items():
        found[member_id] = assignment_bytes(partitions)
        if pace.due(1 + len(partitions)):
            yield
    return found


def assignment_bytes(partitions: Iterable[TopicPartition]) -> bytes:
    """The partitions of a member."""
    schema = data_schema(_ASSIGNMENT)
    assignment = schema.ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            schema.TopicPartition(topic=topic, partitions=tuple(numbers))
            for topic, numbers in by_topic(partitions).items()
        )
    )
    return _WRITTEN.to_bytes(_VERSION_BYTES, "big") + schema.encode(assignment, _WRITTEN)


def assigned_in(data: bytes) -> list[TopicPartition]:
    """The partitions in an assignment; an empty one has none.

    Raises :class:`ProtocolError` if it can't be understood.
    """
    if not data:
        return []
    try:
        said, _ = data_schema(_ASSIGNMENT).decode(data, _VERSION_BYTES, _version(data))
        return [*_partitions((each.topic, each.partitions) for each in said.assigned_partitions)]
    except Exception as error:
        raise ProtocolError(f"the assignment of {len(data)} bytes can't be understood") from error


def _partitions(
    topics: Iterable[tuple[str, Iterable[int]]],
) -> Iterator[TopicPartition]:
    for topic, numbers in topics:
        for number in numbers:
            if number >= 0:
                yield TopicPartition(topic, number)


def _version(data: bytes) -> int:
    """The version to read: later ones begin as the newest that is known."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version < 0 or len(data) < _VERSION_BYTES:
        raise ProtocolError(f"version {version} of what a member says")
    return min(version, _NEWEST)
