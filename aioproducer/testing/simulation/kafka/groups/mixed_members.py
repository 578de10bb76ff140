"""Members of the classic protocol in groups of KIP-848, in the midst of a migration.

Source: the methods ``classicGroup…ToConsumerGroup`` of Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.cluster import Cluster
from aioproducer.testing.simulation.kafka.groups.classic_group import NO_MEMBER_ID
from aioproducer.testing.simulation.kafka.groups.classic_protocol import (
    FIRST_THAT_REQUIRES_IDS,
    ClassicProtocol,
    not_joined,
    not_synced,
)
from aioproducer.testing.simulation.kafka.groups.consumer_group import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from aioproducer.testing.simulation.kafka.groups.consumer_protocol import ConsumerProtocol
from aioproducer.testing.simulation.kafka.groups.embedded_protocol import (
    PROTOCOL_TYPE,
    MalformedError,
    assignment_for,
    subscription_in,
)
from aioproducer.testing.simulation.kafka.groups.migration import (
    downgraded,
    with_ids,
    with_names,
)
from aioproducer.testing.simulation.kafka.groups.store import GroupStore
from aioproducer.testing.simulation.kafka.messages import Fields, Request

_JOIN: Final = "join"
_SYNC: Final = "sync"


class MixedMembers:
    """The work of coordinators for the members that speak the older protocol."""

    def __init__(
        self,
        cluster: Cluster,
        store: GroupStore,
        classic: ClassicProtocol,
        consumer: ConsumerProtocol,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._classic = classic
        self._consumer = consumer

    # --- JoinGroup -------------------------------------------------------------------------

    def join(self, group: ConsumerGroup, request: Request, now: float) -> Fields:
        """Let a member join, or go on to its assignment; no other member is waited for."""
        body = request.body
        member_id, instance_id = str(body.member_id), body.group_instance_id
        new = member_id == NO_MEMBER_ID
        if new:
            member_id = str(UUID(int=self._cluster.random.getrandbits(128), version=4))
        names = {each.name for each in body.protocols}
        if body.protocol_type != PROTOCOL_TYPE or group.refuses_protocols(names):
            return not_joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, NO_MEMBER_ID)
        if new and instance_id is None and request.version >= FIRST_THAT_REQUIRES_IDS:
            return not_joined(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        try:
            said = subscription_in(bytes(body.protocols[0].metadata))
        except MalformedError:
            return not_joined(ErrorCode.UNKNOWN_SERVER_ERROR, NO_MEMBER_ID)
        replaced = None if instance_id is None else group.static_member(instance_id)
        known = group.members.get(member_id) or ConsumerMember(member_id=member_id)
        if (
            instance_id is not None
            and not new
            and (code := _refuses(group, member_id, instance_id))
        ):
            return not_joined(code, NO_MEMBER_ID)
        if replaced is not None:
            if self._consumer.may_downgrade(group, {replaced.member_id}, all_gone=True):
                if new:
                    known = replace(replaced, member_id=member_id, epoch=0, previous_epoch=0)
                member = _updated(known, request, said.topics)
                return self._join_classic_group(group, replaced, member, now)
            if new:
                known = group.replace_static(replaced, member_id)
        member = _updated(known, request, said.topics)
        owned = with_ids(said.owned, self._cluster)
        reconciled = self._consumer.go_on(group, known, member, owned, now)
        self._store.cancel_timer(group, _JOIN, member_id)
        self._consumer.start_session(group, reconciled, now)
        self._await(group, _SYNC, reconciled, now)
        return _joined(reconciled)

    def _join_classic_group(
        self, group: ConsumerGroup, replaced: ConsumerMember, member: ConsumerMember, now: float
    ) -> Fields:
        """The last member of the newer protocol has come back with the older one."""
        group.epoch += member.topics != replaced.topics
        rebalances = group.assignment_epoch < group.epoch
        if not rebalances:
            subscribed = self._consumer.topic_ids(group, member)
            group.target[member.member_id] = group.target.get(replaced.member_id, frozenset())
            member = group.reconciled(member, subscribed, [], changed=False)
        made = downgraded(group, {replaced.member_id}, member, self._cluster)
        self._classic.take_over(made, now, rebalances=rebalances)
        return _joined(member)

    # --- SyncGroup, Heartbeat and LeaveGroup -----------------------------------------------

    def sync(self, group: ConsumerGroup, body: Any, now: float) -> Fields:
        """Tell a member the partitions that it has."""
        member_id = str(body.member_id)
        code = _refuses(group, member_id, body.group_instance_id)
        member = group.members.get(member_id)
        if code or member is None or member.classic is None:
            return not_synced(code or ErrorCode.UNKNOWN_MEMBER_ID)
        protocol, subscription = member.classic.protocols[0]
        if body.generation_id != member.epoch:
            return not_synced(ErrorCode.ILLEGAL_GENERATION)
        if body.protocol_type not in (None, PROTOCOL_TYPE) or (
            body.protocol_name not in (None, protocol)
        ):
            return not_synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        revokes = member.state is MemberState.UNREVOKED_PARTITIONS
        if group.assignment_epoch > member.epoch and not revokes:
            self._await_join(group, member, now)
            return not_synced(ErrorCode.REBALANCE_IN_PROGRESS)
        self._store.cancel_timer(group, _SYNC, member_id)
        self._consumer.start_session(group, member, now)
        partitions = with_names(member.assigned, self._cluster)
        return {
            "error_code": ErrorCode.NONE,
            "protocol_type": body.protocol_type,
            "protocol_name": body.protocol_name,
            "assignment": assignment_for(subscription, partitions),
        }

    def heartbeat(self, group: ConsumerGroup, body: Any, now: float) -> ErrorCode:
        """A member lives; told to join again for its next step."""
        member_id = str(body.member_id)
        code = _refuses(group, member_id, body.group_instance_id)
        member = group.members.get(member_id)
        if code or member is None or member.classic is None:
            return code or ErrorCode.UNKNOWN_MEMBER_ID
        if body.generation_id != member.epoch:
            return ErrorCode.ILLEGAL_GENERATION
        self._consumer.start_session(group, member, now)
        released = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(
            member
        )
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or released
        ):
            self._await_join(group, member, now)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, group: ConsumerGroup, members: Sequence[Any], now: float) -> list[ErrorCode]:
        """Let members go, of either protocol."""
        codes, gone = [], []
        for each in members:
            member_id, instance_id = str(each.member_id), each.group_instance_id
            if instance_id is not None and member_id == NO_MEMBER_ID:
                static = group.static_member(instance_id)
                member_id = NO_MEMBER_ID if static is None else static.member_id
            code = _refuses(group, member_id, instance_id)
            codes.append(code)
            if not code and member_id not in gone:
                gone.append(member_id)
        if gone:
            self._consumer.fence(group, gone, now)
        return codes

    # --- timers ----------------------------------------------------------------------------

    def _await_join(self, group: ConsumerGroup, member: ConsumerMember, now: float) -> None:
        if not self._store.has_timer(group, _JOIN, member.member_id):
            self._await(group, _JOIN, member, now)

    def _await(self, group: ConsumerGroup, kind: str, member: ConsumerMember, now: float) -> None:
        """Fence a member that does not send its next request in time."""

        def expire(time: float) -> None:
            if member.member_id in group.members:
                self._consumer.fence(group, [member.member_id], time)

        end = now + member.rebalance_timeout_ms / 1000
        self._store.start_timer(group, kind, end, expire, member.member_id)


def _joined(member: ConsumerMember) -> Fields:
    assert member.classic is not None
    return {
        "error_code": ErrorCode.NONE,
        "generation_id": member.epoch,
        "protocol_type": PROTOCOL_TYPE,
        "protocol_name": member.classic.protocols[0][0],
        "member_id": member.member_id,
    }


def _refuses(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Why a request is not one of a member's. Source: ``validateConsumerGroupMember``."""
    if instance_id is None:
        known = member_id in group.members
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID
    static = group.static_member(instance_id)
    if static is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if static.member_id == member_id else ErrorCode.FENCED_INSTANCE_ID


def _updated(member: ConsumerMember, request: Request, topics: Sequence[str]) -> ConsumerMember:
    """The member with what a JoinGroup says of it."""
    body = request.body
    protocols = tuple((each.name, bytes(each.metadata)) for each in body.protocols)
    return replace(
        member,
        client_id=request.client_id or "",
        instance_id=body.group_instance_id or member.instance_id,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        topics=frozenset(topics),
        regex="",
        classic=ClassicMetadata(body.session_timeout_ms / 1000, protocols),
    )
