"""``acks=0``: nobody answers, and still nothing is dropped on this side of the socket."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import DeliveryTimeoutError, Producer, ProducerClosedError
from aioproducer.testing.fault_proxy import ApiKey, FaultScript, Rule, Throttle, Way

if TYPE_CHECKING:
    from tests.faults.conftest import StartProxy
    from tests.support.fake_kafka import FakeKafka

PATIENCE = 60.0
VALUE = bytes(100_000)
OPTIONS: dict[str, Any] = {"acks": 0, "buffer_memory": 4_000_000}
DRIP = FaultScript((Rule(Throttle(1), ApiKey.PRODUCE, Way.REQUEST, count=None),))


async def test_close_sends_all_that_is_there(kafka: FakeKafka) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **OPTIONS) as producer:
        for _ in range(200):
            producer.send("orders", VALUE)
            await producer.drain()
    async with asyncio.timeout(PATIENCE):
        await kafka.until(lambda: len(kafka.values("orders")) == 200)


async def test_send_many_knows_partitions_and_no_offsets(kafka: FakeKafka) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **OPTIONS) as producer:
        report = await producer.send_many("orders", [b"v"] * 1_000, partition=0)
    assert (report.delivered, report.failed) == (1_000, 0)
    assert list(report.partitions) == [0] * 1_000
    assert list(report.offsets) == [-1] * 1_000


async def test_memory_is_bounded_while_the_broker_does_not_read(
    kafka: FakeKafka, start_proxy: StartProxy
) -> None:
    proxy = await start_proxy(kafka.servers[1].port, DRIP)
    kafka.advertised[1] = proxy.port
    producer = Producer(bootstrap_servers=proxy.address, **OPTIONS)
    await producer.start()
    await producer.send("orders", b"first")  # so drain() waits for room alone
    futures: list[asyncio.Future[Any]] = []
    draining = asyncio.create_task(producer.drain())
    while draining.done() or not (await asyncio.wait([draining], timeout=2))[1]:
        assert len(futures) < 1_000, "drain() waits for nobody"
        futures.append(producer.send("orders", VALUE))
        draining = asyncio.create_task(producer.drain())
        await asyncio.sleep(0)
    metrics = producer.metrics()["producer-metrics"]
    assert metrics["requests-in-flight"] >= 1
    undelivered = await asyncio.wait_for(producer.close(0.2), PATIENCE)
    await asyncio.gather(draining, return_exceptions=True)
    failed = [future.exception() for future in futures if future.exception() is not None]
    assert len(failed) == undelivered > 0
    assert all(isinstance(error, ProducerClosedError) for error in failed)


async def test_what_does_not_leave_in_time_fails(
    kafka: FakeKafka, start_proxy: StartProxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aioproducer")
    proxy = await start_proxy(kafka.servers[1].port, DRIP)
    kafka.advertised[1] = proxy.port
    options: dict[str, Any] = {
        "acks": 0,
        "buffer_memory": 100_000_000,
        "request_timeout_ms": 500,
        "delivery_timeout_ms": 4_000,
    }
    async with Producer(bootstrap_servers=proxy.address, **options) as producer:
        futures = [producer.send("orders", bytes(900_000)) for _ in range(60)]
        done, _ = await asyncio.wait(futures, timeout=PATIENCE)
        errors = [error for future in done if (error := future.exception()) is not None]
        assert errors
        assert any(isinstance(error, DeliveryTimeoutError) for error in errors)
        # By the moment, and by the first of the connection's requests that is late.
        told = ("did not read a PRODUCE", "did not accept the batch", "did not answer a METADATA")
        assert all(any(each in str(error) for each in told) for error in errors)
    assert "did not read a PRODUCE" in caplog.text
