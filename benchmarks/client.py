"""One run in a process of its own: ``python -m benchmarks.client CLIENT WORKLOAD --bootstrap …``.

The last line of standard output is the run's `Costs` as JSON. ``--profile FILE`` profiles the
measured part (and so makes it slower): ``python -m pstats FILE``.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.clients import CLIENTS, Client
from benchmarks.clients.driver import Driver
from benchmarks.measure import Costs, measure
from benchmarks.workloads import WORKLOADS, Workload


async def run(
    client: Client,
    workload: Workload,
    records: int,
    bootstrap_servers: str,
    topic: str,
    profile: Path | None = None,
) -> Costs:
    module = importlib.import_module(f"benchmarks.clients.{client.module}")
    driver: Driver = module.Driver(bootstrap_servers, topic, client.settings[workload.name])
    await driver.start()
    try:
        return await measure(driver, workload, workload.values(records), profile)
    finally:
        await driver.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client", description=__doc__)
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, help="default: the workload's")
    parser.add_argument("--profile", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    client, workload = CLIENTS[options.client], WORKLOADS[options.workload]
    loop_factory = importlib.import_module("uvloop").new_event_loop if client.uvloop else None
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        costs = runner.run(
            run(
                client,
                workload,
                options.records or workload.records,
                options.bootstrap,
                options.topic,
                options.profile,
            )
        )
    print(json.dumps(dataclasses.asdict(costs)))


if __name__ == "__main__":
    # Where it is installed, kio imports it; users do not have it, and the garbage collector looks
    # at all that was imported.
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    main()
