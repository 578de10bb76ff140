"""The model: brokers of one cluster and their connections, driven by bytes and by time.

A connection splits bytes into requests, and begins one request at a time: the responses leave in
order. Sources: Kafka's ``SocketServer.Processor``, which mutes a channel until the response is
sent, and ``RequestChannel``. :class:`RequestFaults` has the faults of the next requests.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from aioproducer.engine.protocol import Api
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.testing.simulation.kafka.batch import StoredRecord
from aioproducer.testing.simulation.kafka.calls import (
    Answer,
    Call,
    Closing,
    Coordinators,
    Login,
    Parked,
    Silence,
)
from aioproducer.testing.simulation.kafka.cluster import Cluster, ClusterOptions, Topic
from aioproducer.testing.simulation.kafka.groups import GroupCoordinator
from aioproducer.testing.simulation.kafka.messages import (
    SIZE_BYTES,
    Fields,
    Request,
    UnreadableRequestError,
    header_of,
    read_request,
    write_response,
)
from aioproducer.testing.simulation.kafka.partition import Partition
from aioproducer.testing.simulation.kafka.requests.apis import HANDLERS, RANGES
from aioproducer.testing.simulation.kafka.requests.logins import admits
from aioproducer.testing.simulation.kafka.requests.metadata import ranges_of
from aioproducer.testing.simulation.kafka.transaction_coordinator import (
    TransactionCoordinator,
    TransactionMetadata,
)


@dataclass
class _Rule:
    """For requests of one kind, at one broker or at any."""

    api: int | None
    broker: int | None
    left: int
    code: ErrorCode = ErrorCode.NONE
    milliseconds: int = 0
    skipped: int = 0
    """The requests before them that it leaves alone."""

    def meets(self, api: int, broker: int) -> bool:
        return self.left > 0 and self.api in (None, api) and self.broker in (None, broker)


class RequestFaults:
    """Rules, each with the number of requests that it applies to, the oldest first."""

    def __init__(self) -> None:
        self._errors: list[_Rule] = []
        self._lost: list[_Rule] = []
        self._throttled: list[_Rule] = []

    def fail_next(self, api: int, code: int, broker: int | None, times: int) -> None:
        """Answer with an error code instead of doing the work."""
        self._errors.append(_Rule(api, broker, times, ErrorCode(code)))

    def lose_next_response(self, api: int, broker: int | None, times: int, after: int = 0) -> None:
        """Do the work, and end the connection in place of the response, ``after`` so many."""
        self._lost.append(_Rule(api, broker, times, skipped=after))

    def throttle(self, milliseconds: int, times: int, broker: int | None) -> None:
        """Answer with a throttle time, and read nothing more from the connection until then."""
        self._throttled.append(_Rule(None, broker, times, milliseconds=milliseconds))

    def error_of(self, api: int, broker: int) -> ErrorCode:
        """The error for the request that is begun now."""
        rule = _take(self._errors, api, broker)
        return ErrorCode.NONE if rule is None else rule.code

    def loses_response(self, api: int, broker: int) -> bool:
        """True if the response that is written now shall be lost."""
        return _take(self._lost, api, broker) is not None

    def throttle_ms(self, api: int, broker: int) -> int:
        """The throttle time of the response that is written now."""
        rule = _take(self._throttled, api, broker)
        return 0 if rule is None else rule.milliseconds


def _take(rules: list[_Rule], api: int, broker: int) -> _Rule | None:
    for rule in rules:
        if rule.meets(api, broker):
            if rule.skipped:
                rule.skipped -= 1
                continue
            rule.left -= 1
            if not rule.left:
                rules.remove(rule)
            return rule
    return None


_MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024
"""Source: the broker's ``socket.request.max.bytes``."""
_LEAST_REQUEST_BYTES: Final = 8


class Server(Protocol):
    """The brokers' services for their connections."""

    faults: RequestFaults

    def begin(self, connection: ModelConnection, request: Request, now: float) -> Answer:
        """Begin a request."""

    def run(self, now: float) -> None:
        """Let every connection go on as far as it can."""

    def in_flight(self, connection: ModelConnection, api: int, number: int) -> None:
        """So many requests of one kind are unanswered."""


class ModelConnection:
    """One connection; the other side calls :meth:`receive` and :meth:`lost`.

    ``respond`` gets whole frames, in the order of the requests; ``close``: the broker has ended the
    connection.
    """

    def __init__(
        self,
        server: Server,
        broker: int,
        login: Login,
        respond: Callable[[bytes], None],
        close: Callable[[], None],
    ) -> None:
        self.broker = broker
        self.login = login
        self.open = True
        self._server = server
        self._respond = respond
        self._close = close
        self._buffer = bytearray()
        self._frames: deque[bytes] = deque()
        self._unanswered: deque[int] = deque()
        """The APIs of the requests that came in."""
        self._current: Request | None = None
        self._parked: Parked | None = None
        """The request that waits; no other is begun before its answer."""
        self._muted_until = 0.0

    # --- the other side --------------------------------------------------------------------

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> None:
        """Take a piece of the stream."""
        if not self.open:
            return
        self._buffer += data
        while len(self._buffer) >= SIZE_BYTES:
            size = int.from_bytes(self._buffer[:SIZE_BYTES], "big", signed=True)
            if not _LEAST_REQUEST_BYTES <= size <= _MAX_REQUEST_BYTES:
                self.end()
                return
            if len(self._buffer) < SIZE_BYTES + size:
                break
            frame = bytes(self._buffer[SIZE_BYTES : SIZE_BYTES + size])
            del self._buffer[: SIZE_BYTES + size]
            self._frames.append(frame)
            api = header_of(frame)[0]
            self._unanswered.append(api)
            self._server.in_flight(self, api, self._unanswered.count(api))
        self._server.run(now)

    def lost(self, now: float) -> None:
        """The connection has ended. A request that was begun is done all the same."""
        self.open = False
        self._frames.clear()
        self._server.run(now)

    # --- the broker ------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """True if nothing happens here any more."""
        return not self.open and self._parked is None

    def end(self) -> None:
        """The broker ends the connection, and forgets what waits."""
        self._parked = None
        self._frames.clear()
        if self.open:
            self.open = False
            self._close()

    def advance(self, now: float) -> bool:
        """Begin or complete one request; False: none can be."""
        if self._parked is not None:
            answer = self._parked.complete(now)
            if answer is None:
                return False
            self._parked = None
            self._take(answer, now)
            return True
        if not self._frames or now < self._muted_until:
            return False
        self._begin(self._frames.popleft(), now)
        return True

    def next_time(self, now: float) -> float | None:
        """The time at which something happens here by itself."""
        if self._parked is not None:
            times = (self._parked.deadline, *self._parked.retries_at)
            return min((each for each in times if each is not None and each > now), default=None)
        return self._muted_until if self._frames else None

    def _begin(self, frame: bytes, now: float) -> None:
        try:
            api, version, correlation_id = header_of(frame)
            lowest, highest = RANGES.get(api, (0, -1))
            if not lowest <= version <= highest:
                if api != Api.API_VERSIONS:
                    raise UnreadableRequestError(f"no request {api} of version {version}")
                self._refuse_version(correlation_id)
                return
            self._current = read_request(frame)
        except UnreadableRequestError:
            self.end()
            return
        self._take(self._server.begin(self, self._current, now), now)

    def _refuse_version(self, correlation_id: int) -> None:
        """The answer to a newer client, in the layout of version 0 (KIP-511)."""
        fields = {
            "error_code": ErrorCode.UNSUPPORTED_VERSION,
            "api_keys": ranges_of({Api.API_VERSIONS: RANGES[Api.API_VERSIONS]}),
        }
        self._send(Api.API_VERSIONS, write_response(Api.API_VERSIONS, 0, correlation_id, fields))

    def _take(self, answer: Answer, now: float) -> None:
        request = self._current
        assert request is not None
        if isinstance(answer, Parked):
            self._parked = answer
        elif answer is Silence.CLOSED:
            self.end()
        elif answer is Silence.UNANSWERED:
            self._unanswered.popleft()
        elif isinstance(answer, Closing):
            self._answer(request, answer.fields, now)
            self.end()
        else:
            self._answer(request, answer, now)

    def _answer(self, request: Request, fields: Fields, now: float) -> None:
        throttle_ms = self._server.faults.throttle_ms(request.api, self.broker)
        self._muted_until = now + throttle_ms / 1000
        self._send(
            request.api,
            write_response(
                request.api,
                request.version,
                request.correlation_id,
                fields,
                throttle_ms=throttle_ms,
            ),
        )

    def _send(self, api: int, frame: bytes) -> None:
        self._unanswered.popleft()
        if self._server.faults.loses_response(api, self.broker):
            self.end()
        elif self.open:
            self._respond(frame)


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
