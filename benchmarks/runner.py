"""Runs workloads times clients, round by round, each run in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks import launch
from benchmarks.brokers import BROKERS, Target, log_size
from benchmarks.clients import Choice, Client
from benchmarks.machine import Neighbours
from benchmarks.measure import Costs
from benchmarks.summary import Run, why_void
from benchmarks.workloads import Workload

_LONGEST_RUN = 120.0
_SLOWEST = 5_000
"""Records/s, for runs of more records than these can be sent in the longest run."""
_ROOT = Path(__file__).parent.parent


class RunError(Exception):
    """A client's process failed, or did not end."""


class Contender(NamedTuple):
    """A client with its settings."""

    client: Client
    choice: Choice


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. ``records`` and ``profiles`` may be None: the workload's number, no profile.

    ``profiles`` is a directory for one cProfile file per run; it slows the clients down.
    """

    workloads: Sequence[Workload]
    clients: Sequence[Client]
    rounds: int
    records: int | None = None
    profiles: Path | None = None
    brokers: str = "mock"
    """A name of `BROKERS`."""
    settings: Sequence[Choice] = (Choice.TUNED,)

    def contenders(self, workload: Workload) -> Sequence[Contender]:
        """Those that can do it, with these brokers."""
        return [
            Contender(client, choice)
            for client in self.clients
            for choice in self.settings
            if workload.name in client.settings(choice) and self.brokers in client.brokers
        ]


def run_all(plan: Plan, started: Callable[[str], None]) -> Iterator[Run]:
    """Every run, as it ends. ``started`` is told what runs now.

    The rounds are interleaved, A B C, B C A: what slows the machine down for a while slows all, and
    nobody always follows the same one.
    """
    with BROKERS[plan.brokers]() as serving:
        for workload in plan.workloads:
            contenders = plan.contenders(workload)
            with serving(workload) as target:
                if plan.brokers == "kafka" and contenders:
                    started(f"{workload.name}: warming up the brokers")
                    _run(plan, workload, contenders[0], 0, target)
                for number in range(1, plan.rounds + 1):
                    first = (number - 1) % max(1, len(contenders))
                    for contender in (*contenders[first:], *contenders[:first]):
                        started(
                            f"{workload.name}, round {number} of {plan.rounds}: "
                            f"{contender.client.name}, {contender.choice}"
                        )
                        yield _run(plan, workload, contender, number, target)


def _run(plan: Plan, workload: Workload, contender: Contender, number: int, target: Target) -> Run:
    client, choice = contender
    records = plan.records or workload.records
    arguments = [client.name, workload.name, "--bootstrap", target.bootstrap_servers]
    arguments += ["--records", str(records), "--settings", choice]
    if target.authority is not None:
        arguments += ["--authority", target.authority]
    if plan.profiles:
        name = f"{workload.name}-{client.name}-{choice}-{number}.prof"
        arguments += ["--profile", str(plan.profiles / name)]
    before = _log_size(target, workload)
    neighbours = Neighbours()
    try:
        costs = costs_of(
            launch.command(client.program, *arguments), _LONGEST_RUN + records / _SLOWEST
        )
    except RunError as error:
        others = neighbours.cores_used()
        return Run(client.name, workload.name, number, others, str(error), settings=choice)
    others = neighbours.cores_used()
    in_log = _log_size(target, workload) - before - costs.warm_up
    void = why_void(records, costs.confirmed, costs.failed, in_log, costs.first_error)
    numbers = {} if void else costs.numbers
    return Run(client.name, workload.name, number, others, void, numbers, choice)


def _log_size(target: Target, workload: Workload) -> int:
    return log_size(target.plain_text, workload.topic_names(), workload.partitions)


def costs_of(command: Sequence[str], longest: float) -> Costs:
    """The costs that a process prints. Raises RunError if it fails, or takes too long (seconds)."""
    try:
        done = subprocess.run(
            command, cwd=_ROOT, capture_output=True, text=True, timeout=longest, check=False
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"the client did not end within {longest:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RunError(f"the client's process failed: {lines[-1]}")
    return Costs(**json.loads(done.stdout.splitlines()[-1]))
