"""A group of the protocol of KIP-848: member epochs, the target assignment, and the way to it.

Sources: Kafka's ``ConsumerGroup``, ``ConsumerGroupMember`` and ``CurrentAssignmentBuilder``. All of
it is in the replicated log.

The target is computed by Kafka's assignors ``uniform`` and ``range``. Sources:
``UniformHomogeneousAssignmentBuilder``, ``UniformHeterogeneousAssignmentBuilder`` and
``RangeAssignor``. Where Kafka takes members in the order of a hash map, they come here in the order
in which they joined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from aioproducer.errors.broker import ErrorCode


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


NO_OWNER: Final = -1
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""The member comes back with the same instance id."""


class MemberState(Enum):
    """How far a member has come on its way to the target assignment."""

    STABLE = "stable"
    UNREVOKED_PARTITIONS = "it has to give partitions up"
    UNRELEASED_PARTITIONS = "other members have to give partitions up"


Epochs = Mapping[TopicIdPartition, int]
"""Partitions, and the epoch in which the member got each one (KIP-1251)."""


class ClassicMetadata(NamedTuple):
    """The data of a member of the classic protocol."""

    session_timeout: float
    """Seconds."""
    protocols: tuple[tuple[str, bytes], ...]
    """The assignors with the subscription for each."""


@dataclass(frozen=True, kw_only=True)
class ConsumerMember:
    """A member. Changed members are new objects."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    """The names that it subscribes to."""
    regex: str = ""
    """The expression for the names that it subscribes to besides."""
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Epochs = field(default_factory=dict)
    revoked: Epochs = field(default_factory=dict)
    """The partitions that it has to give up."""
    classic: ClassicMetadata | None = None
    """Of a member that speaks the classic protocol still."""

    @property
    def stale(self) -> ErrorCode:
        """The error of a request in another epoch, which is a generation for older clients."""
        if self.classic is not None:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.STALE_MEMBER_EPOCH

    def reconciled_to(self, epoch: int) -> bool:
        """True if it has the target assignment of ``epoch``."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def refuses_epoch(self, epoch: int, owned: Collection[TopicIdPartition] | None) -> ErrorCode:
        """Why a heartbeat is not the present member's.

        The previous epoch may be that of a member which missed the last response. Source:
        ``throwIfConsumerGroupMemberEpochIsInvalid``.
        """
        if epoch in (0, self.epoch):
            return ErrorCode.NONE
        missed = epoch < self.epoch and epoch == self.previous_epoch
        if missed and owned is not None and all(each in self.assigned for each in owned):
            return ErrorCode.NONE
        return ErrorCode.FENCED_MEMBER_EPOCH


class ConsumerGroup:
    """A group; ``members`` are in the order of their joins."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 1
        """Grows with each change of members, subscriptions and topics."""
        self.assignment_epoch = 0
        """The epoch of the group that the target assignment is made for."""
        self.assigned_at: float | None = None
        self.topics_seen: Mapping[str, object] = {}
        """The subscribed topics as they were at the last epoch."""
        self.members: dict[str, ConsumerMember] = {}
        self.target: Assignment = {}
        self.resolved: dict[str, frozenset[str]] = {}
        """The topics of each regular expression."""
        self.resolved_among: frozenset[str] = frozenset()
        """The topics that there were then."""
        self.resolved_at = 0.0

    # --- what is known ---------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """True if it has no members."""
        return not self.members

    @property
    def state(self) -> str:
        """The state by Kafka's name."""
        if self.empty:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(each.reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def assignor(self) -> str:
        """The assignor that most members want. Source: ``computePreferredServerAssignor``."""
        wanted = Counter(each.assignor for each in self.members.values() if each.assignor)
        return wanted.most_common(1)[0][0] if wanted else UNIFORM

    @property
    def regexes(self) -> set[str]:
        """The regular expressions that members subscribe to."""
        return {each.regex for each in self.members.values() if each.regex}

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names that a member subscribes to."""
        return member.topics | self.resolved.get(member.regex, frozenset())

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member with an instance id."""
        return next(
            (each for each in self.members.values() if each.instance_id == instance_id), None
        )

    def owner_epoch(self, partition: TopicIdPartition) -> int:
        """The epoch of the member that has the partition, or has to give it up."""
        for member in self.members.values():
            if partition in member.assigned or partition in member.revoked:
                return member.epoch
        return NO_OWNER

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """True if other members have partitions of a member's target assignment."""
        target = self.target.get(member.member_id, ())
        missing = (each for each in target if each not in member.assigned)
        return any(self.owner_epoch(each) != NO_OWNER for each in missing)

    def refuses_protocols(self, names: Collection[str]) -> bool:
        """True if no assignor is known to all members of the classic protocol."""
        known = [
            {name for name, _ in each.classic.protocols}
            for each in self.members.values()
            if each.classic is not None
        ]
        return not set(names).intersection(*known)

    def refuses_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool
    ) -> ErrorCode:
        """Why offsets are not taken. Source: ``validateOffsetCommit``.

        A member may commit in an older epoch what it has had since then; see
        :meth:`refuses_partition`.
        """
        if epoch < 0 and self.empty:
            return ErrorCode.NONE
        if transactional and epoch == LEAVE_EPOCH and not member_id and instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return member.stale if epoch > member.epoch else ErrorCode.NONE

    def refuses_partition(
        self, member_id: str, epoch: int, partition: TopicIdPartition
    ) -> ErrorCode:
        """Why an offset of a partition is not taken (KIP-1251)."""
        member = self.members.get(member_id)
        if member is None or epoch == member.epoch:
            return ErrorCode.NONE
        since = member.assigned.get(partition, member.revoked.get(partition))
        return member.stale if since is None or epoch < since else ErrorCode.NONE

    def refuses_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Why committed offsets are withheld. Source: ``validateOffsetFetch``."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else member.stale

    # --- members ---------------------------------------------------------------------------

    def update(self, member: ConsumerMember) -> None:
        """Take a member, or the new state of one."""
        self.members[member.member_id] = member

    def remove(self, member_id: str) -> None:
        """Forget a member."""
        del self.members[member_id]
        self.target.pop(member_id, None)

    def forget_unused_regexes(self) -> None:
        """Forget the expressions that nobody subscribes to."""
        for each in self.resolved.keys() - self.regexes:
            del self.resolved[each]

    def replace_static(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """Let a static member that has left for a while go on with another id."""
        target = self.target.get(old.member_id, frozenset())
        self.remove(old.member_id)
        member = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        self.target[member_id] = target
        self.update(member)
        return member

    # --- the way to the target assignment --------------------------------------------------

    def reconciled(
        self,
        member: ConsumerMember,
        subscribed: Collection[object],
        owned: Collection[TopicIdPartition] | None,
        *,
        changed: bool,
    ) -> ConsumerMember:
        """The next state of a member, if it can go on. Source: ``CurrentAssignmentBuilder``.

        ``subscribed``: ids of topics; ``owned``: the partitions that the member says it has;
        ``changed``: what it subscribes to has changed.
        """
        if member.reconciled_to(self.assignment_epoch) and not changed:
            return member
        waits = member.state is MemberState.UNREVOKED_PARTITIONS and _owns(owned, member.revoked)
        if waits or member.reconciled_to(self.assignment_epoch):
            return _without_unsubscribed(member, subscribed, owned) if changed else member
        return self._next(member, subscribed, owned)

    def _next(
        self,
        member: ConsumerMember,
        subscribed: Collection[object],
        owned: Collection[TopicIdPartition] | None,
    ) -> ConsumerMember:
        target = sorted(
            each for each in self.target.get(member.member_id, ()) if each.topic_id in subscribed
        )
        kept = {each: epoch for each, epoch in member.assigned.items() if each in target}
        revoked = {each: epoch for each, epoch in member.assigned.items() if each not in target}
        if revoked and _owns(owned, revoked):
            return _revoking(member, kept, revoked)
        missing = [each for each in target if each not in kept]
        free = [
            each for each in missing if self.owner_epoch(each) == NO_OWNER or each in member.revoked
        ]
        all_free = len(free) == len(missing)
        return _moved(
            member,
            self.assignment_epoch,
            state=MemberState.STABLE if all_free else MemberState.UNRELEASED_PARTITIONS,
            assigned={**kept, **dict.fromkeys(free, self.assignment_epoch)},
            revoked={},
        )

    # --- another coordinator ---------------------------------------------------------------

    def stored(self) -> ConsumerGroup:
        """The group as its records are read back: nothing of it is in memory only."""
        return self

    def unload(self) -> None:
        """Another broker coordinates the group: no request waits."""


def _moved(member: ConsumerMember, epoch: int, **changes: object) -> ConsumerMember:
    """Source: ``updateMemberEpoch``."""
    return replace(member, epoch=epoch, previous_epoch=member.epoch, **changes)  # type: ignore[arg-type]


def _revoking(member: ConsumerMember, kept: Epochs, revoked: Epochs) -> ConsumerMember:
    state = MemberState.UNREVOKED_PARTITIONS
    return _moved(member, member.epoch, state=state, assigned=kept, revoked=revoked)


def _owns(owned: Collection[TopicIdPartition] | None, revoked: Epochs) -> bool:
    """True if a member has not said that it has given ``revoked`` up."""
    return owned is None or any(each in revoked for each in owned)


def _without_unsubscribed(
    member: ConsumerMember,
    subscribed: Collection[object],
    owned: Collection[TopicIdPartition] | None,
) -> ConsumerMember:
    """Take the partitions of unsubscribed topics away. Source: ``updateCurrentAssignment``."""
    gone = {each: epoch for each, epoch in member.assigned.items() if each[0] not in subscribed}
    if not gone:
        return member
    kept = {each: epoch for each, epoch in member.assigned.items() if each not in gone}
    revoked = {**member.revoked, **gone}
    if _owns(owned, revoked):
        return _revoking(member, kept, revoked)
    return _moved(member, member.epoch, assigned=kept)
