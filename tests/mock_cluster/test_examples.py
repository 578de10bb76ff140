"""The examples run as they stand."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from aioproducer import Producer
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.read_back import read_topic, values

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 60.0


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
