"""The command line: ``python -m benchmarks.web --rounds 3 --seconds 5 --connections 1,16``."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from benchmarks.__main__ import names_of, positive
from benchmarks.report import Measurement, add_options, collect
from benchmarks.web import wrk
from benchmarks.web.plan import CLIENTS, FRAMEWORKS, Plan
from benchmarks.web.report import describe
from benchmarks.web.run import run_all
from benchmarks.web.summary import summarise

_CONNECTIONS: Final = [1, 16, 64]
_START_SECONDS: Final = 2
"""The time that a server takes to start and to end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a run was void, as such a benchmark proves nothing, or without wrk."""
    parser = _parser()
    options = parser.parse_args(arguments)
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
        return 1
    console = Console()
    servers = ("uvicorn", "httptools", "uvloop")
    servers_of_a_round = len(plan.frameworks) * len(plan.connections) * (1 + len(plan.clients))
    measurement = Measurement.begin(
        parser,
        arguments,
        options,
        ["aiokafka", "confluent-kafka", *plan.frameworks, *servers],
        seconds=plan.rounds * servers_of_a_round * (plan.seconds + plan.warm_up + _START_SECONDS),
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    runs = collect(lambda started: run_all(plan, started=started), console)
    sections = [
        describe(framework, plan, summarise([run for run in runs if run.framework == framework]))
        for framework in plan.frameworks
    ]
    measurement.publish(sections, console)
    return 1 if any(run.void for run in runs) else 0


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
    add_options(parser)
    return parser


def _numbers(text: str) -> list[int]:
    return [positive(each) for each in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
