"""A group whose members and brokers are killed and stopped, judged by what each member has done."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.errors import ProducerError
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from aioproducer.testing.processes import ProcessSupervisor
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MEMBER: Final = Path(__file__).with_name("group_member.py")
RECORDS: Final = 3_000
PARTITIONS: Final = 6
MORE_PARTITIONS: Final = 9
"""From the middle on."""
MEMBERS: Final = ("a", "b", "c")
PATIENCE: Final = 120.0
CHOSEN: Final = os.environ.get("AIOPRODUCER_GROUP_SEED", "0")


@pytest.fixture(scope="module")
def cluster(kafka_distribution: KafkaDistribution) -> Iterator[KafkaCluster]:
    """Three brokers for this module, which kills them."""
    config = {
        "group.consumer.session.timeout.ms": 6_000,
        "group.consumer.heartbeat.interval.ms": 500,
        "group.consumer.min.session.timeout.ms": 1_000,
        "group.consumer.min.heartbeat.interval.ms": 500,
        "min.insync.replicas": 2,
    }
    with KafkaCluster(brokers=3, config=config) as cluster:
        yield cluster


class Chaos:
    """One group, its processes, and what they have said."""

    def __init__(
        self, cluster: KafkaCluster, protocol: str, seed: int, folder: Path, children: Any
    ) -> None:
        self.cluster = cluster
        self.random = Random(f"{seed} {protocol}")
        self.topic = f"chaos-{protocol}-{seed}"
        self._protocol = protocol
        self._folder = folder
        self._children = children
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.happened: Counter[str] = Counter()

    def start(self, name: str) -> None:
        command = [sys.executable, str(MEMBER), self.cluster.bootstrap_servers, self.topic]
        command += [self.topic, self._protocol, name]
        told, log = (self._folder / f"{name}.{kind}" for kind in ("out", "err"))
        with told.open("ab") as stdout, log.open("ab") as stderr:
            self._processes[name] = self._children.start(command, stdout=stdout, stderr=stderr)

    async def disturb(self, over: asyncio.Event) -> None:
        """One thing after the other goes wrong, until it is over."""
        while not over.is_set():
            await asyncio.sleep(self.random.uniform(0.5, 2.0))
            name = self.random.choice(MEMBERS)
            what = self.random.choice(("kill", "kill", "pause", "end", "broker"))
            self.happened[what] += 1
            match what:
                case "kill":
                    await asyncio.to_thread(self._children.kill, self._processes[name])
                    self.start(name)
                case "end":
                    await asyncio.to_thread(self._children.stop, self._processes[name], PATIENCE)
                    self.start(name)
                case "pause":
                    self._processes[name].send_signal(signal.SIGSTOP)
                    await asyncio.sleep(self.random.choice((1.0, 8.0)))
                    self._processes[name].send_signal(signal.SIGCONT)
                case "broker":
                    broker = self.random.choice(self.cluster.brokers).node_id
                    await self.cluster.kill_broker(broker)
                    await asyncio.sleep(self.random.uniform(0.0, 3.0))
                    await self.cluster.start_broker(broker)

    async def send(self, admin: Admin) -> None:
        partitions = PARTITIONS
        async with Producer(
            bootstrap_servers=self.cluster.bootstrap_servers, delivery_timeout_ms=300_000
        ) as producer:
            for number in range(RECORDS):
                if number == RECORDS // 2:
                    partitions = MORE_PARTITIONS
                    await self._add_partitions(admin, partitions)
                producer.send(self.topic, b"%d" % number, partition=number % partitions)
                await asyncio.sleep(0.005)
            await producer.flush()

    async def _add_partitions(self, admin: Admin, total: int) -> None:
        """They have three replicas, so it is tried until all brokers are up."""

        async def added() -> bool:
            with suppress(ProducerError):
                await admin.add_partitions(self.topic, total)
            with suppress(ProducerError):
                found = await admin.describe_topics(self.topic)
                return len(found[self.topic].partitions) == total
            return False

        await until(added, "partitions are added", PATIENCE)

    def repeated(self) -> int:
        """The number of records that were finished again."""
        lines = sum(len(path.read_text().splitlines()) for path in self._folder.glob("*.out"))
        return lines - RECORDS

    def done(self) -> dict[int, dict[int, int]]:
        """The numbers that were finished, by partition and offset. A killed line may be cut off."""
        found: dict[int, dict[int, int]] = defaultdict(dict)
        for path in self._folder.glob("*.out"):
            for line in path.read_text().splitlines():
                words = line.split()
                if len(words) == 3:
                    found[int(words[0])][int(words[1])] = int(words[2])
        return found

    def has_done_all(self) -> bool:
        return sum(map(len, self.done().values())) >= RECORDS

    async def check_commits(self, admin: Admin) -> None:
        """No committed offset is behind a record that nobody has finished."""
        committed = await admin.group_offsets(self.topic)
        done = self.done()
        for where, at in committed.items():
            missing = set(range(at.offset)) - done[where.partition].keys()
            assert not missing, f"{where}: {at.offset} is committed, without {sorted(missing)[:5]}"


IN_EACH_RUN: Final = "consumer", int(CHOSEN)
"""The simulated lives of groups have both protocols in each run."""
SOAK: Final = [
    pytest.param(protocol, seed, marks=pytest.mark.soak)
    for protocol in ("classic", "consumer")
    for seed in range(20)
    if (protocol, seed) != IN_EACH_RUN
]


@pytest.mark.parametrize(("protocol", "seed"), [IN_EACH_RUN, *SOAK])
async def test_each_record_is_done_and_no_commit_passes_one(
    cluster: KafkaCluster, tmp_path: Path, protocol: str, seed: int
) -> None:
    with ProcessSupervisor() as children:
        chaos = Chaos(cluster, protocol, seed, tmp_path, children)
        await cluster.create_topic(chaos.topic, PARTITIONS, 3)
        for name in MEMBERS:
            chaos.start(name)
        over = asyncio.Event()
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            disturbing = asyncio.ensure_future(chaos.disturb(over))
            await chaos.send(admin)
            over.set()
            await disturbing
            await until(chaos.has_done_all, "all records are done", PATIENCE)
            await chaos.check_commits(admin)
    print(f"{dict(chaos.happened)}; {chaos.repeated()} records came again")
    numbers = {number for each in chaos.done().values() for number in each.values()}
    assert numbers == set(range(RECORDS))
