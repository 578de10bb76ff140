"""The command line: ``python -m benchmarks.spark --rows 5000000 --rounds 3``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from benchmarks.__main__ import names_of, positive
from benchmarks.report import Measurement, Section, add_options, print_sections
from benchmarks.spark.plan import CONTENDERS, LOADS
from benchmarks.spark.report import describe
from benchmarks.spark.run import Plan, run_all
from benchmarks.summary import Run, summarise

_ROUNDS: Final = 3
_RUN_SECONDS: Final = 20
"""The time of a run with the load's rows."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a run was void: such a benchmark proves nothing."""
    parser = _parser()
    options = parser.parse_args(arguments)
    plan = Plan(
        options.loads,
        options.only,
        options.rounds,
        options.rows,
        "mock" if options.mock else "kafka",
        dict(options.spark),
    )
    console = Console()
    measurement = Measurement.begin(
        parser,
        arguments,
        options,
        ["pyspark", "pyarrow", "confluent-kafka"],
        brokers=plan.brokers,
        seconds=sum(map(plan.runs, plan.loads)) * _RUN_SECONDS,
    )
    runs, sections = _collect(plan, console)
    print(f"\nwritten to {measurement.write(sections)}")
    return 1 if any(run.void for run in runs) else 0


def _collect(plan: Plan, console: Console) -> tuple[list[Run], list[Section]]:
    """Every run; each table is printed when its last one has ended."""
    runs: list[Run] = []
    sections: list[Section] = []
    with console.status("starting") as status:
        for run in run_all(plan, started=status.update):
            runs.append(run)
            of_load = sum(each.workload == run.workload for each in runs)
            if of_load == plan.runs(LOADS[run.workload]):
                sections.append(_section(plan, run.workload, runs))
                print_sections(sections[-1:], console)
                sys.stdout.flush()
    return runs, sections


def _section(plan: Plan, name: str, runs: Sequence[Run]) -> Section:
    load = LOADS[name]
    summaries = [summary for summary in summarise(runs) if summary.workload == name]
    return describe(load, plan.able(load), summaries, plan.rows or load.records)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument(
        "--loads",
        type=names_of(LOADS),
        default=list(LOADS.values()),
        help=f"comma-separated, of {', '.join(LOADS)}",
    )
    parser.add_argument(
        "--only",
        type=names_of(CONTENDERS),
        default=list(CONTENDERS.values()),
        help=f"comma-separated, of {', '.join(CONTENDERS)}",
    )
    parser.add_argument("--rounds", type=positive, default=_ROUNDS, help="default %(default)s")
    parser.add_argument("--rows", type=positive, help="in each round; default: the load's")
    parser.add_argument(
        "--mock", action="store_true", help="the mock cluster in place of Kafka: no exactly once"
    )
    parser.add_argument(
        "--spark",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="a setting of the Spark session; may be repeated",
    )
    add_options(parser)
    return parser


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
