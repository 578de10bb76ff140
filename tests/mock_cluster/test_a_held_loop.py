"""An application holds the event loop beyond its timeouts, and the brokers answer meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from aioproducer import Producer
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
