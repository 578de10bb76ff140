"""How a coordinator divides partitions among members: Kafka's assignors ``uniform`` and ``range``.

Sources: Kafka's ``UniformHomogeneousAssignmentBuilder``, ``UniformHeterogeneousAssignmentBuilder``
and ``RangeAssignor``. Where Kafka takes members in the order of a hash map, they come here in the
order in which they joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID


class TopicIdPartition(NamedTuple):
    """A partition, by the id of its topic."""

    topic_id: UUID
    partition: int


class Subscription(NamedTuple):
    """An assignor's knowledge of a member."""

    instance_id: str | None
    topics: Sequence[UUID]
    """The topics that exist."""
    had: frozenset[TopicIdPartition]
    """The last target assignment."""


Members: TypeAlias = Mapping[str, Subscription]
Counts: TypeAlias = Mapping[UUID, int]
"""The number of partitions by topic."""
Assignment: TypeAlias = dict[str, frozenset[TopicIdPartition]]
"""Partitions by member."""


def assign_uniform(members: Members, counts: Counts) -> Assignment:
    """As many partitions for each member as for the others; each keeps what it can."""
    subscriptions = {frozenset(each.topics) for each in members.values()}
    if len(subscriptions) == 1:
        return _assign_equal_subscriptions(members, counts)
    return _assign_different_subscriptions(members, counts)


def _assign_equal_subscriptions(members: Members, counts: Counts) -> Assignment:
    topics = next(iter(members.values())).topics
    everything = _partitions(topics, counts)
    least, extra = divmod(len(everything), len(members))
    kept: dict[str, list[TopicIdPartition]] = {}
    missing: dict[str, int] = {}
    for place, (name, member) in enumerate(members.items()):
        quota = least + (extra > 0)
        has = [each for each in sorted(member.had) if each in everything][:quota]
        has_extra = extra > 0
        if len(has) < quota and has_extra and len(members) - place > extra:
            quota, has_extra = quota - 1, False  # a later member can have it
        kept[name] = has
        missing[name] = quota - len(has)
        extra -= has_extra
    owned = {each for has in kept.values() for each in has}
    free = iter([each for each in everything if each not in owned])
    return {
        name: frozenset([*has, *(next(free) for _ in range(missing[name]))])
        for name, has in kept.items()
    }


def _assign_different_subscriptions(members: Members, counts: Counts) -> Assignment:
    assigned = {
        name: {each for each in member.had if each.topic_id in member.topics}
        for name, member in members.items()
    }
    subscribers: dict[UUID, list[str]] = {}
    for name, member in members.items():
        for topic in member.topics:
            subscribers.setdefault(topic, []).append(name)

    def many_for_few_first(topic: UUID) -> tuple[float, int, UUID]:
        names = subscribers[topic]
        return -counts[topic] / len(names), len(names), topic

    topics = sorted(subscribers, key=many_for_few_first)
    owned = set().union(*assigned.values())
    for each in _partitions(topics, counts):
        if each not in owned:
            least = min(subscribers[each.topic_id], key=lambda name: len(assigned[name]))
            assigned[least].add(each)
    while any(_balance(topic, subscribers[topic], assigned) for topic in topics):
        pass
    return {name: frozenset(each) for name, each in assigned.items()}


def _balance(
    topic: UUID, subscribers: Sequence[str], assigned: Mapping[str, set[TopicIdPartition]]
) -> bool:
    """Let members with many partitions give some of a topic to those with few; False: none can."""
    moved = False
    while True:
        least = min(subscribers, key=lambda name: len(assigned[name]))
        givers = [name for name in subscribers if any(each[0] == topic for each in assigned[name])]
        most = max(givers, key=lambda name: len(assigned[name]), default=least)
        if len(assigned[most]) - len(assigned[least]) <= 1:
            return moved
        given = max(each for each in assigned[most] if each.topic_id == topic)
        assigned[most].remove(given)
        assigned[least].add(given)
        moved = True


def assign_ranges(members: Members, counts: Counts) -> Assignment:
    """A range of each topic for each member; static members come first."""
    assigned: dict[str, list[TopicIdPartition]] = {name: [] for name in members}
    order = sorted(
        members,
        key=lambda name: (members[name].instance_id is None, members[name].instance_id or name),
    )
    for topic in dict.fromkeys(topic for each in members.values() for topic in each.topics):
        names = [name for name in order if topic in members[name].topics]
        least, extra = divmod(counts[topic], len(names))
        begin = 0
        for place, name in enumerate(names):
            end = begin + least + (place < extra)
            assigned[name] += (TopicIdPartition(topic, number) for number in range(begin, end))
            begin = end
    return {name: frozenset(each) for name, each in assigned.items()}


def _partitions(topics: Iterable[UUID], counts: Counts) -> list[TopicIdPartition]:
    return [TopicIdPartition(topic, number) for topic in topics for number in range(counts[topic])]


UNIFORM: Final = "uniform"
ASSIGNORS: Final[Mapping[str, Callable[[Members, Counts], Assignment]]] = {
    UNIFORM: assign_uniform,
    "range": assign_ranges,
}
"""Source: the broker's ``group.consumer.assignors``."""
