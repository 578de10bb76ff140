"""An application that keeps all threads of asyncio's default executor busy delays no record."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from aioproducer import Producer, sync
from aioproducer.foundation.runtime.threads import BESIDE_THE_LOOP
from aioproducer.foundation.tuning import COMPRESS_ELSEWHERE_BYTES
from aioproducer.testing.mock_cluster import MockCluster

PATIENCE = 60.0
MANY = 100
"""More than the default executor has threads."""


@pytest.fixture
def servers(mock_cluster: MockCluster) -> str:
    mock_cluster.create_topic("orders", 1)
    return mock_cluster.bootstrap_servers


@pytest.fixture
def delivered() -> Iterator[threading.Event]:
    """What the application's threads wait for: so a record that waits for them never comes."""
    event = threading.Event()
    yield event
    event.set()


async def keep_all_busy(until: threading.Event) -> list[asyncio.Task[bool]]:
    tasks = [asyncio.create_task(asyncio.to_thread(until.wait, PATIENCE)) for _ in range(MANY)]
    await asyncio.sleep(0)
    return tasks


def own_threads(kind: str) -> list[str]:
    prefix = f"aioproducer-{kind}-"
    return [each.name for each in threading.enumerate() if each.name.startswith(prefix)]


async def test_compression_has_threads_of_its_own(servers: str, delivered: threading.Event) -> None:
    """Connecting, too: it looks for the address behind a name."""
    busy = await keep_all_busy(delivered)
    value = bytes(range(256)) * 256
    assert len(value) >= COMPRESS_ELSEWHERE_BYTES
    named = servers.replace("127.0.0.1", "localhost")
    async with Producer(
        bootstrap_servers=named, compression_type="gzip", batch_size=1_000_000
    ) as producer:
        assert not own_threads("compress"), "none before there is something to compress"
        futures = [producer.send("orders", value) for _ in range(8)]
        async with asyncio.timeout(PATIENCE / 2):
            assert [(await future).offset for future in futures] == list(range(8))
        assert 1 <= len(own_threads("compress")) <= BESIDE_THE_LOOP
        assert not any(task.done() for task in busy)
    delivered.set()
    await asyncio.gather(*busy)
    async with asyncio.timeout(PATIENCE):
        while own_threads("compress"):  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def test_the_blocking_shell_needs_no_executor(servers: str) -> None:
    with sync.Producer(
        bootstrap_servers=servers, compression_type="gzip", batch_size=1_000_000
    ) as producer:
        report = producer.send_many("orders", [bytes(COMPRESS_ELSEWHERE_BYTES)] * 4)
        assert report.delivered == 4
        assert producer._thread._loop is not None
        with suppress(AttributeError):  # private, of asyncio's own loop
            assert producer._thread._loop._default_executor is None  # type: ignore[attr-defined]
