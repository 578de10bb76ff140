"""The web applications of the examples on real brokers: they produce and consume."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.support.order_load import OrderLoad, Place, check_answers
from tests.support.read_back import read_topic
from tests.support.waiting import until
from tests.support.web_server import CONSUMING, GRACE, SERVERS, serve

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


BROKERS = (1, 2, 3)
PARTITIONS = 6
CONNECTIONS = 32
TIMEOUT = 3.0
"""Seconds, of a request."""
SLACK = 5.0
"""Seconds by which a busy machine may be late."""
HEAD_START = 0.1
"""Seconds after which a server that is not busy has read an order."""
WRK_SECONDS = 50
WRK_SCRIPT = Path(__file__).with_name("keep_answers.lua")


async def create_topic(cluster: KafkaCluster, topic: str) -> None:
    await cluster.create_topic(
        topic, partitions=PARTITIONS, replication_factor=3, config={"min.insync.replicas": 2}
    )


async def places(cluster: KafkaCluster, topic: str) -> list[Place]:
    records = await asyncio.to_thread(read_topic, cluster, topic)
    return [Place(*record[:4]) for record in records]


@pytest.mark.parametrize("server", SERVERS)
async def test_orders_are_read_back(server: str, kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = f"web-{server}"
    await create_topic(kafka, topic)
    async with (
        serve(server, kafka.bootstrap_servers, tmp_path / "log", KAFKA_TOPIC=topic) as app,
        OrderLoad(app.url, CONNECTIONS) as load,
    ):
        await load.answered(201, 300)
        await load.stop()
        assert load.statuses().keys() == {201}
    log = await places(kafka, topic)
    assert len(log) == len(load.answers)
    check_answers(load.answers, log, TIMEOUT + SLACK)


# --- brokers die meanwhile ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(kafka_distribution: KafkaDistribution) -> Iterator[KafkaCluster]:
    """Killed leaders are replaced after 3 s. Each test leaves three brokers running."""
    quick = {"broker.session.timeout.ms": 3_000, "broker.heartbeat.interval.ms": 500}
    with KafkaCluster(brokers=3, config=quick) as cluster:
        yield cluster


async def kill_and_restart(cluster: KafkaCluster, *victims: int, after: float) -> None:
    await asyncio.gather(*map(cluster.kill_broker, victims))
    await asyncio.sleep(after)
    await asyncio.gather(*map(cluster.start_broker, victims))


@pytest.mark.soak
@pytest.mark.parametrize("server", SERVERS)
async def test_brokers_die_under_load(server: str, cluster: KafkaCluster, tmp_path: Path) -> None:
    """Each order is answered in time with the truth, and SIGTERM loses none."""
    topic = f"web-killed-{server}"
    await create_topic(cluster, topic)
    async with (
        serve(
            server,
            cluster.bootstrap_servers,
            tmp_path / "log",
            KAFKA_TOPIC=topic,
            ORDER_TIMEOUT_MS=str(round(TIMEOUT * 1000)),
        ) as app,
        httpx.AsyncClient(base_url=app.url, trust_env=False, timeout=60) as client,
        OrderLoad(app.url, CONNECTIONS) as load,
    ):

        async def health(status: int) -> None:
            async def found() -> bool:
                return (await client.get("/health")).status_code == status

            await until(found, f"/health answers {status}", 60)

        await load.answered(201, 1_000)
        await kill_and_restart(cluster, 1, after=6)
        await load.answered(201, 1_000)
        await cluster.pause_broker(2)
        await asyncio.sleep(6)
        await cluster.resume_broker(2)
        await load.answered(201, 1_000)
        down = asyncio.create_task(kill_and_restart(cluster, *BROKERS, after=10))
        await load.answered(503, CONNECTIONS)
        await health(503)
        await down
        await load.answered(201, 1_000)
        await health(200)

        ending = app.terminate()
        await until(lambda: app.has_ended, "the process has ended", GRACE)
        await load.stop()
        accepted = load.in_flight(ending - HEAD_START)
        assert accepted or load.statuses()[201]
        assert {answer.status for answer in accepted} <= {201, 503}
    log = await places(cluster, topic)
    longest = max(answer.seconds for answer in load.answers)
    print(f"{server}: {load.statuses()}, {len(log)} records, at most {longest:.1f} s")
    check_answers(load.answers, log, TIMEOUT + SLACK)


@pytest.mark.soak
async def test_brokers_die_under_the_load_of_wrk(cluster: KafkaCluster, tmp_path: Path) -> None:
    if shutil.which("wrk") is None:
        pytest.skip("NOT TESTED: wrk is missing (Debian: apt install wrk)")
    topic = "web-killed-wrk"
    await create_topic(cluster, topic)
    kept = tmp_path / "answers"
    async with serve(
        "fastapi",
        cluster.bootstrap_servers,
        tmp_path / "log",
        KAFKA_TOPIC=topic,
        ORDER_TIMEOUT_MS=str(round(TIMEOUT * 1000)),
    ) as app:
        wrk = await asyncio.create_subprocess_exec(
            *("wrk", "--threads", "1", "--connections", "64", "--duration", f"{WRK_SECONDS}s"),
            *(
                "--timeout",
                f"{round(TIMEOUT + SLACK)}s",
                "--script",
                WRK_SCRIPT,
                app.url,
                "--",
                kept,
            ),
            stdout=asyncio.subprocess.PIPE,
        )
        for victims in ((1,), (2,), BROKERS):
            await asyncio.sleep(2)
            await kill_and_restart(cluster, *victims, after=4)
        report, _ = await wrk.communicate()
    answers = [json.loads(line) for line in kept.read_text().splitlines()]
    statuses = Counter(answer["status"] for answer in answers)
    promised = Counter(
        (answer["body"]["partition"], answer["body"]["offset"])
        for answer in answers
        if answer["status"] == 201
    )
    log = {each[:2] for each in await places(cluster, topic)}
    print(report.decode(), statuses, f"{len(log)} records")
    assert statuses.keys() == {201, 503}
    assert b"Socket errors" not in report
    assert answers[-1]["status"] == 201, "brokers are back, and the application writes again"
    assert promised.keys() <= log
    assert max(promised.values()) == 1


TOPIC = "web-consumed-orders"
GROUP = "orders-view"
CONSUMED_PARTITIONS = 4
CUSTOMERS = ("anna", "bert", "carla")


async def test_processes_share_the_orders_and_take_over(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    await kafka.create_topic(TOPIC, CONSUMED_PARTITIONS)
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
