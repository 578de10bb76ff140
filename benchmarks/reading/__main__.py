"""The command line: ``python -m benchmarks.reading --brokers kafka --rounds 5``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.__main__ import names_of, positive
from benchmarks.brokers import BROKERS
from benchmarks.reading.plan import CLIENTS, LOADS
from benchmarks.reading.report import describe
from benchmarks.reading.run import Plan, run_all
from benchmarks.report import Measurement, add_options, collect
from benchmarks.summary import summarise

_ROUNDS: Final = 5
_FILL_SECONDS: Final = 10
"""The time that a topic takes to be filled."""
_RUN_SECONDS: Final = 5
"""The time of a run, its start included."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a run was void: such a benchmark proves nothing."""
    parser = _parser()
    options = parser.parse_args(arguments)
    served = [each for each in options.clients if options.brokers == "kafka" or not each.groups]
    plan = Plan(
        options.loads,
        served,
        options.rounds,
        options.brokers,
        options.records,
        options.profile and options.profile.resolve(),
    )
    console = Console()
    measurement = Measurement.begin(
        parser,
        arguments,
        options,
        ["confluent-kafka", "aiokafka", "pyarrow", "uvloop"],
        brokers=plan.brokers,
        seconds=len(plan.loads) * (_FILL_SECONDS + plan.rounds * len(served) * _RUN_SECONDS),
    )
    if plan.profiles:
        plan.profiles.mkdir(parents=True, exist_ok=True)
        print(f"WARNING: profiled, so the rates mean nothing; profiles in {plan.profiles}")
    runs = collect(lambda started: run_all(plan, started=started), console)
    summaries = summarise(runs)
    sections = [
        describe(
            load,
            plan.clients,
            [summary for summary in summaries if summary.workload == load.name],
            plan.records or load.records,
        )
        for load in plan.loads
    ]
    measurement.publish(sections, console)
    return 1 if any(run.void for run in runs) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=__doc__)
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
    parser.add_argument("--brokers", choices=BROKERS, default="mock", help="default: %(default)s")
    parser.add_argument("--rounds", type=positive, default=_ROUNDS, help="default: %(default)s")
    parser.add_argument("--records", type=positive, help="in the topic; default: the load's")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="one cProfile file per run")
    add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
