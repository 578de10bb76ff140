"""The coordinator's side of the protocol of KIP-848: heartbeats, leaves, and timers.

Source: the methods ``consumerGroup…`` of Kafka's ``GroupMetadataManager``. Subscriptions by regular
expressions are resolved in the background (``maybeUpdateRegularExpressions``). Kafka's expressions
are those of RE2, and Python's are taken here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.cluster import Cluster, Topic
from aioproducer.testing.simulation.kafka.groups.classic_protocol import ClassicProtocol
from aioproducer.testing.simulation.kafka.groups.consumer_group import (
    ASSIGNORS,
    LEAVE_STATIC_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Subscription,
    TopicIdPartition,
)
from aioproducer.testing.simulation.kafka.groups.migration import DOWNGRADES, downgraded
from aioproducer.testing.simulation.kafka.groups.store import GroupStore
from aioproducer.testing.simulation.kafka.messages import Fields, Request

_REGEX: Final = "regex"
_LEAST_INTERVAL: Final = 10.0
"""Seconds between two refreshes."""
_LONGEST_INTERVAL: Final = 600.0
"""Source: the broker's ``group.consumer.regex.refresh.interval.ms``."""


def is_regular_expression(text: str) -> bool:
    """True if a member may subscribe to it."""
    try:
        re.compile(text)
    except re.error:
        return False
    return True


class RegularExpressions:
    """The expressions of all groups. ``changed`` is called when a group has other topics."""

    def __init__(
        self, cluster: Cluster, store: GroupStore, changed: Callable[[ConsumerGroup], None]
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._changed = changed

    def refresh(self, group: ConsumerGroup, now: float, *, required: bool) -> None:
        """Resolve the expressions of a group soon, if it is time; ``required``: one is new."""
        if not group.regexes or self._store.has_timer(group, _REGEX):
            return
        group.forget_unused_regexes()
        since = now - group.resolved_at if group.resolved else _LONGEST_INTERVAL + 1
        if since <= _LEAST_INTERVAL:
            return
        names = self._names()
        if (
            required
            or group.regexes != group.resolved.keys()
            or not group.resolved_among.issuperset(names)
            or since > _LONGEST_INTERVAL
        ):
            self._store.start_timer(group, _REGEX, now, lambda time: self._resolve(group, time))

    def _resolve(self, group: ConsumerGroup, now: float) -> None:
        names = self._names()
        resolved = {
            each: frozenset(name for name in names if re.fullmatch(each, name))
            for each in group.regexes
        }
        other = any(
            found != group.resolved.get(each, frozenset()) for each, found in resolved.items()
        )
        group.resolved |= resolved
        group.resolved_among = frozenset(names)
        group.resolved_at = now
        if other:
            self._changed(group)
        self._store.write(group)

    def _names(self) -> list[str]:
        return [each.name for each in self._cluster.topics.values() if not each.internal]


_SESSION: Final = "session"
_REBALANCE: Final = "rebalance"


class ConsumerProtocol:
    """The work of all coordinators of the groups of KIP-848."""

    def __init__(self, cluster: Cluster, store: GroupStore, classic: ClassicProtocol) -> None:
        self._cluster = cluster
        self._store = store
        self._classic = classic
        self._regexes = RegularExpressions(cluster, store, self._begin_epoch)

    # --- heartbeats ------------------------------------------------------------------------

    def heartbeat(self, group: ConsumerGroup, request: Request, now: float) -> Fields:
        """Let a member join, live, and go on to its assignment."""
        body = request.body
        known, code = self._member(group, body)
        if known is None:
            return {"error_code": code}
        owned = _owned(body)
        member = _updated(known, request)
        if member.regex not in group.regexes and not is_regular_expression(member.regex):
            return {"error_code": ErrorCode.INVALID_REGULAR_EXPRESSION}
        reconciled = self.go_on(group, known, member, owned, now)
        self.start_session(group, reconciled, now)
        full = (
            body.rebalance_timeout_ms != -1
            and (body.subscribed_topic_names, body.subscribed_topic_regex) != (None, None)
            and owned is not None
        )
        shown = full or body.member_epoch == 0 or reconciled.assigned != known.assigned
        return {
            "error_code": ErrorCode.NONE,
            "member_id": reconciled.member_id,
            "member_epoch": reconciled.epoch,
            "heartbeat_interval_ms": self._config(group, "consumer.heartbeat.interval.ms"),
            "assignment": {"topic_partitions": by_topic(reconciled.assigned)} if shown else None,
        }

    def _member(self, group: ConsumerGroup, body: Any) -> tuple[ConsumerMember | None, ErrorCode]:
        """The member that sends a heartbeat, or why it is not a member.

        Sources: ``getOrMaybeSubscribeDynamicConsumerGroupMember``,
        ``getOrMaybeSubscribeStaticConsumerGroupMember``.
        """
        joins = body.member_epoch == 0
        member_id = str(body.member_id) or self._new_id()
        if body.instance_id is None:
            known = group.members.get(member_id)
        else:
            known = group.static_member(body.instance_id)
            if known is not None and joins:
                if known.epoch != LEAVE_STATIC_EPOCH and known.classic is None:
                    return None, ErrorCode.UNRELEASED_INSTANCE_ID
                return group.replace_static(known, member_id), ErrorCode.NONE
            if known is not None and known.member_id != member_id:
                return None, ErrorCode.FENCED_INSTANCE_ID
        if known is None:
            if joins:
                return ConsumerMember(member_id=member_id), ErrorCode.NONE
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        code = known.refuses_epoch(body.member_epoch, _owned(body))
        return (None, code) if code else (known, code)

    def _new_id(self) -> str:
        return str(UUID(int=self._cluster.random.getrandbits(128), version=4))

    # --- epochs and assignments ------------------------------------------------------------

    def go_on(
        self,
        group: ConsumerGroup,
        known: ConsumerMember,
        member: ConsumerMember,
        owned: Collection[TopicIdPartition] | None,
        now: float,
    ) -> ConsumerMember:
        """Take a member that was ``known``, and let it go on to its assignment."""
        new_regex = member.regex != known.regex
        resolved = not member.regex or member.regex in group.resolved
        unknown = new_regex and member.regex not in group.regexes
        group.update(member)
        self._regexes.refresh(group, now, required=unknown)
        changed = member.topics != known.topics
        self._renew(group, now, changed=changed or (new_regex and resolved))
        subscribed = self.topic_ids(group, member)
        reconciled = group.reconciled(member, subscribed, owned, changed=changed or new_regex)
        if reconciled != member:
            group.update(reconciled)
            self._await_revocation(group, reconciled, now)
        self._store.write(group)
        return reconciled

    def _renew(self, group: ConsumerGroup, now: float, *, changed: bool) -> None:
        """Begin a new epoch if something has changed, and divide the partitions if it is time."""
        if self.see_topics(group) or changed:
            group.epoch += 1
        if group.epoch <= group.assignment_epoch:
            return
        interval = self._config(group, "consumer.assignment.interval.ms") / 1000
        if group.assigned_at is not None and now < group.assigned_at + interval:
            return
        subscriptions = {
            each.member_id: Subscription(
                each.instance_id,
                [topic.id for topic in self._topics(group, each)],
                group.target.get(each.member_id, frozenset()),
            )
            for each in group.members.values()
        }
        counts = {each.id: len(each.partitions) for each in self._cluster.topics.values()}
        group.target = ASSIGNORS[group.assignor](subscriptions, counts)
        group.assignment_epoch = group.epoch
        group.assigned_at = now

    def see_topics(self, group: ConsumerGroup) -> bool:
        """Look at the topics that members subscribe to; True: they have changed."""
        found = {
            topic.name: (topic.id, len(topic.partitions))
            for member in group.members.values()
            for topic in self._topics(group, member)
        }
        changed = found != group.topics_seen
        group.topics_seen = found
        return changed

    def _begin_epoch(self, group: ConsumerGroup) -> None:
        """The expressions of a group stand for other topics than before."""
        self.see_topics(group)
        group.epoch += 1

    def topic_ids(self, group: ConsumerGroup, member: ConsumerMember) -> set[UUID]:
        """The ids of the topics that exist of those that a member subscribes to."""
        return {each.id for each in self._topics(group, member)}

    def _topics(self, group: ConsumerGroup, member: ConsumerMember) -> list[Topic]:
        """The topics that exist of those that a member subscribes to."""
        topics = self._cluster.topics
        return [topics[name] for name in sorted(group.topics_of(member)) if name in topics]

    # --- leaves ----------------------------------------------------------------------------

    def leave(self, group: ConsumerGroup, body: Any, now: float) -> Fields:
        """Let a member go; with epoch -2 it keeps its place for its next self (KIP-345).

        Source: ``consumerGroupLeave``.
        """
        member_id = str(body.member_id)
        if body.instance_id is None:
            member = group.members.get(member_id)
        else:
            member = group.static_member(body.instance_id)
            if member is not None and member.member_id != member_id:
                return {"error_code": ErrorCode.FENCED_INSTANCE_ID}
        if member is None:
            return {"error_code": ErrorCode.UNKNOWN_MEMBER_ID}
        if body.instance_id is not None and body.member_epoch == LEAVE_STATIC_EPOCH:
            group.update(
                replace(
                    member,
                    epoch=LEAVE_STATIC_EPOCH,
                    assigned=dict.fromkeys(member.assigned, 0),
                    revoked={},
                )
            )
            self._store.write(group)
        else:
            self.fence(group, [member.member_id], now)
        return {
            "error_code": ErrorCode.NONE,
            "member_id": member_id,
            "member_epoch": body.member_epoch,
        }

    def fence(self, group: ConsumerGroup, gone: Collection[str], now: float) -> None:
        """Go on without members. Source: ``consumerGroupFenceMembers``."""
        if self.may_downgrade(group, gone):
            made = downgraded(group, gone, None, self._cluster)
            self._classic.take_over(made, now, rebalances=True)
            return
        for member_id in gone:
            group.remove(member_id)
            self._store.cancel_timers(group, member_id)
        group.forget_unused_regexes()
        self._begin_epoch(group)
        self._store.write(group)

    def may_downgrade(
        self, group: ConsumerGroup, gone: Collection[str], *, all_gone: bool = False
    ) -> bool:
        """True if all members speak the classic protocol, but for those that are ``gone``.

        ``all_gone``: nobody else need be left. Source: ``validateOnlineDowngrade…``.
        """
        newer = {name for name, each in group.members.items() if each.classic is None}
        return (
            newer == set(gone)
            and (all_gone or len(group.members) > len(gone))
            and self._cluster.options.group_consumer_migration_policy in DOWNGRADES
        )

    # --- timers ----------------------------------------------------------------------------

    def start_session(self, group: ConsumerGroup, member: ConsumerMember, now: float) -> None:
        """Restart the session of a member."""

        def expire(time: float) -> None:
            if member.member_id in group.members:
                self.fence(group, [member.member_id], time)

        seconds = self._config(group, "consumer.session.timeout.ms") / 1000
        if member.classic is not None:
            seconds = member.classic.session_timeout
        self._store.start_timer(group, _SESSION, now + seconds, expire, member.member_id)

    def _await_revocation(self, group: ConsumerGroup, member: ConsumerMember, now: float) -> None:
        """Fence a member that does not give its partitions up in time."""
        if member.classic is not None:
            return  # its time to join again is watched
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._store.cancel_timer(group, _REBALANCE, member.member_id)
            return

        def expire(time: float) -> None:
            present = group.members.get(member.member_id)
            if present is not None and present.epoch == member.epoch:
                self.fence(group, [member.member_id], time)

        end = now + member.rebalance_timeout_ms / 1000
        self._store.start_timer(group, _REBALANCE, end, expire, member.member_id)

    def loaded(self, group: ConsumerGroup, now: float) -> None:
        """A new coordinator has read the group: the sessions restart."""
        for member in group.members.values():
            self.start_session(group, member, now)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._await_revocation(group, member, now)

    def _config(self, group: ConsumerGroup, name: str) -> int:
        return int(self._cluster.group_config(group.group_id)[name])


def by_topic(partitions: Collection[TopicIdPartition]) -> list[Fields]:
    """Rows of a response."""
    numbers: dict[UUID, list[int]] = {}
    for each in sorted(partitions):
        numbers.setdefault(each.topic_id, []).append(each.partition)
    return [{"topic_id": topic, "partitions": found} for topic, found in numbers.items()]


def _owned(body: Any) -> list[TopicIdPartition] | None:
    """The partitions that a member says it has."""
    if body.topic_partitions is None:
        return None
    return [
        TopicIdPartition(each.topic_id, number)
        for each in body.topic_partitions
        for number in each.partitions
    ]


def _updated(member: ConsumerMember, request: Request) -> ConsumerMember:
    """The member with what a heartbeat says of it; what it leaves out stays."""
    body = request.body
    topics, timeout = body.subscribed_topic_names, body.rebalance_timeout_ms
    regex = body.subscribed_topic_regex
    return replace(
        member,
        client_id=request.client_id or "",
        instance_id=member.instance_id if body.instance_id is None else body.instance_id,
        rack_id=member.rack_id if body.rack_id is None else body.rack_id,
        assignor=member.assignor if body.server_assignor is None else body.server_assignor,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        topics=member.topics if topics is None else frozenset(topics),
        regex=member.regex if regex is None else regex,
        classic=None,
    )
