"""Whoever does a transaction is cancelled at every moment there is; what was told stays true.

A run plays a scenario on a loop whose callbacks run one at a time (see
``test_cancellation_everywhere.py``), with both versions of the protocol, with and without trouble.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from aioproducer import (
    AbortableTransactionError,
    IllegalStateError,
    Producer,
    ProducerClosedError,
    TopicPartition,
)
from aioproducer.testing.simulation.kafka.transaction_coordinator import TransactionState
from aioproducer.testing.simulation.loop import SimulatedLoop
from aioproducer.testing.simulation.network import SimulatedNetwork
from tests.support.fake_kafka import Answer, FakeKafka
from tests.support.fake_kafka.brokers import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    COMMIT_OFFSETS,
    END,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    OFFSET_FETCH,
)
from tests.support.inside import lifecycle_of, running_engine
from tests.support.simulated_world import SimulatedProducer

SOON = 100.0
"""Seconds of a clock that jumps."""


pytestmark = pytest.mark.usefixtures("without_logs")


@dataclass
class Attempt:
    """What somebody wanted to be in one transaction, and what he was told of it."""

    number: int
    values: list[tuple[str, int, bytes]] = field(default_factory=list)
    committed: bool | None = None
    """None: he does not know."""


@dataclass
class TransactingApplication:
    """A producer, its brokers, and the transactions that were tried."""

    kafka: FakeKafka
    producer: Producer
    attempts: list[Attempt] = field(default_factory=list)

    def attempt(self) -> Attempt:
        made = Attempt(len(self.attempts))
        self.attempts.append(made)
        return made

    def send(self, attempt: Attempt, partition: int) -> asyncio.Future[Any]:
        value = b"%d of %d" % (len(attempt.values), attempt.number)
        future = self.producer.send("orders", value, partition=partition)
        attempt.values.append(("orders", partition, value))
        return future

    async def fill(self, attempt: Attempt) -> None:
        """Records, of which one is awaited, and offsets: the attempt's number in partition 0."""
        self.send(attempt, 0)
        await self.send(attempt, 1)
        await self.producer.send_offsets_to_transaction({("input", 0): attempt.number}, "readers")
        self.send(attempt, 0)

    async def block(self) -> Attempt:
        attempt = self.attempt()
        attempt.committed = False  # an exception before the end of the block aborts
        async with self.producer.transaction():
            await self.fill(attempt)
            attempt.committed = None
        attempt.committed = True
        return attempt

    async def recover(self) -> None:
        """What a user does who does not know where he is: end what is open, then go on."""
        try:
            await self.producer.abort_transaction()
        except IllegalStateError:
            try:
                await self.producer.commit_transaction()
            except IllegalStateError:
                pass
            except AbortableTransactionError:
                await self.producer.abort_transaction()
        else:
            if self.attempts:
                self.attempts[-1].committed = False

    def check(self) -> None:
        """Every transaction is there as a whole or not at all, as was told; none is open."""
        model = self.kafka.model
        seen = [
            ("orders", partition, record.value)
            for partition in (0, 1)
            for record in model.log("orders", partition)
            if record.visible
        ]
        assert len(set(seen)) == len(seen)
        last = None
        for attempt in self.attempts:
            there = [value in seen for value in attempt.values]
            assert len(set(there)) <= 1, f"{attempt} is half there"
            if attempt.committed is not None and there:
                assert there[0] is attempt.committed, attempt
            if there and there[0]:
                assert len(there) == 3, f"{attempt} was committed before it was whole"
                last = attempt.number
        offset = model.committed_offsets("readers").get(TopicPartition("input", 0))
        assert (offset and offset.offset) == last
        states = [each.state for each in model.transactions().values()]
        assert TransactionState.ONGOING not in states


Caller = Callable[[TransactingApplication], Coroutine[Any, Any, object]]


async def block(world: TransactingApplication) -> None:
    await world.block()


async def two_blocks(world: TransactingApplication) -> None:
    await world.block()
    await world.block()


async def by_calls(world: TransactingApplication) -> None:
    attempt = world.attempt()
    await world.producer.begin_transaction()
    await world.fill(attempt)
    await world.producer.commit_transaction()
    attempt.committed = True


async def aborted(world: TransactingApplication) -> None:
    attempt = world.attempt()
    await world.producer.begin_transaction()
    await world.fill(attempt)
    await world.producer.abort_transaction()
    attempt.committed = False


async def failing_block(world: TransactingApplication) -> None:
    attempt = world.attempt()
    with suppress(ZeroDivisionError):
        async with world.producer.transaction():
            await world.fill(attempt)
            raise ZeroDivisionError
    attempt.committed = False


async def shared(world: TransactingApplication) -> None:
    attempt = world.attempt()
    async with world.producer.transaction(shared=True):
        assert world.producer.transaction_handle().transactional_id == "me"
        await world.fill(attempt)
    attempt.committed = True


async def with_committed_offsets(world: TransactingApplication) -> None:
    """Before, within, and for what the transaction itself will have changed."""
    attempt = world.attempt()
    assert (await committed_offset(world)) == attempt.number - 1
    await world.producer.begin_transaction()
    assert (await committed_offset(world)) == attempt.number - 1
    await world.fill(attempt)
    beside = asyncio.ensure_future(committed_offset(world))
    try:
        await world.producer.commit_transaction()
        attempt.committed = True
        assert (await beside) == attempt.number
    finally:
        beside.cancel()
        await asyncio.wait([beside])


async def committed_offset(world: TransactingApplication) -> int:
    place = TopicPartition("input", 0)
    return (await world.producer.committed_offsets("readers", [place]))[place].offset


async def with_timeouts(world: TransactingApplication) -> None:
    attempt = world.attempt()
    async with asyncio.timeout(SOON):
        await world.producer.begin_transaction()
        await world.fill(attempt)
        await world.producer.commit_transaction(SOON)
    attempt.committed = True


async def start(world: TransactingApplication) -> None:
    await world.producer.start()


async def life(world: TransactingApplication) -> None:
    async with world.producer:
        await world.block()


async def close_in_a_transaction(world: TransactingApplication) -> None:
    attempt = world.attempt()
    await world.producer.begin_transaction()
    await world.fill(attempt)
    attempt.committed = False
    await world.producer.close()


CONCURRENT, NOT_COORDINATOR, LOADING = 51, 16, 14
CUT, CUT_AFTER = Answer(cut=True), Answer(cut_after_writing=True)
FAULTS: dict[str, dict[int, list[Answer]]] = {
    "no trouble": {},
    "moves": {
        FIND_COORDINATOR: [Answer(LOADING)],
        INIT_PRODUCER_ID: [Answer(NOT_COORDINATOR)],
        ADD_PARTITIONS: [Answer(NOT_COORDINATOR)],
        ADD_OFFSETS: [Answer(NOT_COORDINATOR)],
        COMMIT_OFFSETS: [Answer(NOT_COORDINATOR)],
        OFFSET_FETCH: [Answer(NOT_COORDINATOR)],
        END: [Answer(NOT_COORDINATOR), Answer(CONCURRENT)],
    },
    "cuts": {
        FIND_COORDINATOR: [CUT],
        INIT_PRODUCER_ID: [CUT],
        ADD_PARTITIONS: [CUT, CUT_AFTER],
        ADD_OFFSETS: [CUT_AFTER],
        COMMIT_OFFSETS: [CUT, CUT_AFTER],
        OFFSET_FETCH: [CUT, CUT_AFTER],
        END: [CUT, CUT_AFTER, CUT_AFTER],
    },
}
STARTED: dict[str, Caller] = {
    "block": block,
    "two blocks": two_blocks,
    "by calls": by_calls,
    "aborted": aborted,
    "failing block": failing_block,
    "shared": shared,
    "with timeouts": with_timeouts,
    "with committed offsets": with_committed_offsets,
    "close in a transaction": close_in_a_transaction,
}
UNSTARTED: dict[str, Caller] = {"start": start, "life": life}
CLOSING = (life, close_in_a_transaction)


async def play(
    caller: Caller, version: int, faults: str, loop: SimulatedLoop, *moments: int
) -> bool:
    """Cancel the caller at ``moments``, in steps since its start; whether there was time for it."""
    kafka = FakeKafka(1, {"orders": 2, "input": 1}, transaction_version=version)
    await kafka.start()
    producer = SimulatedProducer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id="me", max_block_ms=20_000
    )
    world = TransactingApplication(kafka, producer)
    is_started = caller in STARTED.values()
    if is_started:
        await producer.start()
        await world.block()
    for api, list_of_faults in FAULTS[faults].items():
        kafka.script[api] = deque(list_of_faults)
    task = loop.create_task(caller(world))
    first = loop.steps
    cancelled = False

    def maybe_cancel() -> None:
        nonlocal cancelled
        if loop.steps - first in moments and not task.done():
            cancelled = task.cancel() or cancelled

    loop.before_step = maybe_cancel
    await asyncio.wait([task])
    loop.before_step = lambda: None
    assert task.cancelled() is cancelled
    if not cancelled:
        task.result()
    if lifecycle_of(producer).closed or caller in CLOSING:
        await producer.close()
        with pytest.raises(ProducerClosedError):
            producer.transaction()
        producer = world.producer = SimulatedProducer(
            bootstrap_servers=kafka.bootstrap_servers, transactional_id="me"
        )
        await producer.start()
    elif not is_started and running_engine(producer) is None:  # cancelled before the first step
        await producer.start()
    async with asyncio.timeout(SOON):
        await world.recover()
        await world.block()
    world.check()
    assert await producer.close() == 0
    await kafka.stop()
    assert [each for each in loop.tasks if not each.done()] == [asyncio.current_task()]
    assert not loop.timers
    return cancelled


def run(caller: Caller, version: int, faults: str, *moments: int) -> bool:
    loop = SimulatedLoop()
    SimulatedNetwork(loop)
    try:
        cancelled = loop.run(play(caller, version, faults, loop, *moments))
    except BaseException as error:
        error.add_note(f"cancelled at the steps {moments}, on a loop with {loop.steps} steps")
        raise
    gc.collect(0)
    assert not loop.complaints
    return cancelled


TROUBLE = [
    (name, version, faults)
    for name in ("block", "by calls", "aborted", "life", "with committed offsets")
    for version, faults in ((1, "moves"), (1, "cuts"), (2, "cuts"))
]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", STARTED | UNSTARTED)
def test_cancelled_at_every_moment(name: str, version: int) -> None:
    cancel_at_every_moment(name, version, "no trouble")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "version", "faults"), TROUBLE)
def test_cancelled_at_some_moments_of_trouble(name: str, version: int, faults: str) -> None:
    cancel_at_every_moment(name, version, faults, step=31)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "version", "faults"), TROUBLE)
def test_cancelled_at_every_moment_of_trouble(name: str, version: int, faults: str) -> None:
    cancel_at_every_moment(name, version, faults)


def cancel_at_every_moment(name: str, version: int, faults: str, step: int = 1) -> None:
    caller = (STARTED | UNSTARTED)[name]
    moment = 0
    while run(caller, version, faults, moment):
        moment += step
    print(f"{moment // step} runs")
    assert moment > 2


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", ["block", "life"])
def test_cancelled_twice(name: str, version: int) -> None:
    caller = (STARTED | UNSTARTED)[name]
    moment = 0
    while run(caller, version, "no trouble", moment, moment + 3):
        moment += 1
