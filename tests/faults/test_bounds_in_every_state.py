"""However the brokers fall silent: close and flush end in time, deadlines hold, the loop lives."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import (
    BootstrapError,
    BrokerConnectionError,
    DeliveryTimeoutError,
    Producer,
    ProducerClosedError,
    ProducerTimeoutError,
)
from aioproducer.errors import RequestTimeoutError
from aioproducer.testing.fault_proxy import (
    ApiKey,
    BlackHole,
    Delay,
    Fault,
    FaultProxy,
    FaultScript,
    HalfClose,
    Reset,
    Rule,
    Swallow,
    Throttle,
    Way,
)

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka, StartProxy
    from tests.support.fake_kafka import FakeKafka

PATIENCE = 60.0
BOUND = 0.2
SLACK = 10.0
"""Seconds by which a slow machine may miss a bound; what has no bound takes a minute or more."""


def every(fault: Fault, api: ApiKey | None = None, way: Way = Way.RESPONSE) -> Rule:
    return Rule(fault, api, way, count=None)


STATES: dict[str, Rule] = {
    "accepted, and silent": every(BlackHole(), way=Way.CONNECTION),
    "half-open from the start": every(HalfClose(), way=Way.CONNECTION),
    "reset again and again": every(Reset(), way=Way.CONNECTION),
    "mid-handshake": every(Swallow(), ApiKey.API_VERSIONS),
    "no metadata": every(Swallow(), ApiKey.METADATA),
    "no producer id": every(Swallow(), ApiKey.INIT_PRODUCER_ID),
    "no answer to produce": every(Swallow(), ApiKey.PRODUCE),
    "produce requests lost": every(Swallow(), ApiKey.PRODUCE, Way.REQUEST),
    "half-closed before the answer": every(HalfClose(0), ApiKey.PRODUCE),
    "reset amid each answer": every(Reset(7), ApiKey.PRODUCE),
    "a black hole at the first record": every(BlackHole(), ApiKey.PRODUCE, Way.REQUEST),
    "answers drip": every(Throttle(1), ApiKey.PRODUCE),
    "answers are late": every(Delay(90), ApiKey.PRODUCE),
}


@pytest.fixture(params=list(STATES.values()), ids=list(STATES))
async def proxy(
    request: pytest.FixtureRequest, kafka: FakeKafka, start_proxy: StartProxy
) -> FaultProxy:
    """Before the only broker, which never acknowledges a record."""
    proxy = await start_proxy(kafka.servers[1].port, FaultScript((request.param,)))
    kafka.advertised[1] = proxy.port
    return proxy


async def within_its_bound(call: Callable[[float], Any]) -> Any:
    began = time.monotonic()
    try:
        return await asyncio.wait_for(call(BOUND), PATIENCE)
    finally:
        assert time.monotonic() - began < BOUND + SLACK


async def test_close_and_flush_end_in_time(
    proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer(bootstrap_servers=proxy.address, retry_backoff_ms=10)
    await producer.start()
    futures = [producer.send("orders", b"%d" % number) for number in range(3)]
    with pytest.raises(ProducerTimeoutError, match=r"flush\(\)"):
        await within_its_bound(producer.flush)
    assert not any(future.done() for future in futures)
    assert await within_its_bound(producer.close) == 3
    assert all(isinstance(future.exception(), ProducerClosedError) for future in futures)
    assert "was closed with 3 records undelivered" in caplog.text


async def test_every_record_has_its_fate_by_its_deadline(proxy: FaultProxy) -> None:
    options: dict[str, Any] = {
        "retry_backoff_ms": 10,
        "request_timeout_ms": 100,
        "delivery_timeout_ms": 300,
        "max_block_ms": 300,
    }
    async with Producer(bootstrap_servers=proxy.address, **options) as producer:
        began = time.monotonic()
        futures = [producer.send("orders", b"%d" % number) for number in range(3)]
        done, late = await asyncio.wait(futures, timeout=SLACK)
        assert not late
        assert time.monotonic() - began >= 0.3
        # what the last attempt met goes before the deadline, if that is over when it is seen
        kinds = (DeliveryTimeoutError, BootstrapError, RequestTimeoutError, BrokerConnectionError)
        assert all(isinstance(future.exception(), kinds) for future in done)


@pytest.mark.parametrize(("topic", "records"), [("orders", 8), ("unknown", 2)])
async def test_the_delivery_timeout_holds_in_the_line_too(
    kafka: FakeKafka, topic: str, records: int
) -> None:
    options: dict[str, Any] = {"delivery_timeout_ms": 3_000, "request_timeout_ms": 2_000}
    options |= {"buffer_memory": 8_000, "batch_size": 1_000, "max_block_ms": 60_000}
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
        await producer.send("orders", b"first")
        kafka.mute.add(ApiKey.PRODUCE)
        began = time.monotonic()
        futures = [producer.send(topic, bytes(800)) for _ in range(records)]
        await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), PATIENCE)
        assert 3 <= time.monotonic() - began < 3 + SLACK
        errors = [future.exception() for future in futures]
        assert all(isinstance(error, TimeoutError) for error in errors)
        assert {"delivery_timeout_ms" in str(error) for error in errors} == {True}


async def test_ten_thousand_tasks_wait_when_every_broker_dies(start_kafka: StartKafka) -> None:
    kafka = await start_kafka(3, {"orders": 6})
    options: dict[str, Any] = {"request_timeout_ms": 3_000, "delivery_timeout_ms": 6_000}
    slowest_turn = 0.0

    async def send(producer: Producer, number: int) -> float:
        began = time.monotonic()
        with pytest.raises(DeliveryTimeoutError, match="orders-") as raised:
            await producer.send("orders", b"%d" % number, partition=number % 6)
        assert raised.value.may_have_been_written is (number % 2 == 0)
        return time.monotonic() - began

    async def feel_the_pulse() -> None:
        nonlocal slowest_turn
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.001)
            slowest_turn = max(slowest_turn, time.monotonic() - began)

    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
        for partition in range(6):
            await producer.send("orders", b"first", partition=partition)
        kafka.mute.add(ApiKey.PRODUCE)
        tasks = [asyncio.create_task(send(producer, number)) for number in range(0, 10_000, 2)]
        # three partitions, a full batch each and one that lingers: all of them are on their way
        await kafka.until_received(ApiKey.PRODUCE, 6 + 2 * 3)
        for server in kafka.servers.values():
            await server.stop()
        pulse = asyncio.create_task(feel_the_pulse())
        tasks += [asyncio.create_task(send(producer, number)) for number in range(1, 10_000, 2)]
        waited = await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
        pulse.cancel()
        assert max(waited) < 6 + SLACK
        assert slowest_turn < SLACK
        metrics = producer.metrics()["producer-metrics"]
        assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]
        kafka.mute.clear()
        for server in kafka.servers.values():
            await server.start()
        await asyncio.wait_for(producer.send("orders", b"again"), PATIENCE)


async def test_a_name_that_gets_another_address(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker moves to another machine under its name, as they do in Kubernetes."""
    address = "127.0.0.1"
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *others: Any, **options: Any) -> list[tuple[Any, ...]]:
        if host != b"kafka.test":
            return real(host, port, *others, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    kafka.host = "kafka.test"
    server = kafka.servers[1]
    options: dict[str, Any] = {"retry_backoff_ms": 10, "reconnect_backoff_ms": 10}
    async with Producer(bootstrap_servers=f"kafka.test:{server.port}", **options) as producer:
        await producer.send("orders", b"0")
        await server.stop()
        server.host = address = "127.0.0.2"
        await server.start()
        assert (await asyncio.wait_for(producer.send("orders", b"1"), PATIENCE)).offset == 1
    assert kafka.values("orders") == [b"0", b"1"]
