"""The examples run as they stand, on a real Kafka and on librdkafka's mock cluster."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
import pytest

from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.mock_cluster import MockCluster
from aioproducer.testing.processes import ProcessSupervisor
from benchmarks.spark import sessions
from tests.kafka.transactional import nothing_is_open, read, topics
from tests.support.read_back import count, read_topic
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.spark


EXAMPLES = sessions.ROOT / "examples"
FLIGHTS = 336_776
LONG_PATIENCE = 300.0


@pytest.mark.kafka
@pytest.mark.parametrize("protocol", [2], indirect=True)
async def test_all_flights_arrive_whole(transactional: KafkaCluster, tmp_path: Path) -> None:
    kafka, log = transactional, tmp_path / "log"
    await topics(kafka, "flights", partitions=6)
    with ProcessSupervisor() as supervisor, log.open("wb") as output:
        example = supervisor.start(
            [sys.executable, EXAMPLES / "spark_batch.py", kafka.bootstrap_servers],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=sessions.environment(),
        )
        assert example.wait(LONG_PATIENCE) == 0, log.read_text()[-5000:]
    assert f"{FLIGHTS:,} flights are in Kafka:\n" in log.read_text()
    await until(lambda: nothing_is_open(kafka, "flights"), "all is committed")
    logs = read(kafka, ("flights",), "read_committed")
    flights = Counter(value for log in logs.values() for value in log)
    assert sum(flights.values()) == FLIGHTS
    assert set(flights.values()) == {1}
    flight = json.loads(next(iter(flights)))
    assert flight["year"] == 2013
    assert flight["origin"] in {"EWR", "JFK", "LGA"}


@pytest.mark.kafka
@pytest.mark.parametrize("protocol", [2], indirect=True)
async def test_a_stream_that_is_killed_and_started_again_writes_nothing_twice(
    transactional: KafkaCluster, tmp_path: Path
) -> None:
    kafka = transactional
    await topics(kafka, "numbers", partitions=4)
    for start in range(2):
        log = tmp_path / f"log-{start}"
        with ProcessSupervisor() as supervisor, log.open("wb") as output:
            driver = supervisor.start(
                [
                    *(sys.executable, EXAMPLES / "spark_streaming.py"),
                    *(tmp_path / "checkpoint", kafka.bootstrap_servers),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=sessions.environment(),
            )
            deadline = time.monotonic() + LONG_PATIENCE
            while log.read_text().count("records written") < 3:
                assert driver.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            for process in psutil.Process(driver.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # it went with the JVM
                    process.send_signal(signal.SIGKILL)
    # The last killed one left a transaction open.
    seen = read(kafka, ("numbers",), "read_committed")
    numbers = Counter(int(value) for log_ in seen.values() for value in log_)
    assert set(numbers.values()) == {1}
    assert sorted(numbers) == list(range(len(numbers)))


@asynccontextmanager
async def web_app(cluster: MockCluster, log: Path) -> AsyncIterator[httpx.AsyncClient]:
    with ProcessSupervisor() as supervisor, log.open("wb") as output:
        process = supervisor.start(
            [sys.executable, EXAMPLES / "spark_async_driver.py", cluster.bootstrap_servers],
            env={**sessions.environment(), "PORT": "0"},
            stdout=subprocess.DEVNULL,
            stderr=output,
        )
        address = re.compile(r"Uvicorn running on (http://\S+)")
        await until(
            lambda: address.search(log.read_text()) or process.poll() is not None, timeout=180
        )
        found = address.search(log.read_text())
        assert found, log.read_text()
        async with httpx.AsyncClient(
            base_url=found[1], timeout=PATIENCE, trust_env=False
        ) as client:
            yield client
        await asyncio.to_thread(supervisor.stop, process, PATIENCE)
    assert "Application shutdown complete" in log.read_text()
    assert "Exception in ASGI application" not in log.read_text()


async def events(answer: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    name = ""
    async for line in answer.aiter_lines():
        field, _, text = line.partition(": ")
        if field == "event":
            name = text
        elif field == "data":
            yield name, json.loads(text)


async def settled_count(cluster: MockCluster, topic: str) -> int:
    """What it is when it stands still."""
    before, now = -1, count(cluster, topic)
    while now != before:
        await asyncio.sleep(1)
        before, now = now, count(cluster, topic)
    return now


@pytest.mark.mock_cluster
async def test_async_driver(cluster: MockCluster, tmp_path: Path) -> None:
    cluster.create_topics({"squares": 3, "hung-up": 3, "few": 1})
    async with web_app(cluster, tmp_path / "log") as client:
        async with client.stream("POST", "/publish/squares?rows=600000") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            told = [each async for each in events(answer)]
        assert {name for name, _ in told[:-1]} == {"progress"}
        rows = [data["rows"] for _, data in told]
        assert rows == sorted(rows)
        assert len(set(rows)) > 2
        assert told[-1] == ("done", {"rows": 600_000, "partitions": 3})
        assert count(cluster, "squares") == 600_000

        async with client.stream("POST", "/publish/hung-up?rows=100000000") as answer:
            assert (await anext(events(answer)))[0] == "progress"
            assert (await client.get("/health")).json() == "ok"
        async with client.stream("POST", "/publish/few?rows=10") as answer:
            told = [each async for each in events(answer)]
        assert told[-1] == ("done", {"rows": 10, "partitions": 1})
        written = await settled_count(cluster, "hung-up")

        async with client.stream("POST", f"/publish/{'t' * 250}?rows=10") as answer:
            [(name, data)] = [each async for each in events(answer)]
        assert name == "failed"
        assert "InvalidTopic" in data["error"]
        assert count(cluster, "hung-up") == written < 10_000_000

    assert sorted(record[:4] for record in read_topic(cluster, "few")) == [
        (0, n, b"%d" % n, b'{"id":%d,"square":%d}' % (n, n * n)) for n in range(10)
    ]
