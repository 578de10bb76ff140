"""An epoch is a number of 15 bits: after the last one comes a new producer id.

A coordinator finds in its own log, when it starts again, that it has assigned nearly all of them.
The long test lets them go by.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from aioproducer import FatalTransactionError, Producer, ProducerError
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.sender.producer_id import ProducerIdRequester
from aioproducer.engine.transactions.sequence_numbers import MAX_EPOCH
from aioproducer.errors import MessageTooLargeError
from aioproducer.model import TransactionHandle
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.kafka.transactional import committed, producer_on, read

pytestmark = pytest.mark.kafka

STATE = "__transaction_state"
BEFORE_THE_EPOCH = struct.calcsize(">hq")
"""Bytes of a coordinator's record: its version and the producer id (``TransactionLogValue``)."""
MAY_WRITE_TO_INTERNAL_TOPICS = "__admin_client"
"""The client id that brokers let do so (``AdminUtils.ADMIN_CLIENT_ID``)."""
OLD = ("outlived", "restarted")
LEFT = 4
ENDS = 8


@pytest.fixture(scope="module", params=[1, 2], ids=["protocol-1", "protocol-2"])
def single(
    request: pytest.FixtureRequest, kafka_distribution: KafkaDistribution
) -> Iterator[KafkaCluster]:
    """One broker, with ``LEFT`` epochs for the transactional ids ``OLD``."""
    with KafkaCluster(
        config={"transaction.state.log.num.partitions": 1, "num.partitions": 3},
        format_options=("--feature", f"transaction.version={request.param}"),
    ) as cluster:
        asyncio.run(leave_few_epochs(cluster))
        yield cluster


async def leave_few_epochs(cluster: KafkaCluster) -> None:
    for transactional_id in OLD:
        await cluster.create_topic(transactional_id, 3)
        async with producer_on(cluster, transactional_id) as producer:
            await transact(producer, transactional_id, b"first", commit=True)
    states = await asyncio.to_thread(last_states, cluster)
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        client_id=MAY_WRITE_TO_INTERNAL_TOPICS,
        enable_idempotence=False,
    ) as writer:
        for key, value in states.items():
            aged = bytearray(value)
            struct.pack_into(">h", aged, BEFORE_THE_EPOCH, MAX_EPOCH - LEFT)
            await writer.send(STATE, bytes(aged), key=key, partition=0)
    await cluster.kill_broker(1)
    await cluster.start_broker(1)


def last_states(cluster: KafkaCluster) -> dict[bytes, bytes]:
    """What the coordinator has written last about each transactional id, by the record's key."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "never-used",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(STATE, 0, 0)])
    found: dict[bytes, bytes] = {}
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            break
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        found[key] = value
    consumer.close()
    assert len(found) == len(OLD)
    return found


async def transact(
    producer: Producer, topic: str, value: bytes, *, commit: bool
) -> TransactionHandle:
    """One transaction, shared, for its handle tells producer id and epoch."""
    await producer.begin_transaction(shared=True)
    for partition in range(3):
        producer.send(topic, value, partition=partition)
    await producer.flush()
    handle = producer.transaction_handle()
    await (producer.commit_transaction if commit else producer.abort_transaction)()
    return handle


async def expect_fenced(producer: Producer, topic: str) -> None:
    """At once, or when it has aborted what a broker refused."""
    for _ in range(2):
        with pytest.raises(ProducerError) as refusal:
            async with producer.transaction():
                await producer.send(topic, b"zombie", partition=0)
    assert isinstance(refusal.value, FatalTransactionError), repr(refusal.value)


async def test_a_transactional_producer_outlives_its_epochs(single: KafkaCluster) -> None:
    topic = "outlived"
    expected = [b"first"] * 3
    async with producer_on(single, topic) as producer:
        handles: list[TransactionHandle] = []
        for number in range(ENDS):
            commit = number % 3 != 1
            handles.append(await transact(producer, topic, b"%d" % number, commit=commit))
            expected += [b"%d" % number] * 3 * commit
        first, last = handles[0], handles[-1]
        assert first.epoch > MAX_EPOCH - LEFT
        assert len({handle.producer_id for handle in handles}) == 2
        assert last.epoch < ENDS
        old = next(each for each in reversed(handles) if each.producer_id == first.producer_id)
        async with Producer(bootstrap_servers=single.bootstrap_servers, transaction=old) as zombie:
            with pytest.raises(FatalTransactionError, match="close the producer"):
                await zombie.send_offsets_to_transaction({(topic, 0): 1}, topic)
        async with producer_on(single, topic) as successor:
            await expect_fenced(producer, topic)
            await transact(successor, topic, b"last", commit=True)
    assert await committed(single, topic) == sorted([*expected, *[b"last"] * 3])


async def test_a_start_in_the_last_epoch_gets_a_new_producer_id(single: KafkaCluster) -> None:
    """Each start aborts what the one before left open, and fences it."""
    topic = "restarted"
    expected = [b"first"] * 3
    ids: list[int] = []
    predecessor: Producer | None = None
    for number in range(LEFT + 2):
        producer = producer_on(single, topic)
        await producer.start()
        if predecessor is not None:
            with pytest.raises(ProducerError):
                await predecessor.send(topic, b"zombie", partition=0)
            with contextlib.suppress(FatalTransactionError):
                await predecessor.abort_transaction()
            await expect_fenced(predecessor, topic)
            await predecessor.close()
        ids.append((await transact(producer, topic, b"%d" % number, commit=True)).producer_id)
        expected += [b"%d" % number] * 3
        await producer.begin_transaction()
        await producer.send(topic, b"left open", partition=0)
        predecessor = producer
    assert predecessor is not None
    await predecessor.close()
    assert len(set(ids)) == 2
    assert await committed(single, topic) == sorted(expected)


@pytest.mark.parametrize("single", [2], ids=["protocol-2"], indirect=True)
async def test_an_idempotent_producer_outlives_its_epochs(
    single: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is refused costs its partition an epoch; brokers take any for a new id."""
    topic = "idempotent"
    await single.create_topic(topic, 3, config={"max.message.bytes": 10_000})
    completed, seen = ProducerIdRequester.completed, []

    def in_the_last_epochs(self: ProducerIdRequester, completion: Completion, now: float) -> None:
        assigned = completion.result
        if assigned is not None and not assigned.error_code:
            seen.append(assigned.producer_id)
            if len(seen) == 1:
                completion.result = assigned._replace(epoch=MAX_EPOCH - 1)
        completed(self, completion, now)

    monkeypatch.setattr(ProducerIdRequester, "completed", in_the_last_epochs)
    written: list[list[bytes]] = [[], [], []]
    async with producer_without_id(single) as producer:
        for number in range(12):
            futures = []
            for partition in range(3):
                values = [b"%d %d %d" % (number, partition, n) for n in range(20)]
                futures += [producer.send(topic, value, partition=partition) for value in values]
                written[partition] += values
            if number % 3 == 1:
                partition = number // 3 % 2  # the third one stays in its first epoch
                with pytest.raises(MessageTooLargeError):
                    await producer.send(topic, bytes(20_000), partition=partition)
            for future in futures:
                await future
    assert len(set(seen)) == 3, "a new producer id for each partition that had used up its epochs"
    logs = await asyncio.to_thread(read, single, (topic,), "read_committed")
    assert [logs[topic, partition] for partition in range(3)] == written


def producer_without_id(cluster: KafkaCluster) -> Producer:
    options: dict[str, Any] = {"batch_size": 500}
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **options)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("single", [2], ids=["protocol-2"], indirect=True)
async def test_every_epoch_that_there_is(single: KafkaCluster) -> None:
    """A transaction each, and none is lost or there twice."""
    topic = "every-epoch"
    await single.create_topic(topic, 3)
    transactions = MAX_EPOCH + 100
    ids = set()
    async with producer_on(single, topic) as producer:
        for number in range(transactions):
            await producer.begin_transaction(shared=number % 1000 == 0)
            producer.send(topic, b"%d" % number, partition=number % 3)
            if number % 1000 == 0:
                ids.add(producer.transaction_handle().producer_id)
            await producer.commit_transaction()
        await producer.begin_transaction(shared=True)
        ids.add(producer.transaction_handle().producer_id)
        await producer.abort_transaction()
    assert len(ids) == 2
    logs = await asyncio.to_thread(read, single, (topic,), "read_committed")
    assert [logs[topic, partition] for partition in range(3)] == [
        [b"%d" % number for number in range(partition, transactions, 3)] for partition in range(3)
    ]
