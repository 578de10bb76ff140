"""``buffer_memory`` is the bound: who waits for it, who is served, who is refused."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from aioproducer import BufferExhaustedError, MetadataTimeoutError, Producer, RecordMetadata
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.mock_cluster.started import started
from tests.support.inside import accumulator_of

PATIENCE = 60.0


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, topics={"orders": 2}) as cluster:
        yield cluster


async def with_little_memory(cluster: MockCluster, **options: Any) -> Producer:
    """A producer with 6 batches of 1000 bytes and 2000 bytes of pending records."""
    small: dict[str, Any] = {"buffer_memory": 8_000, "batch_size": 1_000}
    return await started(cluster, **small | options)


def fill(producer: Producer, partition: int = 0) -> list[asyncio.Future[RecordMetadata]]:
    """Send records that take a batch each until one has to wait; all their futures."""
    futures: list[asyncio.Future[RecordMetadata]] = []
    while not accumulator_of(producer).pending:
        futures.append(producer.send("orders", bytes(900), partition=partition))
    return futures


async def test_records_wait_in_line_and_are_sent_then(orders: MockCluster) -> None:
    producer = await with_little_memory(orders)
    orders.set_broker_rtt(ALL_BROKERS, 300)
    futures = fill(producer)
    futures.append(producer.send("orders", bytes(900), partition=0))
    assert len(futures) == 8
    sent = await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
    assert [each.offset for each in sent] == list(range(1, 9))
    await producer.close()


async def test_memory_stays_within_its_bound(orders: MockCluster) -> None:
    producer = await with_little_memory(orders)
    orders.set_broker_rtt(ALL_BROKERS, 20)
    lowest = 8_000.0
    futures: list[asyncio.Future[RecordMetadata]] = []
    for number in range(300):
        futures.append(producer.send("orders", bytes(number % 900), partition=number % 2))
        lowest = min(lowest, producer.metrics()["producer-metrics"]["buffer-available-bytes"])
        await producer.drain()
    await producer.flush(PATIENCE)
    assert all(future.done() and not future.exception() for future in futures)
    assert 0 <= lowest <= 2_000
    metrics = producer.metrics()["producer-metrics"]
    assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"] == 8_000
    await producer.close()


async def test_drain_waits_and_then_goes_on(orders: MockCluster) -> None:
    producer = await with_little_memory(orders)
    await asyncio.wait_for(producer.drain(), PATIENCE)
    orders.set_broker_down(ALL_BROKERS)
    futures = fill(producer)
    draining = asyncio.create_task(producer.drain())
    done, _ = await asyncio.wait([draining], timeout=0.1)
    assert not done
    orders.set_broker_up(ALL_BROKERS)
    await asyncio.wait_for(draining, PATIENCE)
    assert futures[0].done()
    await producer.close()


async def test_no_memory_within_max_block_is_in_the_future(orders: MockCluster) -> None:
    producer = await with_little_memory(orders, max_block_ms=2_000)
    orders.set_broker_down(ALL_BROKERS)
    futures = fill(producer)
    with pytest.raises(BufferExhaustedError, match=r"'orders'.*max_block_ms.*drain\(\)") as raised:
        await asyncio.wait_for(asyncio.shield(futures[-1]), PATIENCE)
    assert isinstance(raised.value, TimeoutError)
    assert not any(future.done() for future in futures[:-1])
    metrics = producer.metrics()["producer-metrics"]
    assert metrics["buffer-exhausted-total"] == 1.0
    assert metrics["record-error-total"] == 1.0
    orders.set_broker_up(ALL_BROKERS)
    await asyncio.wait_for(asyncio.gather(*futures[:-1]), PATIENCE)
    await producer.close()


async def test_a_full_line_is_an_error_at_the_call(orders: MockCluster) -> None:
    producer = await with_little_memory(orders)
    orders.set_broker_rtt(ALL_BROKERS, 200)
    futures = fill(producer)
    with pytest.raises(BufferExhaustedError, match=r"await producer.drain\(\)"):  # noqa: PT012
        for _ in range(10):
            futures.append(producer.send("orders", bytes(900), partition=0))
    assert len(futures) < 12
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*futures)
        await producer.drain()
    assert (await producer.send("orders", bytes(900), partition=0)).offset == len(futures) + 1
    await producer.close()


async def test_drain_ends_when_the_line_empties_by_timeout(orders: MockCluster) -> None:
    # nothing was ever in the pool, so no memory comes back to end the wait
    producer = await with_little_memory(orders, max_block_ms=2_000)
    orders.set_broker_down(ALL_BROKERS)
    futures: list[asyncio.Future[RecordMetadata]] = []

    async def send_and_drain() -> None:
        futures.extend(producer.send("unknown", bytes(400)) for _ in range(3))
        await producer.drain()

    draining = asyncio.create_task(send_and_drain())
    done, _ = await asyncio.wait([draining], timeout=0.05)
    assert not done
    await asyncio.wait_for(draining, PATIENCE)
    # there is room as soon as the first is gone; the others are sent some µs later, and go later
    assert isinstance(futures[0].exception(), MetadataTimeoutError)
    outcomes = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), PATIENCE)
    assert [type(outcome) for outcome in outcomes] == [MetadataTimeoutError] * 3
    await producer.close(0)


async def test_drain_ends_when_the_topic_becomes_known(orders: MockCluster) -> None:
    orders.set_broker_rtt(ALL_BROKERS, 50)
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, buffer_memory=8_000, batch_size=1_000
    ) as producer:
        futures = []
        for _ in range(40):
            futures.append(producer.send("orders", bytes(400)))
            await asyncio.wait_for(producer.drain(), PATIENCE)
    assert all(future.result().topic == "orders" for future in futures)


async def test_a_dead_partition_with_few_records_costs_the_others_little(
    orders: MockCluster,
) -> None:
    producer = await with_little_memory(orders)
    orders.set_broker_down(2)
    dead = [producer.send("orders", bytes(900), partition=1) for _ in range(3)]
    for number in range(200):
        assert (
            await asyncio.wait_for(producer.send("orders", bytes(900), partition=0), PATIENCE)
        ).offset == number + 1
    assert not any(future.done() for future in dead)
    orders.set_broker_up(2)
    await asyncio.wait_for(asyncio.gather(*dead), PATIENCE)
    await producer.close()


@pytest.mark.parametrize("drains", [True, False])
async def test_a_dead_partition_with_many_records_does_not_starve_the_others(
    orders: MockCluster, drains: bool
) -> None:
    producer = await with_little_memory(orders, buffer_memory=80_000)
    orders.set_broker_down(2)
    dead: list[asyncio.Future[RecordMetadata]] = []

    async def write_to_the_dead_one() -> None:
        while True:
            with suppress(BufferExhaustedError):
                dead.append(producer.send("orders", bytes(900), partition=1))
            await (producer.drain() if drains else asyncio.sleep(0.001))

    while not accumulator_of(producer).waiters.is_full:
        dead.append(producer.send("orders", bytes(900), partition=1))
    writer = asyncio.create_task(write_to_the_dead_one())
    for number in range(200):
        live = producer.send("orders", bytes(900), partition=0)
        assert (await asyncio.wait_for(live, PATIENCE)).offset == number + 1
    assert len(dead) > 40
    assert not any(future.done() for future in dead)
    writer.cancel()
    orders.set_broker_up(2)
    await asyncio.wait_for(asyncio.gather(*dead), PATIENCE)
    await producer.close()


async def test_drain_does_not_wait_for_a_broker_that_is_stuck(orders: MockCluster) -> None:
    producer = await with_little_memory(orders, buffer_memory=80_000)
    orders.set_broker_down(2)
    while not accumulator_of(producer).waiters.is_full:
        producer.send("orders", bytes(900), partition=1)
    for number in range(100):
        await asyncio.wait_for(producer.drain(), PATIENCE)
        live = producer.send("orders", bytes(900), partition=0)
        assert (await asyncio.wait_for(live, PATIENCE)).offset == number + 1
    await producer.close(0)


async def test_a_burst_to_an_unknown_topic_may_use_what_no_batch_uses(
    mock_cluster: MockCluster,
) -> None:
    mock_cluster.create_topic("burst", 3)
    async with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        futures = [producer.send("burst", bytes(1_000)) for _ in range(20_000)]
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)


# --- drain is fair ------------------------------------------------------------------------------


async def test_a_thousand_tasks_get_their_turn_in_order(orders: MockCluster) -> None:
    producer = await with_little_memory(orders)
    orders.set_broker_rtt(ALL_BROKERS, 1)
    order: list[int] = []

    async def write(number: int) -> RecordMetadata:
        await producer.drain()
        order.append(number)
        return await producer.send("orders", b"%04d" % number * 200, partition=0)

    blocking = fill(producer)
    tasks = [asyncio.create_task(write(number)) for number in range(1000)]
    sent = await asyncio.wait_for(asyncio.gather(*tasks), 4 * PATIENCE)
    assert order == list(range(1000))
    assert len({each.offset for each in sent}) == 1000
    await asyncio.gather(*blocking)
    await producer.close()


async def test_each_release_wakes_only_those_it_can_serve(orders: MockCluster) -> None:
    """No herd: of a thousand who wait, a release of one batch lets about one go on."""
    producer = await with_little_memory(orders)
    blocking = fill(producer)
    awake = 0

    async def wait_and_send() -> None:
        nonlocal awake
        await producer.drain()
        awake += 1
        future = producer.send("orders", bytes(900), partition=0)
        awake -= 1 if future.done() else 0
        line.append(len(accumulator_of(producer).pending))
        await future

    line: list[int] = []
    tasks = [asyncio.create_task(wait_and_send()) for _ in range(1000)]
    await asyncio.wait_for(asyncio.gather(*tasks), 4 * PATIENCE)
    assert max(line) <= 2  # woken all at once, they would queue up in the line (or be refused)
    await asyncio.gather(*blocking)
    await producer.close()


async def test_cancelled_drains_do_not_swallow_the_turn_of_others(orders: MockCluster) -> None:
    producer = await with_little_memory(orders)
    orders.set_broker_down(ALL_BROKERS)
    blocking = fill(producer)
    drains = [asyncio.create_task(producer.drain()) for _ in range(100)]
    await asyncio.sleep(0)
    for task in drains[:99]:
        task.cancel()
    orders.set_broker_up(ALL_BROKERS)
    await asyncio.wait_for(drains[99], PATIENCE)
    await asyncio.wait_for(asyncio.gather(*blocking), PATIENCE)
    await producer.close()


async def test_nothing_of_the_records_is_kept(orders: MockCluster) -> None:
    producer = await with_little_memory(orders, max_block_ms=2_000)
    gone = [weakref.ref(producer.send("orders", b"v", partition=0)) for _ in range(50)]
    await producer.flush(PATIENCE)
    orders.set_broker_down(ALL_BROKERS)
    gone += [weakref.ref(producer.send("unknown", b"v")) for _ in range(20)]
    await producer.flush(PATIENCE)
    gc.collect()
    assert [n for n, each in enumerate(gone) if each() is not None] == []
    await producer.close(0)
