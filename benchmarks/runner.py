"""Runs workloads times clients, round by round, each run in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.clients import Client
from benchmarks.machine import Neighbours
from benchmarks.summary import Run, why_void
from benchmarks.workloads import Workload

_BROKERS = 3
_TOPIC = "benchmark"
_LONGEST_RUN = 120.0
_LONGEST_QUERY = 10.0
_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. ``records`` and ``profiles`` may be None: the workload's number, no profile.

    ``profiles`` is a directory for one cProfile file per run; it slows the clients down.
    """

    workloads: Sequence[Workload]
    clients: Sequence[Client]
    rounds: int
    records: int | None = None
    profiles: Path | None = None


def run_all(plan: Plan, started: Callable[[str], None]) -> Iterator[Run]:
    """Every run, as it ends. ``started`` is told what runs now.

    The rounds are interleaved, A B C A B C: what slows the machine down for a while slows all.
    """
    for workload in plan.workloads:
        clients = [client for client in plan.clients if workload.name in client.settings]
        # One cluster for all clients of a workload: it keeps no more than 5 MiB per partition.
        with MockCluster(brokers=_BROKERS, topics={_TOPIC: workload.partitions}) as cluster:
            for number in range(1, plan.rounds + 1):
                for client in clients:
                    started(f"{workload.name}, round {number} of {plan.rounds}: {client.name}")
                    yield _run(plan, workload, client, number, cluster.bootstrap_servers)


def _run(plan: Plan, workload: Workload, client: Client, number: int, bootstrap: str) -> Run:
    records = plan.records or workload.records
    command = [sys.executable, "-m", "benchmarks.client", client.name, workload.name]
    command += ["--bootstrap", bootstrap, "--topic", _TOPIC, "--records", str(records)]
    if plan.profiles:
        name = f"{workload.name}-{client.name}-{number}.prof"
        command += ["--profile", str(plan.profiles / name)]
    before = _log_size(bootstrap, workload.partitions)
    neighbours = Neighbours()

    def void(why: str) -> Run:
        return Run(client.name, workload.name, number, others, why)

    try:
        done = subprocess.run(
            command, cwd=_ROOT, capture_output=True, text=True, timeout=_LONGEST_RUN, check=False
        )
    except subprocess.TimeoutExpired:
        others = neighbours.cores_used()
        return void(f"the client did not end within {_LONGEST_RUN:g} s")
    others = neighbours.cores_used()
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return void(f"the client's process failed: {lines[-1]}")
    costs = json.loads(done.stdout.splitlines()[-1])
    warm_up = workload.warm_up(records)
    in_log = _log_size(bootstrap, workload.partitions) - before - warm_up
    why = why_void(records, costs["confirmed"], costs["failed"], in_log, costs["first_error"])
    if why:
        return void(why)
    rate = records / costs["seconds"]
    return Run(
        client.name,
        workload.name,
        number,
        others,
        None,
        records_per_second=rate,
        megabytes_per_second=rate * workload.value_bytes / 1e6,
        cpu_us_per_record=(costs["cpu_user"] + costs["cpu_system"]) / records * 1e6,
        peak_megabytes=costs["peak_bytes"] / 1e6,
        p50_ms=costs["p50_ms"],
        p99_ms=costs["p99_ms"],
    )


def _log_size(bootstrap: str, partitions: int) -> int:
    """How many records the topic ever took: what the brokers say, not the client."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "benchmark"})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(_TOPIC, number), _LONGEST_QUERY)[1]
            for number in range(partitions)
        )
    finally:
        consumer.close()
