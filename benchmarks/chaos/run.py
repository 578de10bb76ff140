"""One client's way through chaos, from the start of the brokers to the verdict."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Final

from aioproducer.testing.fault_proxy import Fault
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_cluster.broker import INTERNAL_LISTENER
from aioproducer.testing.processes import ProcessSupervisor
from benchmarks.chaos.access import Access, secured, unsecured
from benchmarks.chaos.client import longest
from benchmarks.chaos.clients import TOPIC, Client
from benchmarks.chaos.disturber import Disturber
from benchmarks.chaos.ledger import Footprint, Ledger
from benchmarks.chaos.plan import (
    BROKERS,
    PARTITIONS,
    Disturbances,
    Load,
    connection_faults,
    number_of,
)
from benchmarks.chaos.read_back import read_back
from benchmarks.chaos.verdict import Judge, Verdict

_ROOT: Final = Path(__file__).parents[2]
_ENDS_WITHIN: Final = 60.0
"""Seconds beyond its own bound; then the client is killed."""
_LINES_OF_LOG: Final = 20


class ChaosError(Exception):
    """The client's process failed, so nothing is known of its records."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What every client goes through; `every` and `cuts_every` are seconds."""

    load: Load
    kinds: Sequence[Disturbances] = tuple(Disturbances)
    every: float = 3.0
    cuts_every: float = 0.5
    at_once: int = 1
    session_ms: int = 0
    """How long a login lasts, with TLS and SCRAM; 0: plain text, without login."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is said about one client."""

    client: Client
    verdict: Verdict
    seconds: float
    errors: Counter[str]
    examples: dict[str, str]
    disturbed: Counter[Disturbances]
    faults: Counter[type[Fault]]
    footprints: Sequence[Footprint] = ()

    @property
    def broke_our_word(self) -> bool:
        return self.client.ours and self.verdict.broken_promises > 0


async def run(client: Client, plan: Plan, directory: Path) -> Outcome:
    """The client's log and ledger go to `directory`. Raises ChaosError and KafkaClusterError."""
    config = {"min.insync.replicas": 2}
    access, new_proxies, options = (
        secured(directory, plan.session_ms, config=config)
        if plan.session_ms
        else unsecured(config=config)
    )
    async with (
        new_proxies as proxies,
        KafkaCluster(BROKERS, advertised_ports=proxies.ports, **options) as cluster,
    ):
        proxies.lead_to(cluster)
        await cluster.create_topic(TOPIC, PARTITIONS, BROKERS, {"min.insync.replicas": 2})
        disturber = Disturber(
            cluster,
            proxies,
            plan.load.seed,
            plan.kinds,
            plan.every,
            connection_faults(plan.load.seed, plan.cuts_every),
            plan.at_once,
        )
        with ProcessSupervisor() as supervisor:
            try:
                async with asyncio.TaskGroup() as group:
                    disturbing = group.create_task(disturber.run())
                    command = _command(client, plan.load, proxies.bootstrap_servers, access)
                    ledger = await _drive(client, plan.load, command, directory, supervisor)
                    disturber.stop()
                    await disturbing
            except* ChaosError as errors:
                raise errors.exceptions[0] from None
        nothing_between = cluster.bootstrap_servers_of(INTERNAL_LISTENER)
        verdict = await asyncio.to_thread(_judge, ledger, nothing_between)
    return Outcome(
        client,
        verdict,
        ledger.seconds,
        ledger.errors,
        ledger.examples,
        disturber.counts,
        proxies.counts,
        ledger.footprints,
    )


def _command(
    client: Client, load: Load, bootstrap_servers: str, access: Access | None
) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.chaos.client", client.name]
    command += ["--bootstrap", bootstrap_servers, "--load", json.dumps(dataclasses.asdict(load))]
    if access is not None:
        command += ["--access", json.dumps(dataclasses.asdict(access))]
    return command


async def _drive(
    client: Client,
    load: Load,
    command: list[str],
    directory: Path,
    supervisor: ProcessSupervisor,
) -> Ledger:
    ledger, log = directory / f"{client.name}.ledger", directory / f"{client.name}.log"
    command += ["--ledger", str(ledger)]
    with log.open("wb") as output:
        child = supervisor.start(command, stdout=output, stderr=output, cwd=_ROOT)
    bound = longest(load) + _ENDS_WITHIN
    if (exit_code := await _exit_code(child, bound)) != 0:
        lines = log.read_text("utf-8", "replace").splitlines()[-_LINES_OF_LOG:]
        what = f"did not end within {bound:.0f} s" if exit_code is None else f"exit {exit_code}"
        raise ChaosError("\n".join([f"{client.name}: {what}; the end of its log:", *lines]))
    return Ledger.load(ledger)


async def _exit_code(child: Popen[bytes], timeout: float) -> int | None:
    try:
        async with asyncio.timeout(timeout):
            while child.poll() is None:  # noqa: ASYNC110 -- a thread would outlive a cancellation
                await asyncio.sleep(0.05)
    except TimeoutError:
        return None
    return child.returncode


def _judge(ledger: Ledger, bootstrap_servers: str) -> Verdict:
    judge = Judge(ledger)
    for partition, offset, value in read_back(bootstrap_servers, TOPIC):
        judge.see(partition, offset, number_of(value))
    return judge.verdict()
