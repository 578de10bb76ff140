"""Transactions that fail, and a protocol that changes under them, on a real Kafka.

Whatever the producer says has to be true in the logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import pytest

from aioproducer import (
    AbortableTransactionError,
    FatalTransactionError,
    Producer,
    ProducerFencedError,
    RecordMetadata,
    TransactionAbortedError,
)
from aioproducer.errors import (
    InvalidProducerEpochError,
    InvalidTransactionTimeoutError,
    MessageTooLargeError,
)
from aioproducer.testing.kafka_cluster import KafkaCluster, broker_processes
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.kafka.transactional import (
    committed,
    nothing_is_open,
    offset_of,
    older_protocol_in_soak,
    producer_on,
    topics,
    visible,
)
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


async def write(producer: Producer, topic: str, *values: bytes) -> None:
    async with producer.transaction():
        for value in values:
            await producer.send(topic, value, partition=0)


# --- fencing -------------------------------------------------------------------------------


async def test_a_second_producer_fences_the_first_for_good(transactional: KafkaCluster) -> None:
    await topics(transactional, "fenced")
    async with producer_on(transactional, "fenced") as first:
        await write(first, "fenced", b"first")
        async with producer_on(transactional, "fenced") as second:
            for _ in range(3):
                with pytest.raises(ProducerFencedError, match=r"'fenced'.*close the producer"):
                    await write(first, "fenced", b"zombie")
            with pytest.raises(ProducerFencedError):
                await first.begin_transaction()
            with pytest.raises(ProducerFencedError):
                first.send("fenced", b"zombie")
            with pytest.raises(ProducerFencedError):
                await first.commit_transaction()
            with pytest.raises(ProducerFencedError):
                await first.abort_transaction()
            with pytest.raises(ProducerFencedError):
                await first.send_offsets_to_transaction({("fenced", 0): 1}, "fenced")
            await write(second, "fenced", b"second")
    assert await committed(transactional, "fenced") == [b"first", b"second"]


async def test_the_open_transaction_of_the_fenced_is_aborted(transactional: KafkaCluster) -> None:
    await topics(transactional, "taken-over")
    async with producer_on(transactional, "taken-over") as first:
        await first.begin_transaction()
        await first.send("taken-over", b"zombie", partition=0)
        await first.send_offsets_to_transaction({("taken-over", 0): 7}, "taken-over")
        async with producer_on(transactional, "taken-over") as second:
            await until(lambda: nothing_is_open(transactional, "taken-over"), "it was aborted")
            assert await visible(transactional, "taken-over") == []
            assert await offset_of(transactional, "taken-over", "taken-over") is None
            await write(second, "taken-over", b"second")
            with pytest.raises(ProducerFencedError):
                await first.commit_transaction()
    assert await committed(transactional, "taken-over") == [b"second"]


@pytest.mark.parametrize("offsets_only", [False, True], ids=["records", "offsets"])
async def test_a_zombie_finds_out_by_whatever_it_writes(
    transactional: KafkaCluster, offsets_only: bool
) -> None:
    topic = f"zombie-{offsets_only}"
    await topics(transactional, topic)

    async def step(producer: Producer) -> None:
        async with producer.transaction():
            if not offsets_only:
                producer.send(topic, b"zombie", partition=1)
            else:
                await producer.send_offsets_to_transaction({(topic, 0): 7}, topic)

    async with producer_on(transactional, topic) as first, producer_on(transactional, topic):
        with pytest.raises(ProducerFencedError):
            await step(first)
    assert await committed(transactional, topic) == []
    assert await offset_of(transactional, topic, topic) is None


# --- timeouts ------------------------------------------------------------------------------


async def test_a_transaction_that_takes_too_long_is_aborted_and_the_producer_told(
    transactional: KafkaCluster, protocol: int
) -> None:
    """In version 1 there is no way to tell it from fencing."""
    await topics(transactional, "slow")
    async with producer_on(transactional, "slow", transaction_timeout_ms=4000) as producer:
        await producer.begin_transaction()
        await producer.send("slow", b"too late", partition=0)
        await until(lambda: nothing_is_open(transactional, "slow"), "the coordinator aborts it")
        told = ProducerFencedError if protocol == 1 else AbortableTransactionError
        with pytest.raises(told, match="longer than transaction_timeout_ms"):
            await producer.commit_transaction()
        if protocol == 1:
            with pytest.raises(ProducerFencedError, match="transaction_timeout_ms"):
                await producer.begin_transaction()
        else:
            await producer.abort_transaction()
            await write(producer, "slow", b"again")
    async with producer_on(transactional, "slow") as successor:
        await write(successor, "slow", b"after")
    expected = [b"after"] if protocol == 1 else [b"after", b"again"]
    assert await committed(transactional, "slow") == expected


async def test_records_sent_after_the_timeout_are_never_seen(
    transactional: KafkaCluster, protocol: int
) -> None:
    await topics(transactional, "late")

    async def dawdle(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send("late", b"before", partition=0)
            await until(lambda: nothing_is_open(transactional, "late"), "it is aborted")
            await producer.send("late", b"behind", partition=0)

    async with producer_on(transactional, "late", transaction_timeout_ms=4000) as producer:
        told = ProducerFencedError if protocol == 1 else InvalidProducerEpochError
        with pytest.raises(told, match="longer than transaction_timeout_ms"):
            await dawdle(producer)
        if protocol == 1:
            with pytest.raises(ProducerFencedError, match="transaction_timeout_ms"):
                await write(producer, "late", b"again")
        else:
            await write(producer, "late", b"again")
    async with producer_on(transactional, "late") as successor:
        await write(successor, "late", b"after")
    expected = [b"after"] if protocol == 1 else [b"after", b"again"]
    assert await committed(transactional, "late") == expected


async def test_a_timeout_that_brokers_do_not_allow_is_told_at_start(
    transactional: KafkaCluster,
) -> None:
    producer = producer_on(transactional, "patient", transaction_timeout_ms=16 * 60_000)
    with pytest.raises(FatalTransactionError, match=r"INVALID_TRANSACTION_TIMEOUT") as caught:
        await producer.start()
    assert isinstance(caught.value.__cause__, InvalidTransactionTimeoutError)
    assert "closed" in repr(producer)
    async with producer_on(transactional, "patient", transaction_timeout_ms=15 * 60_000):
        pass


# --- records that fail -------------------------------------------------------------------------


async def test_a_record_that_brokers_refuse_makes_its_transaction_alone_abortable(
    transactional: KafkaCluster,
) -> None:
    await transactional.create_topic("narrow", 2, 3, {"max.message.bytes": 1000})
    refused: list[asyncio.Future[RecordMetadata]] = []

    async def doomed(producer: Producer) -> None:
        async with producer.transaction():
            producer.send("narrow", b"beside", partition=1)
            await producer.send("narrow", b"before", partition=0)
            refused.append(producer.send("narrow", bytes(5000), partition=0))
            producer.send("narrow", b"behind", partition=0)

    async with producer_on(transactional, "narrow") as producer:
        for number in range(3):
            with pytest.raises(AbortableTransactionError, match="MESSAGE_TOO_LARGE") as caught:
                await doomed(producer)
            assert isinstance(refused[-1].exception(), MessageTooLargeError)
            assert caught.value.__cause__ is refused[-1].exception()
            async with producer.transaction():
                for partition in range(2):
                    producer.send("narrow", b"after %d" % number, partition=partition)
        await producer.begin_transaction()
        with pytest.raises(MessageTooLargeError):
            await producer.send("narrow", bytes(5000), partition=0)
        with pytest.raises(AbortableTransactionError, match="can only be aborted"):
            producer.send("narrow", b"behind", partition=0)
        with pytest.raises(AbortableTransactionError, match="can only be aborted"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await write(producer, "narrow", b"last")
    expected = [b"after %d" % number for number in (0, 0, 1, 1, 2, 2)]
    assert await committed(transactional, "narrow") == [*expected, b"last"]


async def test_an_abort_with_batches_on_their_way(transactional: KafkaCluster) -> None:
    """What has left is waited for, what has not is dropped; the next transaction has neither."""
    await topics(transactional, "in-flight", partitions=6)
    fates: list[asyncio.Future[RecordMetadata]] = []
    async with producer_on(transactional, "in-flight", batch_size=2000, linger_ms=0) as producer:
        for number in range(10):
            await producer.begin_transaction()
            fates = [
                producer.send("in-flight", b"%d no" % number + bytes(500), partition=each % 6)
                for each in range(600)
            ]
            await asyncio.wait(fates, return_when=asyncio.FIRST_COMPLETED)
            await producer.abort_transaction()
            for error in [future.exception() for future in fates]:
                assert error is None or isinstance(error, TransactionAbortedError)
            assert any(future.exception() is None for future in fates)
            async with producer.transaction():
                for partition in range(6):
                    producer.send("in-flight", b"%d yes" % number, partition=partition)
    expected = [b"%d yes" % number for number in range(10) for _ in range(6)]
    assert await committed(transactional, "in-flight") == expected


# --- coordinators that move --------------------------------------------------------------------


@pytest.fixture(scope="module")
def restless(protocol: int, kafka_distribution: KafkaDistribution) -> Iterator[KafkaCluster]:
    """Three brokers that are restarted; one partition of each kind of coordinator."""
    with KafkaCluster(
        brokers=3,
        config={
            "min.insync.replicas": 2,
            "transaction.state.log.min.isr": 2,
            "transaction.state.log.num.partitions": 1,
            "offsets.topic.num.partitions": 1,
        },
        format_options=("--feature", f"transaction.version={protocol}"),
    ) as cluster:
        yield cluster


def leaders(cluster: KafkaCluster, topic: str) -> dict[int, int]:
    """The leader of each partition."""
    running = next(each for each in cluster.brokers if each.is_running)
    [found] = broker_processes.metadata(running.internal_address, topic).topics
    return {int(each.partition_index): int(each.leader_id) for each in found.partitions}


def leader_of(cluster: KafkaCluster, topic: str) -> int:
    """The leader of the topic's first partition."""
    return leaders(cluster, topic)[0]


def in_sync(cluster: KafkaCluster, *names: str) -> bool:
    found = broker_processes.metadata(cluster.brokers[0].internal_address, *names).topics
    return all(len(each.isr_nodes) == 3 for topic in found for each in topic.partitions)


class Move(NamedTuple):
    """What happens to which coordinator, and how the transaction ends then."""

    of: str
    killed: bool
    committing: bool


MOVES = [
    Move("__transaction_state", killed=False, committing=True),
    Move("__transaction_state", killed=True, committing=False),
    Move("__transaction_state", killed=True, committing=True),
    Move("__consumer_offsets", killed=True, committing=True),
    Move("__consumer_offsets", killed=False, committing=False),
]


@pytest.mark.slow
@older_protocol_in_soak
async def test_the_coordinators_move_in_the_middle(restless: KafkaCluster) -> None:
    await topics(restless, "moved")
    watched = ("moved", "__transaction_state", "__consumer_offsets")
    expected: list[bytes] = []
    async with producer_on(restless, "moved", request_timeout_ms=5000) as producer:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({("moved", 0): 1}, "g")
        for number, move in enumerate(MOVES):
            await until(lambda: in_sync(restless, *watched), "all are in sync", 60)
            await producer.begin_transaction()
            await producer.send("moved", b"%d" % number, partition=number % 3)
            node = leader_of(restless, move.of)
            await (restless.kill_broker if move.killed else restless.stop_broker)(node)
            producer.send("moved", b"%d" % number, partition=(number + 1) % 3)
            await producer.send_offsets_to_transaction({("moved", 0): 10 + number}, "g")
            if move.committing:
                await producer.commit_transaction()
                expected += [b"%d" % number] * 2
            else:
                await producer.abort_transaction()
            assert leader_of(restless, move.of) != node
            await restless.start_broker(node)
    assert await committed(restless, "moved") == expected
    assert await offset_of(restless, "g", "moved") == 13


# --- markers that are late -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def single_replicas(protocol: int, kafka_distribution: KafkaDistribution) -> Iterator[KafkaCluster]:
    """Three brokers: one can stand still while a coordinator on another one writes its log."""
    with KafkaCluster(
        brokers=3,
        config={
            "broker.session.timeout.ms": 18_000,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
        },
        format_options=("--feature", f"transaction.version={protocol}"),
    ) as cluster:
        yield cluster


async def test_an_abort_waits_for_the_markers_of_the_transaction_before(
    single_replicas: KafkaCluster,
) -> None:
    """Until they are written, a coordinator answers CONCURRENT_TRANSACTIONS, and fences nobody."""
    cluster, topic = single_replicas, "late-markers"
    await cluster.create_topic(topic, 3)
    async with producer_on(cluster, topic) as producer:
        coordinator = leader_of(cluster, "__transaction_state")
        nodes = leaders(cluster, topic)
        free = next(number for number, node in nodes.items() if node == coordinator)
        held, paused = next(each for each in nodes.items() if each[1] != coordinator)
        await producer.begin_transaction()
        for partition in (held, free):
            await producer.send(topic, b"first", partition=partition)
        await cluster.pause_broker(paused)
        try:
            await producer.commit_transaction()
            await producer.begin_transaction()
            dropped = producer.send(topic, b"dropped", partition=free)
            await asyncio.wait([dropped], timeout=1.0)
            aborted = asyncio.ensure_future(producer.abort_transaction())
            await asyncio.wait([aborted], timeout=1.0)
            assert not aborted.done()
        finally:
            await cluster.resume_broker(paused)
        await aborted
        with pytest.raises(TransactionAbortedError):
            await dropped
        async with producer.transaction():
            for partition in (held, free):
                producer.send(topic, b"last", partition=partition)
    assert await committed(cluster, topic) == [b"first"] * 2 + [b"last"] * 2


CONNECTION_LASTS_MS = 100
"""Brokers tell what the cluster has agreed on when a connection begins."""
PAUSE = 0.3
BETWEEN_PAUSES = 4


@pytest.fixture
async def lowered(transactional: KafkaCluster) -> AsyncIterator[KafkaCluster]:
    """With the protocol before KIP-890; raised again at the end."""
    await agree_on(transactional, 1)
    yield transactional
    await agree_on(transactional, 2)


async def agree_on(cluster: KafkaCluster, version: int) -> None:
    tool = await cluster.tool(
        "org.apache.kafka.tools.FeatureCommand",
        *("--bootstrap-server", cluster.bootstrap_servers),
        *(
            "upgrade" if version == 2 else "downgrade",
            "--feature",
            f"transaction.version={version}",
        ),
    )
    assert tool.returncode == 0 or "is already" in tool.stdout + tool.stderr, (
        tool.stdout + tool.stderr
    )


class Writer:
    """One transaction after the other, of one or of two producers; a third of them aborted."""

    def __init__(self, cluster: KafkaCluster, topic: str, *, shared: bool) -> None:
        self.cluster = cluster
        self.topic = topic
        self.shared = shared
        self.stopped = False
        self.ended = 0
        self.versions: list[int] = []
        """Of the protocol, in each shared transaction."""
        self.expected: list[bytes] = []
        self.offset: int | None = None

    async def run(self) -> None:
        async with producer_on(
            self.cluster, self.topic, connections_max_idle_ms=CONNECTION_LASTS_MS
        ) as producer:
            while not self.stopped:
                await self._transaction(producer)
                self.ended += 1
                if self.ended % BETWEEN_PAUSES == 0:
                    await asyncio.sleep(PAUSE)

    async def _transaction(self, producer: Producer) -> None:
        number = self.ended
        value = b"%d" % number
        await producer.begin_transaction(shared=self.shared)
        for partition in range(2):
            producer.send(self.topic, value, partition=partition)
        if self.shared:
            handle = producer.transaction_handle()
            self.versions.append(handle.version)
            async with Producer(
                bootstrap_servers=self.cluster.bootstrap_servers, transaction=handle
            ) as participant:
                await participant.send(self.topic, value, partition=2)
        else:
            producer.send(self.topic, value, partition=2)
        await producer.send_offsets_to_transaction({(self.topic, 0): number}, self.topic)
        if number % 3 == 2:
            await producer.abort_transaction()
            return
        await producer.commit_transaction()
        self.expected += [value] * 3
        self.offset = number

    async def progress(self) -> None:
        """Connections end and begin, and transactions with them."""
        target = self.ended + 2 * BETWEEN_PAUSES
        await until(lambda: self.ended >= target, f"transactions of {self.topic} end", 60)

    async def hears_of(self, version: int) -> None:
        await until(lambda: self.versions[-1] == version, f"version {version} is used", 60)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [2], ids=["protocol-2"], indirect=True)
async def test_the_protocol_changes_under_running_transactions(lowered: KafkaCluster) -> None:
    names = ("raised-alone", "raised-shared")
    await topics(lowered, *names, "across")
    writers = [Writer(lowered, name, shared=name == names[1]) for name in names]
    async with (
        producer_on(lowered, "across", connections_max_idle_ms=CONNECTION_LASTS_MS) as across,
        asyncio.TaskGroup() as group,
    ):
        for writer in writers:
            group.create_task(writer.run())
        for version in (2, 1):
            await asyncio.gather(*[writer.progress() for writer in writers])
            await across.begin_transaction()
            await across.send("across", b"before %d" % version, partition=0)
            await agree_on(lowered, version)
            await writers[1].hears_of(version)
            await asyncio.gather(*[writer.progress() for writer in writers])
            await across.send("across", b"with %d" % version, partition=1)
            await across.commit_transaction()
        for writer in writers:
            writer.stopped = True
    assert await committed(lowered, "across") == [
        b"before 1",
        b"before 2",
        b"with 1",
        b"with 2",
    ]
    for writer in writers:
        assert await committed(lowered, writer.topic) == sorted(writer.expected)
        assert await offset_of(lowered, writer.topic, writer.topic) == writer.offset
    changes = [
        version
        for before, version in zip([0, *writers[1].versions], writers[1].versions, strict=False)
        if version != before
    ]
    assert changes == [1, 2, 1]
