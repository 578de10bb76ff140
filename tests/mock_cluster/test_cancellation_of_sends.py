"""Cancelling a wait takes back what still stands in line, and touches nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from aioproducer import Producer, ProducerRecord, RecordMetadata
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.mock_cluster.started import started
from tests.support.inside import accumulator_of
from tests.support.read_back import values

PATIENCE = 60.0


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, topics={"orders": 2}) as cluster:
        yield cluster


async def test_a_record_that_waits_for_memory_is_taken_out(orders: MockCluster) -> None:
    producer = await started(orders, buffer_memory=8_000, batch_size=1_000)
    orders.set_broker_rtt(ALL_BROKERS, 100)
    futures = [producer.send("orders", b"%d" % n * 900, partition=0) for n in range(8)]
    assert len(accumulator_of(producer).pending) == 2
    futures[6].cancel()
    await producer.flush(PATIENCE)
    assert futures[7].result().offset == 7
    await producer.close()
    assert [v and v[:1] for v in values(orders, "orders", 0)[1:]] == [
        b"%d" % n for n in (*range(6), 7)
    ]


async def test_cancelled_records_leave_their_place_in_a_full_line(orders: MockCluster) -> None:
    producer = await started(orders, buffer_memory=8_000, batch_size=1_000)
    orders.set_broker_down(ALL_BROKERS)
    futures = [producer.send("orders", bytes(900), partition=0) for _ in range(8)]
    for _ in range(20):
        futures.pop().cancel()
        await asyncio.sleep(0)
        futures.append(producer.send("orders", bytes(900), partition=0))
    orders.set_broker_up(ALL_BROKERS)
    await producer.flush(PATIENCE)
    assert [future.result().offset for future in futures] == list(range(1, 9))
    await producer.close()


async def test_a_cancelled_record_does_not_hold_up_flush_and_close(orders: MockCluster) -> None:
    producer = await started(orders)
    orders.set_broker_down(ALL_BROKERS)
    future = producer.send("unknown", b"v")
    flushing = asyncio.create_task(producer.flush())
    await asyncio.sleep(0)
    future.cancel()
    await asyncio.wait_for(flushing, 60)
    producer.send("unknown", b"v").cancel()
    assert await asyncio.wait_for(producer.close(0.3), 60) == 0


class Witness:
    """An interceptor that keeps what it is told."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.acknowledged: list[tuple[RecordMetadata | None, BaseException | None]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent.append(record.value)
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        self.acknowledged.append((metadata, error))


async def test_with_interceptors_a_cancelled_record_in_line_is_not_sent(
    orders: MockCluster,
) -> None:
    witness = Witness()
    orders.set_broker_rtt(ALL_BROKERS, 50)
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, interceptor_classes=[witness]
    ) as producer:
        futures = [producer.send("orders", b"%d" % n, partition=0) for n in range(3)]
        futures[1].cancel()
    assert values(orders, "orders", 0) == [b"0", b"2"]
    assert len(witness.sent) == 3
    errors = [error for _, error in witness.acknowledged if error is not None]
    assert ["cancelled" in str(error) for error in errors] == [True]
    assert len(witness.acknowledged) == 3


async def test_interceptors_hear_of_a_cancelled_record_that_was_sent(orders: MockCluster) -> None:
    witness = Witness()
    producer = await started(orders, interceptor_classes=[witness], linger_ms=2_000)
    del witness.acknowledged[:]
    producer.send("orders", b"v", partition=0).cancel()
    await producer.close()
    ((metadata, error),) = witness.acknowledged
    assert error is None
    assert metadata is not None
    assert metadata.offset == 1


async def test_a_cancelled_send_many_sends_no_more(orders: MockCluster) -> None:
    producer = await started(orders, buffer_memory=8_000, batch_size=1_000)
    orders.set_broker_rtt(ALL_BROKERS, 30)
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"%d" % taken * 200

    task = asyncio.create_task(producer.send_many("orders", endless(), partition=0))
    async with asyncio.timeout(PATIENCE):
        while taken < 30:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    count = taken
    last = await producer.send("orders", b"after", partition=0)
    assert taken == count
    assert last.offset <= count + 1
    await producer.close()


async def test_a_send_many_that_is_cancelled_while_it_waits_for_fates(
    orders: MockCluster,
) -> None:
    producer = await started(orders)
    orders.set_broker_rtt(ALL_BROKERS, 200)
    task = asyncio.create_task(producer.send_many("orders", [b"v"] * 10, partition=0))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await producer.send("orders", b"v", partition=0)).offset == 11
    await producer.close()
