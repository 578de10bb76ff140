"""Random programs behave on our producer as on confluent-kafka's.

A program is a list of steps from one seed: bursts of records with callbacks of several kinds,
polls, flushes, purges, and errors of the broker. It runs on both clients, each on a cluster of its
own. The outcomes have to be equal where they do not depend on time: the error, the partition and
the offset of each record, the order in a partition, the errors that calls raise, and the queue's
length. One more thing depends on time with librdkafka: after a callback that raises, later
callbacks may come out of order, and the call raises the last error in its order.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import confluent_kafka
import pytest

from aioproducer.compat import confluent
from aioproducer.testing.mock_cluster import MockCluster
from tests.documentation.pages import ROOT

PRODUCE: Final = 0
ERRORS: Final = (10, 44, 87)
"""Errors that end a record: too large, policy, invalid record."""
PARTITIONS: Final = 4
MOST_AT_ONCE: Final = 60
"""Records of a burst."""
FAST: Final = range(30)
SOAK: Final = (range(30, 515), range(515, 1_000))
"""Each in a process of its own: each producer of the original takes one of the 1,024 keys for data
of threads, and never gives it back."""


class MineError(Exception):
    """The error of a callback."""


class Run:
    """One program on one client; ``trace`` is what has to be equal."""

    def __init__(self, client: Any, cluster: MockCluster, seed: int) -> None:
        self.trace: list[Any] = []
        self._client = client
        self._cluster = cluster
        self._random = Random(seed)
        self._topic = f"t{seed}"
        self._values = 0
        self._told: list[Any] = []
        self._told_part = 1.0
        """The part of the records with a callback. The others leave the queue without a poll, at
        times of their own, so that a short queue is full at any of them."""
        most = self._random.choice([40, 100_000])
        if most > MOST_AT_ONCE:
            self._told_part = 0.8
        self._producer = client.Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "queue.buffering.max.messages": most,
                "linger.ms": self._random.choice([0, 5]),
                "message.send.max.retries": 3,
            }
        )
        self._offline = client.Producer({"queue.buffering.max.messages": most})

    def __call__(self) -> list[Any]:
        steps = [self.burst, self.burst, self.raising, self.again, self.refused, self.error]
        self.burst()
        for _ in range(self._random.randrange(3, 8)):
            self._random.choice([*steps, self.purge, self.wrong])()
        self._producer.flush()
        self.trace.append(("left", len(self._producer), len(self._offline)))
        self._producer.close()
        self._offline.close()
        return self.trace

    def tell(self, error: Any, message: Any) -> None:
        self._told.append(
            (
                message.value(),
                None if error is None else error.code(),
                message.partition(),
                message.offset(),
                message.key(),
                message.topic(),
            )
        )

    def settle(self, step: str, *, by_polls: bool = False) -> None:
        """Flush until all is told, or poll, noting what callbacks raise."""
        raised = []
        while True:
            try:
                if by_polls:
                    while len(self._producer):
                        self._producer.poll(0.05)
                self.trace.append((step, self._producer.flush()))
                break
            except MineError as error:
                raised.append(str(error))
        told, self._told = self._told, []
        if raised:
            raised = ["one of them"]
            told.sort(key=lambda each: each[3])
        by_partition: dict[int, list[Any]] = {}
        for each in told:
            by_partition.setdefault(each[2], []).append(each)
        self.trace.append((step, raised, sorted(by_partition.items())))

    def produce(self, callback: Any, partition: int | None = None) -> None:
        """One record whose partition does not depend on chance."""
        value = b"%d" % self._values
        self._values += 1
        random = self._random
        keywords: dict[str, Any] = {"callback": callback}
        if partition is None and random.random() < 0.5:
            keywords["key"] = random.randbytes(random.randrange(1, 9))
        else:
            drawn = random.randrange(PARTITIONS)
            keywords["partition"] = drawn if partition is None else partition
        try:
            self._producer.produce(self._topic, value, **keywords)
        except BufferError as error:
            self.trace.append(("full", value, str(error)))

    # --- the steps ---------------------------------------------------------------------------

    def burst(self) -> None:
        self.produce(self.tell)
        for _ in range(self._random.randrange(MOST_AT_ONCE)):
            self.produce(self.tell if self._random.random() < self._told_part else None)
        self.trace.append(("waiting", len(self._producer) > 0))
        self.settle("burst")

    def raising(self) -> None:
        marks = set(self._random.sample(range(8), self._random.randrange(1, 4)))
        partition, number = self._random.randrange(PARTITIONS), iter(range(8))

        def callback(error: Any, message: Any) -> None:
            self.tell(error, message)
            if next(number) in marks:
                raise MineError(message.value().decode())

        for _ in range(8):
            self.produce(callback, partition)
        self.settle("raising", by_polls=self._random.random() < 0.5)

    def again(self) -> None:
        left = self._random.randrange(1, 4)
        partition = self._random.randrange(PARTITIONS)

        def callback(error: Any, message: Any) -> None:
            nonlocal left
            self.tell(error, message)
            if left:
                left -= 1
                self.produce(callback, partition)

        self.produce(callback, partition)
        self.settle("again")

    def refused(self) -> None:
        """Records that the call itself refuses, with the texts of the errors."""
        for arguments in ((self._topic, "x", None, 99), (self._topic, b"x" * 1_500_000)):
            try:
                self._producer.produce(*arguments)
            except self._client.KafkaException as error:
                self.trace.append(("refused", error.args[0].code(), error.args[0].str()))

    def wrong(self) -> None:
        """Arguments of wrong types."""
        for arguments in ((), (1,), (self._topic, 1), (self._topic, "x", 1.0)):
            try:
                self._producer.produce(*arguments)
            except TypeError:
                self.trace.append("TypeError")

    def error(self) -> None:
        self._cluster.push_request_errors(PRODUCE, self._random.choice(ERRORS))
        self.produce(self.tell)
        self.settle("error")
        self._cluster.clear_request_errors(PRODUCE)

    def purge(self) -> None:
        """Records that no broker can take."""
        told: list[Any] = []
        for number in range(self._random.randrange(1, 20)):
            self._offline.produce(
                "t",
                f"{number}",
                partition=self._random.randrange(PARTITIONS),
                callback=lambda error, message: told.append((message.value(), error.code())),
            )
        self.trace.append(("offline", self._offline.flush(0), self._offline.poll(0)))
        self._offline.purge(in_queue=False)
        self.trace.append(("kept", self._offline.flush(0), [*told]))
        self._offline.purge()
        self.trace.append(("purged", self._offline.flush(5), sorted(told)))


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[MockCluster, MockCluster]]:
    """One for each client."""
    with MockCluster(brokers=1) as mine, MockCluster(brokers=1) as theirs:
        yield mine, theirs


def check(clusters: tuple[MockCluster, MockCluster], seed: int) -> None:
    mine, theirs = clusters
    expected, found = Run(confluent_kafka, theirs, seed)(), Run(confluent, mine, seed)()
    differences = [pair for pair in zip(expected, found, strict=False) if pair[0] != pair[1]]
    assert differences == [], f"seed {seed}: expected and found"
    assert len(expected) == len(found)


@pytest.mark.parametrize("seed", FAST)
def test_a_random_program(clusters: tuple[MockCluster, MockCluster], seed: int) -> None:
    check(clusters, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seeds", SOAK)
def test_a_thousand_random_programs(seeds: range) -> None:
    program = f"from {__name__} import check_all; check_all({seeds!r})"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def check_all(seeds: range) -> None:
    with MockCluster(brokers=1) as mine, MockCluster(brokers=1) as theirs:
        for seed in seeds:
            check((mine, theirs), seed)
