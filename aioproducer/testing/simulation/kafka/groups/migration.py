"""A group that goes from one protocol to the other while members are in it.

Sources: Kafka's ``ConsumerGroup.fromClassicGroup`` and ``ClassicGroup.fromConsumerGroup``. A
migration reads the data that members of the classic protocol exchange. Source: Kafka's
``ConsumerProtocol``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from aioproducer.engine.protocol import data_schema
from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka.cluster import Cluster
from aioproducer.testing.simulation.kafka.groups.classic_group import (
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
)
from aioproducer.testing.simulation.kafka.groups.consumer_group import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    TopicIdPartition,
)

PROTOCOL_TYPE: Final = "consumer"
_SUBSCRIPTION: Final = "consumer_protocol_subscription"
_ASSIGNMENT: Final = "consumer_protocol_assignment"
_NEWEST: Final = 3
_VERSION_BYTES: Final = 2


class MalformedError(ValueError):
    """The bytes are none of Kafka's consumers."""


class Subscribed(NamedTuple):
    """The subscription of a member."""

    topics: tuple[str, ...]
    owned: list[TopicPartition]


def subscription_in(data: bytes) -> Subscribed:
    """Raises MalformedError."""
    said = _decoded(_SUBSCRIPTION, data)
    return Subscribed(tuple(said.topics), _places(said.owned_partitions))


def assignment_in(data: bytes) -> list[TopicPartition]:
    """The partitions of an assignment; no bytes are those of a member without one.

    Raises MalformedError.
    """
    if not data:
        return []
    said = _decoded(_ASSIGNMENT, data)
    if said.user_data:
        raise MalformedError("an assignor of the client's own has something else to tell")
    return _places(said.assigned_partitions)


def assignment_for(subscription: bytes, partitions: Iterable[TopicPartition]) -> bytes:
    """An assignment in the version that a member speaks."""
    version = _version(subscription)
    numbers: dict[str, list[int]] = {}
    for each in partitions:
        numbers.setdefault(each.topic, []).append(each.partition)
    rows = [{"topic": topic, "partitions": found} for topic, found in numbers.items()]
    schema = data_schema(_ASSIGNMENT)
    said = schema.of({"assigned_partitions": rows}, version)
    return version.to_bytes(_VERSION_BYTES, "big") + schema.encode(said, version)


def _decoded(name: str, data: bytes) -> Any:
    version = _version(data)
    try:
        said, _ = data_schema(name).decode(data, _VERSION_BYTES, version)
    except Exception as error:
        raise MalformedError(f"{len(data)} bytes of version {version}") from error
    return said


def _places(rows: Iterable[Any]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, number) for each in rows for number in each.partitions]


def _version(data: bytes) -> int:
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version < 0 or len(data) < _VERSION_BYTES:
        raise MalformedError(f"{len(data)} bytes without a version")
    return min(version, _NEWEST)


UPGRADES: Final = ("upgrade", "bidirectional")
DOWNGRADES: Final = ("downgrade", "bidirectional")
"""The values of ``group.consumer.migration.policy`` that allow a migration."""


def upgraded(group: ClassicGroup, cluster: Cluster) -> ConsumerGroup:
    """The group with the same members and partitions, by the protocol of KIP-848.

    Raises MalformedError if the members are none of Kafka's consumers.
    """
    assert group.protocol is not None
    made = ConsumerGroup(group.group_id)
    made.epoch = made.assignment_epoch = group.generation
    for each in group.members.values():
        partitions = with_ids(assignment_in(each.assignment), cluster)
        made.target[each.member_id] = frozenset(partitions)
        made.update(
            ConsumerMember(
                member_id=each.member_id,
                instance_id=each.instance_id,
                client_id=each.client_id,
                rebalance_timeout_ms=round(each.rebalance_timeout * 1000),
                topics=frozenset(subscription_in(each.protocols[group.protocol]).topics),
                epoch=group.generation,
                previous_epoch=group.generation,
                assigned=dict.fromkeys(partitions, group.generation),
                classic=ClassicMetadata(each.session_timeout, tuple(each.protocols.items())),
            )
        )
    return made


def downgraded(
    group: ConsumerGroup, gone: Collection[str], joins: ConsumerMember | None, cluster: Cluster
) -> ClassicGroup:
    """The group without the members that are ``gone``, by the classic protocol.

    ``joins``: a static member that comes in the place of one that is gone.
    """
    made = ClassicGroup(group.group_id, ClassicGroupState.STABLE, generation=group.epoch)
    targets = {each: group.target.get(each, frozenset()) for each in group.members}
    members = [each for each in group.members.values() if each.member_id not in gone]
    if joins is not None:
        members.append(joins)
        [replaced] = gone
        targets[joins.member_id] = targets[replaced]
    for each in members:
        assert each.classic is not None
        made.add(
            ClassicMember(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.rebalance_timeout_ms / 1000,
                each.classic.session_timeout,
                PROTOCOL_TYPE,
                dict(each.classic.protocols),
            )
        )
    made.protocol = made.select_protocol()
    for member in made.members.values():
        partitions = with_names(targets[member.member_id], cluster)
        member.assignment = assignment_for(member.protocols[made.protocol], partitions)
    return made


def with_ids(partitions: Iterable[TopicPartition], cluster: Cluster) -> list[TopicIdPartition]:
    """The partitions whose topics exist."""
    return [
        TopicIdPartition(cluster.topics[each.topic].id, each.partition)
        for each in partitions
        if each.topic in cluster.topics
    ]


def with_names(partitions: Iterable[TopicIdPartition], cluster: Cluster) -> list[TopicPartition]:
    """The partitions whose topics exist."""
    names = {topic.id: topic.name for topic in cluster.topics.values()}
    return [
        TopicPartition(names[each.topic_id], each.partition)
        for each in sorted(partitions)
        if each.topic_id in names
    ]
