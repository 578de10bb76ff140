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
from collections.abc import Sequence
from pathlib import Path

from benchmarks.clients import CLIENTS, Choice, Client
from benchmarks.clients.driver import Driver
from benchmarks.measure import Costs, measure
from benchmarks.workloads import WORKLOADS, Workload


async def run(
    client: Client,
    workload: Workload,
    records: int,
    bootstrap_servers: str,
    profile: Path | None = None,
    authority: str | None = None,
    choice: Choice = Choice.TUNED,
) -> Costs:
    module = importlib.import_module(f"benchmarks.clients.{client.module}")
    options = client.options(workload.name, choice, authority)
    driver: Driver = module.Driver(bootstrap_servers, options)
    await driver.start()
    try:
        return await measure(driver, workload, records, profile)
    finally:
        await driver.stop()


def parse(arguments: Sequence[str] | None, description: str | None) -> argparse.Namespace:
    """What every program that measures a client is told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--authority", metavar="FILE", help="for TLS: whom to trust")
    parser.add_argument("--settings", type=Choice, choices=list(Choice), default=Choice.TUNED)
    parser.add_argument("--records", type=int, help="default: the workload's")
    parser.add_argument("--profile", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    options.client, options.workload = CLIENTS[options.client], WORKLOADS[options.workload]
    options.records = options.records or options.workload.records
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments, __doc__)
    uvloop = options.client.uvloop
    loop_factory = importlib.import_module("uvloop").new_event_loop if uvloop else None
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        costs = runner.run(
            run(
                options.client,
                options.workload,
                options.records,
                options.bootstrap,
                options.profile,
                options.authority,
                options.settings,
            )
        )
    print(json.dumps(dataclasses.asdict(costs)))


if __name__ == "__main__":
    main()
