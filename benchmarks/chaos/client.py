"""One client's run in a process of its own: ``python -m benchmarks.chaos.client NAME …``."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Final

import psutil  # type: ignore[import-untyped]

from benchmarks.chaos.access import Access
from benchmarks.chaos.clients import CLIENTS, Driver
from benchmarks.chaos.ledger import Footprint, Ledger
from benchmarks.chaos.plan import Load, bursts

_WATCH_EVERY: Final = 1.0
_SLOWEST: Final = 4
"""A client that needs so many times the time of the load sends no more."""


def longest(load: Load) -> float:
    """Seconds; what was not sent by then, or has no fate a delivery timeout later, has none."""
    return _SLOWEST * load.seconds + load.delivery_timeout_ms / 1000


async def run(driver: Driver, load: Load, ledger: Ledger) -> None:
    await driver.start()
    began = perf_counter()
    watching = asyncio.create_task(_watch(ledger))
    with suppress(TimeoutError):
        async with asyncio.timeout(_SLOWEST * load.seconds):
            await _send_all(driver, load, began)
    with suppress(TimeoutError):
        await driver.finish(began + longest(load) - perf_counter())
    await asyncio.sleep(0)  # the callbacks of the last futures
    ledger.seconds = perf_counter() - began
    watching.cancel()


async def _watch(ledger: Ledger) -> None:
    process = psutil.Process()
    while True:
        ledger.footprints.append(Footprint(process.memory_info().rss, process.num_fds()))
        await asyncio.sleep(_WATCH_EVERY)


async def _send_all(driver: Driver, load: Load, began: float) -> None:
    for numbers, due in bursts(load):
        await asyncio.sleep(max(0.0, began + due - perf_counter()))
        for number in numbers:
            await driver.send(number)


async def run_and_save(
    client: str, bootstrap_servers: str, load: Load, path: Path, access: Access | None
) -> None:
    ledger = Ledger(load.records)
    module = importlib.import_module(f"benchmarks.chaos.clients.{CLIENTS[client].module}")
    driver: Driver = module.Driver(bootstrap_servers, load, ledger, access)
    try:
        await run(driver, load, ledger)
        ledger.save(path)
    finally:
        with suppress(TimeoutError):
            await driver.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos.client", description=__doc__)
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--load", required=True, help="the fields of a Load, as JSON")
    parser.add_argument("--ledger", required=True, type=Path, help="the file to write")
    parser.add_argument("--access", help="the fields of an Access, as JSON")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level="INFO")
    load = Load(**json.loads(options.load))
    access = Access(**json.loads(options.access)) if options.access else None
    asyncio.run(run_and_save(options.client, options.bootstrap, load, options.ledger, access))


if __name__ == "__main__":
    main()
