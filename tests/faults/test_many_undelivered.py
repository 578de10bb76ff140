"""Many futures that all fail at once are told in slices, and others have their turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import Producer, ProducerBrokenError, ProducerClosedError
from aioproducer.engine.sender.refresher import MetadataRefresher
from aioproducer.errors import BufferExhaustedError, DeliveryTimeoutError, MetadataTimeoutError
from aioproducer.foundation import tuning
from aioproducer.foundation.tuning import RECORDS_PER_SLICE
from tests.support.inside import all_tasks

if TYPE_CHECKING:
    from tests.support.fake_kafka import FakeKafka

PRODUCE = 0
PATIENCE = 60.0
MANY = 2_000
SLICE = 50
BATCH = 10
"""Records in a batch."""


class Heartbeat:
    """Looks in each turn of the loop how many futures were told since the one before."""

    def __init__(self, futures: list[asyncio.Future[Any]]) -> None:
        self.futures = futures
        self.told = 0
        self.most_at_once = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0)
            told = self.told
            # They fail in the order of their batches, and the line behind them.
            while told < len(self.futures) and self.futures[told].done():
                told += 1
            self.most_at_once = max(self.most_at_once, told - self.told)
            self.told = told


@asynccontextmanager
async def watched(futures: list[asyncio.Future[Any]]) -> AsyncIterator[Heartbeat]:
    heart = Heartbeat(futures)
    beating = asyncio.create_task(heart.run())
    await asyncio.sleep(0)
    try:
        yield heart
    finally:
        beating.cancel()


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "slow" not in request.keywords:
        monkeypatch.setattr(tuning, "RECORDS_PER_SLICE", SLICE)


OPTIONS: Any = {"batch_size": BATCH * 50 + 100, "linger_ms": 0}


WAITING_FOR_A_RETRY: Any = {
    "delivery_timeout_ms": 1_000,
    "request_timeout_ms": 200,
    "retry_backoff_ms": 10_000,
    "retry_backoff_max_ms": 10_000,
}
"""No request is in flight when the batches expire: its own timeout would be another error."""


async def send_after_mute(
    kafka: FakeKafka, producer: Producer, topic: str
) -> list[asyncio.Future[Any]]:
    """Records that no broker takes."""
    await producer.send("orders", b"the first")
    kafka.mute.add(PRODUCE)
    return [producer.send(topic, b"x" * 40, partition=0) for _ in range(MANY)]


@pytest.mark.parametrize("topic", ["orders", "unknown"], ids=["in batches", "in line"])
async def test_closed(kafka: FakeKafka, topic: str) -> None:
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers, **OPTIONS)
    await producer.start()
    futures = await send_after_mute(kafka, producer, topic)
    async with watched(futures) as heart:
        assert await asyncio.wait_for(producer.close(0), PATIENCE) == MANY
        await asyncio.sleep(0)
    assert heart.told == MANY
    assert heart.most_at_once <= SLICE + 2 * BATCH
    assert {type(future.exception()) for future in futures} == {ProducerClosedError}


def explode(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("closes", [False, True], ids=["", "closed meanwhile"])
@pytest.mark.parametrize("topic", ["orders", "unknown"], ids=["in batches", "in line"])
async def test_broken(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch, topic: str, closes: bool
) -> None:
    producer = Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        request_timeout_ms=1_000,  # then metadata is asked for
        **OPTIONS,
    )
    await producer.start()
    futures = await send_after_mute(kafka, producer, topic)
    monkeypatch.setattr(MetadataRefresher, "step", explode)
    async with watched(futures) as heart:
        await asyncio.wait(futures[:1], timeout=PATIENCE)
        if closes:
            await asyncio.wait_for(producer.close(0), PATIENCE)
        await asyncio.wait(futures, timeout=PATIENCE)
        await asyncio.sleep(0)
    assert heart.told == MANY
    assert heart.most_at_once <= (2 if closes else 1) * (SLICE + 2 * BATCH)
    kinds = {type(future.exception()) for future in futures}
    assert kinds <= {ProducerBrokenError, ProducerClosedError}
    assert ProducerBrokenError in kinds
    await producer.close()


async def test_broken_by_the_loops_end_they_are_told_at_once(kafka: FakeKafka) -> None:
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers, **OPTIONS)
    await producer.start()
    futures = await send_after_mute(kafka, producer, "orders")
    (task,) = (each for each in all_tasks() if each.get_name() == "aioproducer-sender")
    task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert all(future.done() for future in futures)
    await producer.close()


@pytest.mark.parametrize(
    ("topic", "options", "errors"),
    [
        ("orders", WAITING_FOR_A_RETRY, {DeliveryTimeoutError}),
        ("unknown", {"max_block_ms": 300}, {MetadataTimeoutError, BufferExhaustedError}),
    ],
    ids=["in batches", "in line"],
)
async def test_expired(
    kafka: FakeKafka, topic: str, options: dict[str, Any], errors: set[type[BaseException]]
) -> None:
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers, **OPTIONS, **options)
    await producer.start()
    futures = await send_after_mute(kafka, producer, topic)
    async with watched(futures) as heart:
        await asyncio.wait(futures, timeout=PATIENCE)
        await asyncio.sleep(0)
    assert heart.told == MANY
    # The sender has its turn before the heart in one round of the loop, and after it in another.
    assert heart.most_at_once <= 2 * (SLICE + BATCH)
    assert {type(future.exception()) for future in futures} <= errors
    await producer.close(0)


async def test_a_close_that_is_cancelled_tells_the_rest_at_once(kafka: FakeKafka) -> None:
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers, **OPTIONS)
    await producer.start()
    futures = await send_after_mute(kafka, producer, "orders")
    closing = asyncio.create_task(producer.close(0))
    await asyncio.wait(futures, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    (inner,) = (each for each in all_tasks() if each.get_name() == "aioproducer-close")
    inner.cancel()
    await asyncio.wait([closing, inner], timeout=PATIENCE)
    assert all(future.done() for future in futures)


@pytest.mark.slow
async def test_a_million(kafka: FakeKafka) -> None:
    """``close(2)`` takes 2.5 s at most where the machine tells a million futures within 1 s."""
    count = 1_000_000
    before = told_by_hand(count)
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=500_000_000)
    await producer.start()
    await producer.send("orders", b"the first")
    kafka.mute.add(PRODUCE)
    futures = [producer.send("orders", b"0123456789") for _ in range(count)]
    async with watched(futures) as heart:
        began = perf_counter()
        assert await producer.close(2) == count
        took = perf_counter() - began
        await asyncio.sleep(0)
    assert heart.told == count
    assert heart.most_at_once <= 3 * RECORDS_PER_SLICE
    by_hand = max(before, told_by_hand(count))  # others may use the machine now and then
    assert took <= 2.5 or by_hand > 1.0, f"{took} s; by hand {by_hand} s"


def told_by_hand(count: int) -> float:
    """Seconds that so many futures take without a producer, by a tenth of them."""
    loop = asyncio.get_running_loop()
    plain: list[asyncio.Future[Any]] = [loop.create_future() for _ in range(count // 10)]
    began = perf_counter()
    for future in plain:
        future.set_exception(ValueError())
        future.exception()
    return (perf_counter() - began) * 10
