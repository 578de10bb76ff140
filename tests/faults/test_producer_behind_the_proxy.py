"""Whatever the proxy does, a record is in the log once, or its error tells the truth."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import DeliveryTimeoutError, Producer, ProducerError
from aioproducer.testing.fault_proxy import (
    ANYWHERE,
    END,
    ApiKey,
    BlackHole,
    ClaimLength,
    Corrupt,
    Cut,
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
QUICK: dict[str, Any] = {
    "retry_backoff_ms": 2,
    "retry_backoff_max_ms": 10,
    "reconnect_backoff_ms": 2,
    "reconnect_backoff_max_ms": 10,
    "request_timeout_ms": 100,
    "delivery_timeout_ms": 10_000,
    "max_block_ms": 10_000,
}
PRODUCE = ApiKey.PRODUCE
REQUEST, RESPONSE, CONNECTION = Way.REQUEST, Way.RESPONSE, Way.CONNECTION

PLAIN = (ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID)
OF_TRANSACTIONS = tuple(api for api in ApiKey if api not in PLAIN)

FAULTS: dict[str, Fault] = {
    "cut before": Cut(0),
    "cut in the length": Cut(2),
    "cut in the header": Cut(6),
    "cut inside": Cut(20),
    "cut after": Cut(END),
    "reset before": Reset(0),
    "reset inside": Reset(20),
    "reset after": Reset(END),
    "delayed": Delay(0.05),
    "delayed inside": Delay(0.05, at=10),
    "delayed for too long": Delay(0.25),
    "throttled": Throttle(2_000),
    "half-closed before": HalfClose(0),
    "half-closed after": HalfClose(END),
    "black hole": BlackHole(),
    "left out": Swallow(),
    "giant length": ClaimLength(),
    "negative length": ClaimLength(-1),
    "zero length": ClaimLength(0),
}
RESPONSE_FAULTS = FAULTS | {
    "wrong correlation id": Corrupt(4),
    "length of four billion": Corrupt(0),
}


async def proxied(kafka: FakeKafka, start_proxy: StartProxy, *rules: Rule) -> FaultProxy:
    proxy = await start_proxy(kafka.servers[1].port, FaultScript(rules, seed=5))
    kafka.advertised[1] = proxy.port
    return proxy


async def deliver(kafka: FakeKafka, proxy: FaultProxy, records: int = 6) -> None:
    async with Producer(bootstrap_servers=proxy.address, **QUICK) as producer:
        for number in range(records):
            sent = await asyncio.wait_for(producer.send("orders", b"%d" % number), PATIENCE)
            assert sent.offset == number
    assert kafka.values("orders") == [b"%d" % number for number in range(records)]


async def counted(proxy: FaultProxy, fault: Fault) -> None:
    """What is delayed or throttled may still be on its way when the records have arrived."""
    async with asyncio.timeout(PATIENCE):
        await proxy.until(lambda: proxy.counts == {type(fault): 1})


@pytest.mark.parametrize("api", PLAIN)
@pytest.mark.parametrize("fault", RESPONSE_FAULTS.values(), ids=RESPONSE_FAULTS)
async def test_a_response_meets_a_fault(
    kafka: FakeKafka, start_proxy: StartProxy, fault: Fault, api: ApiKey
) -> None:
    proxy = await proxied(kafka, start_proxy, Rule(fault, api))
    await deliver(kafka, proxy)
    await counted(proxy, fault)


@pytest.mark.parametrize("api", PLAIN)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_request_meets_a_fault(
    kafka: FakeKafka, start_proxy: StartProxy, fault: Fault, api: ApiKey
) -> None:
    proxy = await proxied(kafka, start_proxy, Rule(fault, api, REQUEST))
    await deliver(kafka, proxy)
    await counted(proxy, fault)
    kafka.servers[1].failures.clear()  # it cannot read a frame of no bytes, and closes


@pytest.mark.parametrize("way", [REQUEST, RESPONSE])
@pytest.mark.parametrize("api", OF_TRANSACTIONS)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_transaction_meets_a_fault(
    kafka: FakeKafka, start_proxy: StartProxy, fault: Fault, api: ApiKey, way: Way
) -> None:
    proxy = await proxied(kafka, start_proxy, Rule(fault, api, way))
    async with Producer(
        bootstrap_servers=proxy.address, transactional_id="pay-7", **QUICK
    ) as producer:
        for number in range(3):
            async with producer.transaction():
                producer.send("orders", b"%d" % number)
                await producer.send_offsets_to_transaction({("events", 0): number}, "readers")
    assert kafka.values("orders") == [b"%d" % number for number in range(3)]
    await counted(proxy, fault)
    kafka.servers[1].failures.clear()


@pytest.mark.parametrize(
    "fault",
    [Cut(), Reset(), Delay(0.05), Delay(0.25), Throttle(2_000), HalfClose(), BlackHole()],
    ids=repr,
)
async def test_connections_meet_a_fault(
    kafka: FakeKafka, start_proxy: StartProxy, fault: Fault
) -> None:
    proxy = await proxied(kafka, start_proxy, Rule(fault, way=CONNECTION, count=2))
    await deliver(kafka, proxy)


async def test_resets_one_after_the_other(kafka: FakeKafka, start_proxy: StartProxy) -> None:
    proxy = await proxied(kafka, start_proxy, Rule(Reset(), way=CONNECTION, count=8))
    await deliver(kafka, proxy)
    assert proxy.counts == {Reset: 8}


@pytest.mark.parametrize("seed", range(4))
async def test_connections_are_cut_all_the_time(
    start_kafka: StartKafka, start_proxy: StartProxy, seed: int
) -> None:
    kafka = await start_kafka(2, {"orders": 3})
    rules = [
        Rule(fault, way=way, count=None, probability=0.03)
        for fault in (Cut(ANYWHERE), Reset(ANYWHERE), Delay(0.01, ANYWHERE))
        for way in (REQUEST, RESPONSE)
    ]
    proxies = []
    for number, server in kafka.servers.items():
        proxy = await start_proxy(server.port, FaultScript(tuple(rules), seed))
        kafka.advertised[number] = proxy.port
        proxies.append(proxy)
    async with Producer(
        bootstrap_servers=[proxy.address for proxy in proxies], batch_size=200, **QUICK
    ) as producer:
        futures = []
        for number in range(3000):
            futures.append(producer.send("orders", b"%d" % number, partition=number % 3))
            if number % 20 == 0:
                await asyncio.sleep(0)
        sent = await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
    for partition in range(3):
        log = kafka.values("orders", partition)
        assert log == [b"%d" % number for number in range(partition, 3000, 3)]
    assert [each.offset for each in sent] == [number // 3 for number in range(3000)]
    assert sum(proxy.counts[Cut] for proxy in proxies) > 3


@pytest.mark.parametrize("way", [REQUEST, RESPONSE])
async def test_the_error_of_a_record_tells_the_truth(
    kafka: FakeKafka, start_proxy: StartProxy, way: Way
) -> None:
    proxy = await proxied(kafka, start_proxy)
    options = QUICK | {"request_timeout_ms": 2_000, "delivery_timeout_ms": 3_000}
    async with Producer(bootstrap_servers=proxy.address, **options) as producer:
        await producer.send("orders", b"0")
        proxy.add(Rule(BlackHole(), PRODUCE, way, count=None))
        with pytest.raises(DeliveryTimeoutError, match="orders-0") as raised:
            await asyncio.wait_for(producer.send("orders", b"1"), PATIENCE)
        # its request left, so whether it is in the log the producer cannot know
        assert getattr(raised.value, "may_have_been_written", True)
        proxy.play(FaultScript())
        kept = [b"0"] if way is REQUEST else [b"0", b"1"]
        assert kafka.values("orders") == kept
        sent = await asyncio.wait_for(producer.send("orders", b"2"), PATIENCE)
        assert sent.offset == len(kept)


async def test_a_record_that_never_left_fails(kafka: FakeKafka, start_proxy: StartProxy) -> None:
    proxy = await proxied(kafka, start_proxy, Rule(Reset(), way=CONNECTION, count=None))
    options = QUICK | {"max_block_ms": 300}
    async with Producer(bootstrap_servers=proxy.address, **options) as producer:
        with pytest.raises(ProducerError):
            await asyncio.wait_for(producer.send("orders", b"0"), PATIENCE)
    assert kafka.values("orders") == []
