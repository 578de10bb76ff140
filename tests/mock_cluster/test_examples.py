"""The examples run as they stand."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from aioproducer import Producer
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from aioproducer.testing.ports import free_ports
from tests.support.read_back import read_topic, values

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 60.0
CONNECTIONS = 25


def run(name: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
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
                assert output[4].startswith("3 rows with ")
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
    assert "336,776 records read back: none is missing, none is there twice" in output
    assert "aioproducer and confluent-kafka read the same: equal counts and checksums" in output
    assert output.count("✓") == 6


# --- the web application, under a real uvicorn ---------------------------------------------


@asynccontextmanager
async def web_app(cluster: MockCluster) -> AsyncIterator[httpx.AsyncClient]:
    [port] = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, EXAMPLES / "web_app.py", cluster.bootstrap_servers),
        env={**os.environ, "PORT": str(port)},
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while b"Uvicorn running" not in (line := await process.stderr.readline()):
                assert line, "uvicorn ended"
        limits = httpx.Limits(max_connections=CONNECTIONS)
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, limits=limits, trust_env=False
        ) as client:
            yield client
        process.terminate()
        async with asyncio.timeout(PATIENCE):
            log = (await process.stderr.read()).decode()
            await process.wait()
        assert "Application shutdown complete" in log
        assert "Traceback" not in log
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_concurrent_requests_each_get_their_place(mock_cluster: MockCluster) -> None:
    customers = [f"customer-{number % 40}" for number in range(1000)]
    at_once = asyncio.Semaphore(CONNECTIONS)  # what waits in httpx's pool costs it the square

    async with web_app(mock_cluster) as client:

        async def post(number: int, customer: str) -> httpx.Response:
            async with at_once:
                return await client.post(f"/orders/{customer}", content=b"order %d" % number)

        answers = await asyncio.gather(*itertools.starmap(post, enumerate(customers)))
    assert {answer.status_code for answer in answers} == {201}
    promised = {
        (answer.json()["partition"], answer.json()["offset"], customer.encode(), b"order %d" % n)
        for n, (answer, customer) in enumerate(zip(answers, customers, strict=True))
    }
    assert {record[:4] for record in read_topic(mock_cluster, "orders")} == promised
    assert len(promised) == 1000


async def test_a_failed_send_is_a_503_and_the_next_one_works(mock_cluster: MockCluster) -> None:
    async with web_app(mock_cluster) as client:
        assert (await client.post("/orders/anna", content=b"1")).status_code == 201
        mock_cluster.set_broker_down(ALL_BROKERS)
        failed = await client.post("/orders/anna", content=b"2")
        assert failed.status_code == 503
        assert "delivery_timeout_ms" in failed.json()["error"]
        mock_cluster.set_broker_up(ALL_BROKERS)
        assert (await client.post("/orders/anna", content=b"3")).status_code == 201
        assert (await client.post("/orders/anna", content=b"x" * 2_000_000)).status_code == 413
    assert values(mock_cluster, "orders") == [b"1", b"3"]
