"""Runs workloads times clients, round by round, each run in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import launch
from benchmarks.brokers import BROKERS, Target, log_size
from benchmarks.clients import Client
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

    def clients_of(self, workload: Workload) -> Sequence[Client]:
        """Those that can do it, with these brokers."""
        return [
            client
            for client in self.clients
            if workload.name in client.settings and self.brokers in client.brokers
        ]


def run_all(plan: Plan, started: Callable[[str], None]) -> Iterator[Run]:
    """Every run, as it ends. ``started`` is told what runs now.

    The rounds are interleaved, A B C, B C A: what slows the machine down for a while slows all, and
    nobody always follows the same one.
    """
    with BROKERS[plan.brokers]() as serving:
        for workload in plan.workloads:
            clients = plan.clients_of(workload)
            with serving(workload) as target:
                if plan.brokers == "kafka" and clients:
                    started(f"{workload.name}: warming up the brokers")
                    _run(plan, workload, clients[0], 0, target)
                for number in range(1, plan.rounds + 1):
                    first = (number - 1) % max(1, len(clients))
                    for client in (*clients[first:], *clients[:first]):
                        started(f"{workload.name}, round {number} of {plan.rounds}: {client.name}")
                        yield _run(plan, workload, client, number, target)


def _run(plan: Plan, workload: Workload, client: Client, number: int, target: Target) -> Run:
    records = plan.records or workload.records
    arguments = [client.name, workload.name, "--bootstrap", target.bootstrap_servers]
    arguments += ["--records", str(records)]
    if target.authority is not None:
        arguments += ["--authority", target.authority]
    if plan.profiles:
        name = f"{workload.name}-{client.name}-{number}.prof"
        arguments += ["--profile", str(plan.profiles / name)]
    before = _log_size(target, workload)
    neighbours = Neighbours()
    try:
        costs = _costs(
            launch.command(client.program, *arguments), _LONGEST_RUN + records / _SLOWEST
        )
    except RunError as error:
        return Run(client.name, workload.name, number, neighbours.cores_used(), str(error))
    others = neighbours.cores_used()
    in_log = _log_size(target, workload) - before - costs.warm_up
    void = why_void(records, costs.confirmed, costs.failed, in_log, costs.first_error)
    numbers = {} if void else costs.numbers
    return Run(client.name, workload.name, number, others, void, numbers)


def _log_size(target: Target, workload: Workload) -> int:
    return log_size(target.plain_text, workload.topic_names(), workload.partitions)


def _costs(command: Sequence[str], longest: float) -> Costs:
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
