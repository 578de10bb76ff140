"""The examples of Spark run as they stand."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from aioproducer.testing.mock_cluster import MockCluster
from aioproducer.testing.processes import ProcessSupervisor
from benchmarks.spark import sessions
from tests.support.read_back import count, read_topic
from tests.support.waiting import PATIENCE, until

pytestmark = [pytest.mark.spark, pytest.mark.mock_cluster]

EXAMPLES = Path(__file__).parents[2] / "examples"


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
