"""What metadata costs the event loop: ``python -m benchmarks.metadata --rounds 5``.

The mock cluster with thousands of topics, all of them in use by one producer, and a task that is
always due. Printed is the longest that it had to wait for its turn, in CPU time of the thread (the
machine may be busy), as the median over the rounds. The cases: the first send to a new topic, the
first send to a topic of many partitions, a refresh of all topics by their age, ten seconds beside a
topic that does not exist, with the metadata requests in a second, and one second of nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from time import thread_time
from typing import Final

from aioproducer import Producer
from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.machine import look_at_machine

_METADATA: Final = 3
_UNKNOWN_TOPIC: Final = 3
_GONE: Final = "gone"
_MAX_AGE: Final = 3.0
_GONE_FOR: Final = 10.0
_CALM: Final = 0.05


async def stall(work: Callable[[], Awaitable[object]]) -> float:
    """The most milliseconds of CPU between two turns of the event loop while ``work`` was done."""
    longest = 0.0

    async def take_turns() -> None:
        nonlocal longest
        last = thread_time()
        while True:
            await asyncio.sleep(0)
            now = thread_time()
            longest = max(longest, now - last)
            last = now

    turns = asyncio.create_task(take_turns())
    await asyncio.sleep(_CALM)
    await work()
    await asyncio.sleep(_CALM)
    turns.cancel()
    await asyncio.wait([turns])
    return longest * 1000


async def know(producer: Producer, topics: Sequence[str]) -> None:
    """Write a record to each of ``topics``."""
    for start in range(0, len(topics), 500):
        some = topics[start : start + 500]
        await asyncio.gather(*(producer.send(topic, b"v") for topic in some))


async def a_round(cluster: MockCluster, number: int, topics: int) -> dict[str, float]:
    """One new producer, and what each thing costs it."""
    names = [f"topic-{each}" for each in range(topics)]
    servers = cluster.bootstrap_servers
    said: dict[str, float] = {}
    async with Producer(bootstrap_servers=servers) as producer:
        await know(producer, names)
        said["nothing"] = await stall(lambda: asyncio.sleep(1))
        said["a new topic"] = await stall(lambda: producer.send(f"new-{number}", b"v"))
        said["a wide topic"] = await stall(lambda: producer.send(f"wide-{number}", b"v"))
        cluster.start_request_tracking()
        lost = producer.send(_GONE, b"v")
        said["a deleted topic"] = await stall(lambda: asyncio.sleep(_GONE_FOR))
        asked = [each for each in cluster.requests() if each.api_key == _METADATA]
        said["a deleted topic: requests/s"] = len(asked) / _GONE_FOR
        cluster.stop_request_tracking()
        lost.cancel()
    async with Producer(
        bootstrap_servers=servers, metadata_max_age_ms=int(_MAX_AGE * 1000)
    ) as producer:
        await know(producer, names)
        said["a full refresh"] = await stall(lambda: asyncio.sleep(_MAX_AGE + 1))
    return said


def run(rounds: int, topics: int, partitions: int) -> dict[str, float]:
    """The medians of what was measured."""
    with MockCluster(brokers=3) as cluster:
        cluster.create_topics({f"topic-{number}": 1 for number in range(topics)})
        for number in range(rounds):
            cluster.create_topic(f"new-{number}")
            cluster.create_topic(f"wide-{number}", partitions)
        cluster.create_topic(_GONE)
        cluster.set_topic_error(_GONE, _UNKNOWN_TOPIC)
        seen = [asyncio.run(a_round(cluster, number, topics)) for number in range(rounds)]
    return {name: median(each[name] for each in seen) for name in seen[0]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metadata", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--topics", type=int, default=5_000, help="default %(default)s")
    parser.add_argument("--partitions", type=int, default=10_000, help="default %(default)s")
    options = parser.parse_args(arguments)
    print(look_at_machine(["aioproducer"]).describe())
    for name, figure in run(options.rounds, options.topics, options.partitions).items():
        print(f"{name:30}{figure:9.1f}{'' if 'requests' in name else ' ms'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
