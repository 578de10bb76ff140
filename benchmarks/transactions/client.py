"""One run in a process of its own: ``python -m benchmarks.transactions.client CLIENT LOAD …``.

The last line of standard output is the run's `Costs` as JSON. ``--profile FILE`` profiles the
measured part (and so makes it slower): ``python -m pstats FILE``.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import dataclasses
import gc
import importlib
import json
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, perf_counter_ns

from benchmarks.transactions import drivers
from benchmarks.transactions.plan import CLIENTS, LOADS, Load


@dataclass(frozen=True, slots=True)
class Costs:
    """One run as the client's process saw it: the measured part only."""

    seconds: float
    cpu_seconds: float
    """All threads, user and system."""
    latencies_ns: list[int]
    """Of each transaction, from its begin to the end of its commit."""


async def run(
    driver: drivers.Driver, load: Load, transactions: int, profile: Path | None = None
) -> Costs:
    """Warm up, run, and say what the run alone cost."""
    values = load.values()
    for number in range(load.warm_up):
        await driver.transact(zip(values, load.partitions_of(number), strict=True))
    gc.collect()
    profiler = cProfile.Profile() if profile else None
    latencies = []
    usage = resource.getrusage(resource.RUSAGE_SELF)
    began = perf_counter()
    if profiler:
        profiler.enable()
    for number in range(transactions):
        begin = perf_counter_ns()
        await driver.transact(zip(values, load.partitions_of(number), strict=True))
        latencies.append(perf_counter_ns() - begin)
    if profiler:
        profiler.disable()
    seconds = perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    if profiler:
        profiler.dump_stats(str(profile))
    cpu = used.ru_utime - usage.ru_utime + used.ru_stime - usage.ru_stime
    return Costs(seconds, cpu, latencies)


async def start_and_run(driver: drivers.Driver, load: Load, options: argparse.Namespace) -> Costs:
    await driver.start()
    try:
        return await run(driver, load, options.transactions or load.transactions, options.profile)
    finally:
        await driver.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.transactions.client", description=__doc__
    )
    parser.add_argument("client", choices=[name for name in CLIENTS if CLIENTS[name].driver])
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--transactional-id", required=True)
    parser.add_argument("--transactions", type=int, help="default: the load's")
    parser.add_argument("--profile", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    client, load = CLIENTS[options.client], LOADS[options.load]
    loop_factory = importlib.import_module("uvloop").new_event_loop if client.uvloop else None

    async def drive() -> Costs:
        driver = getattr(drivers, client.driver or "")(
            options.bootstrap, options.topic, options.transactional_id, client.settings(load)
        )
        return await start_and_run(driver, load, options)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        costs = runner.run(drive())
    print(json.dumps(dataclasses.asdict(costs)))


if __name__ == "__main__":
    main()
