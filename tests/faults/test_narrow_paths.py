"""A path to the brokers over which a request takes longer to pass than ``request_timeout_ms``."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.errors import RequestTimeoutError
from tests.support.fake_kafka import FakeKafka
from tests.support.fake_kafka.logins import LOGIN, FakeLogins

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what passes")

PRODUCE = 0
VALUE = bytes(range(250)) * 4
BYTES_PER_SECOND = 400_000
PIECE = 10_000


@dataclass
class NarrowPath:
    """Between a client and one broker: it passes a few bytes at a time, in both directions."""

    broker_port: int
    port: int = 0
    stuck_after: float = float("inf")
    """Bytes of all requests after which no more pass."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)  # for accepted ones too
        listener.bind(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        passing: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._pass(reader, writer))
            task.add_done_callback(lambda _: writer.transport.abort())
            passing.add(task)

        server = await asyncio.start_server(accept, sock=listener, limit=PIECE)
        try:
            yield
        finally:
            server.close()
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        responses, broker = await asyncio.open_connection(
            "127.0.0.1", self.broker_port, limit=PIECE
        )
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._slowly(reader, broker))
                both.create_task(self._slowly(responses, writer))
        finally:
            broker.transport.abort()

    async def _slowly(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(PIECE):
            self.stuck_after -= len(data)
            if self.stuck_after < 0:
                await asyncio.Event().wait()
            sink.write(data)
            await sink.drain()
            await asyncio.sleep(len(data) / BYTES_PER_SECOND)
        raise ConnectionError


@asynccontextmanager
async def narrow_kafka(
    logins: FakeLogins | None = None, **options: Any
) -> AsyncIterator[tuple[FakeKafka, NarrowPath, Producer]]:
    kafka = FakeKafka(1, {"orders": 1}, logins=logins)
    await kafka.start()
    path = NarrowPath(kafka.servers[1].port)
    async with path.open():
        kafka.advertised[1] = path.port
        producer = Producer(
            bootstrap_servers=f"127.0.0.1:{path.port}",
            send_buffer_bytes=16_384,
            max_block_ms=20_000,
            **options,
        )
        async with producer:
            yield kafka, path, producer
    await kafka.stop()


async def test_requests_that_pass_slowly_are_sent_once() -> None:
    """A megabyte takes 2.5 seconds, and each request waits for those before it."""
    async with narrow_kafka(request_timeout_ms=1_000, batch_size=200_000) as (kafka, _, producer):
        futures = [producer.send("orders", b"%d" % number + VALUE) for number in range(1_000)]
        metadata = await asyncio.wait_for(asyncio.gather(*futures), 30)
        assert [each.offset for each in metadata] == list(range(1_000))
        [partition] = kafka.topics["orders"]
        assert len(partition.log) == 1_000
        sent = producer.metrics()["producer-metrics"]
        assert sent["record-retry-total"] == 0


async def test_a_request_that_is_stuck_on_its_way_is_late() -> None:
    options: dict[str, Any] = {
        "request_timeout_ms": 1_000,
        "delivery_timeout_ms": 30_000,
        "retries": 0,
    }
    async with narrow_kafka(batch_size=400_000, **options) as (_, path, producer):
        path.stuck_after = 360_000
        loop = asyncio.get_running_loop()
        began = loop.time()
        futures = [producer.send("orders", VALUE) for _ in range(380)]
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert all(isinstance(each, RequestTimeoutError) for each in results), results[0]
        assert loop.time() - began < 4  # 0.9 s until it is stuck, and a second more
        path.stuck_after = float("inf")


@pytest.mark.parametrize("acks", ["all", "0"])
async def test_a_renewed_login_has_its_time_once_the_requests_before_it_have_passed(
    acks: str,
) -> None:
    """It waits behind a megabyte, which takes longer than a request may."""
    logins = FakeLogins(lifetimes=deque([0]), lifetime_ms=1_000)
    options: dict[str, Any] = {"request_timeout_ms": 1_000, "batch_size": 200_000, "acks": acks}
    if acks == "0":
        options["enable_idempotence"] = False
    async with narrow_kafka(logins, **options, **LOGIN) as (kafka, _, producer):
        futures = [producer.send("orders", b"%d" % number + VALUE) for number in range(1_500)]
        await asyncio.wait_for(asyncio.gather(*futures), 30)
        await producer.flush()
        await kafka.until(lambda: len(kafka.topics["orders"][0].log) == 1_500)
        [connection] = {each.connection for each in kafka.requests(PRODUCE)}
        assert logins.of(connection) > 1
        assert producer.metrics()["producer-metrics"]["record-retry-total"] == 0
