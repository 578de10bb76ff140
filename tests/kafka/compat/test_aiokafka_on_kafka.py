"""aiokafka's interface on real brokers, beside aiokafka's own consumer and within its groups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import aiokafka.errors as theirs  # type: ignore[import-untyped]
import pytest
from aiokafka import AIOKafkaConsumer, OffsetAndMetadata, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener  # type: ignore[import-untyped]

from aioproducer import errors as ours
from aioproducer.compat.aiokafka import AIOKafkaConsumer as OurConsumer
from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.transactional import nothing_is_open
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

PARTITIONS = 2
PATIENCE = 60.0


async def new_topic(kafka: KafkaCluster, what: str, **config: object) -> str:
    name = f"aiokafka-{what}-{uuid4().hex[:8]}"
    settings = {key.replace("_", "."): value for key, value in config.items()}
    await kafka.create_topic(name, PARTITIONS, replication_factor=3, config=settings)
    return name


def producer_on(kafka: KafkaCluster, **options: Any) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **options)


@asynccontextmanager
async def consumer_of(
    kafka: KafkaCluster, topic: str, *, client: Any = AIOKafkaConsumer, **options: Any
) -> AsyncIterator[Any]:
    consumer = client(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def committed_values(kafka: KafkaCluster, topic: str) -> list[bytes]:
    """What ``read_committed`` shows up to the end, once no transaction is open there."""
    await until(lambda: nothing_is_open(kafka, topic), f"the transactions in {topic} have ended")
    found: list[bytes] = []
    async with consumer_of(kafka, topic, isolation_level="read_committed") as consumer:
        ends = await consumer.end_offsets(consumer.assignment())
        async with asyncio.timeout(PATIENCE):
            while any([await consumer.position(place) < end for place, end in ends.items()]):
                batches = await consumer.getmany(timeout_ms=100)
                found += [each.value for records in batches.values() for each in records]
    return found


@pytest.mark.parametrize("client", [AIOKafkaConsumer, OurConsumer], ids=["theirs", "ours"])
async def test_consumed_offsets_move_with_the_transaction(kafka: KafkaCluster, client: Any) -> None:
    """A transaction that fails leaves neither records nor offsets behind."""
    source, target = await new_topic(kafka, "in"), await new_topic(kafka, "out")
    group, records = f"{source}-group", 90
    async with producer_on(kafka, enable_idempotence=True) as producer:
        for number in range(records):
            await producer.send(source, b"%d" % number, partition=number % PARTITIONS)
    failures = 2
    async with (
        asyncio.timeout(PATIENCE),
        producer_on(kafka, transactional_id=f"{source}-writer") as producer,
        consumer_of(
            kafka, source, client=client, group_id=group, isolation_level="read_committed"
        ) as consumer,
    ):
        await consumer.commit(dict.fromkeys(consumer.assignment(), 0))
        done = 0
        while done < records:
            batches = await consumer.getmany(timeout_ms=1_000, max_records=20)
            offsets: dict[TopicPartition, Any] = {}
            try:
                async with producer.transaction():
                    for place, consumed in batches.items():
                        for each in consumed:
                            await producer.send(target, b"out-" + each.value, partition=place[1])
                        offsets[place] = OffsetAndMetadata(consumed[-1].offset + 1, "seen")
                    if offsets:
                        await producer.send_offsets_to_transaction(offsets, group)
                    if offsets and failures:
                        failures -= 1
                        raise KeyError
            except KeyError:
                for place, consumed in batches.items():
                    consumer.seek(place, consumed[0].offset)
                continue
            done += sum(map(len, batches.values()))

        async def all_are_committed() -> bool:
            found = [await consumer.committed(place) for place in consumer.assignment()]
            return found == [records // PARTITIONS] * PARTITIONS

        await until(all_are_committed, "the group sees the offsets of the last transaction")
    assert failures == 0
    found = await committed_values(kafka, target)
    assert sorted(found) == sorted(b"out-%d" % number for number in range(records))


async def test_a_newer_producer_fences_the_older_one(kafka: KafkaCluster) -> None:
    topic = await new_topic(kafka, "fenced")
    older = producer_on(kafka, transactional_id=topic)
    await older.start()
    async with producer_on(kafka, transactional_id=topic) as newer:

        async def write() -> None:
            async with older.transaction():
                await older.send_and_wait(topic, b"from the older")

        with pytest.raises(theirs.ProducerFenced) as caught:
            await write()
        assert isinstance(caught.value, ours.ProducerError)
        async with newer.transaction():
            await newer.send(topic, b"from the newer")
    await older.stop()
    assert await committed_values(kafka, topic) == [b"from the newer"]


async def test_a_cancelled_commit_goes_on(kafka: KafkaCluster) -> None:
    topic = await new_topic(kafka, "cancelled")
    async with producer_on(kafka, transactional_id=topic) as producer:
        await producer.begin_transaction()
        await producer.send(topic, b"kept")
        commit = asyncio.ensure_future(producer.commit_transaction())
        await asyncio.sleep(0)
        commit.cancel()
        await asyncio.wait([commit])
        assert commit.cancelled()
        await producer.begin_transaction()  # waits for the commit
        await producer.send(topic, b"dropped")
        await producer.abort_transaction()
    assert await committed_values(kafka, topic) == [b"kept"]


async def test_calls_that_do_not_fit_the_transaction(kafka: KafkaCluster) -> None:
    topic = await new_topic(kafka, "states")
    place = TopicPartition(topic, 0)
    async with producer_on(kafka, transactional_id=topic) as producer:
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"by batch")
        for call in (
            producer.send(topic, b"v"),
            producer.send_batch(batch, topic, partition=0),
            producer.send_offsets_to_transaction({place: 1}, "group"),
            producer.commit_transaction(),
            producer.abort_transaction(),
        ):
            with pytest.raises(theirs.IllegalOperation):
                await call
        async with producer.transaction():
            with pytest.raises(AssertionError):
                await producer.begin_transaction()
            wrong: list[tuple[Any, Any]] = [({}, "group"), ({place: 1}, None), ({place: -1}, "g")]
            for offsets, group in wrong:
                with pytest.raises(ValueError, match=r"offset|group"):
                    await producer.send_offsets_to_transaction(offsets, group)
            await producer.send_batch(batch, topic, partition=0)
    assert await committed_values(kafka, topic) == [b"by batch"]


async def test_the_metadata_of_records(kafka: KafkaCluster) -> None:
    own = await new_topic(kafka, "time")
    brokers = await new_topic(kafka, "append", message_timestamp_type="LogAppendTime")
    long_ago = 1_600_000_000_000
    async with producer_on(kafka, acks="all") as producer:
        sent = await producer.send_and_wait(own, b"v", timestamp_ms=long_ago)
        assert (sent.timestamp, sent.timestamp_type, sent.log_start_offset) == (long_ago, 0, 0)
        sent = await producer.send_and_wait(brokers, b"v", timestamp_ms=long_ago)
        assert sent.timestamp > long_ago
        assert (sent.timestamp_type, sent.log_start_offset) == (1, 0)
        batch = producer.create_batch()
        batch.append(timestamp=long_ago, key=b"k", value=b"v", headers=[("h", b"1")])
        sent = await (await producer.send_batch(batch, brokers, partition=sent.partition))
        assert (sent.offset, sent.timestamp_type) == (1, 1)


async def test_a_topic_that_cannot_exist(kafka: KafkaCluster) -> None:
    async with producer_on(kafka) as producer:
        with pytest.raises(theirs.InvalidTopicError):
            await producer.send("not a name", b"v")
        with pytest.raises(theirs.InvalidTopicError):
            await producer.partitions_for("not a name")


# --- the consumer ------------------------------------------------------------------------------


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes its calls, each of which takes ``seconds``."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.calls: list[tuple[str, set[Any]]] = []
        self.seconds = seconds

    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        self.calls.append(("revoked", revoked))
        await asyncio.sleep(self.seconds)

    async def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self.calls.append(("assigned", assigned))
        await asyncio.sleep(self.seconds)


def member_of(kafka: KafkaCluster, group: str, client: Any = OurConsumer, **options: Any) -> Any:
    quick = {"heartbeat_interval_ms": 100, "metadata_max_age_ms": 200}
    return client(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        **{**quick, **options},
    )


async def send(kafka: KafkaCluster, topic: str, records: range) -> None:
    async with producer_on(kafka) as producer:
        for number in records:
            await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)


async def read_all(consumers: list[Any], count: int) -> list[int]:
    """The values that the consumers get together."""
    found: list[int] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            for each in consumers:
                for records in (await each.getmany(timeout_ms=50)).values():
                    found += [int(record.value) for record in records]
    return sorted(found)


@pytest.mark.parametrize("first", [AIOKafkaConsumer, OurConsumer], ids=["theirs", "ours"])
async def test_both_share_a_group(kafka: KafkaCluster, first: Any) -> None:
    """A service moves instance by instance."""
    topic = await new_topic(kafka, "shared")
    await send(kafka, topic, range(50))
    second = OurConsumer if first is AIOKafkaConsumer else AIOKafkaConsumer
    consumers = [member_of(kafka, topic, client) for client in (first, second)]
    for each in consumers:
        each.subscribe([topic])
    async with asyncio.timeout(PATIENCE), consumers[0]:
        found = await read_all(consumers[:1], 50)
        async with consumers[1]:
            await send(kafka, topic, range(50, 100))
            found += await read_all(consumers, 50)
            assert [len(each.assignment()) for each in consumers] == [1, 1]
        await send(kafka, topic, range(100, 150))
        found += await read_all(consumers[:1], 50)
    assert sorted(found) == [*range(150)]


async def test_a_static_member_keeps_its_partition(kafka: KafkaCluster) -> None:
    """As with aiokafka, neither ``unsubscribe()`` nor a restart moves it (KIP-345)."""
    topic = await new_topic(kafka, "static")
    listener = Listener()
    stays, goes = (member_of(kafka, topic, group_instance_id=each) for each in ("one", "two"))
    stays.subscribe([topic], listener=listener)
    goes.subscribe([topic])
    async with asyncio.timeout(PATIENCE), stays:
        async with goes:
            await until(lambda: len(stays.assignment()) == len(goes.assignment()) == 1)
            had, calls = goes.assignment(), len(listener.calls)
            goes.unsubscribe()
            assert goes.assignment() == set()
            await asyncio.sleep(1)
            goes.subscribe([topic])
            await until(goes.assignment, "the member is back")
            assert goes.assignment() == had
        async with member_of(kafka, topic, group_instance_id="two") as again:
            again.subscribe([topic])
            await until(again.assignment, "the member is back")
            assert again.assignment() == had
        assert len(listener.calls) == calls


async def test_a_rebalance_waits_for_listeners(kafka: KafkaCluster) -> None:
    topic = await new_topic(kafka, "listeners")
    await send(kafka, topic, range(40))
    listener = Listener(1.0)
    first = member_of(kafka, topic, enable_auto_commit=False)
    first.subscribe([topic], listener=listener)
    both = {TopicPartition(topic, number) for number in range(PARTITIONS)}
    async with asyncio.timeout(PATIENCE), first:
        await first.getone()
        assert listener.calls == [("revoked", set()), ("assigned", both)]
        began = asyncio.get_running_loop().time()
        second = member_of(kafka, topic)
        second.subscribe([topic])
        async with second:
            assert asyncio.get_running_loop().time() - began >= 1.0
            assert listener.calls[2] == ("revoked", both)
            await until(lambda: len(listener.calls) == 4)
            assert listener.calls[3] == ("assigned", first.assignment())
            assert first.assignment() | second.assignment() == both


@pytest.mark.parametrize("group", [True, False], ids=["group", "alone"])
async def test_topics_that_match_a_pattern_are_read(kafka: KafkaCluster, group: bool) -> None:
    mark = uuid4().hex[:8]
    consumer = member_of(kafka, mark) if group else member_of(kafka, None)  # type: ignore[arg-type]
    async with asyncio.timeout(PATIENCE), consumer:
        consumer.subscribe(pattern=f"^aiokafka-{mark}-.")
        reading = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0.5)
        assert (reading.done(), consumer.subscription()) == (False, set())
        topics = [await new_topic(kafka, f"{mark}-{number}") for number in range(2)]
        await until(lambda: consumer.subscription() == set(topics), "both are known")
        await send(kafka, topics[1], range(1))
        record = await reading
        assert (record.topic, record.value) == (topics[1], b"0")
