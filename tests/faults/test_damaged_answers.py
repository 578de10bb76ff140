"""Damaged answers between a producer and a Kafka that speaks the newest versions of everything.

A man in the middle damages a tenth of all answers for a while; then none any more. Whatever he
does, no part of a producer dies, every record has its outcome, time and memory stay bounded, and
soon after he has gone, everything works again.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import (
    FatalTransactionError,
    OffsetAndMetadata,
    Producer,
    ProducerBrokenError,
    ProducerError,
    ProducerFencedError,
    RecordMetadata,
    TopicPartition,
)
from aioproducer.foundation import tuning
from aioproducer.testing.fault_proxy import Damage, FaultProxy, FaultScript, Rule
from tests.support.fake_kafka.logins import LOGIN, FakeLogins
from tests.support.fake_kafka.telemetry import FakeTelemetry
from tests.support.inside import in_environment, quick_logins

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka

TOPICS = {"orders": 3, "events": 2}
RECOVERY = 5.0
"""Seconds after the last damage until everything works again."""
MOST_BYTES = 48 * 1024 * 1024
"""Of Python's memory at the same time, above what there was before."""
LEAST_DAMAGE = 5
"""So many answers."""
GONE: Any = (FatalTransactionError, ProducerFencedError)
"""A broker may say so, and a damaged answer as well: an application makes another producer."""
OPTIONS: dict[str, Any] = {
    "buffer_memory": 1_000_000,
    "metadata_max_age_ms": 100,
    "max_block_ms": 10_000,
    "delivery_timeout_ms": 10_000,
    "request_timeout_ms": 2_000,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 100,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 100,
    "socket_connection_setup_timeout_ms": 500,
    "socket_connection_setup_timeout_max_ms": 1_000,
}


DamagedProducer = in_environment(quick_logins(0.02, 0.1))
"""A damaged answer may be a refusal, after which a producer keeps away for longer."""


class DamagedNetwork:
    """Producers behind proxies, for one seed."""

    def __init__(self, proxies: Iterable[FaultProxy], seed: int, **options: Any) -> None:
        self.random = Random(seed)
        self.futures: list[asyncio.Future[RecordMetadata]] = []
        self.outcomes: Counter[str] = Counter()
        self.complaints: list[dict[str, Any]] = []
        self._proxies = list(proxies)
        self._seed = seed
        self._options = OPTIONS | options
        self._servers = ",".join(proxy.address for proxy in self._proxies)
        self._numbers = itertools.count()

    def producer(self) -> Producer:
        return DamagedProducer(bootstrap_servers=self._servers, **self._options)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Nothing is left unhandled in the loop, and memory is given back."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        gc.collect()
        tracemalloc.start()
        try:
            yield
            _, peak = tracemalloc.get_traced_memory()
            assert peak < MOST_BYTES, f"seed {self._seed}: {peak} bytes"
        finally:
            tracemalloc.stop()
        gc.collect()
        await asyncio.sleep(0)
        loop.set_exception_handler(None)
        assert self.complaints == [], f"seed {self._seed}"

    @asynccontextmanager
    async def damaged(self, seconds: float, probability: float = 0.1) -> AsyncIterator[None]:
        """Damage for so long what goes on meanwhile, then close the connections."""
        for number, proxy in enumerate(self._proxies):
            rules = tuple(
                Rule(Damage(changes), count=None, probability=probability / 2) for changes in (1, 3)
            )
            proxy.play(FaultScript(rules, seed=self._seed * 100 + number))
        async with asyncio.timeout(seconds + 60):
            ending = asyncio.get_running_loop().create_task(self._end_connections())
            try:
                yield
            finally:
                ending.cancel()
        for proxy in self._proxies:
            proxy.play(FaultScript())
            proxy.end_connections(reset=True)

    @property
    def _was_damaged(self) -> bool:
        """Whether enough was; a machine under load may get too little done for that."""
        return sum(proxy.counts[Damage] for proxy in self._proxies) >= LEAST_DAMAGE

    async def _end_connections(self) -> None:
        """Now and then, so that there are handshakes, and no throttle time is the last word."""
        while True:
            await asyncio.sleep(0.4)
            self.random.choice(self._proxies).end_connections(reset=self.random.random() < 0.5)

    # --- plain -----------------------------------------------------------------------------

    async def sends(self, producer: Producer, seconds: float) -> None:
        """Records to every partition for so long, as fast as a few tasks await them."""
        end = monotonic() + seconds
        places = [(topic, number) for topic, count in TOPICS.items() for number in range(count)]

        async def one(topic: str, partition: int) -> None:
            while monotonic() < end:
                future = self.send(producer, topic, partition)
                await asyncio.wait([future], timeout=max(end - monotonic(), 0.0))
                await asyncio.sleep(0.001)

        await asyncio.gather(*(one(*place) for place in places))

    def send(
        self, producer: Producer, topic: str, partition: int
    ) -> asyncio.Future[RecordMetadata]:
        value = b"%d" % next(self._numbers)
        try:
            future = producer.send(topic, value, partition=partition)
        except ProducerBrokenError:
            raise
        except ProducerError as error:  # its number of partitions was damaged, say
            future = asyncio.get_running_loop().create_future()
            future.set_exception(error)
            future.exception()
        self.futures.append(future)
        return future

    async def plain(self, seconds: float) -> None:
        async with self.watched():
            producer = self.producer()
            await producer.start()
            await producer.send("orders", b"before")
            async with self.damaged(seconds):
                while not self._was_damaged:
                    await self.sends(producer, seconds)
            await self._recovers(self._delivers(producer))
            await asyncio.wait_for(producer.close(), 30)
            self.settle()

    async def _delivers(self, producer: Producer) -> None:
        """One record for each partition; what was damaged may have to be found out by one."""
        for topic, count in TOPICS.items():
            for partition in range(count):
                while True:
                    future = self.send(producer, topic, partition)
                    with suppress(ProducerError):
                        await future
                        break
                    error = future.exception()
                    assert not isinstance(error, ProducerBrokenError), error
                    await asyncio.sleep(0.02)

    async def _recovers(self, work: Any) -> None:
        began = monotonic()
        try:
            await asyncio.wait_for(work, RECOVERY)
        except TimeoutError:
            raise AssertionError(f"seed {self._seed}: not well after {RECOVERY} s") from None
        self.recovered = monotonic() - began

    def settle(self) -> None:
        """Every record has its fate, and it is none of a producer that broke."""
        for future in self.futures:
            assert future.done(), f"seed {self._seed}: a record without fate"
            error = future.exception()
            assert not isinstance(error, ProducerBrokenError), f"seed {self._seed}: {error}"
            assert error is None or isinstance(error, ProducerError), error
            self.outcomes["delivered" if error is None else type(error).__name__] += 1

    # --- transactional ---------------------------------------------------------------------

    async def transactional(self, seconds: float) -> None:
        async with self.watched():
            producer = await self._new()
            async with self.damaged(seconds):
                while not self._was_damaged:
                    end = monotonic() + seconds
                    while monotonic() < end:
                        producer = await self._transact(producer, end)
            producer = await self._recovers_with(producer)
            await asyncio.wait_for(producer.close(), 30)
            self.settle()

    async def _new(self) -> Producer:
        producer = self.producer()
        await producer.start()
        return producer

    async def _recovers_with(self, producer: Producer) -> Producer:
        found = producer

        async def work() -> None:
            nonlocal found
            while True:
                before = self.outcomes["committed"]
                found = await self._transact(found, None)
                if self.outcomes["committed"] > before:
                    return

        await self._recovers(work())
        return found

    async def _transact(self, current: Producer, end: float | None) -> Producer:
        """One transaction, and the producer for the next one."""
        left = None if end is None else max(end - monotonic(), 0.01)
        try:
            async with asyncio.timeout(left), current.transaction():
                await self._work(current)
        except TimeoutError as error:
            self.outcomes[f"timeout of {type(error).__name__}"] += 1
        except GONE as error:
            self.outcomes[f"gone: {type(error).__name__}"] += 1
            await asyncio.wait_for(current.close(1), 30)
            return await self._replaced()
        except ProducerBrokenError:
            raise
        except ProducerError as error:
            self.outcomes[type(error).__name__] += 1
            await asyncio.sleep(0.005)
        else:
            self.outcomes["committed"] += 1
        return current

    async def _replaced(self) -> Producer:
        while True:
            producer = self.producer()
            try:
                await producer.start()
            except ProducerBrokenError:
                raise
            except ProducerError as error:
                self.outcomes[f"start: {type(error).__name__}"] += 1
                await asyncio.wait_for(producer.close(0), 30)
            else:
                return producer

    async def _work(self, producer: Producer) -> None:
        for topic, count in TOPICS.items():
            self.send(producer, topic, self.random.randrange(count))
        consumed = {TopicPartition("orders", 0): OffsetAndMetadata(self.random.randrange(1000))}
        if self.random.random() < 0.5:
            await producer.send_offsets_to_transaction(consumed, "readers")
        if self.random.random() < 0.3:
            await producer.committed_offsets("others", list(consumed), timeout=2)


PRODUCE, METADATA, INIT_PRODUCER_ID, FIND_COORDINATOR = 0, 3, 22, 10
NEWEST = {PRODUCE: (7, 13), METADATA: (4, 13), INIT_PRODUCER_ID: (0, 5), FIND_COORDINATOR: (0, 6)}

SESSION_MS = 150
LEAST_LOGINS = 20


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What producers log about damage is of no interest, and there is much of it."""
    caplog.set_level(logging.CRITICAL, "aioproducer")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Telemetry is asked for at once, and again soon after damage."""
    monkeypatch.setattr(tuning, "TELEMETRY_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(tuning, "TELEMETRY_FIRST_RETRY", 0.01)


async def run(start_kafka: StartKafka, kind: str, seed: int, seconds: float) -> DamagedNetwork:
    logins = FakeLogins(lifetime_ms=SESSION_MS) if kind == "logins" else None
    telemetry = FakeTelemetry() if kind == "telemetry" else None
    kafka = await start_kafka(2, TOPICS, NEWEST, 2, logins=logins, telemetry=telemetry)
    async with AsyncExitStack() as stack:
        proxies = []
        for number, server in kafka.servers.items():
            proxies.append(await stack.enter_async_context(FaultProxy(server.port)))
            kafka.advertised[number] = proxies[-1].port
        if kind in ("plain", "telemetry"):
            network = DamagedNetwork(proxies, seed)
            await network.plain(seconds)
        elif logins is not None:
            network = DamagedNetwork(proxies, seed, **LOGIN)
            await network.plain(seconds)
            while len(logins.ended) <= LEAST_LOGINS:  # a busy machine logs in more slowly
                await network.plain(seconds)
        else:
            network = DamagedNetwork(proxies, seed, transactional_id="payments")
            await network.transactional(seconds)
    assert telemetry is None or telemetry.pushes
    return network


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", ["plain", "logins", "telemetry", "transactional"])
async def test_damaged_answers_break_nothing(start_kafka: StartKafka, kind: str, seed: int) -> None:
    network = await run(start_kafka, kind, seed, 0.5)
    assert network.outcomes["delivered"], "else nothing was sent between the damage"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
@pytest.mark.parametrize("kind", ["plain", "logins", "telemetry", "transactional"])
async def test_damaged_answers_break_nothing_for_long(
    start_kafka: StartKafka, kind: str, seed: int
) -> None:
    await run(start_kafka, kind, seed, 12.0)
