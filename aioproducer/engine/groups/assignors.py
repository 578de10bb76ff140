"""The assignors of the classic group protocol: the group's leader divides the partitions. No I/O.

Each depends on the members and the numbers of partitions alone, so any member, whichever library it
uses, can be the leader. The leader's event loop runs it in steps.
"""

from __future__ import annotations

from bisect import bisect_left
from codecs import utf_16_be_encode
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
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


def subscribers(ordered: Iterable[GroupMember], pace: Pace) -> Steps[dict[str, list[GroupMember]]]:
    """The members that have subscribed to each topic, in their order."""
    found: dict[str, list[GroupMember]] = {}
    for member in ordered:
        for topic in dict.fromkeys(member.topics):
            found.setdefault(topic, []).append(member)
            if pace.due():
                yield
    return found


# --- range --------------------------------------------------------------------------------------


def range_steps(
    members: Iterable[GroupMember], counts: PartitionCounts, racks: PartitionRacks
) -> Steps[Assignment]:
    """``range``: each topic by itself, in ranges of neighbouring partitions.

    The first members of each topic have one partition more if it can't be divided equally. Topics
    with equally many partitions and the same members are divided alike, so records of one key in
    several topics come to one member. A member in a rack gets partitions with a replica there
    first, as far as these two rules allow (KIP-881). Source: Kafka's ``RangeAssignor``.
    """
    ordered, pace = in_order(members), Pace()
    assignment: Assignment = {member.member_id: [] for member in ordered}
    takers = yield from subscribers(ordered, pace)
    topics = []
    for name in sorted(takers, key=java_order):
        if counts.get(name):
            topics.append(_Topic(name, counts[name], takers[name], racks))
            if pace.due(5 + counts[name]):
                yield
    minds_racks = any(topic.minds_racks for topic in topics)
    if minds_racks:
        yield from _assign_near(topics, assignment, pace)
    for topic in topics:
        yield from topic.assign_ranges(assignment, pace, near=False)
    if minds_racks:
        for partitions in assignment.values():
            partitions.sort(key=lambda where: (java_order(where.topic), where.partition))
            yield
    return assignment


class _Topic:
    """A topic, while its partitions are divided among ``members``."""

    def __init__(
        self, name: str, count: int, members: Sequence[GroupMember], racks: PartitionRacks
    ) -> None:
        self.name = name
        self.count = count
        self.members = members
        self._given = dict.fromkeys((each.member_id for each in members), 0)
        self._each, self._extra = divmod(count, len(members))
        self.racks: Sequence[frozenset[str]] = ()
        """Of each partition's replicas; empty: they don't matter."""
        self._taken = bytearray(count)
        """1 for each partition that a member has got."""
        self._numbers: dict[str | None, Iterator[int]] = {None: iter(range(count))}
        """The partitions near each rack, in their order. One that was left behind is taken."""
        self.minds_racks = False
        """True if it matters to a member which of the partitions it has."""
        of_members = {each.rack for each in members if each.rack} if racks else None
        if of_members:
            self.racks = [racks.get(TopicPartition(name, at), frozenset()) for at in range(count)]
            everywhere = frozenset().union(*self.racks)
            self.minds_racks = bool(of_members & everywhere) and any(
                each != everywhere for each in self.racks
            )

    def room(self, member: GroupMember) -> int:
        """The number of partitions that a member may still get. It never grows."""
        return max(self._each + (self._extra > 0) - self._given[member.member_id], 0)

    def give(self, member: GroupMember, numbers: Sequence[int], assignment: Assignment) -> None:
        assignment[member.member_id] += [TopicPartition(self.name, each) for each in numbers]
        self._given[member.member_id] += len(numbers)
        if self._given[member.member_id] > self._each:
            self._extra -= 1
        for each in numbers:
            self._taken[each] = 1

    def assign_ranges(self, assignment: Assignment, pace: Pace, *, near: bool) -> Steps[None]:
        """Give each member the first partitions that are left; ``near``: of those in its rack."""
        if near:
            self._look_for_near()
        for member in self.members:
            rack = (member.rack or None) if near else None
            while numbers := self._first(rack, min(self.room(member), STEP)):
                self.give(member, numbers, assignment)
                if pace.due(len(numbers)):
                    yield
            if pace.due():
                yield

    def _look_for_near(self) -> None:
        near: dict[str, list[int]] = {each.rack: [] for each in self.members if each.rack}
        for number, racks in enumerate(self.racks):
            for rack in racks & near.keys():
                near[rack].append(number)
        self._numbers.update({rack: iter(numbers) for rack, numbers in near.items()})

    def _first(self, rack: str | None, most: int) -> list[int]:
        """The first partitions near ``rack`` that nobody has, and no longer known as such."""
        found: list[int] = []
        while len(found) < most and (number := next(self._numbers[rack], None)) is not None:
            if not self._taken[number]:
                found.append(number)
        return found


def _assign_near(topics: Iterable[_Topic], assignment: Assignment, pace: Pace) -> Steps[None]:
    """Give members partitions with a replica in their rack."""
    alike: dict[tuple[object, ...], list[_Topic]] = {}
    for topic in topics:
        if any(member.rack for member in topic.members):
            key = (topic.count, *(member.member_id for member in topic.members))
            alike.setdefault(key, []).append(topic)
            if pace.due(len(topic.members)):
                yield
    for group in alike.values():
        if len(group) > 1:
            yield from _assign_together(group, assignment, pace)
        elif group[0].minds_racks:
            yield from group[0].assign_ranges(assignment, pace, near=True)


def _assign_together(topics: Sequence[_Topic], assignment: Assignment, pace: Pace) -> Steps[None]:
    """Give a partition of all ``topics`` to the first member that is near all of them."""
    lines: dict[str | None, deque[tuple[int, GroupMember]]] = {}
    for place, member in enumerate(topics[0].members):
        lines.setdefault(member.rack or None, deque()).append((place, member))
    for number in range(topics[0].count):
        common = frozenset.intersection(*(topic.racks[number] for topic in topics))
        first = []
        for rack in (None, *common):
            line = lines.get(rack)
            while line and not all(topic.room(line[0][1]) for topic in topics):
                line.popleft()
            if line:
                first.append(line[0])
        if first:
            _, member = min(first, key=lambda each: each[0])
            for topic in topics:
                topic.give(member, (number,), assignment)
        if pace.due(len(topics)):
            yield


# --- roundrobin ---------------------------------------------------------------------------------


def round_robin_steps(members: Iterable[GroupMember], counts: PartitionCounts) -> Steps[Assignment]:
    """``roundrobin``: the partitions of all topics, one to each member in turn.

    A member without a subscription to a topic is passed over. Source: ``RoundRobinAssignor``.
    """
    ordered, pace = in_order(members), Pace()
    assignment: Assignment = {member.member_id: [] for member in ordered}
    places = {member.member_id: place for place, member in enumerate(ordered)}
    takers = yield from subscribers(ordered, pace)
    turn = 0
    for topic in sorted(takers, key=java_order):
        of_topic = [places[member.member_id] for member in takers[topic]]
        for number in range(counts.get(topic, 0)):
            place = of_topic[bisect_left(of_topic, turn) % len(of_topic)]
            assignment[ordered[place].member_id].append(TopicPartition(topic, number))
            turn = (place + 1) % len(ordered)
            if pace.due():
                yield
    return assignment


# --- sticky -------------------------------------------------------------------------------------

_Takers: TypeAlias = int
"""The number of a group of members that have subscribed to a topic. Many topics have the same."""


def sticky_steps(members: Iterable[GroupMember], counts: PartitionCounts) -> Steps[Assignment]:
    """``sticky``: even, and with as few moves as that allows.

    No member has two partitions more than another one that could have one of them. A member keeps
    what it has as far as that allows. Source: the promises of Kafka's ``AbstractStickyAssignor``
    (KIP-54, KIP-341, KIP-480). The way to them is another one, so the partitions of a member may be
    others than a Java leader's choice.
    """
    ordered, pace = in_order(members), Pace()
    owned = yield from _owners(ordered, counts, pace)
    of_topics = yield from subscribers(ordered, pace)
    shares = _Shares(ordered, of_topics)
    free: dict[str, list[TopicPartition]] = {}
    for topic in sorted(of_topics, key=java_order):
        for number in range(counts.get(topic, 0)):
            where = TopicPartition(topic, number)
            if where in owned:
                shares.give(where, owned[where])
            else:
                free.setdefault(topic, []).append(where)
            if pace.due():
                yield
    for topic in sorted(free, key=shares.takers):
        for where in free[topic]:
            shares.give(where, shares.poorest(where.topic))
            if pace.due():
                yield
    yield from shares.even_out(pace)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    for topic in sorted(of_topics):
        for number in range(counts.get(topic, 0)):
            where = TopicPartition(topic, number)
            assignment[shares.owners[where]].append(where)
            if pace.due():
                yield
    return assignment


def _owners(
    members: Iterable[GroupMember], counts: PartitionCounts, pace: Pace
) -> Steps[Mapping[TopicPartition, str]]:
    """The member that has each partition now, if it may keep it.

    Of two members that say so the later generation is right, and none of equal ones (KIP-341).
    """
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        topics = frozenset(member.topics)
        for where in member.owned:
            if pace.due():
                yield
            if where.topic not in topics or not 0 <= where[1] < counts.get(where.topic, 0):
                continue
            generation, _ = claims.get(where, (None, None))
            if generation is None or member.generation > generation:
                claims[where] = member.generation, member.member_id
            elif member.generation == generation:
                claims[where] = member.generation, None
    return {where: owner for where, (_, owner) in claims.items() if owner is not None}


class _Shares:
    """The partitions of each member, while they are divided."""

    def __init__(
        self, members: Sequence[GroupMember], of_topics: Mapping[str, Sequence[GroupMember]]
    ) -> None:
        self.owners: dict[TopicPartition, str] = {}
        self._held: dict[str, dict[TopicPartition, None]] = {each.member_id: {} for each in members}
        self._places = {each.member_id: place for place, each in enumerate(members)}
        groups: dict[tuple[str, ...], _Takers] = {}
        self._takers: dict[str, _Takers] = {}
        for topic, subscribed in of_topics.items():
            names = tuple([each.member_id for each in subscribed])
            self._takers[topic] = groups.setdefault(names, len(groups))
        self._of_member: dict[str, list[_Takers]] = {each.member_id: [] for each in members}
        """The groups of takers that a member is one of."""
        self._loads: list[list[tuple[int, int, str]]] = []
        """A heap of the members of each group, by their numbers of partitions. An entry with a
        smaller number than the member has is out of date, and so is one with a larger number."""
        self._sizes = [*map(len, groups)]
        for names, takers in groups.items():
            for each in names:
                self._of_member[each].append(takers)
            self._loads.append([(0, self._places[each], each) for each in names])
            heapify(self._loads[takers])
        self._givable: dict[str, dict[_Takers, list[tuple[str, int]]]] = {}
        """The partitions of members that have given some: by takers a heap of topics, and numbers
        below zero, so that the last partition of the first topic goes first."""

    def give(self, where: TopicPartition, member_id: str) -> None:
        self.owners[where] = member_id
        self._held[member_id][where] = None
        if (givable := self._givable.get(member_id)) is not None:
            _add(givable, self._takers[where.topic], where)

    def takers(self, topic: str) -> tuple[int, str]:
        """Topics that few members can have come first."""
        return self._sizes[self._takers[topic]], topic

    def poorest(self, topic: str) -> str:
        """The member of the topic with the fewest partitions; the first of equal ones."""
        return self._poorest(self._takers[topic])[2]

    def _poorest(self, takers: _Takers) -> tuple[int, int, str]:
        heap = self._loads[takers]
        while True:
            load, place, member_id = first = heap[0]
            now = len(self._held[member_id])
            if load == now:
                return first
            if load < now:
                heapreplace(heap, (now, place, member_id))
            else:  # a newer entry has the smaller number
                heappop(heap)

    def even_out(self, pace: Pace) -> Steps[None]:
        """Move partitions from members that have two more than another one that can have them.

        The richest member gives first, so nobody gets what it would have to give on. Each move
        makes the sum of the squares of the loads smaller, so it comes to an end.
        """
        moved = True
        while moved:
            moved = False
            givers = [(-len(held), self._places[each], each) for each, held in self._held.items()]
            heapify(givers)
            while givers:
                load, place, giver = heappop(givers)
                if -load == len(self._held[giver]) and self._gives_one(giver):
                    moved = True
                    heappush(givers, (load + 1, place, giver))
                if pace.due(1 + len(self._of_member[giver])):
                    yield

    def _gives_one(self, giver: str) -> bool:
        """Move a partition of ``giver`` to the poorest member that can have it, if there is one."""
        choices = [
            (*self._poorest(takers)[:2], heap[0][0], takers)
            for takers, heap in self._givable_of(giver).items()
        ]
        if not choices:
            return False
        load, _, _, takers = min(choices)
        if len(self._held[giver]) <= load + 1:
            return False
        taker = self._poorest(takers)[2]
        where = _pop(self._givable[giver], takers)
        del self._held[giver][where]
        for each in self._of_member[giver]:
            heappush(self._loads[each], (len(self._held[giver]), self._places[giver], giver))
        self.give(where, taker)
        return True

    def _givable_of(self, giver: str) -> dict[_Takers, list[tuple[str, int]]]:
        found = self._givable.get(giver)
        if found is None:
            found = self._givable[giver] = {}
            for where in self._held[giver]:
                found.setdefault(self._takers[where.topic], []).append((where[0], -where[1]))
            for heap in found.values():
                heapify(heap)
        return found


def _add(
    givable: dict[_Takers, list[tuple[str, int]]], takers: _Takers, where: TopicPartition
) -> None:
    heappush(givable.setdefault(takers, []), (where.topic, -where.partition))


def _pop(givable: dict[_Takers, list[tuple[str, int]]], takers: _Takers) -> TopicPartition:
    topic, number = heappop(givable[takers])
    if not givable[takers]:
        del givable[takers]
    return TopicPartition(topic, -number)


# --- cooperative-sticky -------------------------------------------------------------------------


def cooperative_steps(members: Sequence[GroupMember], counts: PartitionCounts) -> Steps[Assignment]:
    """``cooperative-sticky``: partitions that stay are never taken away.

    A partition that another member still has is given to nobody in this round. Its owner sees that
    it is not assigned, releases it and joins again: the next round has it free. Source: Kafka's
    ``CooperativeStickyAssignor`` (KIP-429).
    """
    assignment = yield from sticky_steps(members, counts)
    pace = Pace()
    claims: dict[TopicPartition, set[str]] = {}
    for member in members:
        for where in member.owned:
            claims.setdefault(where, set()).add(member.member_id)
            if pace.due():
                yield
    found: Assignment = {member_id: [] for member_id in assignment}
    for member_id, partitions in assignment.items():
        for where in partitions:
            claimed = claims.get(where)
            if claimed is None or member_id in claimed:
                found[member_id].append(where)
            if pace.due():
                yield
    return found


STICKY: Final = "sticky"
COOPERATIVE: Final = "cooperative-sticky"
ASSIGNORS: Final[Mapping[str, Callable[[list[GroupMember], TopicLayout], Steps[Assignment]]]] = {
    "range": lambda members, topics: range_steps(members, topics.counts, topics.racks),
    "roundrobin": lambda members, topics: round_robin_steps(members, topics.counts),
    STICKY: lambda members, topics: sticky_steps(members, topics.counts),
    COOPERATIVE: lambda members, topics: cooperative_steps(members, topics.counts),
}
"""By the names that members agree on. A rebalance of the last one lets partitions that stay be read
on (KIP-429)."""
