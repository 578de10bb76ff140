"""A reader in sessions of incremental fetches with real brokers (KIP-227)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from aioproducer import Producer
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.list_offsets import IsolationLevel
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import Node, TopicPartition
from aioproducer.reader import Reader
from aioproducer.reader.fetch_request import Fetched, FetchLimits, FetchRequest, SessionPlace
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.support.fetching import Round
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

TIMEOUT = 60.0
PARTITIONS = 30
FULL, FINAL = 0, -1


@pytest.fixture(autouse=True)
async def _bounded() -> AsyncIterator[None]:
    async with asyncio.timeout(TIMEOUT):
        yield


@pytest.fixture
async def topic(kafka: KafkaCluster) -> str:
    name = f"sessions-{uuid.uuid4().hex[:8]}"
    await kafka.create_topic(name, PARTITIONS, replication_factor=1)
    return name


def reader(kafka: KafkaCluster, topic: str) -> Reader:
    return Reader(
        topic, start="end", bootstrap_servers=kafka.bootstrap_servers, fetch_max_wait_ms=100
    )


async def in_sessions(rounds: list[Round]) -> None:
    """Wait until each broker has answered in a session."""

    def answered() -> bool:
        return len({each.node for each in rounds if each.request.session.epoch > FULL}) == 3

    await until(answered, "three brokers have answered in a session")


async def test_idle_partitions_are_in_no_request_and_no_response(
    kafka: KafkaCluster, topic: str, rounds: list[Round]
) -> None:
    async with reader(kafka, topic) as reading:
        await in_sessions(rounds)
        async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(5):
                await producer.send(topic, b"%d" % number, partition=7)
                assert (await anext(aiter(reading))).value == b"%d" % number
    full = [each for each in rounds if each.request.session.epoch == FULL]
    assert len(full) == 3
    assert sum(len(each.request.partitions) for each in full) == PARTITIONS
    later = [each for each in rounds if each.request.session.epoch > FULL]
    busy = {TopicPartition(topic, 7)}
    assert {where for each in later for where in each.fetched.partitions} == busy
    assert {one.where for each in later for one in each.request.partitions} == busy
    assert not any(each.fetched.error_code for each in rounds)


async def test_sessions_that_brokers_have_given_up_cost_no_record(
    kafka: KafkaCluster, topic: str, rounds: list[Round]
) -> None:
    async with reader(kafka, topic) as reading:
        await in_sessions(rounds)
        for node, number in {(each.node, each.fetched.session_id) for each in rounds}:
            await end_session(reading._client, node, number)
        async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            futures = [producer.send(topic, b"v", partition=each) for each in range(PARTITIONS)]
            await asyncio.gather(*futures)
        records = aiter(reading)
        found = [(await anext(records)).partition for _ in range(PARTITIONS)]
        assert sorted(found) == list(range(PARTITIONS))
    codes = {ErrorCode(each.fetched.error_code) for each in rounds}
    assert codes == {ErrorCode.NONE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND}


async def test_a_reader_that_ends_leaves_no_session(
    kafka: KafkaCluster, topic: str, rounds: list[Round]
) -> None:
    async with reader(kafka, topic):
        await in_sessions(rounds)
    last = {each.node: each for each in rounds}
    assert {each.request.session.epoch for each in last.values()} == {FINAL}
    async with reader(kafka, topic) as other:
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
