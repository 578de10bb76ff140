"""Every client at every load, round by round, and what the logs have of it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from benchmarks import launch
from benchmarks.machine import Neighbours
from benchmarks.summary import percentile
from benchmarks.transactions.client import Costs
from benchmarks.transactions.plan import BROKERS, Client, Load
from benchmarks.transactions.summary import Run, why_void

_ROOT: Final = Path(__file__).parents[2]
_JAVA: Final = Path(__file__).with_name("TransactionLoop.java")
_TRANSACTIONAL_ID: Final = "benchmark"
"""The same for all, so that they have the same coordinator; each fences the one before."""
_LONGEST_RUN: Final = 180.0
_LONGEST_SILENCE: Final = 10.0
_POLL: Final = 0.3
# With the compilers that Kafka has in production.
_BROKER_OPTIONS: Final = ("-Xmx768m", "-XX:+UseSerialGC")
_JAVA_OPTIONS: Final = ("-Xmx768m",)


class RunError(Exception):
    """A client's process failed, or what it wrote can't be read."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. ``transactions`` may be None: the load's number."""

    protocols: Sequence[int]
    loads: Sequence[Load]
    clients: Sequence[Client]
    rounds: int
    transactions: int | None = None
    profiles: Path | None = None


async def run_all(plan: Plan, started: Callable[[str], None]) -> AsyncIterator[Run]:
    """Every run, as it ends. ``started`` is told what runs now.

    The rounds are interleaved, A B C A B C, and each begins with another client.
    """
    for protocol in plan.protocols:
        async with KafkaCluster(
            BROKERS,
            format_options=("--feature", f"transaction.version={protocol}"),
            jvm_options=_BROKER_OPTIONS,
        ) as cluster:
            for load in plan.loads:
                started(f"protocol {protocol}, {load.name}: warming up the brokers")
                await _run(plan, cluster, protocol, load, plan.clients[0], 0)
                for number in range(1, plan.rounds + 1):
                    first = (number - 1) % len(plan.clients)
                    for client in (*plan.clients[first:], *plan.clients[:first]):
                        where = f"protocol {protocol}, {load.name}"
                        started(f"{where}, round {number} of {plan.rounds}: {client.name}")
                        yield await _run(plan, cluster, protocol, load, client, number)


async def _run(
    plan: Plan, cluster: KafkaCluster, protocol: int, load: Load, client: Client, number: int
) -> Run:
    topic = f"{load.name}-{client.name}-{number}"
    await cluster.create_topic(topic, load.partitions, BROKERS)
    transactions = plan.transactions or load.transactions
    written = load.warm_up + transactions
    command = _command(client, load, cluster.bootstrap_servers, topic, transactions)
    if plan.profiles and client.driver:
        name = f"{protocol}-{topic}.prof"
        command += ["--profile", str(plan.profiles / name)]
    neighbours = Neighbours()
    try:
        costs = await asyncio.to_thread(_costs, command)
        others = neighbours.cores_used()
        counts = await asyncio.to_thread(
            _read_back, cluster.bootstrap_servers, topic, load, written
        )
    except RunError as error:
        return Run(client.name, load.name, protocol, number, str(error))
    void = why_void(load.values(), written, counts)
    if void:
        return Run(client.name, load.name, protocol, number, void)
    latencies = sorted(costs.latencies_ns)
    return Run(
        client.name,
        load.name,
        protocol,
        number,
        others_cores=others,
        transactions_per_second=transactions / costs.seconds,
        cpu_us=costs.cpu_seconds / transactions * 1e6,
        p50_ms=percentile(latencies, 0.50) / 1e6,
        p99_ms=percentile(latencies, 0.99) / 1e6,
    )


def _command(
    client: Client, load: Load, bootstrap_servers: str, topic: str, transactions: int
) -> list[str]:
    if client.driver is not None:
        command = launch.command("benchmarks.transactions.client", client.name, load.name)
        command += ["--bootstrap", bootstrap_servers, "--topic", topic]
        command += ["--transactional-id", _TRANSACTIONAL_ID]
        return [*command, "--transactions", str(transactions)]
    options = {
        "bootstrap.servers": bootstrap_servers,
        "transactional.id": _TRANSACTIONAL_ID,
        **client.settings(load),
    }
    partitions = load.partitions if load.spread else 0
    numbers = (transactions, load.warm_up, load.records, load.value_bytes, partitions)
    return KafkaDistribution.resolve().command(
        str(_JAVA),
        topic,
        *map(str, numbers),
        *(f"{name}={value}" for name, value in options.items()),
        jvm_options=_JAVA_OPTIONS,
        log_level="WARN",
    )


def _costs(command: Sequence[str]) -> Costs:
    try:
        done = subprocess.run(
            command, cwd=_ROOT, capture_output=True, text=True, timeout=_LONGEST_RUN, check=False
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"the client did not end within {_LONGEST_RUN:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RunError(f"the client's process failed: {lines[-1]}")
    return Costs(**json.loads(done.stdout.splitlines()[-1]))


def _read_back(bootstrap_servers: str, topic: str, load: Load, transactions: int) -> Counter[bytes]:
    """How often each value was committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "never-used",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(load.partitions)])
        return Counter(_values(consumer, load.records * transactions, load.partitions))
    finally:
        consumer.close()


def _values(consumer: Consumer, wanted: int, partitions: int) -> Iterator[bytes]:
    """Up to the ends of the logs; but a commit may take its moment to be seen there."""
    at_end: set[int | None] = set()
    deadline = time.monotonic() + _LONGEST_SILENCE
    while wanted > 0 or len(at_end) < partitions:
        for message in consumer.consume(10_000, _POLL):
            error = message.error()
            if error is None:
                value = message.value()
                yield value if isinstance(value, bytes) else b""
                wanted -= 1
                deadline = time.monotonic() + _LONGEST_SILENCE
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
            else:
                raise RunError(f"reading back: {error}")
        if time.monotonic() > deadline:
            return
