"""Brokers and clients are stopped, killed, paused, restarted under load: nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from aioproducer import DeliveryTimeoutError, Producer, ProducerError, RecordMetadata
from aioproducer.testing.kafka_cluster import KafkaCluster, broker_processes
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.kafka.transactional import committed, producer_on
from tests.support.read_back import read_topic
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


BROKERS = (1, 2, 3)
PARTITIONS = 6
BURST = 200
BETWEEN_BURSTS = 0.01
"""Seconds; with BURST the rate of the load, at most 20,000 records per second."""


@pytest.fixture(scope="module")
def cluster(kafka_distribution: KafkaDistribution) -> Iterator[KafkaCluster]:
    """Three brokers; each test leaves them running and in sync."""
    with KafkaCluster(brokers=3) as cluster:
        yield cluster


class Load:
    """Numbered records, spread over the partitions, and what became of them."""

    def __init__(self, cluster: KafkaCluster, topic: str, producer: Producer) -> None:
        self.cluster = cluster
        self.topic = topic
        self.producer = producer
        self.futures: list[asyncio.Future[RecordMetadata]] = []

    async def run(self) -> None:
        while True:
            for _ in range(BURST):
                number = len(self.futures)
                self.futures.append(
                    self.producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)
                )
            await self.producer.drain()
            await asyncio.sleep(BETWEEN_BURSTS)

    async def progress(self, records: int = 500) -> None:
        """Wait until ``records`` more were sent and each partition has decided over one of them."""
        target = len(self.futures) + records
        await until(lambda: len(self.futures) > target + PARTITIONS, "records are sent")
        first = self.futures[target : target + PARTITIONS]
        _, without_fate = await asyncio.wait(first, timeout=30)
        assert not without_fate

    def metric(self, name: str) -> float:
        return self.producer.metrics()["producer-metrics"][name]

    def broker_of(self, partition: int) -> int:
        return leaders(self.cluster, self.topic)[partition]

    async def verify(self) -> Counter[str]:
        """The log has each record once, at its offset, in order. The errors of those that failed,
        which may be in the log or not."""
        async with asyncio.timeout(60):
            fates = await asyncio.gather(*self.futures, return_exceptions=True)
        logs = await asyncio.to_thread(read, self.cluster, self.topic)
        failed: Counter[str] = Counter()
        for number, fate in enumerate(fates):
            if isinstance(fate, BaseException):
                assert isinstance(fate, ProducerError), repr(fate)
                failed[str(fate)] += 1
            else:
                assert logs[fate.partition][fate.offset] == number
        numbers = [number for log in logs for number in log.values()]
        doubled = [number for number, times in Counter(numbers).items() if times > 1]
        assert doubled == [], f"{len(doubled)} of {len(fates)} records are there twice"
        for log in logs:
            in_order = [log[offset] for offset in sorted(log)]
            assert all(before < after for before, after in pairwise(in_order))
        return failed


@asynccontextmanager
async def load_on(
    cluster: KafkaCluster, topic: str, *, may_fail: bool = False, **options: Any
) -> AsyncIterator[Load]:
    """A producer with the default guarantees under load; at the end its records are verified."""
    await cluster.create_topic(
        topic, partitions=PARTITIONS, replication_factor=3, config={"min.insync.replicas": 2}
    )
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, **options) as producer:
        load = Load(cluster, topic, producer)
        sending = asyncio.create_task(load.run())
        try:
            await load.progress()
            yield load
            await load.progress()
        finally:
            sending.cancel()
            await asyncio.wait([sending])
            if not sending.cancelled() and sending.exception() is not None:
                await sending
        await producer.flush(60)
        failures = await load.verify()
        print(
            f"{len(load.futures)} records, {load.metric('record-retry-total'):.0f} retried, "
            f"{load.metric('connection-close-total'):.0f} connections closed, "
            f"{failures.total()} failed"
        )
        assert may_fail or not failures, failures


def read(cluster: KafkaCluster, topic: str) -> list[dict[int, int]]:
    """Each partition to its end: the record's number by offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "never-used",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    logs: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, "the topic could not be read to its end"
        for message in consumer.consume(10_000, 0.02):
            error, partition, offset = message.error(), message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            if error is None:
                logs[partition][offset] = int(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(partition)
    consumer.close()
    return logs


def leaders(cluster: KafkaCluster, topic: str) -> dict[int, int]:
    return {
        int(partition.partition_index): int(partition.leader_id)
        for partition in partitions_of(cluster, topic)
    }


def partitions_of(cluster: KafkaCluster, topic: str) -> Any:
    running = next(each for each in cluster.brokers if each.is_running and not each.paused)
    return broker_processes.metadata(running.internal_address, topic).topics[0].partitions


async def all_in_sync(cluster: KafkaCluster, topic: str) -> None:
    await until(
        lambda: all(len(each.isr_nodes) == 3 for each in partitions_of(cluster, topic)),
        f"all replicas of {topic} are in sync",
        60,
    )


async def kill_with_requests_in_flight(load: Load, node_id: int) -> None:
    """As it stands still at first, none of them has been answered."""
    await load.cluster.pause_broker(node_id)
    before = len(load.futures)
    await until(
        lambda: len(load.futures) > before + 2 * BURST and load.metric("requests-in-flight") > 0,
        "records are on their way",
    )
    await load.cluster.kill_broker(node_id)


@pytest.mark.slow
async def test_leaders_move_from_a_stopped_broker(cluster: KafkaCluster) -> None:
    async with load_on(cluster, "stopped") as load:
        stopped = load.broker_of(0)
        await cluster.stop_broker(stopped)
        await load.progress()
        assert stopped not in leaders(cluster, load.topic).values()
        await cluster.start_broker(stopped)
        await all_in_sync(cluster, load.topic)


@pytest.mark.slow
async def test_a_broker_is_killed_and_comes_back(cluster: KafkaCluster) -> None:
    async with load_on(cluster, "killed") as load:
        killed = load.broker_of(0)
        await kill_with_requests_in_flight(load, killed)
        await load.progress()
        assert load.broker_of(0) != killed
        assert load.metric("record-retry-total") > 0
        await cluster.start_broker(killed)
        await all_in_sync(cluster, load.topic)


@pytest.mark.slow
async def test_a_broker_is_killed_and_restarted_before_it_is_missed(cluster: KafkaCluster) -> None:
    async with load_on(cluster, "killed-at-once") as load:
        killed = load.broker_of(0)
        await kill_with_requests_in_flight(load, killed)
        await cluster.start_broker(killed)
        await load.progress()
        assert load.metric("record-retry-total") > 0
        await all_in_sync(cluster, load.topic)


@pytest.mark.slow
async def test_a_broker_pauses_for_longer_than_the_request_timeout(cluster: KafkaCluster) -> None:
    async with load_on(cluster, "paused", request_timeout_ms=1000) as load:
        paused = load.broker_of(0)
        await cluster.pause_broker(paused)
        try:
            closed = load.metric("connection-close-total")
            await until(lambda: load.metric("connection-close-total") > closed, "a time-out", 10)
            await asyncio.sleep(2)  # the pause itself: three seconds in all
        finally:
            await cluster.resume_broker(paused)
        await load.progress()
        assert load.metric("record-retry-total") > 0
        await all_in_sync(cluster, load.topic)


@pytest.mark.slow
async def test_a_broker_pauses_for_longer_than_the_delivery_timeout(cluster: KafkaCluster) -> None:
    async with load_on(
        cluster, "paused-long", may_fail=True, request_timeout_ms=1000, delivery_timeout_ms=2500
    ) as load:
        paused = load.broker_of(0)
        await cluster.pause_broker(paused)
        try:
            await until(lambda: load.metric("record-error-total") > 0, "records fail")
            await until(lambda: load.broker_of(0) != paused, "the leaders move")
            await load.progress()
        finally:
            await cluster.resume_broker(paused)
        await load.progress()
        await all_in_sync(cluster, load.topic)


@pytest.mark.slow
async def test_a_record_that_fails_does_not_double_those_of_other_partitions(
    cluster: KafkaCluster,
) -> None:
    topic = "failed-beside"
    await cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
    led_by = leaders(cluster, topic)
    paused, beside = led_by[0], next(each for each in led_by if led_by[each] != led_by[0])
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        request_timeout_ms=1000,
        delivery_timeout_ms=3000,
    ) as producer:

        def retried() -> float:
            return producer.metrics()["producer-metrics"]["record-retry-total"]

        await producer.send(topic, b"0", partition=0)
        await producer.send(topic, b"1", partition=beside)
        await cluster.pause_broker(paused)
        try:
            failing = producer.send(topic, b"2", partition=0)
            await until(lambda: retried() > 0, "the paused leader is given up")
            # Its own leader runs and writes it, but waits for the paused follower. It is on its way
            # when the first fails, with half of its own time left.
            await asyncio.sleep(1.4)
            written = producer.send(topic, b"3", partition=beside)
            with pytest.raises(DeliveryTimeoutError, match=f"{topic}-0.*did not answer"):
                await failing
            before = retried()
            await until(lambda: retried() > before or written.done(), "the other is tried again")
        finally:
            await cluster.resume_broker(paused)
        assert (await written).offset == 1
    await all_in_sync(cluster, topic)
    assert (await asyncio.to_thread(read, cluster, topic))[beside] == {0: 1, 1: 3}


@pytest.mark.slow
async def test_all_brokers_are_restarted_one_after_the_other(cluster: KafkaCluster) -> None:
    async with load_on(cluster, "restarted", compression_type="zstd") as load:
        for node_id in BROKERS:
            await cluster.stop_broker(node_id)
            await load.progress(100)
            await cluster.start_broker(node_id)
            await all_in_sync(cluster, load.topic)


@pytest.mark.slow
async def test_all_brokers_are_killed_at_once_and_come_back(cluster: KafkaCluster) -> None:
    async with load_on(cluster, "all-killed") as load:
        await asyncio.gather(*[cluster.kill_broker(node_id) for node_id in BROKERS])
        await until(lambda: load.metric("connection-count") == 0, "all connections end")
        await asyncio.gather(*[cluster.start_broker(node_id) for node_id in BROKERS])
        await load.progress()
        await all_in_sync(cluster, load.topic)


@pytest.mark.slow
async def test_two_of_three_brokers_are_killed_and_come_back(cluster: KafkaCluster) -> None:
    """Too few are left to be in sync, and to elect: nothing is delivered before one is back."""
    settings = {"min.insync.replicas": 2}
    await cluster.create_topic("two-killed-transaction", replication_factor=3, config=settings)
    async with (
        load_on(cluster, "two-killed", request_timeout_ms=3000) as load,
        producer_on(cluster, "two-killed", request_timeout_ms=3000, max_block_ms=90_000) as owner,
    ):
        survivor = load.broker_of(0)
        killed = [node_id for node_id in BROKERS if node_id != survivor]
        await owner.begin_transaction()
        await owner.send("two-killed-transaction", b"v")
        await asyncio.gather(*[cluster.kill_broker(node_id) for node_id in killed])
        committing = asyncio.create_task(owner.commit_transaction())
        await until(lambda: load.metric("connection-count") <= 1, "the killed are missed")
        load.futures.append(
            waiting := load.producer.send(load.topic, b"%d" % len(load.futures), partition=0)
        )
        closed = load.metric("connection-close-total")
        await until(lambda: load.metric("connection-close-total") > closed, "a time-out")
        assert not waiting.done()
        assert not committing.done()
        await cluster.start_broker(killed[0])
        async with asyncio.timeout(60):
            await waiting
            await committing
        await load.progress()
        await cluster.start_broker(killed[1])
        await all_in_sync(cluster, load.topic)
    assert await committed(cluster, "two-killed-transaction") == [b"v"]


@pytest.mark.slow
async def test_all_brokers_are_down_for_half_a_minute(cluster: KafkaCluster) -> None:
    """Who has the time loses nothing; who has not is told in time; both need no more memory."""
    memory: dict[str, Any] = {"buffer_memory": 4_000_000}
    hasty: dict[str, Any] = memory | {
        "request_timeout_ms": 3_000,
        "delivery_timeout_ms": 10_000,
        "max_block_ms": 10_000,
    }
    async with (
        load_on(cluster, "down-patient", **memory, max_block_ms=120_000) as patient,
        load_on(cluster, "down-hasty", may_fail=True, **hasty) as hurried,
    ):
        await asyncio.gather(*[cluster.kill_broker(node_id) for node_id in BROKERS])
        await asyncio.sleep(15)
        old = len(hurried.futures)
        await asyncio.sleep(15)
        assert all(future.done() for future in hurried.futures[:old])
        assert hurried.metric("record-error-total") > 0
        assert patient.metric("record-error-total") == 0
        for load in (patient, hurried):
            assert 0 <= load.metric("buffer-available-bytes") < load.metric("buffer-total-bytes")
        await asyncio.gather(*[cluster.start_broker(node_id) for node_id in BROKERS])
        await patient.progress()
        await hurried.progress()
        await all_in_sync(cluster, patient.topic)
        await all_in_sync(cluster, hurried.topic)


@pytest.mark.slow
async def test_too_few_replicas_are_waited_for_until_the_delivery_timeout(
    cluster: KafkaCluster,
) -> None:
    topic = "needs-three"
    await cluster.create_topic(topic, replication_factor=3, config={"min.insync.replicas": 3})
    await cluster.stop_broker(3)
    try:
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers,
            request_timeout_ms=5_000,
            delivery_timeout_ms=10_000,
        ) as impatient:
            began = time.monotonic()
            with pytest.raises(DeliveryTimeoutError, match=f"{topic}-0.*NOT_ENOUGH_REPLICAS"):
                await impatient.send(topic, b"too late")
            assert 9.9 < time.monotonic() - began < 40
            assert impatient.metrics()["producer-metrics"]["record-retry-total"] >= 2
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as patient:
            future = patient.send(topic, b"in time")
            await until(
                lambda: patient.metrics()["producer-metrics"]["record-retry-total"] >= 2,
                "the broker has refused the record",
            )
            assert not future.done()
            await cluster.start_broker(3)
            async with asyncio.timeout(40):
                assert (await future).offset == 0
    finally:
        if not cluster.broker(3).is_running:
            await cluster.start_broker(3)


STOPPED = 4.0
"""Seconds; the timeouts are shorter."""
SHORT: dict[str, Any] = {
    "request_timeout_ms": 1_500,
    "delivery_timeout_ms": 2_000,
    "linger_ms": 0,
}
ACKS_1: dict[str, Any] = {"acks": 1, "enable_idempotence": False}


def stop_and_go_on(loop: str, servers: str, topic: str, options: dict[str, Any]) -> dict[str, Any]:
    """Run the sender, stop it amid its work, and return what it says."""
    command = [sys.executable, "-m", "tests.kafka.stopped_sender", loop, servers, topic]
    with subprocess.Popen(
        [*command, json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "sending\n"
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            time.sleep(STOPPED)
            process.send_signal(signal.SIGCONT)
            out, _ = process.communicate("end\n", timeout=60)
        finally:
            process.kill()
    told: dict[str, Any] = json.loads(out)
    return told


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("options", [ACKS_1, {}], ids=["acks=1", "acks=all"])
async def test_nothing_fails_and_nothing_is_twice(
    kafka: KafkaCluster, loop: str, options: dict[str, Any]
) -> None:
    topic = f"stopped-{loop}-{options.get('acks', 'all')}"
    await kafka.create_topic(topic, partitions=3, replication_factor=1)
    told = await asyncio.to_thread(
        stop_and_go_on, loop, kafka.bootstrap_servers, topic, SHORT | options
    )
    assert told["errors"] == []
    found = [record.value for record in await asyncio.to_thread(read_topic, kafka, topic)]
    expected = [*(b"%d" % number for number in range(told["sent"])), b"last"]
    assert sorted(value or b"" for value in found) == sorted(expected)
