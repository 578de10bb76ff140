"""Every client at every load, round by round, beside the amount that the topic has."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioproducer import Producer, ProducerRecord, loops
from benchmarks import launch
from benchmarks.brokers import BROKERS, log_size
from benchmarks.machine import Neighbours
from benchmarks.measure import per_record
from benchmarks.reading.client import Costs
from benchmarks.reading.drivers import Amount
from benchmarks.reading.plan import BATCH_BYTES, PARTITIONS, Client, Load
from benchmarks.summary import Run

_ROOT: Final = Path(__file__).parents[2]
_LONGEST_RUN: Final = 120.0
_BLOCK: Final = 1_000
"""Records in a row to one partition."""


class RunError(Exception):
    """A client's process failed, or the topic has not what was sent to it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. ``records`` may be None: the load's number."""

    loads: Sequence[Load]
    clients: Sequence[Client]
    rounds: int
    brokers: str = "mock"
    """A name of `BROKERS`."""
    records: int | None = None
    profiles: Path | None = None


def run_all(plan: Plan, started: Callable[[str], None]) -> Iterator[Run]:
    """Every run, as it ends. ``started`` is told what runs now.

    All clients read the same topic. The rounds are interleaved, A B C B C A.
    """
    with BROKERS[plan.brokers]() as serving:
        for load in plan.loads:
            workload = load.workload()
            with serving(workload) as target:
                started(f"{load.name}: filling the topic")
                there = loops.run(_fill(target.bootstrap_servers, load, plan))
                size = log_size(target.bootstrap_servers, workload.topic_names(), PARTITIONS)
                if size != there.records:
                    raise RunError(f"{load.name}: the topic has {size} of {there.records} records")
                for number in range(1, plan.rounds + 1):
                    first = (number - 1) % len(plan.clients)
                    for client in (*plan.clients[first:], *plan.clients[:first]):
                        started(f"{load.name}, round {number} of {plan.rounds}: {client.name}")
                        yield _run(plan, load, client, number, target.bootstrap_servers, there)


async def _fill(bootstrap_servers: str, load: Load, plan: Plan) -> Amount:
    """Send the records of the load, the same number to each partition."""
    [topic] = load.workload().topic_names()
    number = plan.records or load.records
    values = load.values()
    size = 0
    async with Producer(
        bootstrap_servers=bootstrap_servers,
        compression_type=load.compression,  # type: ignore[arg-type]
        batch_size=BATCH_BYTES,
        linger_ms=100,
    ) as producer:

        def records() -> Iterator[ProducerRecord]:
            nonlocal size
            for each in range(number):
                value = values[each % len(values)]
                size += len(value)
                partition = each // _BLOCK % PARTITIONS
                if load.keys:
                    key, headers = b"%016d" % each, {"trace": b"%032d" % each, "source": b"shop"}
                    yield ProducerRecord(topic, value, key, partition, headers)
                else:
                    yield ProducerRecord(topic, value, None, partition)

        report = await producer.send_many(topic, records())
    if report.failed:
        first = next(iter(report.failures.values()))
        raise RunError(f"{load.name}: {report.failed} records were not sent") from first
    return Amount(number, size)


def _run(
    plan: Plan, load: Load, client: Client, number: int, bootstrap_servers: str, there: Amount
) -> Run:
    arguments = [client.name, load.name, "--bootstrap", bootstrap_servers]
    if plan.profiles:
        arguments += ["--profile", str(plan.profiles / f"{load.name}-{client.name}-{number}.prof")]
    neighbours = Neighbours()
    try:
        costs = _costs(launch.command("benchmarks.reading.client", *arguments))
    except RunError as error:
        return Run(client.name, load.name, number, neighbours.cores_used(), str(error))
    others = neighbours.cores_used()
    void = why_void(there, Amount(costs.records, costs.value_bytes))
    numbers = (
        {}
        if void
        else {
            **per_record(costs.records, load.value_bytes, costs.seconds, costs.cpu_seconds),
            "peak_megabytes": costs.peak_bytes / 1e6,
        }
    )
    return Run(client.name, load.name, number, others, void, numbers)


def why_void(there: Amount, read: Amount) -> str | None:
    """Why a run does not count, or None."""
    if read == there:
        return None
    return (
        f"{read.records} records with {read.value_bytes} bytes were read, and the topic has "
        f"{there.records} with {there.value_bytes}"
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
