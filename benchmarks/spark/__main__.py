"""The command line: ``python -m benchmarks.spark --rows 5000000 --rounds 3``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console

from aioproducer.testing.kafka_distribution import kafka_version
from benchmarks.__main__ import names_of, positive
from benchmarks.machine import look_at_machine
from benchmarks.report import print_plain, print_rich
from benchmarks.spark.plan import CONTENDERS, LOADS
from benchmarks.spark.report import describe
from benchmarks.spark.run import Plan, run_all
from benchmarks.summary import Run, summarise

_ROUNDS: Final = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a run was void: such a benchmark proves nothing."""
    options = _parser().parse_args(arguments)
    plan = Plan(
        options.loads,
        options.only,
        options.rounds,
        options.rows,
        "mock" if options.mock else "kafka",
        dict(options.spark),
    )
    console = Console()
    machine = look_at_machine(["aioproducer", "pyspark", "pyarrow", "confluent-kafka"])
    machine.versions["Apache Kafka"] = kafka_version()
    print(machine.describe())
    if machine.warning:
        print(f"WARNING: {machine.warning}")
    runs = _collect(plan, console)
    if options.json:
        content = {
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": dataclasses.asdict(machine),
            "brokers": plan.brokers,
            "spark": plan.spark,
            "runs": [dataclasses.asdict(run) for run in runs],
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 1 if any(run.void for run in runs) else 0


def _collect(plan: Plan, console: Console) -> list[Run]:
    """Every run; each table is printed when its last one has ended."""
    runs: list[Run] = []
    with console.status("starting") as status:
        for run in run_all(plan, started=status.update):
            runs.append(run)
            if len(runs) % (len(plan.able()) * plan.rounds) == 0:
                _show(plan, run.workload, runs, console)
    return runs


def _show(plan: Plan, name: str, runs: Sequence[Run], console: Console) -> None:
    load = LOADS[name]
    summaries = [summary for summary in summarise(runs) if summary.workload == name]
    section = describe(load, plan.able(), summaries, plan.rows or load.records)
    if console.is_terminal:
        print_rich([section], console)
    else:
        print_plain([section])
        sys.stdout.flush()


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
    parser.add_argument("--json", type=Path, metavar="FILE", help="each run, for comparisons")
    return parser


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
