"""A reader beside a real Kafka: isolation, times, sessions (KIP-227), deleted records."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from aioproducer import Producer
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.requests import IsolationLevel
from aioproducer.errors import OffsetOutOfRangeError, TopicRecreatedError
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import Node, TopicPartition
from aioproducer.reader import Reader
from aioproducer.reader.requests import Fetched, FetchLimits, FetchRequest, SessionPlace
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.support.fetching import Round
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


TIMEOUT = 60.0
NOON = 1_700_000_000_000


@pytest.fixture(autouse=True)
async def _bounded() -> AsyncIterator[None]:
    async with asyncio.timeout(2 * TIMEOUT):
        yield


@pytest.fixture
async def topic(kafka: KafkaCluster) -> str:
    name = f"reading-{uuid.uuid4().hex[:8]}"
    await kafka.create_topic(name, 3, replication_factor=3)
    return name


def reader(kafka: KafkaCluster, assignment: Any, **options: Any) -> Reader:
    return Reader(assignment, bootstrap_servers=kafka.bootstrap_servers, **options)


async def write(kafka: KafkaCluster, topic: str, count: int = 300, **options: Any) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
        for number in range(count):
            producer.send(
                topic, b"%d" % number, partition=number % 3, timestamp_ms=NOON + 1000 * number
            )
        await producer.flush()


async def values(reading: Reader) -> list[bytes | None]:
    return sorted([record.value async for record in reading], key=lambda each: int(each or b"-1"))


async def test_an_open_transaction_ends_what_is_committed(kafka: KafkaCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic
    ) as producer:
        async with producer.transaction():
            producer.send(topic, b"1", partition=0)
        async with producer.transaction():
            await producer.send(topic, b"2", partition=0)
            async with Producer(bootstrap_servers=kafka.bootstrap_servers) as other:
                await other.send(topic, b"3", partition=0)
            async with reader(kafka, place, end="end", isolation_level="read_committed") as now:
                assert await values(now) == [b"1"]
                assert await now.end_offsets() == {place: 2}
            async with reader(kafka, place, end="end") as everything:
                assert await values(everything) == [b"1", b"2", b"3"]
            following = reader(kafka, {place: 1}, isolation_level="read_committed")
            await following.start()
            record = asyncio.ensure_future(anext(aiter(following)))
            await asyncio.sleep(1)
            assert not record.done()
        assert (await record).value == b"2"
        await following.close()


async def test_an_aborted_transaction_has_no_records(kafka: KafkaCluster, topic: str) -> None:
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic
    ) as producer:
        await producer.begin_transaction()
        for number in range(300):
            producer.send(topic, b"%d" % number, partition=number % 3)
        await producer.flush()
        await producer.abort_transaction()
        async with producer.transaction():
            producer.send(topic, b"300", partition=1)
    async with reader(kafka, topic, isolation_level="read_committed") as committed:
        assert (await anext(aiter(committed))).value == b"300"
    async with reader(kafka, topic, end="end") as everything:
        assert await values(everything) == [b"%d" % number for number in range(301)]


async def test_times_bound_what_is_read(kafka: KafkaCluster, topic: str) -> None:
    await write(kafka, topic, batch_size=1)
    start, end = (datetime.fromtimestamp(NOON / 1000 + after, UTC) for after in (100, 150))
    async with reader(kafka, topic, start=start, end=end) as reading:
        assert await values(reading) == [b"%d" % number for number in range(100, 150)]
    long_ago, one_day = datetime(1980, 1, 1), datetime(2200, 1, 1, tzinfo=UTC)
    async with reader(kafka, topic, start=long_ago, end=one_day) as reading:
        assert len(await values(reading)) == 300


async def test_deleted_records_are_out_of_range(kafka: KafkaCluster, topic: str) -> None:
    await write(kafka, topic)
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    deleted = client.delete_records([ConfluentPartition(topic, 0, 40)])
    for future in deleted.values():
        await asyncio.to_thread(future.result, TIMEOUT)
    place = TopicPartition(topic, 0)
    async with reader(kafka, {place: 5}, end="end") as reading:
        with pytest.raises(
            OffsetOutOfRangeError, match="no offset 5: it begins at 40 and ends at 100"
        ):
            await anext(aiter(reading))
        await reading.seek(place, "beginning")
        assert len(await values(reading)) == 60
        assert await reading.beginning_offsets() == {place: 40}
    async with reader(kafka, place, start=-90, end="end") as reading:
        assert len(await values(reading)) == 60
    async with reader(kafka, {place: 5}, end="end", auto_offset_reset="earliest") as reading:
        assert len(await values(reading)) == 60


async def test_stored_positions_of_a_topic_that_was_created_again(
    kafka: KafkaCluster, topic: str
) -> None:
    await write(kafka, topic, 300)
    async with reader(kafka, topic, end="end") as reading:
        assert len(await values(reading)) == 300
        stored = reading.positions
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in client.delete_topics([topic]).values():
        await asyncio.to_thread(future.result, TIMEOUT)
    await kafka.create_topic(topic, 3, replication_factor=3)
    await write(kafka, topic, 30)
    async with reader(kafka, stored, end="end") as reading:
        with pytest.raises(OffsetOutOfRangeError, match=r"it begins at 0 and ends at 10\."):
            await anext(aiter(reading))
    async with reader(kafka, stored, end="end", auto_offset_reset="earliest") as reading:
        assert len(await values(reading)) == 30


async def test_an_open_transaction_s_records_are_in_the_log(
    kafka: KafkaCluster, topic: str
) -> None:
    await write(kafka, topic, 3)
    place = TopicPartition(topic, 0)
    options: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers}
    async with Producer(transactional_id=topic, **options) as producer, producer.transaction():
        at = await producer.send(topic, b"open", partition=0)
        await producer.send(topic, b"open", partition=0)
        committed: dict[str, Any] = {"isolation_level": "read_committed", "end": "end"}
        async with reader(kafka, {place: at.offset + 1}, **committed) as reading:
            assert await values(reading) == []


async def test_a_topic_that_is_created_again_is_another_one(
    kafka: KafkaCluster, topic: str
) -> None:
    await write(kafka, topic, 3)
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    async with reader(kafka, topic) as reading:
        records = aiter(reading)
        for _ in range(3):
            await anext(records)
        following = asyncio.ensure_future(anext(records))
        for future in client.delete_topics([topic]).values():
            await asyncio.to_thread(future.result, TIMEOUT)
        await kafka.create_topic(topic, 3, replication_factor=3)
        with pytest.raises(TopicRecreatedError, match=topic):
            await following


PARTITIONS = 30
FULL, FINAL = 0, -1


@pytest.fixture
async def session_topic(kafka: KafkaCluster) -> str:
    name = f"sessions-{uuid.uuid4().hex[:8]}"
    await kafka.create_topic(name, PARTITIONS, replication_factor=1)
    return name


def session_reader(kafka: KafkaCluster, session_topic: str) -> Reader:
    return Reader(
        session_topic, start="end", bootstrap_servers=kafka.bootstrap_servers, fetch_max_wait_ms=100
    )


async def in_sessions(rounds: list[Round]) -> None:
    """Wait until each broker has answered in a session."""

    def answered() -> bool:
        return len({each.node for each in rounds if each.request.session.epoch > FULL}) == 3

    await until(answered, "three brokers have answered in a session")


async def test_idle_partitions_are_in_no_request_and_no_response(
    kafka: KafkaCluster, session_topic: str, rounds: list[Round]
) -> None:
    async with session_reader(kafka, session_topic) as reading:
        await in_sessions(rounds)
        async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(5):
                await producer.send(session_topic, b"%d" % number, partition=7)
                assert (await anext(aiter(reading))).value == b"%d" % number
    full = [each for each in rounds if each.request.session.epoch == FULL]
    assert len(full) == 3
    assert sum(len(each.request.partitions) for each in full) == PARTITIONS
    later = [each for each in rounds if each.request.session.epoch > FULL]
    busy = {TopicPartition(session_topic, 7)}
    assert {where for each in later for where in each.fetched.partitions} == busy
    assert {one.where for each in later for one in each.request.partitions} == busy
    assert not any(each.fetched.error_code for each in rounds)


async def test_sessions_that_brokers_have_given_up_cost_no_record(
    kafka: KafkaCluster, session_topic: str, rounds: list[Round]
) -> None:
    async with session_reader(kafka, session_topic) as reading:
        await in_sessions(rounds)
        for node, number in {(each.node, each.fetched.session_id) for each in rounds}:
            await end_session(reading._client, node, number)
        async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            futures = [
                producer.send(session_topic, b"v", partition=each) for each in range(PARTITIONS)
            ]
            await asyncio.gather(*futures)
        records = aiter(reading)
        found = [(await anext(records)).partition for _ in range(PARTITIONS)]
        assert sorted(found) == list(range(PARTITIONS))
    codes = {ErrorCode(each.fetched.error_code) for each in rounds}
    assert codes == {ErrorCode.NONE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND}


async def test_a_reader_that_ends_leaves_no_session(
    kafka: KafkaCluster, session_topic: str, rounds: list[Round]
) -> None:
    async with session_reader(kafka, session_topic):
        await in_sessions(rounds)
    last = {each.node: each for each in rounds}
    assert {each.request.session.epoch for each in last.values()} == {FINAL}
    async with session_reader(kafka, session_topic) as other:
        for node, ended in last.items():
            place = SessionPlace(ended.request.session.id, FULL + 1)
            request = FetchRequest(
                [], IsolationLevel.READ_UNCOMMITTED, FetchLimits(0, 0, 0, 0), {}, place
            )
            fetched: Fetched = await other._client.request(request, node)
            assert fetched.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def end_session(client: ClusterClient, node: Node, number: int) -> None:
    request = FetchRequest(
        [],
        IsolationLevel.READ_UNCOMMITTED,
        FetchLimits(0, 0, 0, 0),
        {},
        SessionPlace(number, FINAL),
    )
    fetched: Fetched = await client.request(request, node)
    assert (fetched.error_code, fetched.session_id) == (0, 0)
