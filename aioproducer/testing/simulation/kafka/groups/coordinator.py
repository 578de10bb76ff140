"""The coordinators of groups: which broker answers for a group, its members, and its offsets.

Sources: Kafka's ``GroupCoordinatorService``, ``GroupMetadataManager`` and
``OffsetMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka.cluster import Cluster
from aioproducer.testing.simulation.kafka.groups.assignors import TopicIdPartition
from aioproducer.testing.simulation.kafka.groups.classic_group import (
    NO_MEMBER_ID,
    ClassicGroup,
    ClassicGroupState,
)
from aioproducer.testing.simulation.kafka.groups.classic_protocol import (
    ClassicProtocol,
    not_joined,
    not_synced,
)
from aioproducer.testing.simulation.kafka.groups.consumer_group import LEAVE_EPOCH, ConsumerGroup
from aioproducer.testing.simulation.kafka.groups.consumer_protocol import ConsumerProtocol
from aioproducer.testing.simulation.kafka.groups.embedded_protocol import (
    PROTOCOL_TYPE,
    MalformedError,
)
from aioproducer.testing.simulation.kafka.groups.migration import UPGRADES, upgraded
from aioproducer.testing.simulation.kafka.groups.mixed_members import MixedMembers
from aioproducer.testing.simulation.kafka.groups.offsets import GroupOffsets
from aioproducer.testing.simulation.kafka.groups.regular_expressions import is_regular_expression
from aioproducer.testing.simulation.kafka.groups.reply import Reply
from aioproducer.testing.simulation.kafka.groups.store import Group, GroupStore
from aioproducer.testing.simulation.kafka.messages import Fields, Request
from aioproducer.testing.simulation.kafka.partition import Partition

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
