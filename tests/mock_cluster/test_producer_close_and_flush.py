"""``flush()`` and ``drain()`` wait for what they name; ``close()`` ends within its bound."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator

import pytest

from aioproducer import (
    DeliveryTimeoutError,
    Producer,
    ProducerClosedError,
    UsageError,
)
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.mock_cluster.started import started
from tests.support.inside import all_tasks

PRODUCE, METADATA = 0, 3
NOT_LEADER = 6
PATIENCE = 60.0
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, topics={"orders": 2}) as cluster:
        yield cluster


# --- flush --------------------------------------------------------------------------------------


async def test_flush_does_not_wait_for_later_records(orders: MockCluster) -> None:
    producer = await started(orders)
    orders.push_broker_request_errors(1, PRODUCE, (0, 0))
    before = producer.send("orders", b"before", partition=0)
    flushing = asyncio.create_task(producer.flush(PATIENCE))
    await asyncio.sleep(0)
    orders.set_broker_down(2)
    later = producer.send("orders", b"later", partition=1)
    await flushing
    assert before.done()
    assert not later.done()
    orders.set_broker_up(2)
    assert await producer.close(PATIENCE) == 0
    assert later.done()


async def test_flush_sends_what_lingers_and_leaves_the_linger_as_it_was(
    orders: MockCluster,
) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000
    ) as producer:
        first = producer.send("orders", b"v", partition=0)
        await producer.flush(PATIENCE)
        assert first.done()
        orders.start_request_tracking()
        second = producer.send("orders", b"v", partition=0)
        await asyncio.sleep(0.05)
        assert [request for request in orders.requests() if request.api_key == PRODUCE] == []
        await producer.flush(PATIENCE)
        assert second.done()


async def test_flush_of_nothing_and_many_flushes_at_once(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.flush(0.5)
        future = producer.send("orders", b"v")
        await asyncio.gather(*(producer.flush(PATIENCE) for _ in range(50)))
        assert future.done()
        await producer.flush(0.5)


async def test_cancelling_a_flush_leaves_the_records(orders: MockCluster) -> None:
    producer = await started(orders, linger_ms=30_000, delivery_timeout_ms=90_000)
    future = producer.send("orders", b"v", partition=0)
    flushing = asyncio.create_task(producer.flush())
    other = asyncio.create_task(producer.flush(PATIENCE))
    await asyncio.sleep(0)
    flushing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flushing
    await other
    assert future.result().topic == "orders"
    await producer.close()


# --- close in every state -----------------------------------------------------------------------


async def close_within(producer: Producer, timeout: float | None, bound: float) -> int:
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE):
        undelivered = await producer.close(timeout)
    assert time.monotonic() - began < bound
    return undelivered


async def test_close_before_start() -> None:
    producer = Producer(bootstrap_servers=NOWHERE)
    assert await close_within(producer, None, 5) == 0
    assert await close_within(producer, 0, 5) == 0
    with pytest.raises(ProducerClosedError):
        producer.send("orders", b"v")


async def test_close_delivers_what_is_there(orders: MockCluster) -> None:
    producer = Producer(
        bootstrap_servers=orders.bootstrap_servers,
        linger_ms=30_000,
        buffer_memory=40_000,
        batch_size=1000,
    )
    await producer.start()
    futures = [producer.send("orders", b"%d" % number) for number in range(100)]
    assert await close_within(producer, None, PATIENCE) == 0
    assert all(future.result().topic == "orders" for future in futures)


@pytest.mark.parametrize("timeout", [0, 0.2])
async def test_close_with_every_broker_down(
    orders: MockCluster, timeout: float, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await started(orders, client_id="shop")
    orders.set_broker_down(ALL_BROKERS)
    futures = [producer.send("orders", b"v", partition=n % 2) for n in range(10)]
    futures.append(producer.send("unknown", b"v"))
    assert await close_within(producer, timeout, timeout + 5) == 11
    places = [f"orders-{n % 2}" for n in range(10)] + ["unknown"]
    for place, future in zip(places, futures, strict=True):
        what = f"^{place}: .* before this record was delivered .* give close\\(\\) more time"
        with pytest.raises(ProducerClosedError, match=what) as raised:
            future.result()
        assert isinstance(raised.value, UsageError)
    assert len({id(future.exception()) for future in futures}) == 3
    assert "[shop] The producer was closed with 11 records undelivered" in caplog.text


async def test_close_when_nothing_ever_answered() -> None:
    producer = Producer(bootstrap_servers=NOWHERE)
    await producer.start()
    future = producer.send("orders", b"v")
    await asyncio.sleep(0.01)
    assert await close_within(producer, 0.1, 5) == 1
    assert isinstance(future.exception(), ProducerClosedError)


async def test_close_amid_retries(orders: MockCluster) -> None:
    producer = await started(orders)
    orders.push_request_errors(PRODUCE, *[NOT_LEADER] * 100)
    orders.start_request_tracking()
    future = producer.send("orders", b"v", partition=0)
    async with asyncio.timeout(PATIENCE):
        while sum(request.api_key == PRODUCE for request in orders.requests()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert await close_within(producer, 0.2, 5) == 1
    assert isinstance(future.exception(), ProducerClosedError)


async def test_close_while_a_broker_is_slow(orders: MockCluster) -> None:
    producer = await started(orders)
    orders.set_broker_rtt(ALL_BROKERS, 30_000)
    future = producer.send("orders", b"v", partition=0)
    assert await close_within(producer, 0.2, 5) == 1
    assert isinstance(future.exception(), ProducerClosedError)


async def test_close_with_records_that_wait_for_memory(orders: MockCluster) -> None:
    producer = await started(orders, buffer_memory=8_000, batch_size=1_000)
    orders.set_broker_rtt(ALL_BROKERS, 30_000)
    futures = [producer.send("orders", bytes(800), partition=0) for _ in range(8)]
    draining = asyncio.create_task(producer.drain())
    await asyncio.sleep(0)
    assert await close_within(producer, 0.1, 5) == 8
    assert all(isinstance(future.exception(), ProducerClosedError) for future in futures)
    with pytest.raises(ProducerClosedError):
        await draining


async def test_close_twice_and_at_the_same_time(orders: MockCluster) -> None:
    producer = await started(orders)
    future = producer.send("orders", b"v")
    results = await asyncio.gather(*(producer.close() for _ in range(5)))
    assert results == [0] * 5
    assert future.result().topic == "orders"
    assert await close_within(producer, None, 5) == 0


async def test_a_second_close_has_its_own_bound(orders: MockCluster) -> None:
    producer = await started(orders)
    orders.set_broker_down(ALL_BROKERS)
    future = producer.send("orders", b"v", partition=0)
    patient = asyncio.create_task(producer.close())
    await asyncio.sleep(0)
    assert await close_within(producer, 0.1, 5) == 1
    assert isinstance(future.exception(), ProducerClosedError)
    assert await asyncio.wait_for(patient, 60) == 1


async def test_a_cancelled_close_gives_up_the_rest(orders: MockCluster) -> None:
    producer = await started(orders)
    orders.set_broker_down(ALL_BROKERS)
    future = producer.send("orders", b"v", partition=0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await producer.close()
    with pytest.raises(ProducerClosedError):
        await asyncio.wait_for(future, 60)
    # and nobody else is cancelled with it
    assert await close_within(producer, 0.1, 5) == 1


async def test_cancelling_one_close_does_not_cancel_another(orders: MockCluster) -> None:
    producer = await started(orders)
    orders.set_broker_down(ALL_BROKERS)
    producer.send("orders", b"v", partition=0)
    one = asyncio.create_task(producer.close())
    other = asyncio.create_task(producer.close())
    await asyncio.sleep(0.01)
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    orders.set_broker_up(ALL_BROKERS)
    assert await asyncio.wait_for(other, PATIENCE) in (0, 1)


async def test_a_flush_under_way_ends_when_the_producer_is_closed(orders: MockCluster) -> None:
    producer = await started(orders)
    orders.set_broker_down(ALL_BROKERS)
    future = producer.send("orders", b"v", partition=0)
    flushing = asyncio.create_task(producer.flush())
    await asyncio.sleep(0)
    assert await close_within(producer, 0, 5) == 1
    await asyncio.wait_for(flushing, 60)
    assert isinstance(future.exception(), ProducerClosedError)


async def test_delivery_timeout_bounds_a_close_without_timeout(orders: MockCluster) -> None:
    producer = await started(orders, request_timeout_ms=1_000, delivery_timeout_ms=2_000)
    orders.set_broker_down(ALL_BROKERS)
    future = producer.send("orders", b"v", partition=0)
    await close_within(producer, None, 2 + 5)
    assert isinstance(future.exception(), DeliveryTimeoutError | ProducerClosedError)


# --- async with ---------------------------------------------------------------------------------


async def test_leaving_by_cancellation_still_flushes(orders: MockCluster) -> None:
    futures = []
    inside = asyncio.Event()

    async def work() -> None:
        async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
            futures.append(producer.send("orders", b"v"))
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert futures[0].result().topic == "orders"


async def test_nothing_is_left_behind(
    orders: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    before = all_tasks()
    for _ in range(3):
        producer = await started(orders)
        producer.send("orders", b"v")
        await producer.close()
    assert all_tasks() == before
    assert caplog.records == []


@pytest.mark.mock_cluster
async def test_drain_goes_on_when_the_topic_becomes_known(mock_cluster: MockCluster) -> None:
    """The line is crowded with records that wait for metadata, not for memory."""
    mock_cluster.create_topic("orders", 4)
    async with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        futures = []

        async def send_all() -> None:
            for number in range(60_000):
                futures.append(producer.send("orders", b"%d" % number))
                await producer.drain()

        await asyncio.wait_for(send_all(), PATIENCE)
        await asyncio.wait_for(producer.flush(), PATIENCE)
        assert all(future.done() and future.exception() is None for future in futures)


@pytest.mark.mock_cluster
async def test_nothing_lingers_while_somebody_waits_in_drain(mock_cluster: MockCluster) -> None:
    """Four open batches hold all memory, and none of them would leave for an hour."""
    mock_cluster.create_topic("orders", 4)
    async with Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers,
        linger_ms=3_600_000,
        delivery_timeout_ms=7_200_000,
        batch_size=1_000,
        buffer_memory=5_400,
    ) as producer:
        first = producer.send("orders", b"to know the topic", partition=0)
        await asyncio.wait_for(producer.flush(), PATIENCE)
        assert first.done()
        for partition in range(4):
            producer.send("orders", b"v", partition=partition)
        await asyncio.wait_for(producer.drain(), PATIENCE)
