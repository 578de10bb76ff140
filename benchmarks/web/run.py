"""Runs applications under load, each in a server process of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]

from aioproducer.testing.mock_cluster import MockCluster
from aioproducer.testing.processes import ProcessSupervisor
from benchmarks import launch
from benchmarks.brokers import log_size
from benchmarks.machine import Neighbours
from benchmarks.web.plan import NULL, PARTITIONS, TOPIC, App, Plan, Step
from benchmarks.web.summary import Run, why_void
from benchmarks.web.wrk import Load, WrkError, put_load

_BROKERS: Final = 3
_ROOT: Final = Path(__file__).parent.parent.parent


class ServerError(Exception):
    """A server did not start."""


def run_all(plan: Plan, started: Callable[[str], None]) -> Iterator[Run]:
    """Every run, as it ends. ``started`` is told what runs now."""
    with (
        MockCluster(brokers=_BROKERS, topics={TOPIC: PARTITIONS}) as cluster,
        ProcessSupervisor() as processes,
    ):
        for step in plan.steps():
            app = step.app
            started(
                f"{app.framework}, round {step.round} of {plan.rounds}: "
                f"{app.client}, {step.connections} connections"
            )
            yield _run(plan, step, processes, cluster.bootstrap_servers)


def _run(plan: Plan, step: Step, processes: ProcessSupervisor, bootstrap_servers: str) -> Run:
    neighbours = Neighbours()
    before = log_size(bootstrap_servers, [TOPIC], PARTITIONS)
    try:
        with serve(step.app, processes, bootstrap_servers) as (url, server):
            warm_up = put_load(url, step.connections, plan.warm_up)
            used = _cpu_seconds(server)
            load = put_load(url, step.connections, plan.seconds)
            used = _cpu_seconds(server) - used
    except (ServerError, WrkError, psutil.Error) as error:
        return _of(step, neighbours, str(error))
    in_log = log_size(bootstrap_servers, [TOPIC], PARTITIONS) - before
    least = 0 if step.app.client == NULL else warm_up.requests + load.requests
    if void := why_void(load, warm_up, in_log, least):
        return _of(step, neighbours, void)
    return _of(step, neighbours, None, _numbers(load, used))


def _of(
    step: Step, neighbours: Neighbours, void: str | None, numbers: dict[str, float] | None = None
) -> Run:
    app = step.app
    return Run(
        app.framework,
        app.client,
        step.connections,
        step.round,
        neighbours.cores_used(),
        void,
        numbers or {},
    )


def _numbers(load: Load, cpu_seconds: float) -> dict[str, float]:
    return {
        "requests_per_second": load.requests_per_second,
        "cpu_us_per_request": cpu_seconds / load.requests * 1e6,
        "p50_ms": load.p50_ms,
        "p99_ms": load.p99_ms,
    }


@contextmanager
def serve(
    app: App, processes: ProcessSupervisor, bootstrap_servers: str
) -> Iterator[tuple[str, psutil.Process]]:
    """Its address and its process. Raises ServerError."""
    process = processes.start(
        launch.command("benchmarks.web.server", *app.arguments),
        stdout=subprocess.PIPE,
        env={**os.environ, "BOOTSTRAP_SERVERS": bootstrap_servers},
        cwd=_ROOT,
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        if not port:
            raise ServerError(f"the server of {app.framework} and {app.client} did not start")
        yield f"http://127.0.0.1:{port.decode()}/", psutil.Process(process.pid)
    finally:
        processes.stop(process)


def _cpu_seconds(process: psutil.Process) -> float:
    """User and system, all threads."""
    used = process.cpu_times()
    return float(used.user + used.system)
