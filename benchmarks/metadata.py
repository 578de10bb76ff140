"""What metadata costs the event loop: ``python -m benchmarks.metadata --rounds 5``.

The mock cluster with thousands of topics, all of them in use by one producer, and a task that is
always due. Printed is the longest that it had to wait for its turn, in CPU time of the thread (the
machine may be busy), as the median over the rounds. The cases: the first send to a new topic, the
first send to a topic of many partitions, a refresh of all topics by their age, ten seconds beside a
topic that does not exist, with the metadata requests in a second, and one second of nothing; the
start of a Reader of a topic of many partitions, and its first second; an Admin's description of all
topics; and each assignor, by which the leader of a group divides these partitions, and as many
topics, between a member that had all and a second one.

``--consumer`` adds a Consumer of these partitions, of which a real Kafka has a broker: its first
ten seconds, pause() and resume() of all partitions, a commit of all offsets, lag(), health(),
metrics(), seek() of all, and a second member that comes (``cooperative-sticky``).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from time import thread_time
from typing import Final

from aioproducer import Producer, TopicPartition
from aioproducer.admin import Admin
from aioproducer.consumer import Consumer
from aioproducer.engine.groups.assignors import ASSIGNORS, GroupMember, TopicLayout
from aioproducer.foundation.runtime.tasks import in_turns
from aioproducer.reader import Reader
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.report import Measurement, Section, add_options

_METADATA: Final = 3
_UNKNOWN_TOPIC: Final = 3
_GONE: Final = "gone"
_WIDE: Final = "wide"
_BROKER: Final = {"offsets.topic.num.partitions": 1}
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


async def read_and_describe(cluster: MockCluster, topics: int) -> dict[str, float]:
    """The other clients of a wide topic, and of many topics."""
    said: dict[str, float] = {}
    servers = cluster.bootstrap_servers
    reader = Reader(_WIDE, bootstrap_servers=servers)

    async def start() -> None:
        await reader.start()
        await asyncio.sleep(1)

    said["a wide topic: a Reader"] = await stall(start)
    await reader.close()
    async with Admin(bootstrap_servers=servers) as admin:
        names = [f"topic-{each}" for each in range(topics)]
        said["all topics: an Admin"] = await stall(lambda: admin.describe_topics(names))
    return said


async def divide(partitions: int) -> dict[str, float]:
    """The assignors of a group's leader."""
    said = {}
    for what, topics in (("a wide topic", 1), ("many topics", partitions)):
        counts = {f"topic-{each}": partitions // topics for each in range(topics)}
        owned = tuple(
            TopicPartition(topic, number)
            for topic, most in counts.items()
            for number in range(most)
        )
        names = tuple(counts)
        group = [GroupMember("a", names, owned=owned, generation=1), GroupMember("b", names)]
        for name, assign in ASSIGNORS.items():
            steps = assign(group, TopicLayout(counts, {}))
            said[f"{what}: {name}"] = await stall(lambda steps=steps: in_turns(steps))  # type: ignore[misc]
    return said


async def consume(cluster: KafkaCluster, partitions: int) -> dict[str, float]:
    """A member that has all partitions, and a second one that comes."""
    said: dict[str, float] = {}
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send("small", b"v")
    async with Consumer(
        "small",
        group_id="small",
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
    ) as consumer:
        await anext(aiter(consumer))  # the broker has a topic for offsets now
    await cluster.create_topic(_WIDE, partitions)

    def member() -> Consumer:
        return Consumer(
            _WIDE,
            group_id=_WIDE,
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            partition_assignment_strategy="cooperative-sticky",
            heartbeat_interval_ms=500,
        )

    async def begun(*consumers: Consumer) -> None:
        async with asyncio.timeout(120):
            while sum(len(each.positions) for each in consumers) < partitions:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.sleep(2)

    async def at_once(call: Callable[[], object]) -> float:
        async def work() -> None:
            call()

        return await stall(work)

    async with member() as first:
        said["a Consumer: its start"] = await stall(lambda: begun(first))
        where = [*first.assignment]
        said["a Consumer: pause()"] = await at_once(lambda: first.pause(*where))
        said["a Consumer: resume()"] = await at_once(lambda: first.resume(*where))
        offsets = dict.fromkeys(where, 0)
        said["a Consumer: commit()"] = await stall(lambda: first.commit(offsets))
        said["a Consumer: committed()"] = await stall(first.committed)
        said["a Consumer: lag()"] = await stall(first.lag)
        said["a Consumer: health()"] = await at_once(first.health)
        said["a Consumer: metrics()"] = await at_once(first.metrics)

        async def seek() -> None:
            for each in where:
                await first.seek(each, 0)

        said["a Consumer: seek()"] = await stall(seek)
        second = member()

        async def join() -> None:
            await second.start()
            await begun(first, second)

        said["a Consumer: a second one"] = await stall(join)
        await second.close()
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
        cluster.create_topic(_WIDE, partitions)
        seen = [
            asyncio.run(a_round(cluster, number, topics))
            | asyncio.run(read_and_describe(cluster, topics))
            | asyncio.run(divide(partitions))
            for number in range(rounds)
        ]
    return {name: median(each[name] for each in seen) for name in seen[0]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metadata", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--topics", type=int, default=5_000, help="default %(default)s")
    parser.add_argument("--partitions", type=int, default=10_000, help="default %(default)s")
    parser.add_argument("--consumer", action="store_true", help="also a Consumer")
    add_options(parser)
    options = parser.parse_args(arguments)
    gc.freeze()  # the collector would visit what was imported, in turns that are counted
    measurement = Measurement.begin(parser, arguments, options, seconds=60 * options.rounds)
    found = run(options.rounds, options.topics, options.partitions)
    if options.consumer:
        with KafkaCluster(jvm_options=("-Xmx1g",), config=_BROKER) as cluster:
            found |= asyncio.run(consume(cluster, options.partitions))
    section = Section(
        title=f"metadata: the event loop's longest turn, {options.topics:,} topics",
        headings=("case", "CPU ms"),
        rows=tuple((name, f"{each:.1f}") for name, each in found.items()),
    )
    measurement.publish([section])
    return 0


if __name__ == "__main__":
    sys.exit(main())
