"""A start while brokers are silent: one that answers is enough, whichever is tried first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.testing import SimulatedWorld, simulate
from aioproducer.testing.fault_proxy import ApiKey, FaultScript, Rule, Throttle, Way

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka, StartProxy

SILENT: Final = (2, 3)


async def first_record(servers: str, partition: int) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        await producer.send("orders", b"one espresso", partition=partition)


async def first_question(servers: str, partition: int) -> None:
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.list_topics()


@pytest.mark.parametrize("use", [first_record, first_question])
@pytest.mark.parametrize("seed", range(8))
def test_a_start_does_not_wait_for_silent_bootstrap_servers(
    seed: int, use: Callable[[str, int], Awaitable[None]]
) -> None:
    async def life(world: SimulatedWorld) -> float:
        cluster = world.cluster
        [partition, *_] = [n for n in range(6) if cluster.leader("orders", n) not in SILENT]
        for broker in SILENT:
            cluster.stall(broker)
        await use(cluster.bootstrap_servers, partition)
        return world.now

    assert simulate(life, seed=seed, brokers=3, topics={"orders": 6}) < 5.0


# --- brokers that send an answer byte by byte ----------------------------------------------------

BYTES_PER_SECOND: Final = 20
OPTIONS: Final[dict[str, Any]] = {
    "request_timeout_ms": 2_000,
    "max_block_ms": 5_000,
    "client_id": "an application whose name takes a while to pass",
}
STARTS: Final = 12


async def sends(servers: str) -> None:
    async with Producer(bootstrap_servers=servers, delivery_timeout_ms=20_000, **OPTIONS) as it:
        await it.send("orders", b"one espresso", partition=0)


async def commits(servers: str) -> None:
    options = OPTIONS | {"delivery_timeout_ms": 20_000}
    name = f"bills-{uuid4()}"
    async with (
        Producer(bootstrap_servers=servers, transactional_id=name, **options) as it,
        it.transaction(),
    ):
        await it.send("orders", b"one espresso", partition=0)


async def describes(servers: str) -> None:
    async with Admin(bootstrap_servers=servers, **OPTIONS) as admin:
        await admin.describe_topics("orders")


@pytest.mark.parametrize(
    ("use", "api"),
    [
        (sends, ApiKey.METADATA),
        (sends, ApiKey.API_VERSIONS),
        (sends, ApiKey.INIT_PRODUCER_ID),
        (commits, ApiKey.FIND_COORDINATOR),
        (describes, ApiKey.METADATA),
    ],
)
@pytest.mark.parametrize("way", [Way.REQUEST, Way.RESPONSE])
async def test_a_start_does_not_wait_for_brokers_that_drip(
    start_kafka: StartKafka,
    start_proxy: StartProxy,
    use: Callable[[str], Awaitable[None]],
    api: ApiKey,
    way: Way,
) -> None:
    """Bytes pass all the time, so the request is not lost; but another broker has the answer."""
    script = FaultScript((Rule(Throttle(BYTES_PER_SECOND), api, way, count=None),))
    kafka = await start_kafka(3, {"orders": 1})
    servers = [kafka.servers[1].address]
    for number in (2, 3):
        proxy = await start_proxy(kafka.servers[number].port, script)
        kafka.advertised[number] = proxy.port
        servers.append(proxy.address)
    starts = (use(",".join(servers)) for _ in range(STARTS))
    outcomes = await asyncio.gather(*starts, return_exceptions=True)
    assert [each for each in outcomes if each is not None] == []
