"""The examples of Spark run as they stand."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from aioproducer.testing.mock_cluster import MockCluster
from aioproducer.testing.processes import free_ports
from benchmarks.spark import sessions
from tests.mock_cluster.test_examples import read
from tests.spark.waiting import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.mock_cluster]

EXAMPLES = Path(__file__).parents[2] / "examples"


@asynccontextmanager
async def web_app(cluster: MockCluster) -> AsyncIterator[httpx.AsyncClient]:
    [port] = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, EXAMPLES / "spark_async_driver.py", cluster.bootstrap_servers),
        env={**sessions.environment(), "PORT": str(port)},
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert process.stderr is not None
    log: list[bytes] = []

    async def keep_log(stderr: asyncio.StreamReader) -> None:
        while line := await stderr.readline():
            log.append(line)
            if b"Uvicorn running" in line:
                started.set()
        started.set()

    started = asyncio.Event()
    keeping = asyncio.create_task(keep_log(process.stderr))
    try:
        async with asyncio.timeout(PATIENCE):
            await started.wait()
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False
        ) as client:
            yield client
        process.terminate()
        async with asyncio.timeout(PATIENCE):
            await process.wait()
            await keeping
        assert b"Application shutdown complete" in b"".join(log)
        assert b"Exception in ASGI application" not in b"".join(log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        keeping.cancel()


async def events(answer: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    name = ""
    async for line in answer.aiter_lines():
        field, _, text = line.partition(": ")
        if field == "event":
            name = text
        elif field == "data":
            yield name, json.loads(text)


def count(cluster: MockCluster, topic: str) -> int:
    """How many records it got; the mock cluster forgets the first of very many."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        places = [TopicPartition(topic, partition) for partition in partitions]
        return sum(consumer.get_watermark_offsets(place, PATIENCE)[1] for place in places)
    finally:
        consumer.close()


async def test_async_driver(cluster: MockCluster) -> None:
    cluster.create_topics({"squares": 3, "hung-up": 3, "few": 1})
    async with web_app(cluster) as client:
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
        written = count(cluster, "hung-up")

        async with client.stream("POST", f"/publish/{'t' * 250}?rows=10") as answer:
            [(name, data)] = [each async for each in events(answer)]
        assert name == "failed"
        assert "InvalidTopic" in data["error"]
        assert count(cluster, "hung-up") == written < 10_000_000

    assert sorted(read(cluster, "few")) == [
        (0, n, b"%d" % n, b'{"id":%d,"square":%d}' % (n, n * n)) for n in range(10)
    ]
