"""The command line: ``python -m benchmarks.web --rounds 3 --seconds 5 --connections 1,16``."""

from __future__ import annotations

import argparse
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
from benchmarks.machine import Machine, look_at_machine
from benchmarks.report import Section, collect, print_sections
from benchmarks.web import wrk
from benchmarks.web.plan import CLIENTS, FRAMEWORKS, Plan
from benchmarks.web.report import describe
from benchmarks.web.run import run_all
from benchmarks.web.summary import Run, summarise

_CONNECTIONS: Final = [1, 64]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a run was void: such a benchmark proves nothing."""
    options = _parser().parse_args(arguments)
    plan = Plan(
        options.frameworks,
        options.clients,
        options.connections,
        options.rounds,
        options.seconds,
        options.warm_up,
    )
    if wrk.program() is None:
        print(wrk.MISSING)
        return 0
    console = Console()
    servers = ("uvicorn", "httptools", "uvloop")
    machine = look_at_machine(
        ["aioproducer", "aiokafka", "confluent-kafka", *plan.frameworks, *servers]
    )
    print(machine.describe())
    if machine.warning:
        print(f"WARNING: {machine.warning}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    runs = collect(lambda started: run_all(plan, started=started), console)
    sections = [
        describe(framework, plan, summarise([run for run in runs if run.framework == framework]))
        for framework in plan.frameworks
    ]
    print_sections(sections, console)
    if options.json:
        _write(options.json, machine, plan, runs, sections)
    return 1 if any(run.void for run in runs) else 0


def _write(
    path: Path, machine: Machine, plan: Plan, runs: Sequence[Run], sections: Sequence[Section]
) -> None:
    content = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": dataclasses.asdict(machine),
        "plan": dataclasses.asdict(plan),
        "runs": [dataclasses.asdict(run) for run in runs],
        "sections": [dataclasses.asdict(section) for section in sections],
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web", description=__doc__)
    parser.add_argument(
        "--frameworks",
        type=names_of(dict(zip(FRAMEWORKS, FRAMEWORKS, strict=True))),
        default=list(FRAMEWORKS),
        help=f"comma-separated, of {', '.join(FRAMEWORKS)}",
    )
    parser.add_argument(
        "--clients",
        type=names_of(dict(zip(CLIENTS, CLIENTS, strict=True))),
        default=list(CLIENTS),
        help=f"comma-separated, of {', '.join(CLIENTS)}; the null app is always there",
    )
    parser.add_argument(
        "--connections",
        type=_numbers,
        default=_CONNECTIONS,
        help=f"comma-separated; default {','.join(map(str, _CONNECTIONS))}",
    )
    parser.add_argument("--rounds", type=positive, default=3, help="default %(default)s")
    parser.add_argument("--seconds", type=positive, default=5, help="of a run, default %(default)s")
    parser.add_argument("--warm-up", type=positive, default=1, help="seconds, default %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="each run, for comparisons")
    return parser


def _numbers(text: str) -> list[int]:
    return [positive(each) for each in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
