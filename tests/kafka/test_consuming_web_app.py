"""The web application of the examples that consumes: two processes, of which one ends."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.support.waiting import until
from tests.support.web_server import CONSUMING, GRACE, serve

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPIC = "web-consumed-orders"
GROUP = "orders-view"
PARTITIONS = 4
CUSTOMERS = ("anna", "bert", "carla")


async def test_processes_share_the_orders_and_take_over(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    await kafka.create_topic(TOPIC, PARTITIONS)
    sent: dict[str, list[str]] = {customer: [] for customer in CUSTOMERS}
    options = {"KAFKA_TOPIC": TOPIC, "ORDERS_DATABASE": str(tmp_path / "orders.sqlite")}
    servers = kafka.bootstrap_servers
    async with (
        Producer(bootstrap_servers=servers) as producer,
        Admin(bootstrap_servers=servers) as admin,
        httpx.AsyncClient(trust_env=False, timeout=60) as client,
        serve(CONSUMING, servers, tmp_path / "one.log", **options) as one,
    ):

        async def send(orders: int) -> None:
            for number in range(orders):
                customer = CUSTOMERS[number % len(CUSTOMERS)]
                content = f"order {len(sent[customer])}"
                producer.send(TOPIC, content, key=customer)
                sent[customer].append(content)
            await producer.flush()

        async def are_there() -> bool:
            answers = [await client.get(f"{one.url}/orders/{customer}") for customer in CUSTOMERS]
            return [each.json()["orders"] for each in answers] == [*sent.values()]

        async def members() -> list[int]:
            found = await admin.describe_groups(GROUP)
            return sorted(len(each.partitions or ()) for each in found[GROUP].members)

        await send(300)
        await until(are_there, "all orders, in their order")
        async with serve(CONSUMING, servers, tmp_path / "two.log", **options) as two:

            async def share() -> bool:
                return await members() == [2, 2]

            await until(share, "both have partitions")
            await send(300)
            await until(are_there, "all orders")
            health = (await client.get(f"{two.url}/health")).json()
            assert (health["state"], health["partitions"]) == ("joined", 2)
            ending = two.terminate()
            await until(lambda: two.has_ended, "the process has ended", GRACE)
            assert time.monotonic() - ending < GRACE

        async def is_alone() -> bool:
            return await members() == [4]

        await until(is_alone, "the first process has all partitions")
        await send(300)
        await until(are_there, "all orders")

        async def are_committed() -> bool:
            lag = await admin.group_lag(GROUP)
            return all(each.lag == 0 for each in lag.values())

        await until(are_committed, "their offsets")
