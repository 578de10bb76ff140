"""The command line: ``python -m benchmarks --workloads bulk,tasks --rounds 5``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from aioproducer.testing.kafka_distribution import kafka_version
from benchmarks.brokers import BROKERS
from benchmarks.clients import CLIENTS, Choice
from benchmarks.machine import Machine, look_at_commit, look_at_machine
from benchmarks.report import Section, collect, describe, print_sections
from benchmarks.runner import Plan, run_all
from benchmarks.summary import Run, summarise
from benchmarks.workloads import WORKLOADS

_RESULTS = Path(__file__).parent / "results"
_ROUNDS = 5

_Named = TypeVar("_Named")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a run was void: such a benchmark proves nothing."""
    plan, results = _parse(arguments)
    console = Console()
    distributions = [client.distribution for client in plan.clients if client.distribution]
    commit = look_at_commit()
    machine = look_at_machine([*distributions, "uvloop"])
    if plan.brokers == "kafka":
        machine.versions["Apache Kafka"] = kafka_version()
    print(machine.describe())
    if machine.warning:
        print(f"WARNING: {machine.warning}")
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
    print(f"\nwritten to {_write(results, commit, machine, plan, runs, sections)}")
    return 1 if any(run.void for run in runs) else 0


def _write(
    results: Path,
    commit: str | None,
    machine: Machine,
    plan: Plan,
    runs: Sequence[Run],
    sections: Sequence[Section],
) -> Path:
    results.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    path = results / f"{now:%Y%m%dT%H%M%SZ}.json"
    content = {
        "measured_at": now.isoformat(timespec="seconds"),
        "commit": commit,
        "machine": dataclasses.asdict(machine),
        "workloads": [dataclasses.asdict(workload) for workload in plan.workloads],
        "clients": [dataclasses.asdict(client) for client in plan.clients],
        "records": plan.records,
        "brokers": plan.brokers,
        "runs": [dataclasses.asdict(run) for run in runs],
        "sections": [dataclasses.asdict(section) for section in sections],
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path


def _parse(arguments: Sequence[str] | None) -> tuple[Plan, Path]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--workloads",
        type=names_of(WORKLOADS),
        default=[workload for workload in WORKLOADS.values() if workload.standard],
        help=f"comma-separated, of {', '.join(WORKLOADS)}",
    )
    parser.add_argument(
        "--clients",
        type=names_of(CLIENTS),
        default=list(CLIENTS.values()),
        help=f"comma-separated, of {', '.join(CLIENTS)}",
    )
    parser.add_argument("--brokers", choices=BROKERS, default="mock", help="default %(default)s")
    parser.add_argument(
        "--settings",
        type=names_of({choice.value: choice for choice in Choice}),
        default=[Choice.TUNED],
        help=f"comma-separated, of {', '.join(Choice)}; default {Choice.TUNED}",
    )
    parser.add_argument("--rounds", type=positive, default=_ROUNDS, help="default %(default)s")
    parser.add_argument("--records", type=positive, help="per run; default: the workload's")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="one cProfile file per run")
    parser.add_argument(
        "--results", type=Path, default=_RESULTS, metavar="DIR", help="for the JSON"
    )
    options = parser.parse_args(arguments)
    profiles = options.profile and options.profile.resolve()
    for workload in options.workloads:
        if workload.rtt_ms and options.brokers != "mock":
            parser.error(f"{workload.name} needs brokers that can be told to be slow: mock")
        if workload.tls and options.brokers != "kafka":
            parser.error(f"{workload.name} needs brokers that speak TLS: kafka")
    plan = Plan(
        options.workloads,
        options.clients,
        options.rounds,
        options.records,
        profiles,
        options.brokers,
        options.settings,
    )
    return plan, options.results


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
