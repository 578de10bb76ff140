"""How long partitions pause when a member joins, leaves or is killed: ours beside other clients.

``python -m benchmarks.rebalances [--rounds 3] [--clients aioproducer,java]``. One broker of a real
Kafka; each of six partitions gets 50 records a second. Each member is a process that prints the
partition of each record. A pause is the longest time from one record of a partition to the next one
at whichever member, without the usual 20 ms. Member A has all partitions, B joins, C joins; C
leaves by SIGTERM, B is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from typing import Any, Final

from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from confluent_kafka import Consumer as ConfluentConsumer

from aioproducer import Producer
from aioproducer.consumer import Consumer
from aioproducer.testing.kafka_cluster import KafkaCluster

PARTITIONS: Final = 6
EVERY: Final = 0.02
CALM: Final = 5.0
"""Seconds before and after each event."""
SESSION: Final = 6.0
"""Seconds after which a killed member is out of its group."""
BROKER: Final = {
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 1_000,
    "group.consumer.session.timeout.ms": int(SESSION * 1000),
    "group.consumer.min.session.timeout.ms": int(SESSION * 1000),
}
"""KIP-848 members have the brokers' times: these are those of the others here."""
CLASSIC: Final = {"heartbeat.interval.ms": "1000", "session.timeout.ms": str(int(SESSION * 1000))}
EVENTS: Final = ("join", "second join", "leave", "kill")

MEMBERS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "aioproducer range": ("aioproducer", {"partition_assignment_strategy": "range"}),
    "aiokafka range": ("aiokafka", {}),
    "confluent range": ("confluent", {**CLASSIC, "partition.assignment.strategy": "range"}),
    "java range": (
        "java",
        {
            **CLASSIC,
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
        },
    ),
    "aioproducer cooperative": (
        "aioproducer",
        {"partition_assignment_strategy": "cooperative-sticky"},
    ),
    "confluent cooperative": (
        "confluent",
        {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    ),
    "java cooperative": (
        "java",
        {
            **CLASSIC,
            "partition.assignment.strategy": (
                "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
            ),
        },
    ),
    "aioproducer KIP-848": ("aioproducer", {"group_protocol": "consumer"}),
    "confluent KIP-848": ("confluent", {"group.protocol": "consumer"}),
    "java KIP-848": ("java", {"group.protocol": "consumer"}),
}


# --- the members' processes --------------------------------------------------------------------


def took(partition: int) -> None:
    os.write(1, b"%d\n" % partition)


async def ours(servers: str, topic: str, options: dict[str, Any]) -> None:
    async with Consumer(
        topic,
        group_id=topic,
        bootstrap_servers=servers,
        heartbeat_interval_ms=1_000,
        session_timeout_ms=int(SESSION * 1000),
        **options,
    ) as consumer:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.finish)
        async for record in consumer:
            took(record.partition)


async def aiokafkas(servers: str, topic: str, options: dict[str, Any]) -> None:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=topic,
        heartbeat_interval_ms=1_000,
        session_timeout_ms=int(SESSION * 1000),
        **options,
    )
    await consumer.start()

    async def read() -> None:
        async for record in consumer:
            took(record.partition)

    reading = asyncio.ensure_future(read())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, reading.cancel)
    await asyncio.wait([reading])
    await consumer.stop()


async def confluents(servers: str, topic: str, options: dict[str, Any]) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = ConfluentConsumer({"bootstrap.servers": servers, "group.id": topic, **options})
    consumer.subscribe([topic])
    while not stop.is_set():
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            took(message.partition() or 0)
    consumer.close()


CLIENTS: Final = {"aioproducer": ours, "aiokafka": aiokafkas, "confluent": confluents}


def command(cluster: KafkaCluster, name: str, topic: str) -> list[str]:
    """The command of one member."""
    client, options = MEMBERS[name]
    servers = cluster.bootstrap_servers
    if client != "java":
        return [sys.executable, "-m", "benchmarks.rebalances", "--member", name, servers, topic]
    properties = {**options, "group.id": topic}
    given = [
        word
        for option, value in properties.items()
        for word in ("--command-property", f"{option}={value}")
    ]
    return [
        *("java", "-cp", cluster.classpath),
        *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", servers),
        *("--topic", topic, "--formatter-property", "print.partition=true"),
        *("--formatter-property", "print.value=false", *given),
    ]


# --- what is measured --------------------------------------------------------------------------


class Pauses:
    """The longest time between two records of each partition."""

    def __init__(self) -> None:
        self._last: dict[int, float] = {}
        self._longest: dict[int, float] = defaultdict(float)

    def saw(self, partition: int) -> None:
        now = time.perf_counter()
        if partition in self._last:
            pause = now - self._last[partition]
            self._longest[partition] = max(self._longest[partition], pause)
        self._last[partition] = now

    def clear(self) -> None:
        self._longest.clear()

    def found(self) -> list[float]:
        """Milliseconds, from the shortest on; a partition that nobody reads pauses until now."""
        now = time.perf_counter()
        for partition, last in self._last.items():
            self._longest[partition] = max(self._longest[partition], now - last)
        return sorted((each - EVERY) * 1000 for each in self._longest.values())


@asynccontextmanager
async def member(words: list[str], pauses: Pauses) -> AsyncIterator[asyncio.subprocess.Process]:
    """A member's process, whose lines are looked at."""
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None

    async def look(lines: asyncio.StreamReader) -> None:
        async for line in lines:
            text = line.strip().removeprefix(b"Partition:")
            if text.isdigit():
                pauses.saw(int(text))

    looking = asyncio.ensure_future(look(process.stdout))
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await looking


async def measure(words: list[str]) -> dict[str, list[float]]:
    """The pauses of the partitions by event."""
    pauses = Pauses()
    found: dict[str, list[float]] = {}

    async def settled(event: str, seconds: float = CALM) -> None:
        await asyncio.sleep(seconds)
        found[event] = pauses.found()
        pauses.clear()

    async with member(words, pauses):
        await asyncio.sleep(2 * CALM)
        pauses.clear()
        async with member(words, pauses) as second:
            await settled("join", 2 * CALM)
            async with member(words, pauses) as third:
                await settled("second join", 2 * CALM)
                third.terminate()
                await settled("leave")
            second.kill()
            await settled("kill", SESSION + CALM)
    return found


async def write(servers: str, topic: str) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        while True:
            for partition in range(PARTITIONS):
                producer.send(topic, b"record", partition=partition)
            await asyncio.sleep(EVERY)


async def main(names: list[str], rounds: int) -> int:
    results: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    with KafkaCluster(brokers=1, config=BROKER) as cluster:
        for number in range(rounds):
            for name in names:
                topic = f"{name.replace(' ', '-')}-{number}"
                await cluster.create_topic(topic, PARTITIONS)
                writing = asyncio.ensure_future(write(cluster.bootstrap_servers, topic))
                for event, pauses in (await measure(command(cluster, name, topic))).items():
                    results[name][event].append(pauses)
                writing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await writing
    print(
        "Longest pause in ms, medians of the rounds: of the median partition, and of the worst one"
    )
    print(f"{'':24} " + "   ".join(f"{event:>14}" for event in EVENTS))
    for name, events in results.items():
        cells = []
        for event in EVENTS:
            typical = median(median(each) for each in events[event])
            worst = median(max(each) for each in events[event])
            cells.append(f"{typical:6.0f} {worst:7.0f}")
        print(f"{name:24} " + "   ".join(cells))
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", default="", help="aioproducer,aiokafka,confluent,java")
    parser.add_argument("--member", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parsed()
    if arguments.member:
        name, servers, topic = arguments.member
        client, options = MEMBERS[name]
        asyncio.run(CLIENTS[client](servers, topic, options))
        sys.exit(0)
    wanted = arguments.clients.split(",") if arguments.clients else [*CLIENTS, "java"]
    names = [name for name, (client, _) in MEMBERS.items() if client in wanted]
    sys.exit(asyncio.run(main(names, arguments.rounds)))
