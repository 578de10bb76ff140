"""Brokers that read in bursts or say nothing, and paths on which a request outlasts its timeout."""

from __future__ import annotations

import asyncio
import random
import socket
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from aioproducer import Producer, ProducerError
from aioproducer.errors import RequestTimeoutError
from aioproducer.testing import simulate
from aioproducer.testing.simulation.world import SimulatedWorld
from tests.support.fake_kafka import FakeKafka
from tests.support.fake_kafka.logins import LOGIN, FakeLogins

SECONDS = 4.0
BATCH = 200_000
FILLINGS = [random.Random(number).randbytes(2_000) for number in range(50)]


class Gate:
    """Between the producer and a broker: reads some, waits, and now and then cuts.

    A ``FaultProxy`` takes a request whole before it holds it up; here it is to stop amid one.
    """

    def __init__(self, port: int) -> None:
        self._broker = port
        self._seed = 0
        self._passing: set[asyncio.Task[Any]] = set()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0, limit=4096)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        self._seed += 1
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 131_072)
        answers, broker = await asyncio.open_connection("127.0.0.1", self._broker)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._in_bursts(reader, broker, random.Random(self._seed)))
                both.create_task(self._at_once(answers, writer))
        except* OSError:
            pass
        finally:
            broker.transport.abort()
            writer.transport.abort()

    async def _in_bursts(
        self, reader: asyncio.StreamReader, broker: asyncio.StreamWriter, lots: random.Random
    ) -> None:
        left = 300_000
        while data := await reader.read(65_536):
            broker.write(data)
            await broker.drain()
            left -= len(data)
            if left < 0:
                await asyncio.sleep(lots.choice([0.1, 0.3, 0.5, 0.7]))
                if lots.random() < 0.1:
                    break
                left = lots.randrange(300_000, 3_000_000)
        raise ConnectionError

    async def _at_once(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await answers.read(65_536):
            writer.write(data)
            await writer.drain()
        raise ConnectionError


@pytest.mark.parametrize("acks", ["all", "0"])
def test_what_is_given_up_on_its_way_is_not_overwritten(acks: Any) -> None:
    """FakeKafka fails over a batch whose checksum is wrong; each value says what it has to be.

    On uvloop, whose transports take large pieces as they are; asyncio's do so from Python 3.12 on.
    """
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(send_past_the_gate(acks))


async def send_past_the_gate(acks: Any) -> None:
    fates: Counter[str] = Counter()

    def note(future: asyncio.Future[Any]) -> None:
        error = future.exception()
        kind = "delivered" if error is None else type(error).__name__
        fates[kind] += 1
        if isinstance(error, ProducerError) and error.may_have_been_written:
            fates["given up on its way"] += 1

    kafka = FakeKafka(1, {"orders": 4})
    await kafka.start()
    try:
        gate = Gate(kafka.servers[1].port)
        await gate.start()
        kafka.advertised[1] = gate.port
        producer = Producer(
            bootstrap_servers=f"127.0.0.1:{gate.port}",
            acks=acks,
            enable_idempotence=acks == "all",
            batch_size=BATCH,
            buffer_memory=24 * BATCH,
            linger_ms=0,
            request_timeout_ms=600,
            delivery_timeout_ms=700,
            max_block_ms=400,
            send_buffer_bytes=65_536,
            retry_backoff_ms=5,
            reconnect_backoff_ms=5,
            reconnect_backoff_max_ms=10,
        )
        await producer.start()
        number = 0
        loop = asyncio.get_running_loop()
        end = loop.time() + SECONDS
        while loop.time() < end:
            for _ in range(20):
                number += 1
                name = b"%010d" % number
                value = name + FILLINGS[number % 50] * (1 + number % 3) + name
                producer.send("orders", value).add_done_callback(note)
            await producer.drain()
            await asyncio.sleep(0.002)
        await producer.close(0)
        await gate.stop()
        values = [value for partition in range(4) for value in kafka.values("orders", partition)]
        assert values
        for found in values:
            assert found is not None
            name = found[:10]
            filling = FILLINGS[int(name) % 50] * (1 + int(name) % 3)
            assert found == name + filling + name
        assert fates["given up on its way"] > 0, fates
    finally:
        await kafka.stop()


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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what passes")
async def test_requests_that_pass_slowly_are_sent_once() -> None:
    """A megabyte takes 2.5 seconds, and each request waits for those before it."""
    async with narrow_kafka(request_timeout_ms=1_000, batch_size=200_000) as (kafka, _, producer):
        futures = [producer.send("orders", b"%d" % number + VALUE) for number in range(1_000)]
        metadata = await asyncio.wait_for(asyncio.gather(*futures), 30)
        assert [each.offset for each in metadata] == list(range(1_000))
        assert len(kafka.values("orders")) == 1_000
        sent = producer.metrics()["producer-metrics"]
        assert sent["record-retry-total"] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what passes")
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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what passes")
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
        await kafka.until(lambda: kafka.model.high_watermark("orders", 0) == 1_500)
        [connection] = {each.connection for each in kafka.requests(PRODUCE)}
        assert logins.of(connection) > 1
        assert producer.metrics()["producer-metrics"]["record-retry-total"] == 0


@pytest.mark.parametrize("silent", [1, 9])
def test_silent_brokers_hold_no_other_brokers_first_record_up(silent: int) -> None:
    async def life(world: SimulatedWorld) -> float:
        cluster = world.cluster
        stalled = [*cluster.brokers][:silent]
        of_stalled: list[int] = []
        others: list[int] = []
        for partition in range(40):
            (of_stalled if cluster.leader("t", partition) in stalled else others).append(partition)
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.partitions_for("t")
            for broker in stalled:
                cluster.stall(broker)
            began = world.now
            waits = producer.send("t", b"v", partition=of_stalled[0])
            await producer.send("t", b"v", partition=others[0])
            seconds = world.now - began
            await producer.close(0)
        assert waits.exception() is not None
        return seconds

    for seed in range(10):
        assert simulate(life, seed=seed, brokers=10, topics={"t": 40}) < 0.2
