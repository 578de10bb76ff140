"""A caller is cancelled at every moment there is, one run for each, and nobody else notices.

A run plays a scenario on a loop whose callbacks run one at a time. In run k the caller is cancelled
before callback k; the runs end when the caller does so by itself. This takes in more than every
suspension: also the moments in which what it waits for is there and it has not woken up yet.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from aioproducer import Producer, ProducerClosedError, ProducerError, RecordMetadata
from aioproducer.testing.simulation.loop import SimulatedLoop
from aioproducer.testing.simulation.network import SimulatedNetwork
from aioproducer.testing.simulation.world import SimulatedWorld
from tests.support.fake_kafka import FakeKafka
from tests.support.inside import core_of, engine_of, lifecycle_of, running_engine
from tests.support.simulated_world import SimulatedProducer, network_of, run_in

INIT_PRODUCER_ID = 22
PATIENCE = 1000.0
"""Seconds of a clock that jumps."""
SOON = 20.0
"""Before anything happens by the clock alone, such as a refresh of metadata."""
SMALL: dict[str, Any] = {"buffer_memory": 12_000, "batch_size": 1_000}
BIG = bytes(900)
QUICK_CLOSE = 1.0

pytestmark = pytest.mark.usefixtures("without_logs")


@dataclass
class Sent:
    """A record, in the order of the sends, and what became of it."""

    number: int
    partition: int
    value: bytes
    future: asyncio.Future[RecordMetadata] | None = None
    cancellable: bool = False
    """It is the caller's who may be cancelled."""
    source: object = None
    """What it was taken from, if it was not sent at that moment."""


@dataclass
class SendingApplication:
    """A producer, its brokers, and everything that was sent."""

    kafka: FakeKafka
    producer: Producer
    sent: list[Sent] = field(default_factory=list)
    beside: list[asyncio.Task[Any]] = field(default_factory=list)
    taken_back: list[bytes] = field(default_factory=list)
    """The values that stood in line as their caller was cancelled."""

    def cancel(self, waiting: asyncio.Future[Any]) -> bool:
        """Cancel a task or future, and look who stands in line and is cancelled with it."""
        cancelled = waiting.cancel()
        if running_engine(self.producer) is not None:
            self.taken_back += [
                record.record.value or b""
                for record in engine_of(self.producer).accumulator.pending
                if record.caller.done()
            ]
        return cancelled

    def note(self, partition: int, value: bytes, *, cancellable: bool) -> Sent:
        number = len(self.sent)
        record = Sent(number, partition, b"%d " % number + value, None, cancellable)
        self.sent.append(record)
        return record

    def send(
        self, partition: int = 0, value: bytes = b"v", *, mine: bool = False, topic: str = "orders"
    ) -> asyncio.Future[RecordMetadata]:
        """``mine``: by the caller who may be cancelled."""
        record = self.note(partition, value, cancellable=mine)
        record.future = self.producer.send(topic, record.value, partition=partition)
        return record.future

    def values(
        self, count: int, partition: int = 0, value: bytes = b"v", *, mine: bool = True
    ) -> Iterator[bytes]:
        """For ``send_many``: each is noted when it is taken."""
        source = object()
        for _ in range(count):
            record = self.note(partition, value, cancellable=mine)
            record.source = source
            yield record.value

    async def slow_values(self, count: int, value: bytes = b"v") -> AsyncIterator[bytes]:
        for each in self.values(count, value=value):
            await asyncio.sleep(0)
            yield each

    async def flush(self, timeout: float | None = None) -> None:
        """And see that everything sent before has its fate."""
        before = [record.future for record in self.sent if record.future is not None]
        await self.producer.flush(timeout)
        assert all(future.done() for future in before)

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Somebody else, who has to come to a good end."""
        self.beside.append(asyncio.get_running_loop().create_task(coroutine))

    # --- what must hold --------------------------------------------------------------------

    def check_fates(self, topic: str = "orders") -> None:
        """Every future tells the truth, and the logs are in the order of the sends."""
        logs = [self.kafka.values(topic, number) for number in range(2)]
        copies = Counter(value for log in logs for value in log)
        assert not [value for value, count in copies.items() if count > 1]
        assert not [value for value in self.taken_back if value in copies]
        for partition, log in enumerate(logs):
            written = [self.sent[int((value or b"").split()[0])] for value in log]
            assert all(record.partition == partition for record in written)
            for source in {record.source for record in written}:
                numbers = [record.number for record in written if record.source is source]
                assert numbers == sorted(numbers)
        for record in self.sent:
            found = copies[record.value] == 1
            if record.future is None:
                assert found or record.cancellable
                continue
            assert record.future.done(), f"{record} has no fate"
            if record.future.cancelled():
                assert record.cancellable
            elif (error := record.future.exception()) is not None:
                assert isinstance(error, ProducerError)
                assert not found or error.may_have_been_written
            else:
                offset = record.future.result().offset
                assert logs[record.partition][offset] == record.value

    def check_taken_out(self, *, cancelled: bool) -> None:
        """What was cancelled in line does not stand there any more."""
        if running_engine(self.producer) is not None:
            line = list(engine_of(self.producer).accumulator.pending)
            assert not [record for record in line if record.caller.done()]
            if cancelled:
                numbers = [int((record.record.value or b"").split()[0]) for record in line]
                waiting = [self.sent[number] for number in numbers]
                assert not [each for each in waiting if each.source and each.cancellable]

    def check_hooks(self) -> None:
        """They heard once of each record, and once of its fate."""
        for hook in core_of(self.producer).hooks.interceptors._chain:
            assert set(hook.heard.values()) == {1}
            assert hook.fates == len(hook.heard)

    def check_memory(self) -> None:
        """All of it is free, and nobody stands in line."""
        assert not engine_of(self.producer).metadata._awaited.topics
        assert not engine_of(self.producer).metadata.detailed
        client = engine_of(self.producer).client
        waiting = [
            each for part in client._connections() for each in part.in_flight if each.request
        ]
        assert client.total_in_flight == len(waiting)
        accumulator = engine_of(self.producer).accumulator
        assert accumulator.is_empty
        assert accumulator._pending_memory.quota.used == 0
        assert accumulator._pool.available == accumulator._pool.total
        assert accumulator._pool.quota.used == accumulator.memory_quota.futures.used == 0
        accumulator.pending.admit(0.0)
        assert not accumulator.memory_quota._waiting
        assert not accumulator.waiters.lines

    async def check_usable(self) -> None:
        """Everybody else comes to a good end, and the producer goes on."""
        async with asyncio.timeout(SOON):
            await asyncio.gather(*self.beside)
        async with asyncio.timeout(PATIENCE):
            await self.flush()
            await self.producer.drain()
            for partition in range(2):
                await self.send(partition)
        failed = [
            record
            for record in self.sent
            if record.future is not None
            and not record.future.cancelled()
            and record.future.exception() is not None
        ]
        assert not failed
        self.check_memory()


Caller = Callable[[SendingApplication], Coroutine[Any, Any, object]]


async def nothing(world: SendingApplication) -> None:
    """There is nothing to prepare."""


@dataclass(frozen=True)
class Scenario:
    """What a caller does until it is cancelled, after ``before``, beside what this started."""

    caller: Caller
    before: Callable[[SendingApplication], Awaitable[None]] = nothing
    options: dict[str, Any] = field(default_factory=dict)
    started: bool = True
    closes: bool = False
    """The caller ends the producer."""
    faults: tuple[dict[str, Any], ...] = ()
    """What befalls the first produce requests after ``before``."""


# --- callers -------------------------------------------------------------------------------


async def send_one(world: SendingApplication) -> None:
    await world.send(mine=True)


async def send_some(world: SendingApplication) -> None:
    await asyncio.gather(*(world.send(number % 2, mine=True) for number in range(4)))


async def send_with_a_timeout(world: SendingApplication) -> None:
    async with asyncio.timeout(PATIENCE):
        await world.send(mine=True)


async def send_big(world: SendingApplication) -> None:
    await world.send(value=BIG, mine=True)
    await world.send(value=BIG, mine=True)


async def drain(world: SendingApplication) -> None:
    for _ in range(3):
        await world.producer.drain()
        world.send(value=BIG, mine=True)
    await world.producer.drain()


async def flush(world: SendingApplication) -> None:
    world.send(1, mine=True)
    await world.flush()


async def flush_with_a_timeout(world: SendingApplication) -> None:
    world.send(1, mine=True)
    await world.flush(PATIENCE)


async def send_many(world: SendingApplication) -> None:
    report = await world.producer.send_many("orders", world.values(11, value=BIG), partition=0)
    assert report.delivered == 11


async def send_many_slowly(world: SendingApplication) -> None:
    values = world.slow_values(8, BIG)
    try:
        await world.producer.send_many("orders", values, partition=0)
    finally:
        await values.aclose()  # type: ignore[attr-defined]


async def send_many_large(world: SendingApplication) -> None:
    await world.producer.send_many("orders", world.values(5, value=bytes(2_500)), partition=0)


async def partitions_for(world: SendingApplication) -> None:
    assert await world.producer.partitions_for("orders") == (0, 1)


async def partition_infos_for(world: SendingApplication) -> None:
    infos = await world.producer.partition_infos_for("orders")
    assert [each.partition for each in infos] == [0, 1]


async def a_working_life(world: SendingApplication) -> None:
    for turn in range(4):
        await world.producer.drain()
        future = world.send(turn % 2, BIG, mine=True)
        if turn % 2:
            await world.flush()
        await future


async def start(world: SendingApplication) -> None:
    await world.producer.start()


async def close(world: SendingApplication) -> None:
    await world.producer.close()


async def close_with_a_timeout(world: SendingApplication) -> None:
    await world.producer.close(PATIENCE)


async def a_block(world: SendingApplication) -> None:
    async with world.producer:
        world.send(mine=True)
        await world.send(1, mine=True)
        world.send(mine=True)


# --- what goes on beside -------------------------------------------------------------------


async def known(world: SendingApplication) -> None:
    """Both partitions have a record; then others send too."""
    for partition in range(2):
        await world.send(partition)
    world.send(0)
    world.send(1)


async def unknown(world: SendingApplication) -> None:
    """The topic's metadata is still to come, others wait for it as well."""
    world.send(0)
    world.send(1)
    world.start(world.flush())
    world.start(world.producer.drain())


async def unknown_and_full(world: SendingApplication) -> None:
    """The same, and so many wait that the line borrows memory of the batches."""
    await unknown(world)
    for number in range(5):
        world.send(number % 2, BIG)


async def crowded(world: SendingApplication) -> None:
    """Memory is used up, records stand in line, and others wait for room or for fates."""
    await known(world)
    for number in range(8):
        world.send(number % 2, BIG)
    world.start(world.flush())
    for _ in range(2):
        world.start(drain_and_send(world))


async def full(world: SendingApplication) -> None:
    """One batch has all the memory, and another caller comes next to wait for it."""
    await world.send()
    world.send(value=BIG)
    asyncio.get_running_loop().call_soon(lambda: world.start(world.producer.drain()))


async def drain_alone(world: SendingApplication) -> None:
    await world.producer.drain()


async def drain_and_send(world: SendingApplication) -> None:
    await world.producer.drain()
    await world.send(value=BIG)


async def others_send_many(world: SendingApplication) -> None:
    await known(world)
    values = world.values(6, 1, BIG, mine=False)
    world.start(world.producer.send_many("orders", values, partition=1))


class Hook:
    """An interceptor; it makes the futures those of wrappers."""

    def __init__(self) -> None:
        self.heard: Counter[bytes] = Counter()
        self.fates = 0

    def on_send(self, record: Any) -> Any:
        self.heard[record.value] += 1
        return record

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        self.fates += 1


CANONICAL = {"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"}
IMPATIENT = {"request_timeout_ms": 500, "delivery_timeout_ms": 1_800}
COMPRESSED = {"compression_type": "gzip", "batch_size": 100_000}
TROUBLE = ({"error": 19}, {"cut_after_writing": True}, {"cut": True}, {"lie": 7}, {"error": 6})

SCENARIOS = {
    "send, topic unknown": Scenario(send_one, unknown),
    "send, topic known": Scenario(send_one, known),
    "send, topic unknown, line full": Scenario(
        send_big, unknown_and_full, {**SMALL, "max_request_size": 2_000}
    ),
    "send, no memory": Scenario(send_big, crowded, SMALL),
    "send, one at a time": Scenario(send_some, known, {"max_in_flight_requests_per_connection": 1}),
    "send, interceptors, topic unknown": Scenario(
        send_one, unknown, {"interceptor_classes": [Hook]}
    ),
    "send, interceptors, no memory": Scenario(
        send_big, crowded, {**SMALL, "interceptor_classes": [Hook]}
    ),
    "send, timeout": Scenario(send_with_a_timeout, unknown),
    "send, several": Scenario(send_some, unknown),
    "send, trouble": Scenario(send_some, known, faults=TROUBLE),
    "send, not idempotent": Scenario(send_some, unknown, {"enable_idempotence": False}),
    "send, lingering": Scenario(send_some, known, {"linger_ms": 50}),
    "drain": Scenario(drain, crowded, SMALL),
    "drain, first in turn": Scenario(
        drain_alone, full, {"buffer_memory": 1_400, "batch_size": 1_050}
    ),
    "drain, trouble": Scenario(drain, crowded, SMALL, faults=TROUBLE),
    "flush": Scenario(flush, crowded, SMALL),
    "flush, lingering": Scenario(flush, known, {"linger_ms": 5_000}),
    "flush, timeout": Scenario(flush_with_a_timeout, unknown),
    "send_many": Scenario(send_many, others_send_many, SMALL),
    "send_many, no memory": Scenario(send_many, crowded, SMALL),
    "send_many, topic unknown": Scenario(send_many, unknown, SMALL),
    "send_many, async": Scenario(send_many_slowly, others_send_many, SMALL),
    "send_many, large": Scenario(send_many_large, others_send_many, SMALL),
    "send_many, interceptors, no memory": Scenario(
        send_many, crowded, {**SMALL, "interceptor_classes": [Hook]}
    ),
    "send_many, interceptors, large, topic unknown": Scenario(
        send_many_large, unknown, {**SMALL, "interceptor_classes": [Hook]}
    ),
    "send_many, interceptors, topic unknown": Scenario(
        send_many, unknown, {**SMALL, "interceptor_classes": [Hook]}
    ),
    "send_many, trouble": Scenario(send_many, others_send_many, SMALL, faults=TROUBLE),
    "send_many, compressed in a thread": Scenario(
        lambda world: world.producer.send_many(
            "orders", world.values(3, value=bytes(40_000)), partition=0
        ),
        known,
        COMPRESSED,
    ),
    "partitions_for, topic unknown": Scenario(partitions_for, unknown),
    "partition_infos_for": Scenario(partition_infos_for, known),
    "partitions_for, nothing else": Scenario(partitions_for),
    "a working life": Scenario(a_working_life, crowded, SMALL),
    "start": Scenario(start, options=CANONICAL, started=False),
    "close": Scenario(close, known, closes=True),
    "close, topic unknown": Scenario(close, unknown, closes=True),
    "close, no memory": Scenario(close, crowded, SMALL, closes=True),
    "close, timeout": Scenario(close_with_a_timeout, crowded, SMALL, closes=True),
    "close, trouble": Scenario(close, known, closes=True, faults=TROUBLE),
    "close, silence": Scenario(
        close, known, IMPATIENT, closes=True, faults=({"silent": True},) * 9
    ),
    "async with": Scenario(a_block, started=False, closes=True),
    "async with, canonical": Scenario(a_block, options=CANONICAL, started=False, closes=True),
}


async def play(scenario: Scenario, loop: SimulatedLoop, *moments: int) -> bool:
    """Cancel the caller at ``moments``, in steps since its start; whether there was time for it."""
    kafka = FakeKafka(1, {"orders": 2})
    await kafka.start()
    options: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers, **scenario.options}
    producer = SimulatedProducer(**options)
    world = SendingApplication(kafka, producer)
    if scenario.started:
        await producer.start()
    await scenario.before(world)
    kafka.answers.extend(FakeKafka.Answer(**fault) for fault in scenario.faults)
    caller = loop.create_task(scenario.caller(world))
    first = loop.steps
    cancelled = False
    began = loop.time()

    def maybe_cancel() -> None:
        nonlocal cancelled, began
        if loop.steps - first in moments and not caller.done():
            began = loop.time()
            cancelled = world.cancel(caller) or cancelled

    loop.before_step = maybe_cancel
    await asyncio.wait([caller])
    loop.before_step = lambda: None
    assert caller.cancelled() is cancelled
    world.check_taken_out(cancelled=cancelled)
    if not cancelled:
        caller.result()
    if scenario.closes:
        closing = lifecycle_of(producer).closing
        assert closing is None or closing.done() or len(moments) > 1
        assert loop.time() - began < QUICK_CLOSE or not cancelled
        await end(world)
    elif scenario.started:
        await world.check_usable()
        assert not kafka.refused or scenario.faults
        assert len(kafka.requests(INIT_PRODUCER_ID)) == producer.config.enable_idempotence
    elif not cancelled:
        await world.send()
    elif moments[0]:
        with pytest.raises(ProducerClosedError):
            producer.send("orders", b"v")
    undelivered = await producer.close()
    assert not undelivered or scenario.closes
    assert loop.time() - began < PATIENCE
    world.check_fates()
    world.check_hooks()
    await kafka.stop()
    left = [task for task in loop.tasks if not task.done()]
    assert left == [asyncio.current_task()]
    assert not loop.timers
    return cancelled


async def end(world: SendingApplication) -> None:
    """A closed producer: who waited was told so, at the latest now."""
    await world.producer.close()
    with pytest.raises(ProducerClosedError):
        world.producer.send("orders", b"v")
    results = await asyncio.gather(*world.beside, return_exceptions=True)
    errors = [each for each in results if isinstance(each, BaseException)]
    assert all(isinstance(error, ProducerClosedError) for error in errors)


def run(scenario: Scenario, *moments: int) -> bool:
    loop = SimulatedLoop()
    SimulatedNetwork(loop)
    try:
        cancelled = loop.run(play(scenario, loop, *moments))
    except BaseException as error:
        error.add_note(f"cancelled at the steps {moments}, on a loop with {loop.steps} steps")
        raise
    gc.collect(0)
    assert not loop.complaints
    return cancelled


@pytest.mark.parametrize("name", SCENARIOS)
def test_cancelled_at_every_moment(name: str) -> None:
    moment = 0
    while run(SCENARIOS[name], moment):
        moment += 1
    print(f"{moment} runs")
    assert moment > 2


@pytest.mark.parametrize("name", [name for name in SCENARIOS if SCENARIOS[name].closes])
@pytest.mark.parametrize("later", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_cancelled_twice(name: str, later: int) -> None:
    moment = 0
    while run(SCENARIOS[name], moment, moment + later):
        moment += 1


# --- start() -------------------------------------------------------------------------------


def close_during_start(moment: int) -> bool:
    loop = SimulatedLoop()
    SimulatedNetwork(loop)
    return loop.run(play_close_during_start(loop, moment))


async def play_close_during_start(loop: SimulatedLoop, moment: int) -> bool:
    """``close()`` comes at ``moment`` of a ``start()``; whether this had not come to its end."""
    kafka = FakeKafka(1, {"orders": 2})
    await kafka.start()
    options: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers, **CANONICAL}
    producer = SimulatedProducer(**options)
    starting = loop.create_task(producer.start())
    for _ in range(moment):
        await asyncio.sleep(0)
    early = not starting.done()
    assert await producer.close() == 0
    await asyncio.wait([starting])
    if early and moment:
        assert isinstance(starting.exception(), ProducerClosedError)
    with pytest.raises(ProducerClosedError):
        producer.send("orders", b"v")
    await kafka.stop()
    assert [task for task in loop.tasks if not task.done()] == [asyncio.current_task()]
    return early


def test_close_at_every_moment_of_start() -> None:
    moment = 1
    while close_during_start(moment):
        moment += 1
    assert moment > 2


# --- connections -------------------------------------------------------------------------------


def connections_left(turns: int) -> int:
    """The connections that are left of a start that is cancelled after so many turns of the loop.

    The producer closes then, and cancels its connections.
    """
    world = SimulatedWorld(0, 1)
    world.cluster.set_latency(0.0)

    async def life() -> int:
        servers = world.cluster.bootstrap_servers
        producer = Producer(bootstrap_servers=servers, transactional_id="orders")
        starting = asyncio.create_task(producer.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        await producer.close(0)
        await asyncio.sleep(1)
        return len(network_of(world).connections)

    return run_in(world, life())


def test_a_connection_that_is_cancelled_as_it_opens_is_closed() -> None:
    assert {turns: left for turns in range(60) if (left := connections_left(turns))} == {}
