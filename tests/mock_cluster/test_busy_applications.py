"""An application that holds the event loop, or all threads of its executor, delays no record."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from aioproducer import Producer, sync
from aioproducer.foundation.runtime.threads import BESIDE_THE_LOOP
from aioproducer.foundation.tuning import COMPRESS_ELSEWHERE_BYTES
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.read_back import read_topic

HELD = 1.2
"""Seconds; the timeouts are shorter."""
SHORT: dict[str, Any] = {"request_timeout_ms": 500, "delivery_timeout_ms": 1_000, "linger_ms": 0}
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@pytest.fixture(params=LOOPS.values(), ids=list(LOOPS))
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    def run_on_the_loop(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main)

    return run_on_the_loop


def hold() -> None:
    """Keep the loop from turning, as a long computation does."""
    time.sleep(HELD)


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_no_record_fails_and_none_is_twice(
    mock_cluster: MockCluster, run: Callable[[Coroutine[Any, Any, None]], None], turns: int
) -> None:
    """The loop is held before the requests leave, as they leave, or as their responses come."""
    mock_cluster.create_topic("orders", 3)

    async def main() -> None:
        servers = mock_cluster.bootstrap_servers
        async with Producer(
            bootstrap_servers=servers, enable_idempotence=False, acks=1, **SHORT
        ) as producer:
            await producer.send("orders", b"first", partition=0)
            futures = [producer.send("orders", b"%d" % n, partition=n % 3) for n in range(30)]
            for _ in range(turns):
                await asyncio.sleep(0)
            hold()
            await asyncio.gather(*futures)

    run(main())
    values = sorted(record.value or b"" for record in read_topic(mock_cluster, "orders"))
    assert values == sorted([b"first", *(b"%d" % n for n in range(30))])


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
