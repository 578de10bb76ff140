"""The command line: ``python -m benchmarks.transactions --protocol 2 --rounds 5``."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.__main__ import names_of, positive
from benchmarks.machine import look_at_machine
from benchmarks.report import print_plain, print_rich
from benchmarks.transactions.plan import CLIENTS, LOADS, PROTOCOLS
from benchmarks.transactions.report import describe
from benchmarks.transactions.run import Plan, run_all
from benchmarks.transactions.summary import Run, summarise

_ROUNDS: Final = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a run was void: such a benchmark proves nothing."""
    options = _parser().parse_args(arguments)
    plan = Plan(
        [options.protocol] if options.protocol else PROTOCOLS,
        options.loads,
        options.clients,
        options.rounds,
        options.transactions,
        options.profile and options.profile.resolve(),
    )
    console = Console()
    machine = look_at_machine(["aioproducer", "confluent-kafka", "uvloop"])
    print(machine.describe())
    if machine.warning:
        print(f"WARNING: {machine.warning}")
    if plan.profiles:
        plan.profiles.mkdir(parents=True, exist_ok=True)
        print(f"WARNING: profiled, so the rates mean nothing; profiles in {plan.profiles}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    runs = asyncio.run(_collect(plan, console))
    if options.json:
        content = {
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": dataclasses.asdict(machine),
            "runs": [dataclasses.asdict(run) for run in runs],
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 1 if any(run.void for run in runs) else 0


async def _collect(plan: Plan, console: Console) -> list[Run]:
    """Every run; each table is printed when its last one has ended."""
    runs: list[Run] = []
    with console.status("starting") as status:
        async for run in run_all(plan, started=status.update):
            runs.append(run)
            if len(runs) % (len(plan.clients) * plan.rounds) == 0:
                _show(plan, run, runs, console)
    return runs


def _show(plan: Plan, last: Run, runs: Sequence[Run], console: Console) -> None:
    load = LOADS[last.load]
    section = describe(
        last.protocol,
        load,
        plan.clients,
        summarise(runs)[last.protocol, last.load],
        plan.transactions or load.transactions,
    )
    if console.is_terminal:
        print_rich([section], console)
    else:
        print_plain([section])
        sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transactions", description=__doc__)
    parser.add_argument(
        "--protocol", type=int, choices=PROTOCOLS, help="transaction.version; default: both"
    )
    parser.add_argument(
        "--loads",
        type=names_of(LOADS),
        default=list(LOADS.values()),
        help=f"comma-separated, of {', '.join(LOADS)}",
    )
    parser.add_argument(
        "--clients",
        type=names_of(CLIENTS),
        default=list(CLIENTS.values()),
        help=f"comma-separated, of {', '.join(CLIENTS)}",
    )
    parser.add_argument("--rounds", type=positive, default=_ROUNDS, help="default %(default)s")
    parser.add_argument("--transactions", type=positive, help="per run; default: the load's")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="one cProfile file per run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="each run, for comparisons")
    return parser


if __name__ == "__main__":
    sys.exit(main())
