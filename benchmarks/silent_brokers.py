"""A healthy broker's throughput beside silent ones, as a part of what it takes alone.

``python -m benchmarks.silent_brokers``. One caller for each of three brokers sends as fast as it
can, in one of four ways. The silent brokers read requests and answer nothing. Alone means: the same
producer with the same memory, without the callers of the silent brokers.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from statistics import median
from typing import Any, Final

from aioproducer import BufferExhaustedError, Producer, ProducerError, sync
from aioproducer.loops import run
from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.report import Measurement, Section, add_options

WAYS: Final = ("send", "drain", "send_many", "sync")
VALUE: Final = bytes(200)
BROKERS: Final = 3
_FOREVER_MS: Final = 3_600_000
_PAUSE: Final = 0.002
"""Seconds between bursts of a caller that waits for nothing."""


class Counted:
    """How many records were delivered, and how many refused, by partition."""

    def __init__(self) -> None:
        self.delivered = [0] * BROKERS
        self.refused = [0] * BROKERS

    def watch(self, partition: int) -> Callable[[Any], None]:
        """A callback for the futures of a partition."""

        def done(future: Any) -> None:
            if not future.cancelled() and future.exception() is None:
                self.delivered[partition] += 1

        return done


async def call(producer: Producer, way: str, partition: int, counted: Counted) -> None:
    """Send to ``partition``, for ever."""
    done = counted.watch(partition)
    while True:
        try:
            if way == "send_many":
                report = await producer.send_many("records", [VALUE] * 200, partition=partition)
                counted.delivered[partition] += report.delivered
                counted.refused[partition] += report.failed
                continue
            for _ in range(100):
                producer.send("records", VALUE, partition=partition).add_done_callback(done)
                if way == "drain":
                    await producer.drain()
            await asyncio.sleep(_PAUSE if way == "send" else 0)
        except BufferExhaustedError:
            counted.refused[partition] += 1
            await asyncio.sleep(_PAUSE)


async def measure(
    cluster: MockCluster, way: str, partitions: Iterable[int], options: Any, seconds: float
) -> Counted:
    """With callers on an event loop."""
    counted = Counted()
    producer = Producer(**options)
    await producer.start()
    await asyncio.gather(*(producer.send("records", b"", partition=n) for n in range(BROKERS)))
    silence(cluster, partitions)
    loop = asyncio.get_running_loop()
    callers = [loop.create_task(call(producer, way, each, counted)) for each in partitions]
    await asyncio.sleep(seconds)
    counts = counted.delivered[:]
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)
    await producer.close(0)
    counted.delivered = counts
    return counted


def measure_threads(
    cluster: MockCluster, partitions: Iterable[int], options: Any, seconds: float
) -> Counted:
    """With threads as callers of the blocking shell."""
    counted, stopped = Counted(), threading.Event()
    producer = sync.Producer(**options)
    producer.start()
    for partition in range(BROKERS):
        producer.send("records", b"", partition=partition).result()
    silence(cluster, partitions)

    def send(partition: int) -> None:
        done = counted.watch(partition)
        with suppress(ProducerError):
            while not stopped.is_set():
                producer.send("records", VALUE, partition=partition).add_done_callback(done)

    threads = [threading.Thread(target=send, args=[each]) for each in partitions]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    counts = counted.delivered[:]
    stopped.set()
    producer.close(0)
    for thread in threads:
        thread.join()
    counted.delivered = counts
    return counted


def silence(cluster: MockCluster, partitions: Iterable[int]) -> None:
    """Let every broker fall silent but the first, which leads partition 0."""
    for partition in partitions:
        if partition:
            cluster.set_broker_rtt(partition + 1, _FOREVER_MS)


def round_of(way: str, silent: int, memory: int, seconds: float) -> tuple[float, int]:
    """Records per second to the healthy broker, and how many of its records were refused."""
    with MockCluster(brokers=BROKERS, topics={"records": BROKERS}) as cluster:
        options = {"bootstrap_servers": cluster.bootstrap_servers, "buffer_memory": memory}
        partitions = range(silent + 1)
        if way == "sync":
            counted = measure_threads(cluster, partitions, options, seconds)
        else:
            counted = run(measure(cluster, way, partitions, options, seconds))
    return counted.delivered[0] / seconds, counted.refused[0]


def rows(ways: Iterable[str], rounds: int, memory: int, seconds: float) -> Iterator[Sequence[str]]:
    """One for each way, and for each number of silent brokers."""
    for way in ways:
        figures: dict[int, list[tuple[float, int]]] = {silent: [] for silent in range(BROKERS)}
        for _ in range(rounds):
            for silent, measured in figures.items():
                measured.append(round_of(way, silent, memory, seconds))
        alone = median(rate for rate, _ in figures[0])
        for silent, measured in figures.items():
            rate = median(rate for rate, _ in measured)
            refused = sum(refused for _, refused in measured)
            yield way, str(silent), f"{rate:,.0f}", f"{rate / alone:.2f}", f"{refused:,}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.silent_brokers", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--memory", type=int, default=2_000_000, help="buffer_memory, in bytes")
    parser.add_argument("--ways", default=",".join(WAYS))
    add_options(parser)
    options = parser.parse_args(arguments)
    ways, rounds = options.ways.split(","), options.rounds
    took = len(ways) * BROKERS * rounds * (options.seconds + 2)
    measurement = Measurement.begin(parser, arguments, options, seconds=took)
    section = Section(
        title=f"silent brokers: a healthy broker beside them; {rounds} rounds",
        headings=("way", "silent", "records/s", "of alone", "refused"),
        rows=tuple(map(tuple, rows(ways, rounds, options.memory, options.seconds))),
        labels=2,
    )
    measurement.publish([section])
    return 0


if __name__ == "__main__":
    sys.exit(main())
