"""A member of a group, as an assignor sees it. No I/O."""

from __future__ import annotations

from codecs import utf_16_be_encode
from collections.abc import Generator, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

from aioproducer.model import TopicPartition

NO_GENERATION: Final = -1

PartitionCounts: TypeAlias = Mapping[str, int]
"""The number of partitions of each topic that exists."""

PartitionRacks: TypeAlias = Mapping[TopicPartition, frozenset[str]]
"""The racks of each partition's replicas, as far as they are known."""

Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""The partitions of each member, by its id."""

_T = TypeVar("_T")

Steps: TypeAlias = Generator[None, None, _T]
"""The steps to a result: with thousands of partitions it takes too long for one turn of the event
loop."""

STEP: Final = 500
"""Partitions or subscriptions per step. Each takes some microseconds."""


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
    return utf_16_be_encode(text, "surrogatepass")[0]  # str.encode() would import the codec


class Pace:
    """The length of steps: :meth:`due` is true when a step has done enough."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = STEP

    def due(self, units: int = 1) -> bool:
        """Count ``units`` of work; true at the end of a step."""
        self._left -= units
        if self._left > 0:
            return False
        self._left = STEP
        return True


def whole(steps: Steps[_T]) -> _T:
    """The result of ``steps``, at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result


def subscribers(ordered: Iterable[GroupMember], pace: Pace) -> Steps[dict[str, list[GroupMember]]]:
    """The members that have subscribed to each topic, in their order."""
    found: dict[str, list[GroupMember]] = {}
    for member in ordered:
        for topic in dict.fromkeys(member.topics):
            found.setdefault(topic, []).append(member)
            if pace.due():
                yield
    return found
