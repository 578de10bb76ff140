"""The cluster that all brokers share: settings, topics, brokers, producer ids, future actions.

Sources: Kafka's ``ReplicationControlManager``, ``ProducerIdControlManager``, ``MetadataImage``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final, TypeAlias
from uuid import UUID
from zlib import crc32

from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka.fetch_sessions import FetchSessions
from aioproducer.testing.simulation.kafka.partition import NO_LEADER, Partition

Span: TypeAlias = tuple[float, float]
"""The least and the greatest number of seconds; each time one between them is drawn."""

TOPIC_DEFAULTS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "unclean.leader.election.enable": "false",
}
"""Kafka's own defaults of the settings of a topic that the model knows."""
GROUP_DEFAULTS: Final[Mapping[str, str]] = {
    "consumer.assignment.interval.ms": "1000",
    "consumer.heartbeat.interval.ms": "5000",
    "consumer.session.timeout.ms": "45000",
}
"""The settings of a group of KIP-848, by the broker's defaults of ``group.consumer…``."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The settings of a cluster. Times are seconds unless a name says otherwise."""

    transaction_version: int = 2
    """Of the protocol of transactions: 1, or 2 (KIP-890)."""
    topic_config: Mapping[str, str] = field(default_factory=dict)
    """In place of Kafka's defaults, for all topics."""
    default_partitions: int = 1
    default_replicas: int = 3
    replication: Span = (0.0005, 0.005)
    """Until a follower has what its leader has."""
    markers: Span = (0.001, 0.01)
    """Until the markers of an ended transaction are in the logs."""
    failure_detection: Span = (0.1, 1.0)
    """Until another broker leads in place of a crashed one."""
    metadata: Span = (0.0, 0.0)
    """Until a broker reports a new leader to clients."""
    coordinator_load: Span = (0.01, 0.1)
    """Until a new coordinator has read its log."""
    transaction_max_timeout_ms: int = 900_000
    transaction_timeout_check: float = 0.5
    """The interval at which coordinators look for transactions beyond their time."""
    group_initial_rebalance_delay_ms: int = 3_000
    """Until an empty group completes its first rebalance: other members may join meanwhile."""
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_consumer_migration_policy: str = "bidirectional"
    """Whether groups with members go over to KIP-848 (upgrade), or back (downgrade)."""
    group_config: Mapping[str, str] = field(default_factory=dict)
    """In place of Kafka's defaults, for all groups of KIP-848."""
    fetch_session_slots: int = 1_000
    """The sessions of incremental fetches (KIP-227) that a broker keeps."""
    credentials: Mapping[str, str] | None = None
    """Passwords by user; None: the listener takes no logins."""
    sasl_mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    names_duplicates: bool = False
    """Answer a duplicate with DUPLICATE_SEQUENCE_NUMBER instead of its offset, as Kafka 1.0 did."""
    session_lifetime_ms: int = 0
    """Clients have to log in again before that (KIP-368); 0: never."""
    telemetry_interval_ms: int = 0
    """The interval of a subscription to all metrics of all clients (KIP-714); 0: there is none."""
    first_producer_id: int = 1000


Action: TypeAlias = Callable[[float], None]
"""Gets the time."""


class Schedule:
    """Actions and their times. Actions of one time are done in the order in which they came."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Action]] = []
        self._numbers = count()

    @property
    def next_time(self) -> float | None:
        """The time of the next action, if there is one."""
        return self._due[0][0] if self._due else None

    def at(self, time: float, action: Action) -> None:
        """Let ``action`` happen at ``time``."""
        heapq.heappush(self._due, (time, next(self._numbers), action))

    def take(self, now: float) -> tuple[float, Action] | None:
        """The first action that is due, and its time."""
        if self._due and self._due[0][0] <= now:
            time, _, action = heapq.heappop(self._due)
            return time, action
        return None


CONTROLLER: Final = 1
PORT: Final = 9092
TRANSACTIONS_TOPIC: Final = "__transaction_state"
GROUPS_TOPIC: Final = "__consumer_offsets"
COORDINATOR_PARTITIONS: Final = 10


@dataclass
class Topic:
    """A topic; ``config`` has every setting that the model knows."""

    name: str
    id: UUID
    config: dict[str, str]
    internal: bool = False
    partitions: list[Partition] = field(default_factory=list)
    altered: set[str] = field(default_factory=set)
    """The settings that are not by default."""


def advertised(broker: int) -> tuple[str, int]:
    """The address of a broker, if nobody gives it another."""
    return f"broker-{broker}.simulated", PORT


class Cluster:
    """State of the cluster as its controller has it."""

    id = "simulated"

    def __init__(self, brokers: int, random: Random, options: ClusterOptions) -> None:
        self.options = options
        self.random = random
        self.schedule = Schedule()
        self.brokers = tuple(range(1, brokers + 1))
        self.alive = set(self.brokers)
        """The running brokers."""
        self.registered = set(self.brokers)
        """The brokers that the controller considers alive."""
        self.topics: dict[str, Topic] = {}
        self.fetch_sessions = {
            broker: FetchSessions(options.fetch_session_slots) for broker in self.brokers
        }
        self.altered_groups: dict[str, dict[str, str]] = {}
        """The settings of groups that are not by default."""
        self.host: Callable[[int], tuple[str, int]] = advertised
        self.on_leader: Callable[[Partition, float], None] = lambda partition, now: None
        """Called when another broker leads a partition, or none does."""
        self.pushes = 0
        """The telemetry of clients that has arrived."""
        self._next_producer_id = options.first_producer_id
        self._next_replica = 0
        self._fetching: set[tuple[Partition, int]] = set()
        """Followers whose next records are under way."""
        for name in (GROUPS_TOPIC, TRANSACTIONS_TOPIC):
            self.create_topic(name, COORDINATOR_PARTITIONS, min(3, brokers), {}, internal=True)

    def drawn(self, span: Span) -> float:
        """A number of seconds."""
        return self.random.uniform(*span)

    def new_producer_id(self) -> int:
        """Source: ``ProducerIdManager.generateProducerId``."""
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # --- topics ----------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int,
        replicas: int,
        config: Mapping[str, str],
        *,
        internal: bool = False,
        assigned: Sequence[Sequence[int]] = (),
    ) -> Topic:
        """Add a topic that does not exist; ``assigned``: the brokers of each partition."""
        settings = {**TOPIC_DEFAULTS, **self.options.topic_config, **config}
        topic = Topic(name, UUID(int=self.random.getrandbits(128), version=4), settings, internal)
        topic.altered = set(config)
        self.topics[name] = topic
        for brokers in assigned:
            self._add_partition(topic, brokers)
        self.add_partitions(topic, partitions, replicas)
        return topic

    def delete_topic(self, topic: Topic) -> None:
        """Remove a topic with its records."""
        del self.topics[topic.name]
        for partition in topic.partitions:
            partition.elect(NO_LEADER)

    def add_partitions(self, topic: Topic, partitions: int, replicas: int) -> None:
        """Let ``topic`` have so many partitions. Leaders go round.

        Replicas are on brokers that are down if there are too few others. Source:
        ``StripedReplicaPlacer``.
        """
        alive = sorted(self.registered)
        down = [each for each in self.brokers if each not in self.registered]
        for _ in range(len(topic.partitions), partitions):
            begin = self._next_replica % len(alive)
            self._next_replica += 1
            self._add_partition(topic, [*alive[begin:], *alive[:begin], *down][:replicas])

    def _add_partition(self, topic: Topic, replicas: Sequence[int]) -> None:
        where = TopicPartition(topic.name, len(topic.partitions))
        isr = self.registered.intersection(replicas)
        topic.partitions.append(Partition(where, replicas, isr, topic.config))

    def topic_by_id(self, topic_id: UUID | None) -> Topic | None:
        """The topic with this id."""
        return next((each for each in self.topics.values() if each.id == topic_id), None)

    def partition(self, topic: str, number: int) -> Partition | None:
        """The partition, if it exists."""
        known = self.topics.get(topic)
        if known is None or not 0 <= number < len(known.partitions):
            return None
        return known.partitions[number]

    def coordinator_partition(self, topic: str, key: str) -> Partition:
        """The partition whose leader coordinates ``key``. Source: ``partitionFor``."""
        partitions = self.topics[topic].partitions
        return partitions[crc32(key.encode()) % len(partitions)]

    def partitions(self) -> Iterator[Partition]:
        """All partitions."""
        for topic in self.topics.values():
            yield from topic.partitions

    def group_config(self, group: str) -> Mapping[str, str]:
        """The settings of a group of KIP-848."""
        altered = self.altered_groups.get(group, {})
        return {**GROUP_DEFAULTS, **self.options.group_config, **altered}

    # --- replication -----------------------------------------------------------------------

    def replicate(self, partition: Partition, now: float) -> None:
        """Let the followers that run fetch what they lack, after some time."""
        if partition.leader not in self.alive:
            return
        end = partition.log.end_offset
        for follower in partition.replicas:
            lags = follower not in partition.isr or partition.end_offsets[follower] < end
            if (
                lags
                and partition.stalled_until.get(follower, now) <= now
                and follower != partition.leader
                and follower in self.alive & self.registered
                and (partition, follower) not in self._fetching
            ):
                self._fetching.add((partition, follower))
                self._fetch_later(partition, follower, end, now)

    def _fetch_later(self, partition: Partition, follower: int, offset: int, now: float) -> None:
        epoch = partition.leader_epoch

        def fetched(time: float) -> None:
            self._fetching.discard((partition, follower))
            runs = partition.leader in self.alive and follower in self.alive & self.registered
            stalled = partition.stalled_until.get(follower, time) > time
            if runs and not stalled and partition.leader_epoch == epoch:
                partition.replicated(follower, offset)
            self.replicate(partition, time)

        self.schedule.at(now + self.drawn(self.options.replication), fetched)

    def stall(self, partition: Partition, follower: int, seconds: float, now: float) -> None:
        """Let a follower fetch nothing for a while, out of the ISR until it has caught up."""
        partition.stalled_until[follower] = now + seconds
        partition.shrink_isr(follower)
        self.schedule.at(now + seconds, lambda time: self.replicate(partition, time))

    # --- brokers ---------------------------------------------------------------------------

    def crashed(self, broker: int, now: float, *, lose_unreplicated: bool) -> None:
        """``broker`` has died, which the controller notices later."""
        self.alive.discard(broker)
        self.fetch_sessions[broker].clear()
        for partition in self.partitions():
            if partition.leader == broker and not lose_unreplicated:
                for follower in sorted(partition.isr & self.alive):
                    partition.replicated(follower, partition.log.end_offset)

        def noticed(time: float) -> None:
            if broker not in self.alive:
                self.fence(broker, time)

        self.schedule.at(now + self.drawn(self.options.failure_detection), noticed)

    def restarted(self, broker: int, now: float) -> None:
        """``broker`` has restarted, and knows what is in its logs."""
        if broker in self.registered:
            self.fence(broker, now)  # it registers again before anyone has missed it
        self.alive.add(broker)
        for partition in self.partitions():
            if partition.leader == NO_LEADER:
                partition.forget_memory()
        self.unfence(broker, now)

    # --- elections -------------------------------------------------------------------------

    def fence(self, broker: int, now: float) -> None:
        """The controller takes ``broker`` for dead. Source: ``handleBrokerFenced``."""
        self.registered.discard(broker)
        for partition in self.partitions():
            if broker in partition.replicas:
                partition.shrink_isr(broker)
                if partition.leader == broker:
                    self._elect(partition, now)
                self.replicate(partition, now)

    def unfence(self, broker: int, now: float) -> None:
        """``broker`` runs again. Source: ``handleBrokerUnfenced``."""
        self.registered.add(broker)
        for partition in self.partitions():
            if broker in partition.replicas:
                if partition.leader == NO_LEADER:
                    self._elect(partition, now)
                self.replicate(partition, now)

    def _elect(self, partition: Partition, now: float) -> None:
        """Source: ``PartitionChangeBuilder.electLeader``."""
        there = [each for each in partition.replicas if each in self.registered]
        in_sync = [each for each in there if each in partition.isr]
        unclean = partition.config["unclean.leader.election.enable"] == "true"
        candidates = in_sync or (there if unclean else [])
        self.lead(partition, candidates[0] if candidates else NO_LEADER, now)

    def lead(self, partition: Partition, leader: int, now: float) -> None:
        """Let ``leader`` lead ``partition``."""
        if partition.leader != leader:
            if self.options.metadata[1]:
                for broker in self.brokers:
                    shown = partition.shown_by(broker, now)
                    until = now + self.drawn(self.options.metadata)
                    partition.learned_later(broker, until, shown)
            partition.elect(leader)
            partition.loaded_at = now + self.drawn(self.options.coordinator_load)
            self.on_leader(partition, now)
            self.replicate(partition, now)
