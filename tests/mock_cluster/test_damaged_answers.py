"""Damaged answers between librdkafka's mock cluster and a producer, or a reader."""

from __future__ import annotations

import asyncio
import logging
import tracemalloc
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from aioproducer import Producer
from aioproducer.errors import CorruptRecordsError, ProducerError
from aioproducer.model import TopicPartition
from aioproducer.reader import Reader
from aioproducer.testing.fault_proxy import Damage, FaultProxies, FaultScript, Rule
from aioproducer.testing.mock_cluster import MockCluster


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What producers log about damage is of no interest, and there is much of it."""
    caplog.set_level(logging.CRITICAL, "aioproducer")


FETCH = 1
RECORDS = 3000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
PLACES = [TopicPartition("orders", number) for number in range(2)]
PATIENCE = 30.0
MOST_BYTES = 150_000_000
"""At any time; a damaged length can announce 2 GiB."""


async def write(cluster: MockCluster, codec: str) -> set[bytes]:
    values = {b"value %d" % number for number in range(RECORDS)}
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        compression_type=codec,  # type: ignore[arg-type]
        batch_size=4_000,
    ) as producer:
        for number, value in enumerate(sorted(values)):
            producer.send("orders", value, partition=number % 2, headers={"h": b"v"})
        await producer.flush()
    return values


class Reading:
    """Reads again and again, on from where the last reader was, whatever goes wrong."""

    def __init__(self, proxies: FaultProxies) -> None:
        self.errors: Counter[str] = Counter()
        self.found: list[bytes | None] = []
        self._servers = proxies.bootstrap_servers
        self._positions: dict[TopicPartition, int] = dict.fromkeys(PLACES, 0)

    async def run(self, seconds: float) -> None:
        """Read for so long and until something was read; after each end from the beginning."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while loop.time() < began + (seconds if self.found else PATIENCE):
            try:
                async with asyncio.timeout(seconds + PATIENCE):
                    await self._read()
                self._positions = dict.fromkeys(PLACES, 0)
            except ProducerError as error:
                self.errors[type(error).__name__] += 1

    async def _read(self) -> None:
        async with Reader(
            self._positions,
            bootstrap_servers=self._servers,
            end=RECORDS // 2,
            retry_backoff_ms=5,
            retry_backoff_max_ms=10,
            reconnect_backoff_ms=5,
            reconnect_backoff_max_ms=10,
            request_timeout_ms=500,
            max_block_ms=3_000,
            fetch_max_wait_ms=50,
            max_partition_fetch_bytes=8_000,
            read_ahead_bytes=16_000,
        ) as reading:
            try:
                self.found += [record.value async for record in reading]
            finally:
                self._positions = reading.positions


async def damaged(codec: str, seed: int, changes: int, api: int | None, seconds: float) -> Reading:
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(MockCluster(brokers=2, topics={"orders": 2}))
        values = await write(cluster, codec)
        proxies = await stack.enter_async_context(FaultProxies(2))
        proxies.lead_to(cluster)
        for number, proxy in proxies.items():
            rule = Rule(Damage(changes), api, count=None, probability=0.4)
            proxy.play(FaultScript((rule,), seed * 10 + number))
        reading = Reading(proxies)
        await reading.run(seconds)
        assert set(reading.found) <= values, "the checksum covers the values"
        for proxy in proxies.values():
            proxy.play(FaultScript())
        after = Reading(proxies)
        await after.run(0.001)
        assert sorted(each for each in after.found if each is not None) == sorted(values)
    return reading


@pytest.mark.parametrize("codec", CODECS)
async def test_damaged_fetches_are_errors_and_no_false_records(codec: str) -> None:
    tracemalloc.start()
    try:
        reading = await damaged(codec, CODECS.index(codec), 1, FETCH, 1.0)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < MOST_BYTES
    assert reading.errors[CorruptRecordsError.__name__]
    assert reading.found


@pytest.mark.parametrize("seed", [1, 2])
async def test_damage_to_any_response_ends_no_reader(seed: int) -> None:
    reading = await damaged("lz4", seed, 2, None, 1.0)
    assert reading.found


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
async def test_damage_ends_no_reader_for_long(seed: int) -> None:
    await damaged(CODECS[seed % 5], seed, 1 + seed % 4, [FETCH, None][seed % 2], 10.0)
