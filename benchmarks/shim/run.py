"""Every pattern with both imports, round by round, each run in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks import launch
from benchmarks.brokers import BROKERS, Target, log_size
from benchmarks.machine import Neighbours
from benchmarks.runner import RunError, costs_of
from benchmarks.shim.plan import IMPORTS, PARTITIONS, Pattern
from benchmarks.summary import Run, why_void

_LONGEST_RUN: Final = 120.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. ``records`` may be None: the pattern's number."""

    patterns: Sequence[Pattern]
    rounds: int
    brokers: str = "mock"
    """A name of `BROKERS`."""
    records: int | None = None


def run_all(plan: Plan, started: Callable[[str], None]) -> Iterator[Run]:
    """Every run, as it ends. ``started`` is told what runs now. The rounds are interleaved."""
    names = list(IMPORTS)
    with BROKERS[plan.brokers]() as serving:
        for pattern in plan.patterns:
            with serving(pattern.workload()) as target:
                if plan.brokers == "kafka":
                    started(f"{pattern.name}: warming up the brokers")
                    _run(plan, pattern, names[0], 0, target)
                for number in range(1, plan.rounds + 1):
                    for name in names if number % 2 else reversed(names):
                        started(f"{pattern.name}, round {number} of {plan.rounds}: {name}")
                        yield _run(plan, pattern, name, number, target)


def _run(plan: Plan, pattern: Pattern, name: str, number: int, target: Target) -> Run:
    records = plan.records or pattern.records
    arguments = [name, pattern.name, "--bootstrap", target.bootstrap_servers]
    arguments += ["--records", str(records)]
    before = _log_size(target, pattern)
    neighbours = Neighbours()
    try:
        costs = costs_of(launch.command("benchmarks.shim.program", *arguments), _LONGEST_RUN)
    except RunError as error:
        return Run(name, pattern.name, number, neighbours.cores_used(), str(error))
    others = neighbours.cores_used()
    in_log = _log_size(target, pattern) - before - costs.warm_up
    void = why_void(records, costs.confirmed, costs.failed, in_log, costs.first_error)
    return Run(name, pattern.name, number, others, void, {} if void else costs.numbers)


def _log_size(target: Target, pattern: Pattern) -> int:
    return log_size(target.plain_text, pattern.workload().topic_names(), PARTITIONS)
