"""A member of a group, as an assignor sees it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from aioproducer.model import TopicPartition

NO_GENERATION: Final = -1

PartitionCounts: TypeAlias = Mapping[str, int]
"""The number of partitions of each topic that exists."""

PartitionRacks: TypeAlias = Mapping[TopicPartition, frozenset[str]]
"""The racks of each partition's replicas, as far as they are known."""

Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""The partitions of each member, by its id."""


class TopicLayout(NamedTuple):
    """The partitions of the topics that exist, and where their replicas are."""

    counts: PartitionCounts
    racks: PartitionRacks


class GroupMember(NamedTuple):
    """A member and its subscription."""

    member_id: str
    """Given by the coordinator."""
    topics: tuple[str, ...]
    """The topics that it subscribes to."""
    instance_id: str | None = None
    """The id of a static member (KIP-345)."""
    owned: tuple[TopicPartition, ...] = ()
    """The partitions that it had in ``generation``."""
    generation: int = NO_GENERATION
    rack: str | None = None
    """The rack of its client (KIP-881)."""


def in_order(members: Iterable[GroupMember]) -> list[GroupMember]:
    """Static members by their instance ids, and then the others by their ids.

    Source: Kafka's ``AbstractPartitionAssignor.MemberInfo``.
    """
    return sorted(members, key=_place)


def _place(member: GroupMember) -> tuple[bool, bytes]:
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, java_order(name)


def java_order(text: str) -> bytes:
    """The key by which Java sorts strings: their UTF-16 units, not their code points."""
    return text.encode("utf-16-be", "surrogatepass")


def partitions_of(topics: Iterable[str], counts: PartitionCounts) -> list[TopicPartition]:
    """The partitions of ``topics`` in the order of their names and numbers."""
    return [
        TopicPartition(topic, number)
        for topic in sorted(topics, key=java_order)
        for number in range(counts.get(topic, 0))
    ]
