"""Transactions through chaos, from the start of the brokers to the verdict."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioproducer.testing.fault_proxy import Fault, FaultProxies
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_cluster.broker import INTERNAL_LISTENER
from aioproducer.testing.processes import ProcessSupervisor
from benchmarks.chaos.disturber import Disturber
from benchmarks.chaos.plan import BROKERS, Disturbances, connection_faults
from benchmarks.chaos.transactions.journal import Read, Told
from benchmarks.chaos.transactions.plan import (
    FAULTY_APIS,
    GROUP,
    PARTITIONS,
    SOURCE,
    TOPICS,
    Replacements,
    replacements,
)
from benchmarks.chaos.transactions.read_back import (
    Place,
    ReadError,
    committed_offset,
    nothing_is_open,
    read_to_end,
)
from benchmarks.chaos.transactions.replacer import Replacer
from benchmarks.chaos.transactions.verdict import Judge, Verdict

_PLACES: Final = [Place(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
_OFFSETS_WITHIN: Final = 60.0
_ENDED_WITHIN: Final = 60.0
_FAULTS: Final = 6
_SETTINGS: Final = {
    "min.insync.replicas": 2,
    "transaction.state.log.min.isr": 2,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Seconds: ``every`` from a broker's return to the next disturbance, ``cuts_every`` between
    faults of connections, ``clients_every`` of a client's work, ``pause`` between transactions,
    ``disturbed`` until nothing happens any more, if enough has (None: when all is done),
    ``longest`` of a run."""

    transactions: int
    seed: int
    protocol: int
    every: float = 2.0
    cuts_every: float = 0.5
    clients_every: float = 6.0
    pause: float = 0.0
    disturbed: float | None = None
    longest: float = 3600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is said about one run."""

    verdict: Verdict
    seconds: float
    offset: int
    """The group's, at the end."""
    told: Counter[Told]
    errors: Counter[str]
    clients: int
    replaced: Counter[Replacements]
    fenced: int
    done_before: int
    fenced_late: int
    disturbed: Counter[Disturbances]
    faults: Counter[type[Fault]]

    @property
    def enough(self) -> bool:
        """Whether clients were replaced in each way, brokers and connections disturbed."""
        return _enough(self.disturbed, self.replaced, self.faults)

    @property
    def zombies(self) -> int:
        return self.replaced[Replacements.BESIDE] + self.replaced[Replacements.PAUSE]

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.seconds:.1f} s; {self.verdict}; offset {self.offset}",
                f"{self.clients} clients: {_listed(self.replaced)}; of {self.zombies} zombies "
                f"{self.fenced} fenced, {self.done_before} were done before; "
                f"{self.fenced_late} x fenced by an earlier one that asked late",
                f"told: {_listed(self.told)}; errors: {_listed(self.errors)}",
                f"brokers: {_listed(self.disturbed)}; connections: "
                + _listed(Counter({kind.__name__: each for kind, each in self.faults.items()})),
            ]
        )


def _listed(
    counts: Counter[str] | Counter[Told] | Counter[Replacements] | Counter[Disturbances],
) -> str:
    return ", ".join(f"{count} x {what}" for what, count in counts.most_common()) or "none"


async def run(plan: Plan, directory: Path) -> Outcome:
    """The clients' logs and journals go to ``directory``. Raises ClientError, KafkaClusterError."""
    async with (
        FaultProxies(BROKERS) as proxies,
        KafkaCluster(
            BROKERS,
            config=_SETTINGS,
            advertised_ports=proxies.ports,
            format_options=("--feature", f"transaction.version={plan.protocol}"),
        ) as cluster,
    ):
        proxies.lead_to(cluster)
        straight = cluster.bootstrap_servers_of(INTERNAL_LISTENER)
        for topic in (SOURCE, *TOPICS):
            await cluster.create_topic(topic, PARTITIONS, BROKERS, {"min.insync.replicas": 2})
        disturber = Disturber(
            cluster,
            proxies,
            plan.seed,
            list(Disturbances),
            plan.every,
            connection_faults(plan.seed, plan.cuts_every, FAULTY_APIS),
            topics=(*TOPICS, "__transaction_state", "__consumer_offsets"),
        )
        with ProcessSupervisor() as supervisor:
            arguments = ["--bootstrap", proxies.bootstrap_servers, "--straight", straight]
            arguments += ["--transactions", str(plan.transactions), "--pause", str(plan.pause)]
            replacing = replacements(plan.seed, plan.clients_every)
            replacer = Replacer(supervisor, directory, arguments, replacing)
            seconds = await _replace_clients(plan, replacer, disturber, proxies)
        told = Read()
        for client in replacer.clients:
            if client.journal.exists():
                told.add(client.journal)
        verdict = await asyncio.to_thread(_verdict, plan, straight, told)
        offset = await asyncio.to_thread(
            committed_offset, straight, GROUP, Place(SOURCE, 0), _OFFSETS_WITHIN
        )
    return Outcome(
        verdict,
        seconds,
        offset,
        told.counts,
        told.errors,
        len(replacer.clients),
        replacer.counts,
        replacer.fenced,
        replacer.done_before,
        replacer.fenced_late,
        disturber.counts,
        proxies.counts,
    )


async def _replace_clients(
    plan: Plan, replacer: Replacer, disturber: Disturber, proxies: FaultProxies
) -> float:
    """Run clients among disturbances until all transactions are done; the seconds that it took."""
    began = time.monotonic()
    async with asyncio.timeout(plan.longest), asyncio.TaskGroup() as group:
        disturbing = group.create_task(disturber.run())
        calming = group.create_task(_calm(plan.disturbed, disturber, replacer, proxies))
        await replacer.run()
        seconds = time.monotonic() - began
        calming.cancel()
        disturber.stop()
        await disturbing
    return seconds


async def _calm(
    after: float | None, disturber: Disturber, replacer: Replacer, proxies: FaultProxies
) -> None:
    if after is None:
        return
    await asyncio.sleep(after)
    while not _enough(disturber.counts, replacer.counts, proxies.counts):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    disturber.stop()
    replacer.stop()


def _enough(
    disturbed: Counter[Disturbances], replaced: Counter[Replacements], faults: Counter[type[Fault]]
) -> bool:
    """Whether what is to be survived has happened."""
    return (
        disturbed.total() > 0
        and all(replaced[kind] for kind in Replacements)
        and faults.total() >= _FAULTS
    )


def _verdict(plan: Plan, bootstrap_servers: str, told: Read) -> Verdict:
    judge = Judge(plan.transactions)
    for place, value in _all_committed(bootstrap_servers):
        judge.see(*place, value)
    return judge.verdict(told)


def _all_committed(bootstrap_servers: str) -> list[tuple[Place, bytes]]:
    deadline = time.monotonic() + _ENDED_WITHIN
    while not nothing_is_open(bootstrap_servers, _PLACES):
        if time.monotonic() > deadline:
            raise ReadError(f"a transaction is still open after {_ENDED_WITHIN:g} s")
        time.sleep(0.1)
    return list(read_to_end(bootstrap_servers, _PLACES))
