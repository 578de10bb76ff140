"""The examples run as they stand; the web applications each under its server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from aioproducer import Producer
from aioproducer.testing.fault_proxy import BlackHole, FaultProxies, FaultScript, Rule, Way
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from aioproducer.testing.ports import free_ports
from tests.support.order_load import OrderLoad, Place, check_answers
from tests.support.read_back import read_topic, values
from tests.support.waiting import PATIENCE, until
from tests.support.web_server import GRACE, SERVERS, serve

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_quickstart(mock_cluster: MockCluster) -> None:
    output = run("quickstart", BOOTSTRAP_SERVERS=mock_cluster.bootstrap_servers)
    [(partition, offset, key, value, _, _)] = read_topic(mock_cluster, "greetings")
    assert output == f"greetings-{partition} at offset {offset}\n"
    assert (key, value) == (b"world", b"Hello, Kafka!")


def test_fire_and_forget(mock_cluster: MockCluster) -> None:
    output = run("fire_and_forget", mock_cluster.bootstrap_servers)
    assert output == "100,000 events sent, 0 failed\n"
    assert len(read_topic(mock_cluster, "page-views")) == 100_000


def test_bulk(mock_cluster: MockCluster) -> None:
    output = run("bulk", mock_cluster.bootstrap_servers)
    assert output.count("records/s") == 2
    found = Counter(values(mock_cluster, "measurements"))
    assert found == {b"%d" % number: 2 for number in range(100_000)}


def test_read_without_a_topic_shows_its_usage() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "read.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "usage: python examples/read.py TOPIC [host:port]\n"


async def test_read(mock_cluster: MockCluster) -> None:
    """It reads the topic to its end, as columns, and what comes later, until Control-C."""
    mock_cluster.create_topic("greetings", 2)
    servers = mock_cluster.bootstrap_servers
    async with Producer(bootstrap_servers=servers) as producer:
        await producer.send_many("greetings", [b"hello"] * 3, partition=1)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, EXAMPLES / "read.py", "greetings", servers),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE):
                output = []
                while "waiting for new records" not in output:
                    output.append((await process.stdout.readline()).decode().strip())
                    assert output[-1], output
                assert output[:2] == [
                    "greetings-1 0: None b'hello'",
                    "greetings-1 1: None b'hello'",
                ]
                assert output[3] == "3 records up to the end"
                assert output[4].startswith("3 rows, ")
                await producer.send("greetings", b"late", partition=0)
                assert await process.stdout.readline() == b"new at 0: b'late'\n"
                process.send_signal(signal.SIGINT)
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


@pytest.mark.slow
def test_demo(mock_cluster: MockCluster) -> None:
    """The demo brings its own cluster; `make demo` runs it with a real Kafka."""
    output = run("demo", "--mock")
    assert "336,776 records read back: none is missing, none is duplicated" in output
    assert "aioproducer and confluent-kafka read the same: equal counts and checksums" in output
    assert output.count("✓") == 6


TOPIC = "web-orders"
CONNECTIONS = 32
TIMEOUT = 2.0
"""Seconds, of a request."""
SLACK = 3.0
"""Seconds by which a busy machine may be late."""
HEAD_START = 0.3
"""Seconds after which a server that is not busy has read an order."""
LARGE = 900_000
"""Bytes of an order; the memory of a producer takes 36 of them."""
NO_MEMORY = "too many orders wait for Kafka"
"""The error of an order for which the application does not wait."""
DARK = FaultScript((Rule(BlackHole(), way=Way.REQUEST, count=None),))


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=3, topics={TOPIC: 6}) as cluster:
        yield cluster


def places(cluster: MockCluster) -> list[Place]:
    return [Place(*record[:4]) for record in read_topic(cluster, TOPIC)]


@pytest.mark.parametrize("server", SERVERS)
async def test_a_load_while_brokers_are_down_and_at_the_end(
    server: str, cluster: MockCluster, tmp_path: Path
) -> None:
    """Each order is answered in time with the truth, and SIGTERM loses none."""
    async with (
        serve(
            server,
            cluster.bootstrap_servers,
            tmp_path / "log",
            KAFKA_TOPIC=TOPIC,
            ORDER_TIMEOUT_MS=str(round(TIMEOUT * 1000)),
        ) as app,
        httpx.AsyncClient(base_url=app.url, trust_env=False, timeout=60) as client,
        OrderLoad(app.url, CONNECTIONS) as load,
    ):
        await load.answered(201, 200)
        assert load.statuses().keys() == {201}
        too_large = await client.post("/orders/anna", content=b"x" * 2_000_000)
        assert too_large.status_code == 413

        cluster.set_broker_down(ALL_BROKERS)
        await load.answered(503, CONNECTIONS)

        async def unready() -> bool:
            return (await client.get("/health")).status_code == 503

        await until(unready, "the application is not ready")
        assert "unreachable" in (await client.get("/health")).json()["reason"]

        cluster.set_broker_up(ALL_BROKERS)
        await load.answered(201, 200)
        assert (await client.get("/health")).status_code == 200

        cluster.set_broker_rtt(ALL_BROKERS, 400)
        await load.answered(201, CONNECTIONS)
        ending = app.terminate()
        await until(lambda: app.has_ended, "the process has ended", GRACE)
        assert time.monotonic() - ending < GRACE
        await load.stop()
        cluster.set_broker_rtt(ALL_BROKERS, 0)
        accepted = load.in_flight(ending - HEAD_START)
        assert accepted
        assert {answer.status for answer in accepted} <= {201, 503}
        log = await asyncio.to_thread(places, cluster)
        check_answers(load.answers, log, TIMEOUT + SLACK)


async def test_silent_brokers_and_a_full_memory(cluster: MockCluster, tmp_path: Path) -> None:
    """Each order is answered in time, and without waiting where there is no memory for it."""
    async with FaultProxies(3) as proxies:
        proxies.lead_to(cluster)
        async with (
            serve(
                "fastapi",
                proxies.bootstrap_servers,
                tmp_path / "log",
                KAFKA_TOPIC=TOPIC,
                ORDER_TIMEOUT_MS=str(round(TIMEOUT * 1000)),
            ) as app,
            OrderLoad(app.url, 3) as load,
            OrderLoad(app.url, 0, padding=LARGE) as large,
        ):
            await load.answered(201, 50)
            for proxy in proxies.values():
                proxy.play(DARK)
            await load.answered(503, 3)
            assert any(
                answer.retry_after is None for answer in load.answers if answer.status == 503
            )
            answers = await asyncio.gather(*map(large.post, range(60)))
            assert {answer.status for answer in answers} == {503}
            refused = [answer for answer in answers if answer.body["error"] == NO_MEMORY]
            assert refused, "the memory has no place for all of them"
            assert {answer.retry_after for answer in refused} == {"1"}
            for proxy in proxies.values():
                proxy.play(FaultScript())
                proxy.end_connections()
            await load.answered(201, 50)
            await load.stop()
            log = await asyncio.to_thread(places, cluster)
            check_answers([*load.answers, *large.answers], log, TIMEOUT + SLACK)


def test_a_django_application_that_may_not_write_does_not_start(cluster: MockCluster) -> None:
    """The lifespan around Django fails the start, and says why."""
    ended = subprocess.run(
        [sys.executable, *SERVERS["django"], *map(str, free_ports(1))],
        env={
            **os.environ,
            "BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
            "KAFKA_TOPIC": "not a topic",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 3
    assert "InvalidTopicError" in ended.stderr
    assert "Application startup failed" in ended.stderr
