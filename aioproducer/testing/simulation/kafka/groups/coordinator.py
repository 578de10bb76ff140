"""The coordinators of groups: which broker answers for a group, its members, and its offsets.

Source: Kafka's ``GroupCoordinatorService`` and ``OffsetMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aioproducer.errors.codes import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka.cluster import Cluster
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
from aioproducer.testing.simulation.kafka.groups.offsets import GroupOffsets
from aioproducer.testing.simulation.kafka.groups.reply import Reply
from aioproducer.testing.simulation.kafka.groups.store import GroupStore
from aioproducer.testing.simulation.kafka.messages import Request
from aioproducer.testing.simulation.kafka.partition import Partition

_FIRST_THAT_MISSES_GROUPS: Final = 9
_PROLONGED_BY_COMMITS: Final = (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE)


class GroupCoordinator:
    """All groups of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._store = GroupStore(cluster, self._loaded)
        self._classic = ClassicProtocol(cluster, self._store)
        self.offsets = GroupOffsets()
        """The committed offsets."""

    # --- who coordinates -------------------------------------------------------------------

    def partition_of(self, group: str) -> Partition:
        """The partition whose leader coordinates ``group``."""
        return self._store.partition_of(group)

    def refuses(self, broker: int, group: str, now: float) -> ErrorCode:
        """Why ``broker`` does not answer for ``group``; ``none``: it does."""
        return self._store.refuses(broker, group, now)

    def _loaded(self, group: ClassicGroup, now: float) -> None:
        self._classic.loaded(group, now)

    # --- groups ----------------------------------------------------------------------------

    def find(self, name: str) -> ClassicGroup | None:
        """A group; ask :meth:`refuses` first."""
        return self._store.groups.get(name)

    def coordinated_by(self, broker: int, now: float) -> list[ClassicGroup]:
        """The groups that a broker coordinates."""
        return self._store.coordinated_by(broker, now)

    def _new(self, name: str) -> ClassicGroup:
        group = ClassicGroup(name)
        self._store.add(group)
        return group

    # --- members ---------------------------------------------------------------------------

    def join(self, request: Request, now: float) -> Reply:
        """JoinGroup."""
        body = request.body
        group = self.find(str(body.group_id))
        if group is None and body.member_id != NO_MEMBER_ID:
            return Reply(not_joined(ErrorCode.UNKNOWN_MEMBER_ID, str(body.member_id)))
        return self._classic.join(group or self._new(str(body.group_id)), request, now)

    def sync(self, request: Request, now: float) -> Reply:
        """SyncGroup."""
        group = self.find(str(request.body.group_id))
        if group is None or group.empty:
            return Reply(not_synced(ErrorCode.UNKNOWN_MEMBER_ID))
        return self._classic.sync(group, request, now)

    def heartbeat(self, body: Any, now: float) -> ErrorCode:
        """Heartbeat."""
        group = self.find(str(body.group_id))
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self._classic.heartbeat(group, body, now)

    def leave(self, name: str, members: Sequence[Any], now: float) -> list[ErrorCode]:
        """LeaveGroup: the code of each member."""
        group = self.find(name)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(members)
        return self._classic.leave(group, members, now)

    # --- offsets ---------------------------------------------------------------------------

    def refuses_commit(self, request: Request, now: float, *, transactional: bool) -> ErrorCode:
        """Why offsets are not taken; a group that does not exist is made.

        Sources: ``validateOffsetCommit``, ``validateTransactionalOffsetCommit``.
        """
        body = request.body
        name = str(body.group_id)
        generation = body.generation_id_or_member_epoch
        member_id = str(body.member_id)
        group = self.find(name)
        if group is None:
            if generation >= 0:
                newer = not transactional and request.version >= _FIRST_THAT_MISSES_GROUPS
                return ErrorCode.GROUP_ID_NOT_FOUND if newer else ErrorCode.ILLEGAL_GENERATION
            group = self._new(name)
        code = group.refuses_commit(
            member_id, body.group_instance_id, generation, transactional=transactional
        )
        if not code and not transactional and group.state in _PROLONGED_BY_COMMITS:
            self._classic.prolong(group, member_id, now)
        return code

    def end_transaction(self, where: TopicPartition, producer_id: int, *, commit: bool) -> None:
        """A marker has arrived in a partition of ``__consumer_offsets``."""
        for group in self.offsets.groups_with_open(producer_id):
            if self.partition_of(group).where == where:
                self.offsets.end_transaction(group, producer_id, commit=commit)
