"""Brokers of the scripted Kafka, in this process and on this event loop."""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import starmap
from random import Random
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias

from aioproducer.engine.protocol import Api
from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka import ClusterOptions, KafkaModel
from aioproducer.testing.simulation.kafka.batch import only_batch
from aioproducer.testing.simulation.kafka.calls import Call, Login, Parked, Silence
from aioproducer.testing.simulation.kafka.cluster import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from aioproducer.testing.simulation.kafka.messages import Request, read_request, write_response
from aioproducer.testing.simulation.kafka.partition import Partition
from aioproducer.testing.simulation.kafka.requests.apis import HANDLERS
from aioproducer.testing.simulation.kafka.requests.metadata import api_versions
from tests.support.encoded_batches import batch, record
from tests.support.fake_kafka import script
from tests.support.fake_kafka.logins import SASL_VERSIONS, ConnectionLogin, FakeLogins
from tests.support.fake_kafka.script import Answer
from tests.support.fake_kafka.telemetry import TELEMETRY_VERSIONS, FakeTelemetry
from tests.support.tcp_server import Handler, TcpServer

PRODUCE, METADATA, OFFSET_FETCH, FIND_COORDINATOR, API_VERSIONS = 0, 3, 9, 10, 18
INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 22, 24, 25, 26, 28
PATIENCE = 60.0
_OF_COORDINATORS: Final = FIND_COORDINATOR, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS
_AT_ONCE: Final = (0.0, 0.0)
_NO_LIMITS: Final = {
    "max.message.bytes": str(2**31 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}


class Received(NamedTuple):
    """A request that came in."""

    broker: int
    api: int
    version: int
    at: float
    connection: int
    body: Any


class FakeKafka:
    """Brokers 1 to ``brokers`` in this process and on this event loop, which answer at once."""

    Answer: TypeAlias = script.Answer

    def __init__(
        self,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        versions: Mapping[int, tuple[int, int]] | None = None,
        transaction_version: int = 1,
        *,
        tls: ssl.SSLContext | None = None,
        logins: FakeLogins | None = None,
        telemetry: FakeTelemetry | None = None,
    ) -> None:
        self.servers = {
            number: TcpServer(self._handler(number), tls) for number in range(1, brokers + 1)
        }
        options = ClusterOptions(
            transaction_version=transaction_version,
            topic_config=_NO_LIMITS,
            replication=_AT_ONCE,
            markers=_AT_ONCE,
            coordinator_load=_AT_ONCE,
        )
        self.model = KafkaModel(brokers, random=Random(1), options=options)
        """The brokers' state and their answers."""
        self.model.host = lambda broker: (self.host, self.port(broker))
        self._coordinate(TRANSACTIONS_TOPIC, 1)
        self.group_coordinator = 1
        self.logins = logins
        self.telemetry = telemetry
        self.versions = {
            PRODUCE: (7, 12),
            METADATA: (4, 12),
            API_VERSIONS: (0, 4),
            INIT_PRODUCER_ID: (0, 4),
            **dict.fromkeys(_OF_COORDINATORS, (0, 5)),
            OFFSET_FETCH: (0, 8),
        } | dict(versions or {})
        self.versions |= SASL_VERSIONS if logins is not None else {}
        self.versions |= TELEMETRY_VERSIONS if telemetry is not None else {}
        self.host = "127.0.0.1"
        """In the metadata."""
        self.advertised: dict[int, int] = {}
        """Ports in the metadata in place of the brokers' own."""
        self.in_metadata = set(self.servers)
        self.racks: dict[int, str] = {}
        """The racks of brokers, in the metadata."""
        self.cluster_id = "fake"
        self.script: defaultdict[int, deque[Answer]] = defaultdict(deque)
        """For the next requests, by their API, whatever their broker."""
        self.topic_errors: dict[str, int] = {}
        self.hints = True
        """Whether NOT_LEADER_OR_FOLLOWER comes with the new leader (KIP-951)."""
        self.mute: set[int] = set()
        """The API keys that are not answered, nor what a connection asks after one of them."""
        self.hangs_up_above: int | None = None
        """The newest version of ApiVersions that the proxy before the brokers knows; None: all."""
        self.late: set[asyncio.Task[Any]] = set()
        """The requests that wait for :attr:`Answer.late`."""
        self.hung_up: list[int] = []
        """The versions of ApiVersions at which it hung up."""
        self.received: list[Received] = []
        self.refused = 0
        """The batches that had a wrong sequence number or epoch."""
        self.most_in_flight = 0
        """The most produce requests that one connection had unanswered."""
        self._connections = 0
        self._news = asyncio.Condition()
        for topic, partitions in (topics or {}).items():
            self.create_topic(topic, partitions)

    # --- for tests -------------------------------------------------------------------------

    @property
    def answers(self) -> deque[Answer]:
        """For the next produce requests."""
        return self.script[PRODUCE]

    @property
    def topics(self) -> dict[str, Sequence[Partition]]:
        """The partitions of all topics but internal ones."""
        topics = self.model.cluster.topics.values()
        return {each.name: each.partitions for each in topics if not each.internal}

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Leaders go round from broker 1; more partitions for a topic that exists are added."""
        cluster = self.model.cluster
        everyone = cluster.brokers
        if topic not in cluster.topics:
            starts = [number % len(everyone) for number in range(partitions)]
            assigned = [[*everyone[start:], *everyone[:start]] for start in starts]
            cluster.create_topic(topic, 0, len(everyone), {}, assigned=assigned)
        cluster.add_partitions(cluster.topics[topic], partitions, len(everyone))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(server.address for server in self.servers.values())

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """What is in the log."""
        return [record.value for record in self.model.log(topic, partition)]

    def write(self, topic: str, partition: int, *values: bytes) -> None:
        """Append records of another producer, which has no id."""
        found, now = self.model.partition(topic, partition), monotonic()
        data = batch(b"".join(starmap(record, enumerate(values))), len(values))
        found.append(only_batch(data, 7), None, 0)
        self.model.cluster.replicate(found, now)
        self.model.tick(now)

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Elect another leader."""
        self.model.cluster.lead(self.model.partition(topic, partition), broker, monotonic())

    @property
    def group_coordinator(self) -> int:
        """The broker that coordinates all groups."""
        return self.model.cluster.topics[GROUPS_TOPIC].partitions[0].leader

    @group_coordinator.setter
    def group_coordinator(self, broker: int) -> None:
        self._coordinate(GROUPS_TOPIC, broker)

    def _coordinate(self, internal_topic: str, broker: int) -> None:
        for each in self.model.cluster.topics[internal_topic].partitions:
            self.model.cluster.lead(each, broker, 0.0)

    @property
    def cluster_id(self) -> str:
        return self.model.cluster.id

    @cluster_id.setter
    def cluster_id(self, name: str) -> None:
        self.model.cluster.id = name

    def requests(self, api: int) -> list[Received]:
        """Those of one kind."""
        return [each for each in self.received if each.api == api]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for requests, and for what brokers do for them, that make ``condition`` true."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(condition)

    async def until_received(self, api: int, count: int = 1) -> None:
        """Wait for so many requests of one kind since the start."""
        await self.until(lambda: len(self.requests(api)) >= count)

    async def start(self) -> None:
        for server in self.servers.values():
            await server.start()

    async def stop(self) -> None:
        for task in self.late:
            task.cancel()
        for server in self.servers.values():
            await server.close()
        assert not [server.failures for server in self.servers.values() if server.failures]

    def port(self, broker: int) -> int:
        """The port of a broker in the metadata."""
        return self.advertised.get(broker, self.servers[broker].port)

    # --- the wire --------------------------------------------------------------------------

    def _handler(self, broker: int) -> Handler:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._connections += 1
            connection = self._connections
            requests: asyncio.Queue[tuple[Request, Answer]] = asyncio.Queue()
            unanswered = [0]
            login = None if self.logins is None else ConnectionLogin(self.logins, connection)
            worker = asyncio.get_running_loop().create_task(
                self._work(broker, requests, writer, unanswered, login)
            )
            worker.add_done_callback(lambda _: writer.transport.abort())
            try:
                while not worker.done():
                    size = int.from_bytes(await reader.readexactly(4), "big")
                    data = await reader.readexactly(size)
                    api, version = (int.from_bytes(data[at : at + 2], "big") for at in (0, 2))
                    if login is not None and not login.takes(api, data):
                        return
                    highest = self.hangs_up_above
                    if api == API_VERSIONS and highest is not None and version > highest:
                        self.hung_up.append(version)
                        await self._tell()
                        return
                    answer = self.script[api].popleft() if self.script[api] else Answer()
                    if api == API_VERSIONS and version > self.versions[api][1]:
                        answer = Answer(ErrorCode.UNSUPPORTED_VERSION)
                        data = data[:2] + bytes(2) + data[4:]  # the layout of version 0 (KIP-511)
                    request = read_request(data)
                    self.received.append(
                        Received(
                            broker, api, request.version, monotonic(), connection, request.body
                        )
                    )
                    if api == PRODUCE:
                        unanswered[0] += 1
                        self.most_in_flight = max(self.most_in_flight, unanswered[0])
                    requests.put_nowait((request, answer))
                    await self._tell()
            finally:
                try:
                    await asyncio.sleep(0)  # a write that failed with the connection gets its error
                finally:
                    worker.cancel()
                with suppress(asyncio.CancelledError, OSError):
                    await worker

        return handle

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def _work(
        self,
        broker: int,
        requests: asyncio.Queue[tuple[Request, Answer]],
        writer: asyncio.StreamWriter,
        unanswered: list[int],
        login: ConnectionLogin | None,
    ) -> None:
        is_silent = False
        while True:
            request, answer = await requests.get()
            is_silent = bool(self.mute) and (is_silent or request.api in self.mute)
            if is_silent:  # a broker answers in order, so later requests wait as well
                continue
            if login is not None and login.asks(request.api):
                fields = await login.respond(request.api, request.body)
            elif answer.late is not None:
                late = self._respond(broker, request, Answer(hold=answer.late))
                self.late.add(asyncio.ensure_future(late))
                continue
            else:
                fields = await self._respond(broker, request, answer)
                await self._tell()  # the log may have got records, without an answer to anybody
            if fields is Silence.CLOSED:
                writer.transport.abort()
                return
            if fields is Silence.UNANSWERED:
                continue
            data = write_response(
                request.api,
                request.version,
                request.correlation_id,
                fields,
                throttle_ms=answer.throttle_ms,
            )
            if answer.change is not None:
                data = answer.change(data)
            if request.api == PRODUCE:
                unanswered[0] -= 1
            writer.write(data)
            await writer.drain()

    async def _respond(self, broker: int, request: Request, answer: Answer) -> Any:
        """The fields of the response, or :class:`Silence`."""
        if answer.hold is not None:
            await answer.hold.wait()
        if answer.cut or answer.silent:
            return Silence.CLOSED if answer.cut else Silence.UNANSWERED
        fields = self._fields(broker, request, answer)
        if answer.cut_after_writing or answer.silent_after_writing:
            return Silence.CLOSED if answer.cut_after_writing else Silence.UNANSWERED
        return fields

    def _fields(self, broker: int, request: Request, answer: Answer) -> Any:
        match request.api:
            case Api.GET_TELEMETRY_SUBSCRIPTIONS | Api.PUSH_TELEMETRY:
                assert self.telemetry is not None
                return self.telemetry.answer(request.api, request.body)
            case Api.API_VERSIONS:
                call = self._call(broker, request, answer.error)
                return {**api_versions(call, self.versions), "error_code": call.injected}
            case Api.METADATA:
                return self._metadata(request, self._ask(broker, request, answer.error))
            case Api.PRODUCE:
                fields = self._ask(broker, request, answer.error)
                if not isinstance(fields, Silence):
                    self._produced(broker, fields, answer)
                return fields
            case Api.INIT_PRODUCER_ID if self.model.cluster.options.transaction_version == 1:
                self._abort_late(request.body)
        return self._ask(broker, request, answer.error)

    def _call(self, broker: int, request: Request, code: int) -> Call:
        cluster, coordinators = self.model.cluster, self.model.coordinators
        return Call(cluster, coordinators, broker, request, Login(), monotonic(), ErrorCode(code))

    def _ask(self, broker: int, request: Request, code: int = 0) -> Any:
        """The model's answer. Replicas and the markers of transactions take no time."""
        call = self._call(broker, request, code)
        answer = HANDLERS[request.api](call)
        self.model.tick(call.now)
        return answer.complete(call.now) if isinstance(answer, Parked) else answer

    def _abort_late(self, body: Any) -> None:
        """Abort what an AddPartitionsToTxn began that came after the end of its transaction.

        With version 1 of the protocol Kafka fences the producer, and a test of delays would fail
        now and then (KIP-890).
        """
        known = self.model.transactions().get(body.transactional_id)
        if known is not None and (known.producer_id, known.epoch) == (
            body.producer_id,
            body.producer_epoch,
        ):
            identity, now = (known.producer_id, known.epoch), monotonic()
            self.model.coordinators.transactions.end(
                known.transactional_id, *identity, commit=False, version=1, now=now
            )
            self.model.tick(now)

    def _produced(self, broker: int, fields: Any, answer: Answer) -> None:
        """Change the response to Produce as its script wants it."""
        moved = set()
        for row in (row for topic in fields["responses"] for row in topic["partition_responses"]):
            wrong = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH
            self.refused += row["error_code"] in wrong and not answer.error
            if answer.lie:
                row |= {"error_code": answer.lie, "base_offset": -1}
            if answer.message is not None:
                row["error_message"] = answer.message
            if answer.record_errors is not None:
                row["record_errors"] = [
                    {"batch_index": index, "batch_index_error_message": text}
                    for index, text in answer.record_errors.items()
                ]
            leader = row.get("current_leader", {}).get("leader_id", broker)
            if self.hints and leader != broker:
                moved.add(leader)
            else:
                row.pop("current_leader", None)
        fields["node_endpoints"] = [
            each for each in fields["node_endpoints"] if each["node_id"] in moved
        ]
        if answer.leave_out:
            fields["responses"] = []

    def _metadata(self, request: Request, fields: Any) -> Any:
        brokers = [
            {**each, "rack": self.racks.get(each["node_id"])}
            for each in fields["brokers"]
            if each["node_id"] in self.in_metadata
        ]
        errors = self.topic_errors
        topics = [
            {**each, "error_code": errors[each["name"]], "topic_id": None, "partitions": []}
            if each["name"] in errors
            else each
            for each in fields["topics"]
        ]
        return {**fields, "brokers": brokers, "topics": topics}
