"""One run in a process of its own: ``python -m benchmarks.reading.client CLIENT LOAD …``.

The last line of standard output is the run's `Costs` as JSON. ``--profile FILE`` profiles the
measured part (and so makes it slower): ``python -m pstats FILE``.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Meter
from benchmarks.memory import peak_bytes
from benchmarks.reading import drivers
from benchmarks.reading.plan import CLIENTS, LOADS, PARTITIONS, WARM_UP_PARTITIONS, Client, Load


@dataclass(frozen=True, slots=True)
class Costs:
    """One run as the client's process saw it: the measured part only."""

    seconds: float
    cpu_seconds: float
    """All threads, user and system."""
    records: int
    value_bytes: int
    peak_bytes: int
    """Resident, of the whole process."""


async def run(client: Client, load: Load, bootstrap: str, profile: Path | None = None) -> Costs:
    """Warm up with some partitions, read all of them, and say what that alone cost."""
    driver: type[drivers.Driver] = getattr(drivers, client.driver)
    [topic] = load.workload().topic_names()
    warm_up = driver(bootstrap, topic, range(WARM_UP_PARTITIONS), client.settings)
    await _read(warm_up, Meter())
    gc.collect()
    meter = Meter(profile)
    amount = await _read(driver(bootstrap, topic, range(PARTITIONS), client.settings), meter)
    return Costs(meter.seconds, meter.cpu_seconds, amount.records, amount.value_bytes, peak_bytes())


async def _read(driver: drivers.Driver, meter: Meter) -> drivers.Amount:
    await driver.start()
    try:
        with meter:
            return await driver.read()
    finally:
        await driver.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reading.client", description=__doc__
    )
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--profile", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    client = CLIENTS[options.client]
    loop_factory = importlib.import_module("uvloop").new_event_loop if client.uvloop else None
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        costs = runner.run(run(client, LOADS[options.load], options.bootstrap, options.profile))
    print(json.dumps(dataclasses.asdict(costs)))


if __name__ == "__main__":
    main()
