"""Brokers that do what they should not: bare TCP servers and a scripted Kafka.

:class:`FakeKafka` answers as Kafka does, sequence numbers of idempotent producers included, unless
a :class:`ProduceAnswer` tells it otherwise. Records are read by aiokafka's parser, not by ours.
"""

from __future__ import annotations

import asyncio
import datetime
import io
import logging
import ssl
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

import pytest
from aiokafka.record import MemoryRecords  # type: ignore[import-untyped]
from kio.index import load_payload_module, load_request_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from aioproducer.testing.fault_proxy import FaultProxy
from aioproducer.testing.held_port import HeldPort
from tests.faults.fake_logins import SASL_VERSIONS, ConnectionLogin, FakeLogins
from tests.faults.fake_transactions import (
    COORDINATOR_APIS,
    FIND_COORDINATOR,
    OFFSET_FETCH,
    FakeTransactions,
)

PRODUCE, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 3, 18, 22
UNKNOWN_TOPIC, NOT_LEADER, NOT_COORDINATOR, OUT_OF_ORDER, UNKNOWN_TOPIC_ID = 3, 6, 16, 45, 100
INVALID_PRODUCER_EPOCH = 47
PATIENCE = 60.0

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TcpServer:
    """One listener on loopback whose connections all end with it; with TLS, if there is ``tls``."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self._handler = handler
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.host = "127.0.0.1"
        self.port = 0
        self.accepted = 0
        self.failures: list[BaseException] = []
        self._held: HeldPort | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    async def start(self) -> None:
        """Listen; after :meth:`stop` again on the same port."""
        self._release()
        self._server = await asyncio.start_server(self._accept, self.host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks[task] = writer
        task.add_done_callback(lambda done: self._tasks.pop(done, None) and None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._handler(reader, writer)
        except (OSError, EOFError):
            pass
        except Exception as error:
            self.failures.append(error)
        finally:
            writer.transport.abort()

    async def cut(self) -> None:
        """End every connection, and wait until it has ended."""
        tasks = dict(self._tasks)
        for task, writer in tasks.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Refuse connections, and cut those that there are."""
        if self._stop_listening():
            self._held = HeldPort(self.host, self.port)
        await self.cut()

    async def close(self) -> None:
        """The same for good."""
        self._stop_listening()
        self._release()
        await self.cut()

    def _stop_listening(self) -> bool:
        """Whether it did listen."""
        if self._server is None:
            return False
        self._server.close()
        self._server = None
        return True

    def _release(self) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None


@dataclass
class ProduceAnswer:
    """What happens to one produce request instead of the usual."""

    error: int = 0
    """For every partition; nothing is written then."""
    lie: int = 0
    """As ``error``, but the records are written."""
    cut: bool = False
    """Close the connection instead of writing and answering."""
    cut_after_writing: bool = False
    silent: bool = False
    """Write nothing, answer nothing, keep the connection."""
    silent_after_writing: bool = False
    hold: asyncio.Event | None = None
    """Neither write nor answer before it is set."""
    throttle_ms: int = 0
    message: str | None = None
    record_errors: Mapping[int, str] | None = None
    late: asyncio.Event | None = None
    """Write when it is set, whether or not the connection is still there, and answer nothing."""
    leave_out: bool = False
    """The response does not mention the partitions."""
    change: Callable[[bytes], bytes] | None = None
    """Applied to the frame of the response, the length in front of it included."""


class Record(NamedTuple):
    """What is in a log."""

    value: bytes | None
    key: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


class Received(NamedTuple):
    """A request that came in."""

    broker: int
    api: int
    version: int
    at: float
    connection: int
    body: Any


@dataclass
class Partition:
    """Its log and what is known of its idempotent producers."""

    leader: int
    epoch: int = 0
    log: list[Record] = field(default_factory=list)
    producers: dict[int, tuple[int, deque[tuple[int, int, int]]]] = field(default_factory=dict)
    """By producer id: its epoch; first sequence, next sequence and offset of the last five."""
    refused: int = 0

    def append(self, data: bytes) -> tuple[int, int]:
        """Error code and base offset."""
        records = MemoryRecords(bytes(data))
        batch = records.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        read = [Record(r.value, r.key, r.timestamp, tuple(r.headers)) for r in batch]
        assert records.next_batch() is None
        offset = len(self.log)
        if batch.producer_id >= 0:
            epoch, known = self.producers.get(batch.producer_id, (-1, deque()))
            first = batch.base_sequence
            if batch.producer_epoch < epoch:
                self.refused += 1
                return INVALID_PRODUCER_EPOCH, -1
            if batch.producer_epoch > epoch:
                expected = 0 if known else first  # of an unknown producer any first one is taken
                known = deque(maxlen=5)
            else:
                expected = known[-1][1] if known else 0
            for earlier_first, earlier_next, earlier_offset in known:
                if (first, first + len(read)) == (earlier_first, earlier_next):
                    return 0, earlier_offset
            if first != expected:
                self.refused += 1
                return OUT_OF_ORDER, -1
            known.append((first, first + len(read), offset))
            self.producers[batch.producer_id] = (batch.producer_epoch, known)
        self.log += read
        return 0, offset

    def mark(self, producer_id: int, epoch: int) -> None:
        """A transaction has ended here; from now on the producer has ``epoch``."""
        if epoch > self.producers.get(producer_id, (-1, ()))[0]:
            self.producers[producer_id] = (epoch, deque(maxlen=5))


class FakeKafka:
    """Brokers 1 to ``brokers`` in this process and on this event loop."""

    Answer = ProduceAnswer

    def __init__(
        self,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        versions: Mapping[int, tuple[int, int]] | None = None,
        transaction_version: int = 1,
        *,
        tls: ssl.SSLContext | None = None,
        logins: FakeLogins | None = None,
    ) -> None:
        self.servers = {
            number: TcpServer(self._handler(number), tls) for number in range(1, brokers + 1)
        }
        self.logins = logins
        self.topics: dict[str, list[Partition]] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.versions = {
            PRODUCE: (7, 12),
            METADATA: (4, 12),
            API_VERSIONS: (0, 4),
            INIT_PRODUCER_ID: (0, 4),
            **dict.fromkeys(COORDINATOR_APIS, (0, 5)),
            OFFSET_FETCH: (0, 8),
        } | dict(versions or {})
        if logins is not None:
            self.versions |= SASL_VERSIONS
        self.host = "127.0.0.1"
        """In the metadata."""
        self.advertised: dict[int, int] = {}
        """Ports in the metadata in place of the brokers' own."""
        self.in_metadata = set(self.servers)
        self.answers: deque[ProduceAnswer] = deque()
        """For the next produce requests, whatever their broker."""
        self.init_errors: deque[int] = deque()
        self.topic_errors: dict[str, int] = {}
        self.group_coordinator = 1
        """The broker that is asked where groups have got to."""
        self.hints = True
        """Whether NOT_LEADER_OR_FOLLOWER comes with the new leader (KIP-951)."""
        self.mute: set[int] = set()
        """The API keys that are not answered."""
        self.late: set[asyncio.Task[Any]] = set()
        """The requests that wait for :attr:`ProduceAnswer.late`."""
        self.received: list[Received] = []
        self.most_in_flight = 0
        """The most produce requests that one connection had unanswered."""
        self._connections = 0
        self._producer_ids = iter(range(1000, 10_000))
        self.transactions = FakeTransactions(transaction_version, self._producer_ids, self.topics)
        self._news = asyncio.Condition()
        for topic, partitions in (topics or {}).items():
            self.create_topic(topic, partitions)

    # --- for tests -------------------------------------------------------------------------

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Leaders go round from broker 1; more partitions for a topic that exists are added."""
        known = self.topics.setdefault(topic, [])
        self.topic_ids.setdefault(topic, uuid.uuid4())
        for number in range(len(known), partitions):
            known.append(Partition(number % len(self.servers) + 1))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(server.address for server in self.servers.values())

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """What is in the log."""
        return [record.value for record in self.topics[topic][partition].log]

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Elect another leader."""
        state = self.topics[topic][partition]
        state.leader = broker
        state.epoch += 1

    def requests(self, api: int) -> list[Received]:
        """Those of one kind."""
        return [each for each in self.received if each.api == api]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for requests that make ``condition`` true."""
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

    # --- the wire --------------------------------------------------------------------------

    def _handler(self, broker: int) -> Handler:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._connections += 1
            connection = self._connections
            requests: asyncio.Queue[tuple[int, int, ProduceAnswer | None, Any]] = asyncio.Queue()
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
                    schema = load_request_schema(api, version)
                    header, used = entity_reader(schema.__header_schema__)(data, 0)
                    body, _ = entity_reader(schema)(data, used)
                    answer = None
                    if api == PRODUCE:
                        answer = self.answers.popleft() if self.answers else ProduceAnswer()
                    self.received.append(
                        Received(broker, api, version, monotonic(), connection, body)
                    )
                    if api == PRODUCE:
                        unanswered[0] += 1
                        self.most_in_flight = max(self.most_in_flight, unanswered[0])
                    requests.put_nowait((header.correlation_id, api, answer, body))
                    async with self._news:
                        self._news.notify_all()
            finally:
                worker.cancel()
                with suppress(asyncio.CancelledError, OSError):
                    await worker

        return handle

    async def _work(
        self,
        broker: int,
        requests: Any,
        writer: asyncio.StreamWriter,
        unanswered: list[int],
        login: ConnectionLogin | None,
    ) -> None:
        while True:
            correlation, api, answer, body = await requests.get()
            if login is not None and login.asks(api):
                if (said := await login.respond(api, correlation, body)) is not None:
                    writer.write(said)
                continue
            if answer is not None and answer.late is not None:
                late = ProduceAnswer(hold=answer.late)
                self.late.add(asyncio.ensure_future(self._respond(broker, api, late, body)))
                continue
            fault = self.transactions.fault(api)
            if fault.cut and not fault.done:
                writer.transport.abort()
                return
            response = await self._respond(broker, api, answer, body, fault.code)
            if fault.cut:
                writer.transport.abort()
                return
            if response is None:
                if answer is not None and (answer.cut or answer.cut_after_writing):
                    writer.transport.abort()
                    return
                continue
            header = response.__header_schema__(correlation_id=correlation)
            frame = io.BytesIO()
            entity_writer(type(header))(frame, header)
            entity_writer(type(response))(frame, response)
            data = len(frame.getvalue()).to_bytes(4, "big") + frame.getvalue()
            if answer is not None and answer.change is not None:
                data = answer.change(data)
            if api == PRODUCE:
                unanswered[0] -= 1
            writer.write(data)
            await writer.drain()

    async def _respond(
        self, broker: int, api: int, answer: ProduceAnswer | None, body: Any, code: int = 0
    ) -> Any:
        module = load_payload_module(api, body.__version__, EntityType.response)
        if api in self.mute:
            return None
        match api:
            case 0:
                assert answer is not None
                return await self._produce(module, broker, body, answer)
            case 3:
                return self._metadata(module, body)
            case 18:
                return self._api_versions(module)
            case 22:
                if self.init_errors:
                    code = self.init_errors.popleft()
                identity = (-1, -1)
                if not code and body.transactional_id is not None:
                    code, identity = self.transactions.initialize(body)
                elif not code:
                    identity = next(self._producer_ids), 0
                return module.InitProducerIdResponse(
                    throttle_time=_milliseconds(0),
                    error_code=ErrorCode(code),
                    producer_id=identity[0],
                    producer_epoch=identity[1],
                )
            case _:
                coordinator = min(self.servers)
                of_group = api == FIND_COORDINATOR and getattr(body, "key_type", 0) == 0
                if of_group:
                    coordinator = self.group_coordinator
                if api == OFFSET_FETCH and broker != self.group_coordinator:
                    code = code or NOT_COORDINATOR
                where = (coordinator, self.host, self._port(coordinator))
                return self.transactions.answer(module, api, body, where, code)

    def _api_versions(self, module: Any) -> Any:
        keys = tuple(
            module.ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, (first, last) in self.versions.items()
        )
        features: dict[str, Any] = {}
        if hasattr(module, "FinalizedFeatureKey"):
            level = self.transactions.level
            features["finalized_features_epoch"] = 1
            features["finalized_features"] = (
                module.FinalizedFeatureKey(
                    name="transaction.version", max_version_level=level, min_version_level=level
                ),
            )
        return _make(
            module.ApiVersionsResponse,
            error_code=ErrorCode(0),
            api_keys=keys,
            throttle_time=_milliseconds(0),
            **features,
        )

    def _metadata(self, module: Any, body: Any) -> Any:
        topics = []
        for asked in body.topics:
            name = str(asked.name)
            code = self.topic_errors.get(name, 0 if name in self.topics else UNKNOWN_TOPIC)
            partitions = [] if code else self.topics[name]
            topics.append(
                _make(
                    module.MetadataResponseTopic,
                    error_code=ErrorCode(code),
                    name=name,
                    topic_id=None if code else self.topic_ids[name],
                    partitions=tuple(
                        _make(
                            module.MetadataResponsePartition,
                            error_code=ErrorCode(0),
                            partition_index=number,
                            leader_id=partition.leader,
                            leader_epoch=partition.epoch,
                            replica_nodes=(partition.leader,),
                            isr_nodes=(partition.leader,),
                        )
                        for number, partition in enumerate(partitions)
                    ),
                )
            )
        brokers = tuple(
            module.MetadataResponseBroker(node_id=node, host=self.host, port=self._port(node))
            for node in sorted(self.in_metadata)
        )
        return _make(
            module.MetadataResponse,
            throttle_time=_milliseconds(0),
            brokers=brokers,
            cluster_id="fake",
            controller_id=1,
            topics=tuple(topics),
            error_code=ErrorCode.none,
        )

    def _port(self, broker: int) -> int:
        return self.advertised.get(broker, self.servers[broker].port)

    async def _produce(self, module: Any, broker: int, body: Any, answer: ProduceAnswer) -> Any:
        if answer.hold is not None:
            await answer.hold.wait()
        if answer.cut or answer.silent:
            return None
        names = {identity: name for name, identity in self.topic_ids.items()}
        topics: list[Any] = []
        moved: set[int] = set()
        for topic in body.topic_data:
            by_id = hasattr(topic, "topic_id")
            name = names.get(topic.topic_id) if by_id else str(topic.name)
            results = []
            for data in topic.partition_data:
                code, offset = answer.error, -1
                if name is None:
                    code, partition = UNKNOWN_TOPIC_ID, Partition(broker)
                elif data.index >= len(self.topics[name]):
                    code, partition = UNKNOWN_TOPIC, Partition(broker)
                else:
                    partition = self.topics[name][data.index]
                if not code and partition.leader != broker:
                    code = NOT_LEADER
                if not code and body.transactional_id is not None:
                    code = self.transactions.admit(body, (str(name), data.index), data.records)
                if not code:
                    before = len(partition.log)
                    code, offset = partition.append(data.records)
                    if body.transactional_id is not None:
                        values = [record.value for record in partition.log[before:]]
                        self.transactions.written(body, (str(name), data.index), values)
                code = answer.lie or code
                hint = {}
                if code == NOT_LEADER and self.hints and partition.leader != broker:
                    moved.add(partition.leader)
                    hint["current_leader"] = module.LeaderIdAndEpoch(
                        leader_id=partition.leader, leader_epoch=partition.epoch
                    )
                results.append(
                    _make(
                        module.PartitionProduceResponse,
                        index=data.index,
                        error_code=ErrorCode(code),
                        base_offset=-1 if code else offset,
                        record_errors=tuple(
                            module.BatchIndexAndErrorMessage(
                                batch_index=index, batch_index_error_message=text
                            )
                            for index, text in (answer.record_errors or {}).items()
                        ),
                        error_message=answer.message,
                        **hint,
                    )
                )
            topics.append(
                _make(
                    module.TopicProduceResponse,
                    name=name,
                    topic_id=getattr(topic, "topic_id", None),
                    partition_responses=tuple(results),
                )
            )
        if answer.cut_after_writing or answer.silent_after_writing or not body.acks:
            return None
        endpoints: dict[str, Any] = {}
        if moved:
            endpoints["node_endpoints"] = tuple(
                module.NodeEndpoint(node_id=node, host=self.host, port=self._port(node))
                for node in moved
            )
        return module.ProduceResponse(
            responses=() if answer.leave_out else tuple(topics),
            throttle_time=_milliseconds(answer.throttle_ms),
            **endpoints,
        )


def _make(kind: Any, **fields: Any) -> Any:
    """``kind`` with those of ``fields`` that its version of the protocol has."""
    return kind(**{name: fields[name] for name in kind.__dataclass_fields__ if name in fields})


def _milliseconds(number: int) -> i32Timedelta:
    return i32Timedelta.parse(datetime.timedelta(milliseconds=number))


StartKafka = Callable[..., Awaitable[FakeKafka]]
StartServer = Callable[[Handler], Awaitable[TcpServer]]
StartProxy = Callable[..., Awaitable[FaultProxy]]


@pytest.fixture
async def start_kafka() -> AsyncIterator[StartKafka]:
    """Starts a :class:`FakeKafka` with its arguments."""
    started: list[FakeKafka] = []

    async def start(*arguments: Any, **options: Any) -> FakeKafka:
        kafka = FakeKafka(*arguments, **options)
        started.append(kafka)
        await kafka.start()
        return kafka

    yield start
    for kafka in started:
        await kafka.stop()


@pytest.fixture
async def kafka(start_kafka: StartKafka) -> FakeKafka:
    """One broker with the topic ``orders`` of one partition."""
    return await start_kafka(1, {"orders": 1})


@pytest.fixture
async def start_server() -> AsyncIterator[StartServer]:
    """Starts a bare TCP server with a handler of its connections."""
    started: list[TcpServer] = []

    async def start(handler: Handler) -> TcpServer:
        server = TcpServer(handler)
        started.append(server)
        await server.start()
        return server

    yield start
    for server in started:
        await server.close()
        assert server.failures == []


@pytest.fixture
async def start_proxy() -> AsyncIterator[StartProxy]:
    """Starts a :class:`FaultProxy` with its arguments: a port, a script."""
    async with AsyncExitStack() as started:

        async def start(*arguments: Any) -> FaultProxy:
            return await started.enter_async_context(FaultProxy(*arguments))

        yield start


@pytest.fixture
def without_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of faults are not logged."""
    caplog.set_level(logging.CRITICAL, "aioproducer")
