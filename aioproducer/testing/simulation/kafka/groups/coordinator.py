"""The coordinators of groups: which broker answers for a group, its members, and its offsets.

Sources: Kafka's ``GroupCoordinatorService``, ``GroupMetadataManager`` and
``OffsetMetadataManager``. :class:`MixedMembers` serves members of the classic protocol in groups of
KIP-848, in the midst of a migration. Source: the methods ``classicGroup…ToConsumerGroup`` of
``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka.cluster import Cluster
from aioproducer.testing.simulation.kafka.groups.classic_group import (
    NO_MEMBER_ID,
    ClassicGroup,
    ClassicGroupState,
    Reply,
)
from aioproducer.testing.simulation.kafka.groups.classic_protocol import (
    FIRST_THAT_REQUIRES_IDS,
    ClassicProtocol,
    not_joined,
    not_synced,
)
from aioproducer.testing.simulation.kafka.groups.consumer_group import (
    LEAVE_EPOCH,
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    TopicIdPartition,
)
from aioproducer.testing.simulation.kafka.groups.consumer_protocol import (
    ConsumerProtocol,
    is_regular_expression,
)
from aioproducer.testing.simulation.kafka.groups.migration import (
    PROTOCOL_TYPE,
    UPGRADES,
    MalformedError,
    assignment_for,
    downgraded,
    subscription_in,
    upgraded,
    with_ids,
    with_names,
)
from aioproducer.testing.simulation.kafka.groups.store import Group, GroupOffsets, GroupStore
from aioproducer.testing.simulation.kafka.messages import Fields, Request
from aioproducer.testing.simulation.kafka.partition import Partition

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


_FIRST_COMMIT_WITH_EPOCHS: Final = 9
_PROLONGED_BY_COMMITS: Final = (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE)


class GroupCoordinator:
    """All groups of a cluster.

    A group is of the protocol of its first member. It goes over to the other one when it is empty,
    and otherwise as ``group.consumer.migration.policy`` allows.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._store = GroupStore(cluster, self._loaded)
        self._classic = ClassicProtocol(cluster, self._store)
        self._consumer = ConsumerProtocol(cluster, self._store, self._classic)
        self._mixed = MixedMembers(cluster, self._store, self._classic, self._consumer)
        self.offsets = GroupOffsets()
        """The committed offsets."""

    # --- who coordinates -------------------------------------------------------------------

    def partition_of(self, group: str) -> Partition:
        """The partition whose leader coordinates ``group``."""
        return self._store.partition_of(group)

    def refuses(self, broker: int, group: str, now: float) -> ErrorCode:
        """Why ``broker`` does not answer for ``group``; ``none``: it does."""
        return self._store.refuses(broker, group, now)

    def coordinated_by(self, broker: int, now: float) -> list[Group]:
        """The groups that a broker coordinates."""
        return self._store.coordinated_by(broker, now)

    def find(self, name: str) -> Group | None:
        """A group; ask :meth:`refuses` first."""
        return self._store.groups.get(name)

    def _loaded(self, group: Group, now: float) -> None:
        if isinstance(group, ClassicGroup):
            self._classic.loaded(group, now)
        else:
            self._consumer.loaded(group, now)

    def _new_classic(self, name: str) -> ClassicGroup:
        group = ClassicGroup(name)
        self._store.add(group)
        return group

    # --- members of the classic protocol ---------------------------------------------------

    def join(self, request: Request, now: float) -> Reply:
        """JoinGroup."""
        body = request.body
        name, member_id = str(body.group_id), str(body.member_id)
        group = self.find(name)
        if isinstance(group, ConsumerGroup) and not group.empty:
            if self._policy == "disabled":
                return Reply(not_joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, NO_MEMBER_ID))
            return Reply(self._mixed.join(group, request, now))
        if not isinstance(group, ClassicGroup):
            if member_id != NO_MEMBER_ID:
                return Reply(not_joined(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
            group = self._new_classic(name)
        return self._classic.join(group, request, now)

    def sync(self, request: Request, now: float) -> Reply:
        """SyncGroup."""
        group = self.find(str(request.body.group_id))
        if group is None or group.empty:
            return Reply(not_synced(ErrorCode.UNKNOWN_MEMBER_ID))
        if isinstance(group, ConsumerGroup):
            return Reply(self._mixed.sync(group, request.body, now))
        return self._classic.sync(group, request, now)

    def heartbeat(self, body: Any, now: float) -> ErrorCode:
        """Heartbeat."""
        group = self.find(str(body.group_id))
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(group, ConsumerGroup):
            return self._mixed.heartbeat(group, body, now)
        return self._classic.heartbeat(group, body, now)

    def leave(self, name: str, members: Sequence[Any], now: float) -> list[ErrorCode]:
        """LeaveGroup: the code of each member."""
        group = self.find(name)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(members)
        if isinstance(group, ConsumerGroup):
            return self._mixed.leave(group, members, now)
        return self._classic.leave(group, members, now)

    # --- members of the protocol of KIP-848 ------------------------------------------------

    def consumer_heartbeat(self, request: Request, now: float) -> Fields:
        """ConsumerGroupHeartbeat, of members that join, stay and leave."""
        body = request.body
        group = self.find(str(body.group_id))
        replaced = group is None or (isinstance(group, ClassicGroup) and group.empty)
        if body.member_epoch == 0 and replaced:
            if not is_regular_expression(body.subscribed_topic_regex or ""):
                return {"error_code": ErrorCode.INVALID_REGULAR_EXPRESSION}
            group = ConsumerGroup(str(body.group_id))
            self._store.add(group)
        if isinstance(group, ClassicGroup) and body.member_epoch == 0:
            group = self._upgraded(group, now)
        if not isinstance(group, ConsumerGroup):
            return {"error_code": ErrorCode.GROUP_ID_NOT_FOUND}
        if body.member_epoch <= LEAVE_EPOCH:
            return self._consumer.leave(group, body, now)
        return self._consumer.heartbeat(group, request, now)

    def _upgraded(self, group: ClassicGroup, now: float) -> ConsumerGroup | None:
        """The group by the newer protocol, if it can be. Source: ``convertToConsumerGroup``."""
        if (
            self._policy not in UPGRADES
            or group.protocol_type != PROTOCOL_TYPE
            or group.protocol is None
        ):
            return None
        try:
            made = upgraded(group, self._cluster)
        except MalformedError:
            return None
        self._consumer.see_topics(made)
        group.answer_all(ErrorCode.REBALANCE_IN_PROGRESS)
        self._store.add(made)
        for member in made.members.values():
            self._consumer.start_session(made, member, now)
        return made

    @property
    def _policy(self) -> str:
        return self._cluster.options.group_consumer_migration_policy

    # --- offsets ---------------------------------------------------------------------------

    def refused_offsets(
        self,
        request: Request,
        partitions: Iterable[TopicPartition],
        now: float,
        *,
        transactional: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Why offsets are not taken; a group that does not exist is made.

        Sources: ``validateOffsetCommit``, ``validateTransactionalOffsetCommit``.
        """
        code = self._refuses_commit(request, now, transactional=transactional)
        group = self.find(str(request.body.group_id))
        codes = dict.fromkeys(partitions, code)
        if not code and isinstance(group, ConsumerGroup):
            codes = {each: self._refuses_partition(group, request, each) for each in codes}
            # one partition that is refused takes the others with it
            codes = dict.fromkeys(codes, next(filter(None, codes.values()), ErrorCode.NONE))
        if transactional and ErrorCode.STALE_MEMBER_EPOCH in codes.values():
            codes = dict.fromkeys(codes, ErrorCode.ILLEGAL_GENERATION)
        return {each: found for each, found in codes.items() if found}

    def _refuses_commit(self, request: Request, now: float, *, transactional: bool) -> ErrorCode:
        body = request.body
        epoch, member_id = body.generation_id_or_member_epoch, str(body.member_id)
        group = self.find(str(body.group_id))
        newer = request.version >= _FIRST_COMMIT_WITH_EPOCHS
        if group is None:
            if epoch >= 0:
                missing = newer and not transactional
                return ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.ILLEGAL_GENERATION
            group = self._new_classic(str(body.group_id))
        code = group.refuses_commit(
            member_id, body.group_instance_id, epoch, transactional=transactional
        )
        if isinstance(group, ConsumerGroup):
            member = group.members.get(member_id)
            speaks_epochs = member is not None and member.classic is None
            if speaks_epochs and not transactional and not newer:
                return ErrorCode.UNSUPPORTED_VERSION
            return code
        if not code and not transactional and group.state in _PROLONGED_BY_COMMITS:
            self._classic.prolong(group, member_id, now)
        return code

    def _refuses_partition(
        self, group: ConsumerGroup, request: Request, where: TopicPartition
    ) -> ErrorCode:
        topic = self._cluster.topics[where.topic]
        return group.refuses_partition(
            str(request.body.member_id),
            request.body.generation_id_or_member_epoch,
            TopicIdPartition(topic.id, where.partition),
        )

    def refuses_removal(self, name: str, *, of_group: bool) -> ErrorCode:
        """Why a group, or any offset of it, is not removed.

        Sources: ``validateDeleteGroup``, ``validateOffsetDelete``.
        """
        group = self.find(name)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        of_consumers = isinstance(group, ConsumerGroup) or group.protocol_type == PROTOCOL_TYPE
        if group.empty or (of_consumers and not of_group):
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def subscribed_topics(self, name: str) -> set[str]:
        """The topics that the members of a group read."""
        group = self._store.groups[name]
        if isinstance(group, ConsumerGroup):
            return {topic for each in group.members.values() for topic in group.topics_of(each)}
        metadata = [each for m in group.members.values() for each in m.protocols.values()]
        return {topic for each in metadata for topic in subscription_in(each).topics}

    def remove(self, name: str) -> None:
        """Forget a group and its offsets; ask :meth:`refuses_removal` first."""
        self._store.remove(name)
        self.offsets.committed.pop(name, None)

    def refuses_fetch(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Why committed offsets are withheld from a member."""
        group = self.find(name)
        if isinstance(group, ConsumerGroup):
            return group.refuses_fetch(member_id, epoch)
        return ErrorCode.NONE

    def end_transaction(self, where: TopicPartition, producer_id: int, *, commit: bool) -> None:
        """A marker has arrived in a partition of ``__consumer_offsets``."""
        for group in self.offsets.groups_with_open(producer_id):
            if self.partition_of(group).where == where:
                self.offsets.end_transaction(group, producer_id, commit=commit)
