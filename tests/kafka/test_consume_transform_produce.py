"""The example of exactly once: instances are killed, paused, restarted; the output has it all once.

The input is written in transactions too, and every fifth of them is aborted.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random, SystemRandom

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from aioproducer import Producer
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from aioproducer.testing.processes import ProcessSupervisor
from tests.kafka.conftest import transactional_cluster
from tests.kafka.transactional import older_protocol_in_soak

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EXAMPLE = Path(__file__).parents[2] / "examples" / "consume_transform_produce.py"
SEED = "AIOPRODUCER_PIPELINE_SEED"
PARTITIONS = 4
KEYS = 16
RECORDS = {1: 10_000, 2: 2_000}
"""With each protocol of transactions; the older one is part of soak."""
PER_TRANSACTION = 20
EVERY = 0.15
"""Seconds from one transaction of the input to the next: 15 s for 2,000 records."""
INSTANCES = ("a", "b", "c")
PAUSE = 7.5
"""Seconds: more than the session in the group, less than a transaction may take."""
PATIENCE = 120.0
SLOWLY = """
import asyncio, runpy, sys
from aioproducer import Producer, consumer
drain = Producer.drain
async def slow_drain(self):
    await asyncio.sleep(0.01)
    await drain(self)
Producer.drain = slow_drain
make = consumer.Consumer.__init__
def make_member(self, *topics, session_timeout_ms, heartbeat_interval_ms, **options):
    make(self, *topics, group_protocol="consumer", **options)
if sys.argv.pop(1) == "consumer":
    consumer.Consumer.__init__ = make_member
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs the example with 10 ms for each record, so that it is met in the middle of a transaction.
The first argument is the group protocol: members of KIP-848 have the brokers' times."""


class Instance:
    """One process of the example, under the same name from one start to the next."""

    def __init__(
        self, name: str, group_protocol: str, servers: str, logs: Path, children: ProcessSupervisor
    ) -> None:
        self.name = name
        self._command = [sys.executable, "-c", SLOWLY, group_protocol, str(EXAMPLE), servers, name]
        self._log = logs / f"instance-{name}.log"
        self._children = children
        self.fell = 0
        """How often it ended by itself, with an error."""
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._began = log.tell()
            self.process: subprocess.Popen[bytes] = self._children.start(
                self._command, stdout=log, stderr=log
            )

    def log(self) -> str:
        return self._log.read_text()

    async def kill(self) -> None:
        await asyncio.to_thread(self._children.kill, self.process)

    async def stop(self) -> None:
        """It ends what it has begun, if anything, unless its name was taken over meanwhile."""
        code = await asyncio.to_thread(self._children.stop, self.process, PATIENCE)
        if code not in (0, -signal.SIGTERM):
            self._check_that_it_was_fenced()

    def revive(self) -> None:
        """Start it again if it has ended by itself, which a name that was taken over makes it."""
        if self.process.poll() is not None:
            self._check_that_it_was_fenced()
            self.start()

    def _check_that_it_was_fenced(self) -> None:
        said = self._log.read_bytes()[self._began :].decode()
        assert "FatalTransactionError" in said or "FencedError" in said, said
        self.fell += 1


async def disturb(instances: list[Instance], random: Random, done: asyncio.Event) -> Counter[str]:
    """Kill, pause and stop instances, one at a time, until ``done``."""
    happened: Counter[str] = Counter()
    while not done.is_set():
        await asyncio.sleep(random.uniform(0.5, 2.0))
        for instance in instances:
            instance.revive()
        instance = random.choice(instances)
        what = random.choices(("kill", "pause", "stop"), (4, 1, 1))[0]
        happened[what] += 1
        if what == "pause":
            instance.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(PAUSE)
            instance.process.send_signal(signal.SIGCONT)
            continue
        await (instance.kill() if what == "kill" else instance.stop())
        await asyncio.sleep(random.choice((0.0, 0.5)))
        instance.start()
    return happened


async def feed(servers: str, records: int) -> None:
    """Write the numbers below ``records``, a key's in order, and others that nobody may see."""
    due = time.monotonic()
    async with Producer(bootstrap_servers=servers, transactional_id="shop") as producer:
        for first in range(0, records, PER_TRANSACTION):
            numbers = range(first, min(first + PER_TRANSACTION, records))
            if first // PER_TRANSACTION % 5 == 0:
                await producer.begin_transaction()
                for number in numbers:
                    await producer.send("orders", b"never", key=b"%d" % (number % KEYS))
                await producer.abort_transaction()
            async with producer.transaction():
                for number in numbers:
                    producer.send("orders", b"%d" % number, key=b"%d" % (number % KEYS))
            due += EVERY
            await asyncio.sleep(due - time.monotonic())


def read(servers: str, isolation: str = "read_committed") -> list[tuple[int, bytes, bytes]]:
    """Partition, key and value of every invoice, in the order of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "none",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        consumer.assign([TopicPartition("invoices", number, 0) for number in range(PARTITIONS)])
        found: list[tuple[int, bytes, bytes]] = []
        ended: set[int | None] = set()
        while len(ended) < PARTITIONS:
            for message in consumer.consume(1_000, 0.02):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF
                    ended.add(message.partition())
                    continue
                partition, key, value = message.partition(), message.key(), message.value()
                assert partition is not None
                assert isinstance(key, bytes)
                assert isinstance(value, bytes)
                found.append((partition, key, value))
        return found
    finally:
        consumer.close()


def check(invoices: list[tuple[int, bytes, bytes]], records: int) -> None:
    """Each once, and those of a key in the order of its orders."""
    prefix = b"invoice of "
    assert all(value.startswith(prefix) for _, _, value in invoices)
    numbers = Counter(int(value.removeprefix(prefix)) for _, _, value in invoices)
    missing = set(range(records)) - set(numbers)
    doubled = {number: count for number, count in numbers.items() if count > 1}
    assert (missing, doubled) == (set(), {})
    assert len(numbers) == records
    for key in range(KEYS):
        mine = [
            int(value.removeprefix(prefix)) for _, each, value in invoices if each == b"%d" % key
        ]
        assert all(earlier < later for earlier, later in pairwise(mine))
    assert len({(partition, key) for partition, key, _ in invoices}) == KEYS


async def everything_once(
    cluster: KafkaCluster, records: int, logs: Path, seed: int, group_protocol: str = "classic"
) -> None:
    servers = cluster.bootstrap_servers
    for topic in ("orders", "invoices"):
        await cluster.create_topic(topic, PARTITIONS, 3)
    began = time.monotonic()
    with ProcessSupervisor() as children:
        instances = [Instance(name, group_protocol, servers, logs, children) for name in INSTANCES]
        fed = asyncio.Event()
        disturbing = asyncio.create_task(disturb(instances, Random(seed), fed))
        try:
            await feed(servers, records)
            print(f"fed {time.monotonic() - began:.0f} s")
        finally:
            fed.set()
            happened = await disturbing
        print(f"{dict(happened)} in {time.monotonic() - began:.0f} s")
        deadline = time.monotonic() + PATIENCE
        while (found := len(await asyncio.to_thread(read, servers))) < records:
            logs_of_all = [instance.log() for instance in instances]
            assert time.monotonic() < deadline, f"{found} invoices; {logs_of_all}"
            for instance in instances:
                instance.revive()
            await asyncio.sleep(0.5)
        await asyncio.gather(*(instance.stop() for instance in instances))
    written = await asyncio.to_thread(read, servers, "read_uncommitted")
    aborts = sum(instance.log().count("trying again") for instance in instances)
    print(
        f"{len(written) - records} invoices of aborted transactions; {aborts} aborts, "
        f"{sum(instance.fell for instance in instances)} falls; {time.monotonic() - began:.0f} s"
    )
    check(await asyncio.to_thread(read, servers), records)


@older_protocol_in_soak
async def test_every_order_has_one_invoice(
    transactional: KafkaCluster, protocol: int, tmp_path: Path
) -> None:
    seed = int(os.environ.get(SEED) or SystemRandom().randrange(1_000_000))
    print(f"the same again: {SEED}={seed}; logs in {tmp_path}")
    await everything_once(transactional, RECORDS[protocol], tmp_path, seed)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
@pytest.mark.parametrize("seed", range(1, 21))
async def test_every_order_has_one_invoice_with_both_protocols_of_groups(
    kafka_distribution: KafkaDistribution, group_protocol: str, seed: int, tmp_path: Path
) -> None:
    with transactional_cluster(protocol=2) as cluster:
        await everything_once(cluster, RECORDS[2], tmp_path, seed, group_protocol)
