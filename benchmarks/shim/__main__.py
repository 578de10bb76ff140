"""The command line: ``python -m benchmarks.shim --brokers kafka --rounds 5``.

The same program runs with aiokafka's ``AIOKafkaProducer`` and with ours in its place, in turn.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from benchmarks.__main__ import names_of, positive
from benchmarks.brokers import BROKERS
from benchmarks.report import Measurement, add_options, collect
from benchmarks.shim.plan import PATTERNS
from benchmarks.shim.report import describe
from benchmarks.shim.run import Plan, run_all
from benchmarks.summary import summarise

_ROUNDS: Final = 5
_RUN_SECONDS: Final = 6
"""The time of a run, its start included."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a run was void: such a benchmark proves nothing."""
    parser = _parser()
    options = parser.parse_args(arguments)
    plan = Plan(options.patterns, options.rounds, options.brokers, options.records)
    measurement = Measurement.begin(
        parser,
        arguments,
        options,
        ["aiokafka", "uvloop"],
        brokers=plan.brokers,
        seconds=len(plan.patterns) * plan.rounds * 2 * _RUN_SECONDS,
    )
    console = Console()
    runs = collect(lambda started: run_all(plan, started=started), console)
    summaries = summarise(runs)
    measurement.publish(
        [
            describe(
                pattern,
                [summary for summary in summaries if summary.workload == pattern.name],
                plan.records or pattern.records,
            )
            for pattern in plan.patterns
        ],
        console,
    )
    return 1 if any(run.void for run in runs) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shim", description=__doc__)
    parser.add_argument(
        "--patterns",
        type=names_of(PATTERNS),
        default=list(PATTERNS.values()),
        help=f"comma-separated, of {', '.join(PATTERNS)}",
    )
    parser.add_argument("--brokers", choices=BROKERS, default="mock", help="default: %(default)s")
    parser.add_argument("--rounds", type=positive, default=_ROUNDS, help="default: %(default)s")
    parser.add_argument("--records", type=positive, help="in a run; default: the pattern's")
    add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
