"""Transactions on a real Kafka, in both versions of the protocol: all is visible, or nothing.

What is visible is told by other clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiokafka  # type: ignore[import-untyped]
import pytest

from aioproducer import (
    AbortableTransactionError,
    ConsumerGroupMetadata,
    IllegalStateError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    TransactionAbortedError,
)
from aioproducer.errors import UnknownTopicOrPartitionError
from aioproducer.testing import expect, read_back
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.transactional import (
    committed,
    nothing_is_open,
    offset_of,
    producer_on,
    topics,
    visible,
)
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


PATIENCE = 60.0


# --- records -------------------------------------------------------------------------------


async def test_a_commit_shows_all_topics_at_once_and_nothing_before(
    transactional: KafkaCluster,
) -> None:
    names = ("whole-1", "whole-2", "whole-3")
    await topics(transactional, *names)
    values = [b"%02d" % number for number in range(60)]
    async with producer_on(transactional, "whole") as producer:
        async with producer.transaction():
            sent = [
                producer.send(names[number % 3], value, partition=number % 2)
                for number, value in enumerate(values)
            ]
            await producer.flush()
            assert all(future.result().offset >= 0 for future in sent)
            assert await visible(transactional, *names, isolation="read_uncommitted") == values
            assert await visible(transactional, *names) == []
            assert not await nothing_is_open(transactional, *names)
        assert await committed(transactional, *names) == values


async def test_what_was_aborted_is_never_seen(transactional: KafkaCluster) -> None:
    await topics(transactional, "aborted")
    async with producer_on(transactional, "aborted") as producer:
        for number in range(5):
            await producer.begin_transaction()
            for partition in range(3):
                producer.send("aborted", b"%d no" % number, partition=partition)
            await producer.flush()
            await producer.abort_transaction()
            async with producer.transaction():
                producer.send("aborted", b"%d yes" % number, partition=number % 3)
    assert await committed(transactional, "aborted") == [b"%d yes" % n for n in range(5)]
    everything = await visible(transactional, "aborted", isolation="read_uncommitted")
    assert len(everything) == 5 * 3 + 5


async def test_an_exception_in_the_block_aborts_and_goes_on(transactional: KafkaCluster) -> None:
    await topics(transactional, "raised")
    unsent = []

    async def stumble(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send("raised", b"written")
            unsent.append(producer.send("raised", b"unsent", partition=2))
            raise ZeroDivisionError

    async with producer_on(transactional, "raised") as producer:
        with pytest.raises(ZeroDivisionError) as caught:
            await stumble(producer)
        assert not hasattr(caught.value, "__notes__")
        with pytest.raises(TransactionAbortedError, match="raised-2: discarded"):
            await unsent[0]
        async with producer.transaction():
            producer.send("raised", b"after")
    assert await committed(transactional, "raised") == [b"after"]


async def test_cancellation_in_the_block_aborts(transactional: KafkaCluster) -> None:
    await topics(transactional, "cancelled")
    written = asyncio.Event()

    async def write(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send("cancelled", b"no")
            written.set()
            await asyncio.Event().wait()

    async with producer_on(transactional, "cancelled") as producer:
        writing = asyncio.create_task(write(producer))
        await written.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        async with producer.transaction():
            producer.send("cancelled", b"after")
    assert await committed(transactional, "cancelled") == [b"after"]


async def test_close_in_a_transaction_aborts_it(transactional: KafkaCluster) -> None:
    await topics(transactional, "left-open")
    producer = producer_on(transactional, "left-open")
    await producer.start()
    await producer.begin_transaction()
    await producer.send("left-open", b"left")
    await producer.close()
    await until(lambda: nothing_is_open(transactional, "left-open"), "it was aborted", 5)
    assert await visible(transactional, "left-open") == []
    async with producer_on(transactional, "left-open") as successor, successor.transaction():
        successor.send("left-open", b"after")
    assert await committed(transactional, "left-open") == [b"after"]


async def test_an_empty_transaction_ends_either_way(transactional: KafkaCluster) -> None:
    async with producer_on(transactional, "empty") as producer:
        for _ in range(3):
            async with producer.transaction():
                pass
            await producer.begin_transaction()
            await producer.abort_transaction()


async def test_a_topic_that_brokers_create_in_the_transaction(transactional: KafkaCluster) -> None:
    async with producer_on(transactional, "creates") as producer, producer.transaction():
        for number in range(10):
            producer.send("made-by-a-transaction", b"%d" % number)
    values = [b"%d" % number for number in range(10)]
    assert await committed(transactional, "made-by-a-transaction") == values


async def test_thousands_of_records_over_thirty_partitions(transactional: KafkaCluster) -> None:
    await topics(transactional, "wide", partitions=30)
    values = [b"%04d" % number for number in range(5000)]
    async with producer_on(transactional, "wide") as producer:
        for committing in (False, True):
            await producer.begin_transaction()
            for number, value in enumerate(values):
                producer.send("wide", value, partition=number % 30)
                await producer.drain()
            if committing:
                await producer.commit_transaction()
            else:
                await producer.flush()
                await producer.abort_transaction()
    assert await committed(transactional, "wide") == values


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_compressed_batches(transactional: KafkaCluster, codec: Any) -> None:
    topic = f"compressed-{codec}"
    await topics(transactional, topic)
    values = [b"%03d all work and no play" % number for number in range(500)]
    async with producer_on(transactional, topic, compression_type=codec) as producer:
        await producer.begin_transaction()
        await producer.send(topic, b"aborted", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            for number, value in enumerate(values):
                producer.send(topic, value, partition=number % 3)
    assert await committed(transactional, topic) == values


async def test_send_many_in_a_transaction(transactional: KafkaCluster) -> None:
    await topics(transactional, "bulk")
    values = [b"%04d" % number for number in range(2000)]

    async def slowly() -> AsyncIterator[bytes]:
        for value in values:
            yield value

    async def give_up(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send_many("bulk", slowly())
            raise KeyError

    async with producer_on(transactional, "bulk") as producer:
        async with producer.transaction():
            report = await producer.send_many("bulk", values)
            assert (report.delivered, report.failed) == (2000, 0)
            assert await visible(transactional, "bulk") == []
        with pytest.raises(KeyError):
            await give_up(producer)
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            producer.send("bulk", b"outside")
    assert await committed(transactional, "bulk") == values


async def test_many_small_transactions_with_retries(transactional: KafkaCluster) -> None:
    """Each is tried until it is committed; every third attempt is given up half-way."""
    names = ("small-1", "small-2")
    await topics(transactional, *names)
    attempts = 0
    async with producer_on(transactional, "small") as producer:
        for number in range(40):
            while True:
                attempts += 1
                try:
                    async with producer.transaction():
                        for name in names:
                            producer.send(name, b"%02d" % number, partition=number % 3)
                        if attempts % 3 == 0:
                            await producer.flush()
                            raise RuntimeError
                        if attempts % 7 == 0:
                            raise RuntimeError
                except RuntimeError:
                    continue
                break
    for name in names:
        assert await committed(transactional, name) == [b"%02d" % number for number in range(40)]


# --- other readers ---------------------------------------------------------------------------


async def test_other_consumers_agree(transactional: KafkaCluster) -> None:
    await topics(transactional, "agreed", partitions=1)
    async with producer_on(transactional, "agreed") as producer:
        for number in range(20):
            await producer.begin_transaction()
            for part in "ab":
                producer.send("agreed", f"{number:02}{part}", partition=0)
            await producer.flush()
            if number % 2:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
    expected = [f"{number:02}{part}" for number in range(1, 20, 2) for part in "ab"]
    assert await committed(transactional, "agreed") == [each.encode() for each in expected]
    assert await by_aiokafka(transactional, "agreed", len(expected)) == expected
    assert await by_console(transactional, "agreed", len(expected)) == expected
    uncommitted = await visible(transactional, "agreed", isolation="read_uncommitted")
    assert len(uncommitted) == 40


async def by_aiokafka(cluster: KafkaCluster, topic: str, count: int) -> list[str]:
    async with aiokafka.AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=None,
        enable_auto_commit=False,
        isolation_level="read_committed",
    ) as consumer:
        partition = aiokafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        async with asyncio.timeout(20):
            return [(await consumer.getone()).value.decode() for _ in range(count)]


async def by_console(cluster: KafkaCluster, topic: str, count: int) -> list[str]:
    tool = await cluster.tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--from-beginning"),
        *("--isolation-level", "read_committed", "--max-messages", str(count)),
    )
    assert tool.returncode == 0, tool.stderr
    return tool.stdout.splitlines()


# --- consumed offsets --------------------------------------------------------------------------


async def test_offsets_move_with_the_data_and_only_then(transactional: KafkaCluster) -> None:
    await topics(transactional, "consumed", "produced")
    place = TopicPartition("consumed", 0)

    async def now() -> int | None:
        return await offset_of(transactional, "g", "consumed", isolation="read_uncommitted")

    async with producer_on(transactional, "offsets") as producer:
        async with producer.transaction():
            producer.send("produced", b"1")
            await producer.send_offsets_to_transaction({place: 5}, "g")
            assert await now() is None
        assert await offset_of(transactional, "g", "consumed") == 5
        await producer.begin_transaction()
        producer.send("produced", b"2")
        await producer.send_offsets_to_transaction({place: 9}, "g")
        assert await now() == 5
        await producer.abort_transaction()
        assert await offset_of(transactional, "g", "consumed") == 5
        async with producer.transaction():
            await producer.send_offsets_to_transaction(
                {place: OffsetAndMetadata(6, "note", 0), TopicPartition("consumed", 2): 1}, "g"
            )
            await producer.send_offsets_to_transaction({place: 7}, ConsumerGroupMetadata("other"))
            await producer.send_offsets_to_transaction({place: 8}, "g")
    assert await offset_of(transactional, "g", "consumed") == 8
    assert await offset_of(transactional, "g", "consumed", 2) == 1
    assert await offset_of(transactional, "other", "consumed") == 7
    assert await committed(transactional, "produced") == [b"1"]


class Member:
    """An aiokafka consumer in a group; it joins again by itself."""

    def __init__(self, cluster: KafkaCluster, group: str, topic: str) -> None:
        self.group = group
        self.consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
        )

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        member = self.consumer._coordinator
        return ConsumerGroupMetadata(self.group, member.generation, member.member_id)


async def test_the_metadata_of_a_member_is_accepted_until_the_group_moves_on(
    transactional: KafkaCluster,
) -> None:
    await topics(transactional, "members", "of-members")

    async def write(producer: Producer, value: bytes, offset: int, member: Any) -> None:
        places = [TopicPartition("members", partition) for partition in range(3)]
        async with producer.transaction():
            producer.send("of-members", value)
            await producer.send_offsets_to_transaction(dict.fromkeys(places, offset), member)

    async with producer_on(transactional, "feeder") as feeder, feeder.transaction():
        for partition in range(3):
            feeder.send("members", b"%d" % partition, partition=partition)
    first = Member(transactional, "members", "members")
    second = Member(transactional, "members", "members")

    def shared_out() -> bool:
        generations = {member.metadata.generation_id for member in (first, second)}
        parts = [member.consumer.assignment() for member in (first, second)]
        return len(generations) == 1 and all(parts) and len(parts[0] | parts[1]) == 3

    async with producer_on(transactional, "of-members") as producer:
        async with first.consumer:
            async with asyncio.timeout(PATIENCE):
                read = [await first.consumer.getone() for _ in range(3)]
            before = first.metadata
            assert before.generation_id > 0
            await write(producer, read[0].value, 1, before)
            async with second.consumer:
                await until(shared_out, "both have partitions", PATIENCE)
                with pytest.raises(AbortableTransactionError, match="ILLEGAL_GENERATION"):
                    await write(producer, b"stale", 2, before)
                assert await offset_of(transactional, "members", "members") == 1
                last = first.metadata
                await write(producer, b"fresh", 3, last)
        with pytest.raises(AbortableTransactionError, match="UNKNOWN_MEMBER_ID"):
            await write(producer, b"gone", 4, last)
        async with producer.transaction():
            producer.send("of-members", b"last")
    assert await offset_of(transactional, "members", "members") == 3
    assert await committed(transactional, "of-members") == [read[0].value, b"fresh", b"last"]


# --- misuse ------------------------------------------------------------------------------------


async def test_explicit_calls_and_their_misuse(transactional: KafkaCluster) -> None:
    await topics(transactional, "explicit")
    producer = producer_on(transactional, "explicit")
    with pytest.raises(IllegalStateError, match="was not started"):
        await producer.begin_transaction()
    async with producer:
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            producer.send("explicit", b"outside")
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            await producer.commit_transaction()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            await producer.abort_transaction()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            await producer.send_offsets_to_transaction({("explicit", 0): 1}, "g")
        await producer.init_transactions()
        await producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="in transaction; end it first"):
            await producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="in transaction; end it first"):
            async with producer.transaction():
                pytest.fail("a transaction in a transaction")
        with pytest.raises(IllegalStateError, match="was not begun for others"):
            producer.transaction_handle()
        producer.send("explicit", b"inside")
        await producer.commit_transaction()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            await producer.commit_transaction()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            await producer.abort_transaction()
        async with producer.transaction():
            producer.send("explicit", b"in a block")
            await producer.commit_transaction()
    async with Producer(bootstrap_servers=transactional.bootstrap_servers) as plain:
        with pytest.raises(IllegalStateError, match="has no transactional_id"):
            await plain.begin_transaction()
    assert await committed(transactional, "explicit") == [b"in a block", b"inside"]


async def test_committed_records_alone_unless_asked_otherwise(kafka: KafkaCluster) -> None:
    topic = "read-back-of-transactions"
    await kafka.create_topic(topic, 2, replication_factor=3)
    servers = kafka.bootstrap_servers
    async with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        async with producer.transaction():
            await producer.send(topic, b"committed", partition=0)
        await producer.begin_transaction()
        await producer.send(topic, b"aborted", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(topic, b"last", partition=1)
            await expect(topic, bootstrap_servers=servers).has_exactly([b"committed"])
            everything = await read_back(
                topic, bootstrap_servers=servers, isolation_level="read_uncommitted"
            )
            expect(everything).has_exactly([b"committed", b"aborted", b"last"])

    committed = expect(topic, bootstrap_servers=servers, wait=30)
    await committed.has_exactly([b"committed", b"last"])
    with pytest.raises(AssertionError, match="aborted and open transactions are left out"):
        await expect(topic, bootstrap_servers=servers).has(value=b"aborted")


async def test_a_topic_that_is_not_there(kafka: KafkaCluster) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="never-made"):
        await read_back("never-made", bootstrap_servers=kafka.bootstrap_servers)
