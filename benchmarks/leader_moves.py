"""The pause when a leader moves at full speed: ``python -m benchmarks.leader_moves --moves 5``.

A real Kafka of three brokers, one partition, records sent as fast as they are taken. Kafka's own
tools put another replica first and elect it. Printed is what a sender sees: from the first error of
the old leader to the next acknowledgement, and the longest silence between acknowledgements around
it; with the new leader's hint in the produce response (KIP-951), and with the hint ignored.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Final
from unittest import mock

from aioproducer import Producer, RecordMetadata
from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.testing.kafka_cluster import KafkaCluster, broker_processes
from benchmarks.machine import look_at_machine

TOPIC: Final = "moving"
BROKERS: Final = 3
FOLLOWERS: Final = {"replica.fetch.backoff.ms": 50}
"""A follower that asks the new leader too early waits for so long, 1 s by default; until it has
come back, ``acks=all`` is not answered, and it is the brokers' pause that is measured."""
_VALUE: Final = bytes(100)
_WITHIN: Final = 30.0
_CALM: Final = 1.0
"""Seconds of sending before a move, and after it."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds of one move."""

    error_to_ack: float
    silence: float


class Stopwatch:
    """Sees acknowledgements and retries as they come."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._last_ack = perf_counter()
        self._first_error: float | None = None
        self._pause: float | None = None
        self._silence = 0.0
        self.over = asyncio.Event()

    def start(self) -> None:
        """A leader is about to move."""
        self._first_error = self._pause = None
        self._silence = 0.0
        self.over.clear()

    def read(self) -> Pause:
        """What happened since :meth:`start`."""
        assert self._pause is not None
        return Pause(self._pause, self._silence)

    def acknowledged(self, future: asyncio.Future[RecordMetadata]) -> None:
        """To be called when a record is in the log; raises what it failed with."""
        future.result()
        now = perf_counter()
        self._silence = max(self._silence, now - self._last_ack)
        self._last_ack = now
        if self._first_error is not None and self._pause is None:
            self._pause = now - self._first_error
            self.over.set()

    async def watch_retries(self) -> None:
        """Until it is cancelled."""
        seen = self._retries()
        while True:
            await asyncio.sleep(0)
            if (retries := self._retries()) > seen:
                seen = retries
                self._first_error = self._first_error or perf_counter()

    def _retries(self) -> float:
        return self._producer.metrics()["producer-metrics"]["record-retry-total"]


async def measure(cluster: KafkaCluster, moves: int) -> list[Pause]:
    """Move the leader of the only partition round the brokers."""
    pauses = []
    async with (
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
        sending(producer) as stopwatch,
    ):
        for _ in range(moves):
            await asyncio.sleep(_CALM)
            leader = await asyncio.to_thread(leader_of_topic, cluster)
            stopwatch.start()
            await elect(cluster, first=leader % BROKERS + 1)
            async with asyncio.timeout(_WITHIN):
                await stopwatch.over.wait()
            await asyncio.sleep(_CALM)
            pauses.append(stopwatch.read())
    return pauses


@asynccontextmanager
async def sending(producer: Producer) -> AsyncIterator[Stopwatch]:
    """Records are on their way, as many as there is room for."""
    stopwatch = Stopwatch(producer)

    async def send() -> None:
        while True:
            for _ in range(100):
                producer.send(TOPIC, _VALUE).add_done_callback(stopwatch.acknowledged)
            await producer.drain()
            await asyncio.sleep(0.002)

    tasks = [asyncio.create_task(send()), asyncio.create_task(stopwatch.watch_retries())]
    try:
        yield stopwatch
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def leader_of_topic(cluster: KafkaCluster) -> int:
    """The broker that leads the only partition."""
    topic = broker_processes.metadata(cluster.brokers[0].internal_address, TOPIC).topics[0]
    return int(topic.partitions[0].leader_id)


async def elect(cluster: KafkaCluster, first: int) -> None:
    """Make broker ``first`` the leader: the preferred replica, elected."""
    replicas = [(first + step - 1) % BROKERS + 1 for step in range(BROKERS)]
    plan = {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": replicas}]}
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        await run_tool(
            cluster,
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            *(*servers, "--reassignment-json-file", file.name, "--execute"),
        )
    await run_tool(
        cluster,
        "org.apache.kafka.tools.LeaderElectionCommand",
        *(*servers, "--election-type", "preferred", "--topic", TOPIC, "--partition", "0"),
    )


async def run_tool(cluster: KafkaCluster, main_class: str, *arguments: str) -> None:
    """Raises RuntimeError where the tool says that it failed."""
    done = await cluster.tool(main_class, *arguments)
    if done.returncode != 0:
        raise RuntimeError(f"{main_class}: {done.stdout}{done.stderr}")


@contextmanager
def hints(*, used: bool) -> Iterator[None]:
    """Whether the leaders that produce responses name are believed."""
    if used:
        yield
    else:
        with mock.patch.object(Metadata, "update_leaders"):
            yield


async def run(moves: int) -> dict[str, list[Pause]]:
    """Both ways by turns, each half of the moves at a time."""
    pauses: dict[str, list[Pause]] = {"with the hint": [], "without": []}
    async with KafkaCluster(BROKERS, config=FOLLOWERS) as cluster:
        await cluster.create_topic(TOPIC, 1, BROKERS)
        for _ in range(2):
            for name, used in zip(pauses, (True, False), strict=True):
                with hints(used=used):
                    pauses[name] += await measure(cluster, moves)
    return pauses


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leader_moves", description=__doc__)
    parser.add_argument("--moves", type=int, default=5, help="at a time; default %(default)s")
    options = parser.parse_args(arguments)
    print(look_at_machine(["aioproducer"]).describe())
    for name, pauses in asyncio.run(run(options.moves)).items():
        for what, seconds in (
            ("first error to next ack", [pause.error_to_ack for pause in pauses]),
            ("longest silence", [pause.silence for pause in pauses]),
        ):
            low, middle, high = (1000 * pick(seconds) for pick in (min, median, max))
            print(
                f"{name:15}{what:24} median {middle:6.1f} ms, {low:.1f} to {high:.1f}, "
                f"{len(seconds)} moves"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
