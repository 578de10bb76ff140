"""A registry is slow, silent, away and killed while records flow: order stays, nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import fastavro
import pytest

from aioproducer import Producer
from aioproducer.errors import PreparationTimeoutError
from aioproducer.schema_registry import AvroSerializer, SchemaRegistry
from aioproducer.testing import SchemaRegistryServer
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.read_back import read_first
from tests.support.schema_registry import started

pytestmark = pytest.mark.registry

PARTITIONS = 3


@dataclass
class Ordered:
    number: int


@dataclass
class Paid:
    number: int


@dataclass
class Shipped:
    number: int


class Way:
    """A TCP proxy before a registry: each connection waits for ``open`` and for ``delay``."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.delay = 0.0
        self.open = asyncio.Event()
        self.open.set()
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Way:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        with suppress(OSError):
            upstream, downstream = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers.append(downstream)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, downstream))
                group.create_task(self._pass(upstream, writer))
        writer.close()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                await self.open.wait()
                await asyncio.sleep(self.delay)
                sink.write(data)
                await sink.drain()
        sink.close()


class Ticks:
    """Counts the turns that the event loop gives to a task which sleeps for a millisecond."""

    def __init__(self) -> None:
        self.count = 0

    @asynccontextmanager
    async def at_least(self, count: int) -> AsyncIterator[None]:
        before = self.count
        yield
        assert self.count - before >= count, "the event loop stalled"

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0.001)
            self.count += 1


def schema(kind: type) -> dict[str, Any]:
    name = f"{kind.__name__}{uuid4().hex}"
    return {"type": "record", "name": name, "fields": [{"name": "number", "type": "long"}]}


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, topics={"orders": PARTITIONS, "others": 1}) as made:
        yield made


class Flow:
    """Records of a producer, the next one each millisecond; of the kind that is asked for."""

    def __init__(self, producer: Producer[Any, Any]) -> None:
        self._producer = producer
        self.kind: type = Ordered
        self.sent: list[tuple[int, int, asyncio.Future[Any]]] = []
        """Partition, number and future of each record."""
        self.futures_of: dict[type, list[asyncio.Future[Any]]] = {}

    async def run(self) -> None:
        while True:
            self.send(self.kind)
            await asyncio.sleep(0.001)

    def send(self, kind: type) -> asyncio.Future[Any]:
        number = len(self.sent)
        partition = number % PARTITIONS
        future = self._producer.send("orders", kind(number), partition=partition)
        self.sent.append((partition, number, future))
        self.futures_of.setdefault(kind, []).append(future)
        return future

    async def delivered(self) -> dict[int, list[int]]:
        """The numbers of the delivered records, by partition in the order of their sends."""
        numbers: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        await asyncio.gather(*(future for *_, future in self.sent), return_exceptions=True)
        for partition, number, future in self.sent:
            if future.exception() is None:
                numbers[partition].append(number)
        return numbers


def read_back(cluster: MockCluster, expected: dict[int, list[int]]) -> dict[int, list[int]]:
    """The numbers in the log, by partition in its order."""
    plain = {"type": "record", "name": "Any", "fields": [{"name": "number", "type": "long"}]}
    numbers: dict[int, list[int]] = {}
    for partition, delivered in expected.items():
        records = read_first(cluster, "orders", len(delivered), partition)
        decoded: list[Any] = [
            fastavro.schemaless_reader(BytesIO((record.value or b"")[5:]), plain, None)
            for record in records
        ]
        numbers[partition] = [each["number"] for each in decoded]
    return numbers


def serializer(port: int, timeout: float) -> AvroSerializer[Any]:
    registry = SchemaRegistry(f"http://127.0.0.1:{port}/apis/ccompat/v7", timeout=timeout)
    schemas: dict[type, str] = {kind: json.dumps(schema(kind)) for kind in (Ordered, Paid, Shipped)}

    class Late(AvroSerializer[Any]):
        """It fetches each schema with the first value that needs it, and none before."""

        def _known(self) -> tuple[Any, ...]:
            return (Ordered,)

    return Late(registry, schemas, subject_name_strategy="record_name")


async def test_slow_silent_and_away(
    registry_server: SchemaRegistryServer, cluster: MockCluster
) -> None:
    ticks = Ticks()
    ticking = asyncio.create_task(ticks.run())
    async with Way(urlsplit(registry_server.url).port or 0) as way:
        avro = serializer(way.port, 0.5)
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, value_serializer=avro, max_block_ms=2000
        ) as producer:
            flow = Flow(producer)
            await flow.send(Ordered)
            flowing = asyncio.create_task(flow.run())
            way.delay = 0.1
            async with ticks.at_least(20):
                await flow.send(Paid)  # a schema that comes slowly, while records wait behind it
            way.delay = 0.0
            way.open.clear()  # a registry that takes requests and does not answer
            async with ticks.at_least(100):
                with pytest.raises(PreparationTimeoutError, match="SchemaRegistryUnavailable"):
                    await flow.send(Shipped)
                await flow.send(Ordered)
            way.open.set()
            way.cut()
            await flow.send(Shipped)
            assert way.connections > 1
            flowing.cancel()
            delivered = await flow.delivered()
            failed = [each for *_, each in flow.sent if each.exception() is not None]
            assert failed == flow.futures_of[Shipped][:1], "the record without a schema alone"
        await avro.close()
    ticking.cancel()
    assert read_back(cluster, delivered) == delivered


async def test_killed(cluster: MockCluster) -> None:
    with started() as server:
        avro = serializer(urlsplit(server.url).port or 0, 10)  # its first answer may take seconds
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, value_serializer=avro, max_block_ms=4000
        ) as producer:
            flow = Flow(producer)
            await flow.send(Ordered)
            flowing = asyncio.create_task(flow.run())
            await asyncio.to_thread(server.kill)
            known, unknown = flow.send(Ordered), flow.send(Paid)
            await known
            with pytest.raises(PreparationTimeoutError, match="can't be reached"):
                await unknown
            elsewhere = await producer.send("others", None)
            assert elsewhere.topic == "others"
            await flow.send(Ordered)
            flowing.cancel()
            delivered = await flow.delivered()
            failed = [each for *_, each in flow.sent if each.exception() is not None]
            assert failed == [unknown]
        await avro.close()
    assert read_back(cluster, delivered) == delivered
