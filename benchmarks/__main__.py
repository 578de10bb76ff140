"""The command line: ``python -m benchmarks --quick``, or which workloads and clients."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from rich.console import Console

from benchmarks.brokers import BROKERS
from benchmarks.clients import CLIENTS, Choice
from benchmarks.recorded import number, tables
from benchmarks.report import Measurement, add_options, collect, describe, print_sections
from benchmarks.runner import Plan, run_all
from benchmarks.summary import summarise
from benchmarks.workloads import WORKLOADS

_QUICK: Final[dict[str, Any]] = {
    "workloads": [WORKLOADS[name] for name in ("bulk", "keyed", "tasks", "single")],
    "clients": [CLIENTS[name] for name in ("aioproducer", "confluent", "aiokafka")],
    "settings": [Choice.DEFAULTS],
}
"""The workloads and clients of the README."""
_START_SECONDS: Final = 1.5
"""The part of a run that is not measured: the process, its values, the warm-up."""
_USUAL_RATE: Final = 50_000.0
"""Records/s of a client that has no recorded run."""

_Named = TypeVar("_Named")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a run was void: such a benchmark proves nothing."""
    parser = _parser()
    options = parser.parse_args(arguments)
    plan = _plan(parser, options)
    console = Console()
    distributions = [client.distribution for client in plan.clients if client.distribution]
    measurement = Measurement.begin(
        parser,
        arguments,
        options,
        [*distributions, "uvloop"],
        brokers=plan.brokers,
        seconds=seconds_of(plan),
    )
    if plan.profiles:
        plan.profiles.mkdir(parents=True, exist_ok=True)
        print(f"WARNING: profiled, so the rates mean nothing; profiles in {plan.profiles}")
    runs = collect(lambda started: run_all(plan, started=started), console)
    summaries = summarise(runs)
    sections = [
        describe(
            workload,
            plan.clients,
            [summary for summary in summaries if summary.workload == workload.name],
            plan.records or workload.records,
        )
        for workload in plan.workloads
    ]
    print_sections(sections, console)
    written = measurement.write(
        sections,
        workloads=[dataclasses.asdict(workload) for workload in plan.workloads],
        clients=[dataclasses.asdict(client) for client in plan.clients],
        records=plan.records,
        runs=[dataclasses.asdict(run) for run in runs],
    )
    print(f"\nwritten to {written}")
    return 1 if any(run.void for run in runs) else 0


def seconds_of(plan: Plan) -> float:
    """About how long the plan takes, by the recorded rates of its clients."""
    found = tables()
    total = 0.0
    for workload in plan.workloads:
        table = found.get(workload.name)
        for client, choice in plan.contenders(workload):
            row = (table and table.row(client.name, choice)) or {}
            rate = number(row.get("records/s", "")) or _USUAL_RATE
            total += _START_SECONDS + (plan.records or workload.records) / rate
    return plan.rounds * total


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the README's workloads and clients with default settings: five minutes",
    )
    parser.add_argument(
        "--workloads",
        type=names_of(WORKLOADS),
        help=f"comma-separated, of {', '.join(WORKLOADS)}",
    )
    parser.add_argument(
        "--clients",
        type=names_of(CLIENTS),
        help=f"comma-separated, of {', '.join(CLIENTS)}",
    )
    parser.add_argument("--brokers", choices=BROKERS, default="mock", help="default %(default)s")
    parser.add_argument(
        "--settings",
        type=names_of({choice.value: choice for choice in Choice}),
        help=f"comma-separated, of {', '.join(Choice)}; default {Choice.TUNED}",
    )
    parser.add_argument("--rounds", type=positive, default=5, help="default %(default)s")
    parser.add_argument("--records", type=positive, help="per run; default: the workload's")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="one cProfile file per run")
    add_options(parser)
    return parser


def _plan(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Plan:
    usual: dict[str, Any] = {
        "workloads": [workload for workload in WORKLOADS.values() if workload.standard],
        "clients": list(CLIENTS.values()),
        "settings": [Choice.TUNED],
    }
    chosen = {
        name: getattr(options, name) or given
        for name, given in (_QUICK if options.quick else usual).items()
    }
    for workload in chosen["workloads"]:
        if workload.rtt_ms and options.brokers != "mock":
            parser.error(f"{workload.name} needs brokers that can be told to be slow: mock")
        if workload.tls and options.brokers != "kafka":
            parser.error(f"{workload.name} needs brokers that speak TLS: kafka")
    return Plan(
        chosen["workloads"],
        chosen["clients"],
        options.rounds,
        options.records,
        options.profile and options.profile.resolve(),
        options.brokers,
        chosen["settings"],
    )


def names_of(table: Mapping[str, _Named]) -> Callable[[str], list[_Named]]:
    """Parses comma-separated names of rows of ``table``."""

    def parse(text: str) -> list[_Named]:
        unknown = [name for name in text.split(",") if name not in table]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(table)}")
        return [table[name] for name in text.split(",")]

    return parse


def ask_for_clients(parser: argparse.ArgumentParser, clients: Collection[str]) -> None:
    """Add the options of a comparison in rounds: which of ``clients``, and how often."""
    parser.add_argument(
        "--clients",
        type=names_of({name: name for name in clients}),
        default=list(clients),
        help=f"comma-separated, of {', '.join(clients)}",
    )
    parser.add_argument("--rounds", type=positive, default=10, help="default %(default)s")


def positive(text: str) -> int:
    """Parses a number from 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
