"""The groups of a cluster and their offsets: in coordinators' memory, and in the replicated log.

Source: Kafka's ``CoordinatorRuntime``. A group belongs to the broker that leads its partition of
``__consumer_offsets``. Another leader reads the partition, and has the groups as they were written
last. The timers of a coordinator are Kafka's ``CoordinatorTimer``. The committed offsets, and those
of open transactions, are known to every coordinator (``OffsetMetadataManager``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.testing.simulation.kafka.cluster import GROUPS_TOPIC, Action, Cluster, Schedule
from aioproducer.testing.simulation.kafka.groups.classic_group import ClassicGroup
from aioproducer.testing.simulation.kafka.groups.consumer_group import ConsumerGroup
from aioproducer.testing.simulation.kafka.partition import Partition


class Key(NamedTuple):
    """The purpose of a timer."""

    group: str
    kind: str
    member_id: str = ""


class Timers:
    """Timers on the clock of a cluster."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._running: dict[Key, Action] = {}

    def start(self, key: Key, time: float, action: Action) -> None:
        """Let ``action`` happen at ``time``, in place of the earlier one of the key."""

        def expire(now: float) -> None:
            if self._running.get(key) is expire:
                del self._running[key]
                action(now)

        self._running[key] = expire
        self._schedule.at(time, expire)

    def runs(self, key: Key) -> bool:
        """True if the timer runs."""
        return key in self._running

    def cancel(self, key: Key) -> None:
        """Stop the timer, if it runs."""
        self._running.pop(key, None)

    def cancel_all(self, group: str, member_id: str | None = None) -> None:
        """Stop the timers of a group, or of one of its members."""
        for key in list(self._running):
            if key.group == group and member_id in (None, key.member_id):
                del self._running[key]


Offsets: TypeAlias = dict[TopicPartition, OffsetAndMetadata]


class GroupOffsets:
    """The offsets of all groups."""

    def __init__(self) -> None:
        self.committed: dict[str, Offsets] = {}
        """By group."""
        self._open: dict[tuple[str, int], Offsets] = {}
        """Of open transactions: by group and producer id."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Take offsets outside of a transaction."""
        self.committed.setdefault(group, {}).update(offsets)

    def commit_in_transaction(
        self,
        group: str,
        producer_id: int,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        """Take offsets that count once the transaction is committed."""
        self._open.setdefault((group, producer_id), {}).update(offsets)

    def end_transaction(self, group: str, producer_id: int, *, commit: bool) -> None:
        """A marker has arrived in the partition of the group."""
        offsets = self._open.pop((group, producer_id), {})
        if commit and offsets:
            self.commit(group, offsets)

    def forget(self, topic: str) -> None:
        """A topic was deleted. Source: ``GroupCoordinatorShard.onPartitionsDeleted``."""
        for offsets in (*self.committed.values(), *self._open.values()):
            for where in [each for each in offsets if each.topic == topic]:
                del offsets[where]

    def groups_with_open(self, producer_id: int) -> list[str]:
        """The groups that have offsets of an open transaction."""
        return [group for group, owner in self._open if owner == producer_id]

    def unstable(self, group: str, where: TopicPartition) -> bool:
        """True if an open transaction has an offset of ``where`` (KIP-447)."""
        return any(of == group and where in offsets for (of, _), offsets in self._open.items())


Group: TypeAlias = ClassicGroup | ConsumerGroup


class GroupStore:
    """All groups. ``loaded`` is called for each one that a new coordinator has read."""

    def __init__(self, cluster: Cluster, loaded: Callable[[Group, float], None]) -> None:
        self._cluster = cluster
        self._loaded = loaded
        self._timers = Timers(cluster.schedule)
        self.groups: dict[str, Group] = {}
        """The groups in the memory of their coordinators."""
        self._log: dict[str, Group] = {}
        """The last record of each group."""
        self._unread: set[Partition] = set()
        """The partitions whose new leaders have not read them yet."""
        cluster.on_leader = self._led

    # --- who coordinates -------------------------------------------------------------------

    def partition_of(self, group: str) -> Partition:
        """The partition whose leader coordinates ``group``."""
        return self._cluster.coordinator_partition(GROUPS_TOPIC, group)

    def refuses(self, broker: int, group: str, now: float) -> ErrorCode:
        """Why ``broker`` does not answer for ``group``; ``none``: it does."""
        partition = self.partition_of(group)
        code = partition.coordinates(broker, now)
        if not code:
            self._read(partition, now)
        return code

    def coordinated_by(self, broker: int, now: float) -> list[Group]:
        """The groups that ``broker`` coordinates."""
        mine = [name for name in self._log if not self.refuses(broker, name, now)]
        return [self.groups[name] for name in mine]

    # --- the log ---------------------------------------------------------------------------

    def add(self, group: Group) -> None:
        """Take a new group, in place of one of the other protocol."""
        self._timers.cancel_all(group.group_id)
        self.groups[group.group_id] = group
        self.write(group)

    def remove(self, name: str) -> None:
        """Forget a group."""
        self._timers.cancel_all(name)
        del self.groups[name], self._log[name]

    def write(self, group: Group) -> None:
        """Write a record of the group."""
        self._log[group.group_id] = group.stored()

    def _led(self, partition: Partition, now: float) -> None:
        """Another broker leads ``partition``, or none."""
        if partition.where.topic != GROUPS_TOPIC:
            return
        for group in self._of(self.groups, partition):
            del self.groups[group.group_id]
            self._timers.cancel_all(group.group_id)
            group.unload()
        self._unread.add(partition)
        if any(each.members for each in self._of(self._log, partition)):
            self._cluster.schedule.at(
                partition.loaded_at, lambda time: self._read_at_last(partition, time)
            )

    def _read_at_last(self, partition: Partition, now: float) -> None:
        """Read it now, so that sessions begin; unless its leader has died or changed."""
        if partition.leader in self._cluster.alive and now >= partition.loaded_at:
            self._read(partition, now)

    def _read(self, partition: Partition, now: float) -> None:
        if partition in self._unread:
            self._unread.discard(partition)
            for written in self._of(self._log, partition):
                group = self.groups[written.group_id] = written.stored()
                self._loaded(group, now)

    def _of(self, groups: Mapping[str, Group], partition: Partition) -> Sequence[Group]:
        return [each for name, each in groups.items() if self.partition_of(name) is partition]

    # --- timers ----------------------------------------------------------------------------

    def start_timer(
        self, group: Group, kind: str, time: float, action: Action, member_id: str = ""
    ) -> None:
        """Let ``action`` happen at ``time``, unless the coordinator is down then.

        It replaces the earlier timer of this kind.
        """
        partition = self.partition_of(group.group_id)

        def expire(now: float) -> None:
            if partition.leader in self._cluster.alive:
                action(now)

        self._timers.start(Key(group.group_id, kind, member_id), time, expire)

    def has_timer(self, group: Group, kind: str, member_id: str = "") -> bool:
        """True if a timer runs."""
        return self._timers.runs(Key(group.group_id, kind, member_id))

    def cancel_timers(self, group: Group, member_id: str) -> None:
        """Stop the timers of a member."""
        self._timers.cancel_all(group.group_id, member_id)

    def cancel_timer(self, group: Group, kind: str, member_id: str = "") -> None:
        """Stop a timer, if it runs."""
        self._timers.cancel(Key(group.group_id, kind, member_id))
