"""The command line: ``python -m benchmarks.transactions --protocol 2 --rounds 5``."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.__main__ import names_of, positive
from benchmarks.report import Measurement, Section, add_options, print_sections
from benchmarks.transactions.plan import CLIENTS, LOADS, PROTOCOLS
from benchmarks.transactions.report import describe
from benchmarks.transactions.run import Plan, run_all
from benchmarks.transactions.summary import Run, summarise

_ROUNDS: Final = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a run was void: such a benchmark proves nothing."""
    parser = _parser()
    options = parser.parse_args(arguments)
    plan = Plan(
        [options.protocol] if options.protocol else PROTOCOLS,
        options.loads,
        options.clients,
        options.rounds,
        options.transactions,
        options.profile and options.profile.resolve(),
    )
    console = Console()
    peers = ["confluent-kafka", "uvloop"]
    measurement = Measurement.begin(parser, arguments, options, peers, brokers="kafka")
    if plan.profiles:
        plan.profiles.mkdir(parents=True, exist_ok=True)
        print(f"WARNING: profiled, so the rates mean nothing; profiles in {plan.profiles}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    runs, sections = asyncio.run(_collect(plan, console))
    print(f"\nwritten to {measurement.write(sections)}")
    return 1 if any(run.void for run in runs) else 0


async def _collect(plan: Plan, console: Console) -> tuple[list[Run], list[Section]]:
    """Every run; each table is printed when its last one has ended."""
    runs: list[Run] = []
    sections: list[Section] = []
    with console.status("starting") as status:
        async for run in run_all(plan, started=status.update):
            runs.append(run)
            if len(runs) % (len(plan.clients) * plan.rounds) == 0:
                sections.append(_section(plan, run, runs))
                print_sections(sections[-1:], console)
                sys.stdout.flush()
    return runs, sections


def _section(plan: Plan, last: Run, runs: Sequence[Run]) -> Section:
    load = LOADS[last.load]
    return describe(
        last.protocol,
        load,
        plan.clients,
        summarise(runs)[last.protocol, last.load],
        plan.transactions or load.transactions,
    )


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
    add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
