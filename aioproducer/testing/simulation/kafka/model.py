"""The model: brokers of one cluster, driven by bytes and by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.testing.simulation.kafka.batch import StoredRecord
from aioproducer.testing.simulation.kafka.calls import Answer, Call, Coordinators, Login, Silence
from aioproducer.testing.simulation.kafka.cluster import Cluster, Topic
from aioproducer.testing.simulation.kafka.connection import ModelConnection
from aioproducer.testing.simulation.kafka.faults import RequestFaults
from aioproducer.testing.simulation.kafka.groups import GroupCoordinator
from aioproducer.testing.simulation.kafka.messages import Request
from aioproducer.testing.simulation.kafka.options import ClusterOptions
from aioproducer.testing.simulation.kafka.partition import Partition
from aioproducer.testing.simulation.kafka.requests.apis import HANDLERS
from aioproducer.testing.simulation.kafka.requests.logins import admits
from aioproducer.testing.simulation.kafka.transaction_coordinator import TransactionCoordinator
from aioproducer.testing.simulation.kafka.transaction_state import TransactionMetadata


class KafkaModel:
    """Brokers 1 to n of one cluster, as a state machine that is driven by bytes and by time.

    Times are seconds since the epoch of Unix. The same ``random``, calls and bytes give the same
    answers.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        random: Random,
        options: ClusterOptions | None = None,
    ) -> None:
        self.cluster = Cluster(brokers, random, options or ClusterOptions())
        groups = GroupCoordinator(self.cluster)
        self.coordinators = Coordinators(TransactionCoordinator(self.cluster, groups), groups)
        self.faults = RequestFaults()
        self.failed: list[tuple[Request, ErrorCode]] = []
        """The requests that were answered by an error of :meth:`fail_next`."""
        self._connections: list[ModelConnection] = []
        self._most_in_flight: Counter[int] = Counter()
        self._running = False

    @property
    def host(self) -> Callable[[int], tuple[str, int]]:
        """The advertised address of a broker."""
        return self.cluster.host

    @host.setter
    def host(self, host: Callable[[int], tuple[str, int]]) -> None:
        self.cluster.host = host

    # --- connections -----------------------------------------------------------------------

    def connect(
        self,
        broker: int,
        respond: Callable[[bytes], None],
        close: Callable[[], None],
        now: float,
    ) -> ModelConnection:
        """Connect to a broker. Raises ConnectionRefusedError if it is down.

        ``respond`` gets whole frames, in the order of the requests; ``close``: the broker has ended
        the connection.
        """
        if broker not in self.cluster.alive:
            raise ConnectionRefusedError(f"broker {broker} is down")
        login = Login(required=self.cluster.options.credentials is not None)
        connection = ModelConnection(self, broker, login, respond, close)
        self._connections.append(connection)
        return connection

    def begin(self, connection: ModelConnection, request: Request, now: float) -> Answer:
        """Begin a request."""
        if not admits(connection.login, request.api, now):
            return Silence.CLOSED
        injected = self.faults.error_of(request.api, connection.broker)
        if injected:
            self.failed.append((request, injected))
        call = Call(
            self.cluster,
            self.coordinators,
            connection.broker,
            request,
            connection.login,
            now,
            injected,
        )
        return HANDLERS[request.api](call)

    def in_flight(self, connection: ModelConnection, api: int, number: int) -> None:
        """So many requests of one kind are unanswered on a connection."""
        self._most_in_flight[api] = max(self._most_in_flight[api], number)

    # --- time ------------------------------------------------------------------------------

    def tick(self, now: float) -> float | None:
        """Do what is due. Returns the time of what comes next, if anything will."""
        while (due := self.cluster.schedule.take(now)) is not None:
            time, action = due
            action(time)
            self.run(time)
        self.run(now)
        times = [each.next_time(now) for each in self._connections]
        times.append(self.cluster.schedule.next_time)
        return min((each for each in times if each is not None), default=None)

    def run(self, now: float) -> None:
        """Let every connection go on as far as it can."""
        if self._running:  # a response led back to here
            return
        self._running = True
        try:
            moved = True
            while moved:
                moved = False
                for connection in list(self._connections):
                    while connection.advance(now):
                        moved = True
            self._connections = [each for each in self._connections if not each.done]
        finally:
            self._running = False

    # --- topics ----------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, replicas: int = 3, **config: str
    ) -> None:
        """Create a topic. Settings have Kafka's names with underscores: ``min_insync_replicas``."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        replicas = min(replicas, len(self.cluster.brokers))
        self.cluster.create_topic(name, partitions, replicas, settings)

    # --- faults ----------------------------------------------------------------------------

    def crash(self, broker: int, now: float, *, lose_unreplicated: bool = False) -> None:
        """Kill a broker; other brokers lead its partitions after a while.

        Records that the followers lack by then are lost with ``lose_unreplicated``, else they get
        them in the last moment.
        """
        for connection in self._connections:
            if connection.broker == broker:
                connection.end()
        self.cluster.crashed(broker, now, lose_unreplicated=lose_unreplicated)
        self.run(now)

    def restart(self, broker: int, now: float) -> None:
        """Start a crashed broker."""
        self.cluster.restarted(broker, now)
        self.run(now)

    def move_leader(self, topic: str, partition: int, to: int, now: float) -> None:
        """Elect another leader, one of the replicas in sync; else nothing changes."""
        found = self.partition(topic, partition)
        if to in found.isr and to in self.cluster.registered & self.cluster.alive:
            self.cluster.lead(found, to, now)
        self.run(now)

    def shrink_isr(
        self, topic: str, partition: int, broker: int, now: float, seconds: float = 1.0
    ) -> None:
        """Let a follower fetch nothing for ``seconds``, which takes it out of the ISR."""
        found = self.partition(topic, partition)
        if broker != found.leader:
            self.cluster.stall(found, broker, seconds, now)
        self.run(now)

    def truncate(self, topic: str, partition: int, offset: int, now: float) -> None:
        """Lose the records from ``offset`` on, in a new epoch of the leader."""
        self.partition(topic, partition).lose(offset)
        self.run(now)

    def delete_records(self, topic: str, partition: int, before: int, now: float) -> None:
        """Delete the records before an offset, as retention does; those of all replicas only."""
        found = self.partition(topic, partition)
        found.delete_records(min(before, found.high_watermark))
        self.run(now)

    def recreate_topic(self, topic: str, now: float) -> None:
        """Delete a topic, and create it again with the same settings and another id."""
        old = self.cluster.topics[topic]
        self.cluster.delete_topic(old)
        settings = {name: old.config[name] for name in old.altered}
        replicas = len(old.partitions[0].replicas)
        self.cluster.create_topic(topic, len(old.partitions), replicas, settings)
        self.run(now)

    def replace_cluster(self, now: float) -> None:
        """Let another cluster, with the same topics and no record, answer at the addresses."""
        for connection in self._connections:
            connection.end()
        former = self.cluster
        self.cluster = Cluster(len(former.brokers), former.random, former.options)
        self.cluster.id, self.cluster.host = f"{former.id}'", former.host
        groups = GroupCoordinator(self.cluster)
        self.coordinators = Coordinators(TransactionCoordinator(self.cluster, groups), groups)
        for topic in former.topics.values():
            if not topic.internal:
                settings = {name: topic.config[name] for name in topic.altered}
                replicas = len(topic.partitions[0].replicas)
                self.cluster.create_topic(topic.name, len(topic.partitions), replicas, settings)
        self.run(now)

    def expire_producer_ids(self, now: float) -> None:
        """Let all partitions forget the producers that have no open transaction there."""
        for partition in self.cluster.partitions():
            partition.producers.expire()
        self.run(now)

    def fence(self, transactional_id: str, now: float) -> None:
        """Do as if another producer had started with the transactional id."""
        known = self.coordinators.transactions.transactions[transactional_id]
        self.coordinators.transactions.initialize(transactional_id, known.timeout_ms, None, now)
        self.run(now)

    def time_out_transaction(self, transactional_id: str, now: float) -> None:
        """Abort an open transaction as if it had reached its time."""
        self.coordinators.transactions.time_out(transactional_id, now)
        self.run(now)

    def fail_next(self, api: int, code: int, *, broker: int | None = None, times: int = 1) -> None:
        """Answer the next requests of one kind with an error code instead of doing the work."""
        self.faults.fail_next(api, code, broker, times)

    def lose_next_response(
        self, api: int, *, broker: int | None = None, times: int = 1, after: int = 0
    ) -> None:
        """Do what the next requests of one kind ask for, and cut the connection in place of the
        response. ``after``: the number of requests before them.
        """
        self.faults.lose_next_response(api, broker, times, after)

    def throttle(self, milliseconds: int, requests: int = 1, *, broker: int | None = None) -> None:
        """Throttle the next requests: their responses say so, and their connections are muted."""
        self.faults.throttle(milliseconds, requests, broker)

    # --- what is in the cluster ------------------------------------------------------------

    def topic(self, name: str) -> Topic:
        """A topic with its partitions. Read it, and change nothing. Raises LookupError."""
        found = self.cluster.topics.get(name)
        if found is None:
            raise LookupError(f"there is no topic {name!r}")
        return found

    def partition(self, topic: str, number: int) -> Partition:
        """A partition. Read it, and change nothing. Raises LookupError."""
        found = self.cluster.partition(topic, number)
        if found is None:
            raise LookupError(f"there is no partition {topic}-{number}")
        return found

    def log(self, topic: str, partition: int) -> Sequence[StoredRecord]:
        """The records of a partition, without the markers of transactions."""
        return self.partition(topic, partition).log.records()

    def high_watermark(self, topic: str, partition: int) -> int:
        """The end of what all replicas have."""
        return self.partition(topic, partition).high_watermark

    def last_stable_offset(self, topic: str, partition: int) -> int:
        """The end of what ``read_committed`` may see."""
        return self.partition(topic, partition).last_stable_offset

    def committed_offsets(self, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The offsets that count, without those of open transactions."""
        return dict(self.coordinators.groups.offsets.committed.get(group, {}))

    def transactions(self) -> Mapping[str, TransactionMetadata]:
        """The coordinators' knowledge, by transactional id. Read it, and change nothing."""
        return self.coordinators.transactions.transactions

    def most_in_flight(self, api: int) -> int:
        """The most requests of one kind that were unanswered on a connection at once."""
        return self._most_in_flight[api]
