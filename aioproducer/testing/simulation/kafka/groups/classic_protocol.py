"""The coordinator's side of the classic protocol: joins, syncs, heartbeats, leaves, and timers.

Source: the methods ``classicGroup…`` of Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.cluster import Cluster
from aioproducer.testing.simulation.kafka.groups.classic_group import (
    NO_MEMBER_ID,
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
    Reply,
)
from aioproducer.testing.simulation.kafka.groups.store import GroupStore
from aioproducer.testing.simulation.kafka.messages import Fields, Request

FIRST_THAT_REQUIRES_IDS: Final = 4
_FIRST_THAT_SKIPS_ASSIGNMENTS: Final = 9
_NEW_MEMBER_JOIN_TIMEOUT: Final = 300.0
"""Seconds that a new member may wait for its first generation."""
_JOIN: Final = "join"
_SYNC: Final = "sync"
_SESSION: Final = "session"


class ClassicProtocol:
    """The work of all coordinators of classic groups."""

    def __init__(self, cluster: Cluster, store: GroupStore) -> None:
        self._cluster = cluster
        self._store = store

    # --- JoinGroup -------------------------------------------------------------------------

    def join(self, group: ClassicGroup, request: Request, now: float) -> Reply:
        """Let a member join the next generation. Source: ``classicGroupJoinToClassicGroup``."""
        body, reply = request.body, Reply()
        member_id = str(body.member_id)
        if group.refuses_protocols(body.protocol_type, {each.name for each in body.protocols}):
            reply.fields = not_joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif not member_id:
            self._join_new(group, request, reply, now)
        elif member_id in group.pending_joins:
            self._add(group, request, member_id, reply, now)
        else:
            self._join_again(group, request, reply, now)
        return reply

    def _join_new(self, group: ClassicGroup, request: Request, reply: Reply, now: float) -> None:
        instance_id = request.body.group_instance_id
        number = UUID(int=self._cluster.random.getrandbits(128), version=4)
        member_id = f"{request.client_id if instance_id is None else instance_id}-{number}"
        if instance_id is not None and instance_id in group.static_members:
            self._replace_static(group, request, member_id, reply, now)
        elif instance_id is None and request.version >= FIRST_THAT_REQUIRES_IDS:
            group.pending_joins.add(member_id)
            self._start_session(group, member_id, request.body.session_timeout_ms / 1000, now)
            reply.fields = not_joined(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(group, request, member_id, reply, now)

    def _add(
        self, group: ClassicGroup, request: Request, member_id: str, reply: Reply, now: float
    ) -> None:
        """Source: ``addMemberThenRebalanceOrCompleteJoin``."""
        body = request.body
        member = ClassicMember(
            member_id,
            body.group_instance_id,
            request.client_id or "",
            body.rebalance_timeout_ms / 1000,
            body.session_timeout_ms / 1000,
            body.protocol_type,
            _protocols(body),
            new=True,
            joins=reply,
        )
        if (group.state, group.previous_state) == (
            ClassicGroupState.PREPARING_REBALANCE,
            ClassicGroupState.EMPTY,
        ):
            group.new_member_added = True
        group.add(member)
        self._start_session(group, member_id, _NEW_MEMBER_JOIN_TIMEOUT, now)
        self._rebalance_or_complete_join(group, now)

    def _join_again(self, group: ClassicGroup, request: Request, reply: Reply, now: float) -> None:
        """Source: ``classicGroupJoinExistingMember``."""
        body = request.body
        member_id = str(body.member_id)
        if code := group.refuses_member(member_id, body.group_instance_id):
            reply.fields = not_joined(code, member_id)
            return
        member = group.members[member_id]
        repeated = list(member.protocols.items()) == list(_protocols(body).items())
        match group.state:
            case ClassicGroupState.COMPLETING_REBALANCE if repeated:
                reply.fields = _joined(group, member)
            case ClassicGroupState.STABLE if repeated and group.leader != member_id:
                reply.fields = _joined(group, member)
            case ClassicGroupState.EMPTY:
                reply.fields = not_joined(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
            case _:
                _update(member, body, reply)
                self._rebalance_or_complete_join(group, now)

    def _replace_static(
        self, group: ClassicGroup, request: Request, member_id: str, reply: Reply, now: float
    ) -> None:
        """A static member has come back.

        Source: ``updateStaticMemberThenRebalanceOrCompleteJoin``.
        """
        old_leader = group.leader
        old_id = group.static_members[request.body.group_instance_id]
        member = group.replace_static(old_id, member_id)
        self._start_session(group, member_id, member.session_timeout, now)
        _update(member, request.body, reply)
        match group.state:
            case ClassicGroupState.STABLE if group.select_protocol() == group.protocol:
                self._store.write(group)
                if request.version >= _FIRST_THAT_SKIPS_ASSIGNMENTS:
                    member.answer_join(_joined(group, member, skip=group.leader == member_id))
                else:
                    member.answer_join(
                        {**_joined(group, member), "leader": old_leader, "members": ()}
                    )
            case ClassicGroupState.STABLE | ClassicGroupState.COMPLETING_REBALANCE:
                self._prepare_rebalance(group, now)
            case _:
                self._complete_join_if_all_joined(group, now)

    # --- rebalances ------------------------------------------------------------------------

    def _rebalance_or_complete_join(self, group: ClassicGroup, now: float) -> None:
        """Source: ``maybePrepareRebalanceOrCompleteJoin``."""
        if group.can_rebalance:
            self._prepare_rebalance(group, now)
        else:
            self._complete_join_if_all_joined(group, now)

    def _prepare_rebalance(self, group: ClassicGroup, now: float) -> None:
        """Wait for all members to join again; a group without members waits for new ones."""
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            self._propagate(group, {}, ErrorCode.REBALANCE_IN_PROGRESS, now)
        group.pending_syncs.clear()
        self._store.cancel_timer(group, _SYNC)
        first = group.empty
        group.transit(ClassicGroupState.PREPARING_REBALANCE)
        if first:
            delay = self._cluster.options.group_initial_rebalance_delay_ms / 1000
            rest = max(group.rebalance_timeout - delay, 0.0)
            self._await_new_members(group, delay, rest, now)
        elif group.all_joined:
            self._complete_join(group, now)
        else:
            self._await_joins(group, now)

    def _await_joins(self, group: ClassicGroup, now: float) -> None:
        self._store.start_timer(
            group, _JOIN, now + group.rebalance_timeout, partial(self._complete_join, group)
        )

    def _await_new_members(
        self, group: ClassicGroup, delay: float, rest: float, now: float
    ) -> None:
        """Give more members time to join. Source: ``tryCompleteInitialRebalanceElseSchedule``."""

        def delayed(time: float) -> None:
            if not group.new_member_added or not rest:
                self._complete_join(group, time)
                return
            group.new_member_added = False
            longest = self._cluster.options.group_initial_rebalance_delay_ms / 1000
            self._await_new_members(group, min(longest, rest), max(rest - delay, 0.0), time)

        self._store.start_timer(group, _JOIN, now + delay, delayed)

    def _complete_join_if_all_joined(self, group: ClassicGroup, now: float) -> None:
        """Source: ``maybeCompleteJoinPhase``."""
        joins = group.state is ClassicGroupState.PREPARING_REBALANCE
        if joins and group.previous_state is not ClassicGroupState.EMPTY and group.all_joined:
            self._complete_join(group, now)

    def _complete_join(self, group: ClassicGroup, now: float) -> None:
        """Begin the next generation, without the members that have not joined again.

        Static members stay (KIP-345). Source: ``completeClassicGroupJoin``.
        """
        self._store.cancel_timer(group, _JOIN)
        for member in list(group.members.values()):
            if member.joins is None and member.instance_id is None:
                group.remove(member.member_id)
                self._store.cancel_timer(group, _SESSION, member.member_id)
        if not group.elect_joined_leader() and group.members:
            self._await_joins(group, now)
            return
        group.begin_generation()
        if group.empty:
            self._store.write(group)
            return
        for member in group.members.values():
            member.answer_join(_joined(group, member))
            self._start_session(group, member.member_id, member.session_timeout, now)
            member.new = False
        group.pending_syncs |= group.members.keys()
        self._store.start_timer(
            group,
            _SYNC,
            now + group.rebalance_timeout,
            partial(self._expire_syncs, group, group.generation),
        )

    # --- SyncGroup -------------------------------------------------------------------------

    def sync(self, group: ClassicGroup, request: Request, now: float) -> Reply:
        """Give a member its part, once the leader has handed the assignment in."""
        body, reply = request.body, Reply()
        code = group.refuses_member(str(body.member_id), body.group_instance_id)
        if not code and body.generation_id != group.generation:
            code = ErrorCode.ILLEGAL_GENERATION
        if not code and (
            body.protocol_type not in (None, group.protocol_type)
            or body.protocol_name not in (None, group.protocol)
        ):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not code and group.state is ClassicGroupState.PREPARING_REBALANCE:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if code:
            reply.fields = not_synced(code)
            return reply
        member = group.members[str(body.member_id)]
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            self._store.cancel_timer(group, _SYNC)
        if group.state is ClassicGroupState.STABLE:
            reply.fields = _synced(group, member)
            return reply
        member.syncs = reply
        if group.leader == member.member_id:
            assigned = {each.member_id: each.assignment for each in body.assignments}
            self._propagate(group, assigned, ErrorCode.NONE, now)
            group.transit(ClassicGroupState.STABLE)
            self._store.write(group)
        return reply

    def _propagate(
        self, group: ClassicGroup, assigned: dict[str, bytes], code: ErrorCode, now: float
    ) -> None:
        """Answer the members that wait for their assignment."""
        for member in group.members.values():
            member.assignment = assigned.get(member.member_id, b"")
            fields = not_synced(code) if code else _synced(group, member)
            if member.answer_sync(fields):
                self._start_session(group, member.member_id, member.session_timeout, now)

    def _expire_syncs(self, group: ClassicGroup, generation: int, now: float) -> None:
        """Go on without the members that never asked. Source: ``expirePendingSync``."""
        if generation == group.generation and group.pending_syncs and group.can_rebalance:
            for member_id in sorted(group.pending_syncs):
                group.remove(member_id)
                self._store.cancel_timer(group, _SESSION, member_id)
            self._prepare_rebalance(group, now)

    # --- Heartbeat -------------------------------------------------------------------------

    def heartbeat(self, group: ClassicGroup, body: Any, now: float) -> ErrorCode:
        """A member lives."""
        code = group.refuses_member(str(body.member_id), body.group_instance_id)
        if not code and body.generation_id != group.generation:
            code = ErrorCode.ILLEGAL_GENERATION
        if code:
            return code
        self.prolong(group, str(body.member_id), now)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def prolong(self, group: ClassicGroup, member_id: str, now: float) -> None:
        """Restart the session of a member."""
        member = group.members[member_id]
        self._start_session(group, member_id, member.session_timeout, now)

    def _start_session(
        self, group: ClassicGroup, member_id: str, seconds: float, now: float
    ) -> None:
        self._store.start_timer(
            group, _SESSION, now + seconds, partial(self._expire, group, member_id), member_id
        )

    def _expire(self, group: ClassicGroup, member_id: str, now: float) -> None:
        """A session has ended. Source: ``expireClassicGroupMemberHeartbeat``."""
        member = group.members.get(member_id)
        if member is None:
            group.remove(member_id)
        elif member.waits:
            return
        else:
            member.answer_join(not_joined(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER_ID))
            group.remove(member_id)
            if group.state is not ClassicGroupState.PREPARING_REBALANCE:
                self._rebalance_or_complete_join(group, now)
                return
        if group.state is ClassicGroupState.PREPARING_REBALANCE and group.all_joined:
            self._complete_join(group, now)

    # --- LeaveGroup ------------------------------------------------------------------------

    def leave(self, group: ClassicGroup, members: Sequence[Any], now: float) -> list[ErrorCode]:
        """Let members go. Source: ``classicGroupLeaveToClassicGroup``."""
        codes = [
            self._leave(group, str(each.member_id), each.group_instance_id) for each in members
        ]
        if not all(codes):
            match group.state:
                case ClassicGroupState.STABLE | ClassicGroupState.COMPLETING_REBALANCE:
                    self._prepare_rebalance(group, now)
                case ClassicGroupState.PREPARING_REBALANCE:
                    self._complete_join_if_all_joined(group, now)
        return codes

    def _leave(self, group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
        if not member_id:
            if instance_id is None or instance_id not in group.static_members:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = group.static_members[instance_id]
        elif member_id not in group.pending_joins and (
            code := group.refuses_member(member_id, instance_id)
        ):
            return code
        if (member := group.members.get(member_id)) is not None:
            member.answer_join(not_joined(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER_ID))
        group.remove(member_id)
        self._store.cancel_timer(group, _SESSION, member_id)
        return ErrorCode.NONE

    # --- another coordinator ---------------------------------------------------------------

    def take_over(self, group: ClassicGroup, now: float, *, rebalances: bool) -> None:
        """Coordinate a group that was one of KIP-848. Source: ``convertToClassicGroup``."""
        self._store.add(group)
        self.loaded(group, now)
        if rebalances:
            self._prepare_rebalance(group, now)

    def loaded(self, group: ClassicGroup, now: float) -> None:
        """A new coordinator has read the group: the sessions restart."""
        for member_id in group.members:
            self.prolong(group, member_id, now)


def not_joined(code: ErrorCode, member_id: str) -> Fields:
    """The response of a JoinGroup that is refused."""
    return {"error_code": code, "member_id": member_id, "protocol_name": None}


def not_synced(code: ErrorCode) -> Fields:
    """The response of a SyncGroup that is refused."""
    return {"error_code": code, "protocol_type": None, "protocol_name": None}


def _joined(group: ClassicGroup, member: ClassicMember, *, skip: bool = False) -> Fields:
    leads = group.leader == member.member_id
    return {
        "error_code": ErrorCode.NONE,
        "generation_id": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "leader": group.leader,
        "skip_assignment": skip,
        "member_id": member.member_id,
        "members": group.shown_members() if leads else (),
    }


def _synced(group: ClassicGroup, member: ClassicMember) -> Fields:
    return {
        "error_code": ErrorCode.NONE,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "assignment": member.assignment,
    }


def _protocols(body: Any) -> dict[str, bytes]:
    return {each.name: bytes(each.metadata) for each in body.protocols}


def _update(member: ClassicMember, body: Any, reply: Reply) -> None:
    """Source: ``updateMember``."""
    member.protocols = _protocols(body)
    member.rebalance_timeout = body.rebalance_timeout_ms / 1000
    member.session_timeout = body.session_timeout_ms / 1000
    member.joins = reply
