"""How long partitions pause when a member joins, leaves or is killed: ours beside other clients.

``python -m benchmarks.rebalances [--rounds 3]``. One broker of a real Kafka; each of six partitions
gets 50 records a second. A pause is the longest time from one record of a partition to the next one
at whichever member, without the usual 20 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any, Final

from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from confluent_kafka import Consumer as ConfluentConsumer

from aioproducer import Producer
from aioproducer.consumer import Consumer
from aioproducer.testing.kafka_cluster import KafkaCluster

PARTITIONS: Final = 6
EVERY: Final = 0.02
CALM: Final = 4.0
"""Seconds before and after each event."""
QUICK: Final = {
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 1_000,
}
"""KIP-848 members have the brokers' times: these are those of the others here."""

Took = Callable[[int], None]


async def ours(servers: str, topic: str, group: str, took: Took, **options: Any) -> None:
    async with Consumer(
        topic,
        group_id=group,
        bootstrap_servers=servers,
        heartbeat_interval_ms=1_000,
        **options,
    ) as consumer:
        async for record in consumer:
            took(record.partition)


async def aiokafkas(servers: str, topic: str, group: str, took: Took) -> None:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, group_id=group, heartbeat_interval_ms=1_000
    )
    await consumer.start()
    try:
        async for record in consumer:
            took(record.partition)
    finally:
        await consumer.stop()


async def confluents(servers: str, topic: str, group: str, took: Took, **options: Any) -> None:
    stop = threading.Event()

    def read() -> None:
        consumer = ConfluentConsumer({"bootstrap.servers": servers, "group.id": group, **options})
        consumer.subscribe([topic])
        while not stop.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                took(message.partition() or 0)
        consumer.close()

    reading = asyncio.ensure_future(asyncio.to_thread(read))
    try:
        await asyncio.shield(reading)
    finally:
        stop.set()
        await reading


CLASSIC: Final = {"heartbeat.interval.ms": 1_000}
MEMBERS: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "aioproducer range": (ours, {}),
    "aiokafka range": (aiokafkas, {}),
    "confluent range": (confluents, {**CLASSIC, "partition.assignment.strategy": "range"}),
    "aioproducer cooperative": (ours, {"partition_assignment_strategy": "cooperative-sticky"}),
    "confluent cooperative": (
        confluents,
        {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    ),
    "aioproducer KIP-848": (ours, {"group_protocol": "consumer"}),
    "confluent KIP-848": (confluents, {"group.protocol": "consumer"}),
}


async def measure(servers: str, name: str, topic: str) -> dict[str, list[float]]:
    """The pauses of each partition in milliseconds, by event, from the shortest on."""
    member, options = MEMBERS[name]
    last: dict[int, float] = {}
    pauses: dict[int, float] = defaultdict(float)

    def took(partition: int) -> None:
        now = time.perf_counter()
        if partition in last:
            pauses[partition] = max(pauses[partition], now - last[partition])
        last[partition] = now

    async def settled(event: str) -> None:
        await asyncio.sleep(CALM)
        found[event] = sorted((each - EVERY) * 1000 for each in pauses.values())
        pauses.clear()

    def start() -> asyncio.Task[None]:
        return asyncio.ensure_future(member(servers, topic, f"{topic}-group", took, **options))

    found: dict[str, list[float]] = {}
    first = start()
    await asyncio.sleep(2 * CALM)
    pauses.clear()
    second = start()
    await settled("join")
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await settled("leave")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    return found


async def write(servers: str, topics: list[str]) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        while True:
            for topic in topics:
                for partition in range(PARTITIONS):
                    producer.send(topic, b"record", partition=partition)
            await asyncio.sleep(EVERY)


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    results: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    with KafkaCluster(brokers=1, config=QUICK) as cluster:
        for number in range(rounds):
            for name in MEMBERS:
                topic = f"{name.replace(' ', '-')}-{number}"
                await cluster.create_topic(topic, PARTITIONS)
                writing = asyncio.ensure_future(write(cluster.bootstrap_servers, [topic]))
                for event, pauses in (
                    await measure(cluster.bootstrap_servers, name, topic)
                ).items():
                    results[name][event].append(pauses)
                writing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await writing
    print("Pause of a partition in ms, medians: of the three that stay, of the three that move")
    for name, events in results.items():
        words = []
        for event, all_pauses in events.items():
            short = median(median(each[:3]) for each in all_pauses)
            long = median(median(each[3:]) for each in all_pauses)
            words.append(f"{event}: {short:5.0f} {long:6.0f}")
        print(f"{name:26} {'   '.join(words)}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
