"""Brokers of the scripted Kafka, in this process and on this event loop."""

from __future__ import annotations

import asyncio
import io
import ssl
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

from kio.index import load_payload_module, load_request_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from aioproducer.errors.broker import ErrorCode
from tests.support.fake_kafka import responses
from tests.support.fake_kafka.logins import SASL_VERSIONS, ConnectionLogin, FakeLogins
from tests.support.fake_kafka.partition import Partition
from tests.support.fake_kafka.produce_answer import ProduceAnswer
from tests.support.fake_kafka.telemetry import TELEMETRY_VERSIONS, FakeTelemetry
from tests.support.fake_kafka.transactions import (
    COORDINATOR_APIS,
    FIND_COORDINATOR,
    OFFSET_FETCH,
    FakeTransactions,
)
from tests.support.tcp_server import Handler, TcpServer

PRODUCE, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 3, 18, 22
NOT_COORDINATOR, UNSUPPORTED_VERSION = 16, 35
PATIENCE = 60.0


class Received(NamedTuple):
    """A request that came in."""

    broker: int
    api: int
    version: int
    at: float
    connection: int
    body: Any


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
        telemetry: FakeTelemetry | None = None,
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
        self.telemetry = telemetry
        if telemetry is not None:
            self.versions |= TELEMETRY_VERSIONS
        self.host = "127.0.0.1"
        """In the metadata."""
        self.advertised: dict[int, int] = {}
        """Ports in the metadata in place of the brokers' own."""
        self.in_metadata = set(self.servers)
        self.racks: dict[int, str] = {}
        self.cluster_id = "fake"
        """The racks of brokers, in the metadata."""
        self.answers: deque[ProduceAnswer] = deque()
        """For the next produce requests, whatever their broker."""
        self.init_errors: deque[int] = deque()
        self.topic_errors: dict[str, int] = {}
        self.group_coordinator = 1
        """The broker that is asked where groups have got to."""
        self.hints = True
        """Whether NOT_LEADER_OR_FOLLOWER comes with the new leader (KIP-951)."""
        self.mute: set[int] = set()
        """The API keys that are not answered, nor what a connection asks after one of them."""
        self.hangs_up_above: int | None = None
        """The newest version of ApiVersions that the proxy before the brokers knows; None: all."""
        self.late: set[asyncio.Task[Any]] = set()
        """The requests that wait for :attr:`ProduceAnswer.late`."""
        self.hung_up: list[int] = []
        """The versions of ApiVersions at which it hung up."""
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
                    highest = self.hangs_up_above
                    if api == API_VERSIONS and highest is not None and version > highest:
                        self.hung_up.append(version)
                        await self._tell()
                        return
                    newer = api == API_VERSIONS and version > self.versions[api][1]
                    if newer:  # the answer has the layout of version 0 (KIP-511)
                        version, data = 0, data[:2] + bytes(2) + data[4:]
                    schema = load_request_schema(api, version)
                    header, used = entity_reader(schema.__header_schema__)(data, 0)
                    body, _ = entity_reader(schema)(data, used)
                    answer = ProduceAnswer(error=UNSUPPORTED_VERSION) if newer else None
                    if api == PRODUCE:
                        answer = self.answers.popleft() if self.answers else ProduceAnswer()
                    self.received.append(
                        Received(broker, api, version, monotonic(), connection, body)
                    )
                    if api == PRODUCE:
                        unanswered[0] += 1
                        self.most_in_flight = max(self.most_in_flight, unanswered[0])
                    requests.put_nowait((header.correlation_id, api, answer, body))
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
        requests: Any,
        writer: asyncio.StreamWriter,
        unanswered: list[int],
        login: ConnectionLogin | None,
    ) -> None:
        is_silent = False
        while True:
            correlation, api, answer, body = await requests.get()
            is_silent = bool(self.mute) and (is_silent or api in self.mute)
            if is_silent:  # a broker answers in order, so later requests wait as well
                continue
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
            await self._tell()  # the log may have got records, without an answer to anybody
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
        match api:
            case 0:
                assert answer is not None
                return await responses.produce(self, module, broker, body, answer)
            case 3:
                return responses.metadata(self, module, body)
            case 18:
                return responses.api_versions(self, module, 0 if answer is None else answer.error)
            case 22:
                if self.init_errors:
                    code = self.init_errors.popleft()
                identity = (-1, -1)
                if not code and body.transactional_id is not None:
                    code, identity = self.transactions.initialize(body)
                elif not code:
                    identity = next(self._producer_ids), 0
                return module.InitProducerIdResponse(
                    throttle_time=responses.milliseconds(0),
                    error_code=ErrorCode(code),
                    producer_id=identity[0],
                    producer_epoch=identity[1],
                )
            case 71 | 72:
                assert self.telemetry is not None
                return self.telemetry.answer(module, api, body)
            case _:
                coordinator = min(self.servers)
                of_group = api == FIND_COORDINATOR and getattr(body, "key_type", 0) == 0
                if of_group:
                    coordinator = self.group_coordinator
                if api == OFFSET_FETCH and broker != self.group_coordinator:
                    code = code or NOT_COORDINATOR
                where = (coordinator, self.host, self.port(coordinator))
                return self.transactions.answer(module, api, body, where, code)
