"""Which versions of its requests a producer agrees on with Kafka, as the broker's log tells it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, TopicPartition

from aioproducer import OffsetAndMetadata, Producer, __version__
from aioproducer import model as ours
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.engine.transactions.requests import FIRST_STABLE_VERSION
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution

pytestmark = pytest.mark.kafka

LOGGED = re.compile(r"DEBUG Completed request:(\{.*\}) \(kafka\.request\.logger\)$", re.MULTILINE)
NEWEST = {
    Api.PRODUCE: 13,
    Api.METADATA: 13,
    Api.API_VERSIONS: 4,
    Api.INIT_PRODUCER_ID: 5,
}
"""What Kafka 4.3 and this client have in common."""
NEWEST_IN_TRANSACTIONS = {
    1: NEWEST
    | {
        Api.PRODUCE: 11,
        Api.FIND_COORDINATOR: 6,
        Api.OFFSET_FETCH: 9,
        Api.ADD_PARTITIONS_TO_TXN: 3,
        Api.ADD_OFFSETS_TO_TXN: 4,
        Api.END_TXN: 4,
        Api.TXN_OFFSET_COMMIT: 4,
    },
    2: NEWEST
    | {
        Api.FIND_COORDINATOR: 6,
        Api.OFFSET_FETCH: 9,
        Api.END_TXN: 5,
        Api.TXN_OFFSET_COMMIT: 5,
    },
}
"""The same with each version of the transaction protocol (KIP-890)."""
LAST_PRODUCE_WITHOUT_TOPIC_IDS = 12
FIRST_METADATA_WITH_TOPIC_IDS = 10


@pytest.fixture(scope="module")
def talkative(kafka_distribution: KafkaDistribution) -> Iterator[KafkaCluster]:
    """One broker that logs every request."""
    with KafkaCluster(brokers=1) as cluster:
        talk(cluster)
        yield cluster


@pytest.fixture(scope="module")
def talkative_without_epochs(kafka_distribution: KafkaDistribution) -> Iterator[KafkaCluster]:
    """The same, whose transactions are those of version 1."""
    level = ("--feature", "transaction.version=1")
    with KafkaCluster(brokers=1, format_options=level) as cluster:
        talk(cluster)
        yield cluster


def talk(cluster: KafkaCluster) -> None:
    tool = asyncio.run(
        cluster.tool(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", cluster.bootstrap_servers, "--alter"),
            *("--entity-type", "broker-loggers", "--entity-name", "1"),
            *("--add-config", "kafka.request.logger=DEBUG"),
        )
    )
    assert tool.returncode == 0, tool.stderr


async def requests_of(
    cluster: KafkaCluster, client_id: str, apis: Iterable[Api]
) -> list[dict[str, Any]]:
    """What the broker has logged of a client, each of ``apis`` included.

    It logs when the response has left, and each connection at its own pace.
    """
    names = {api.name for api in apis}
    deadline = time.monotonic() + 10
    while True:
        log = cluster.brokers[0].log_file.read_text(encoding="utf-8")
        entries = [json.loads(entry) for entry in LOGGED.findall(log) if client_id in entry]
        mine = [each for each in entries if each["requestHeader"]["clientId"] == client_id]
        seen = {each["requestHeader"]["requestApiKeyName"] for each in mine}
        if names <= seen:
            return mine
        assert time.monotonic() < deadline, f"the broker logs {seen} alone, not {names}"
        await asyncio.sleep(0.05)


def versions_in(requests: list[dict[str, Any]]) -> dict[Api, set[int]]:
    versions: dict[Api, set[int]] = {}
    for request in requests:
        header = request["requestHeader"]
        versions.setdefault(Api(header["requestApiKey"]), set()).add(header["requestApiVersion"])
    return versions


def read(cluster: KafkaCluster, topic: str, count: int) -> list[tuple[Any, ...]]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "never-used",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, 20)
    consumer.close()
    return [
        (each.offset(), each.timestamp()[1], each.key(), each.value(), each.headers())
        for each in messages
    ]


async def exchange(cluster: KafkaCluster, topic: str) -> list[dict[str, Any]]:
    """Send, read back, compare; what the broker has logged of it."""
    await cluster.create_topic(topic)
    time_ms = time.time_ns() // 1_000_000
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers, client_id=topic, compression_type="zstd"
    ) as producer:
        futures = [
            producer.send(topic, f"{n}", key=b"k", headers={"n": b"1"}, timestamp_ms=time_ms + n)
            for n in range(20)
        ]
        results = [await future for future in futures]
    assert [(each.offset, each.timestamp_ms) for each in results] == [
        (n, time_ms + n) for n in range(20)
    ]
    assert await asyncio.to_thread(read, cluster, topic, 20) == [
        (n, time_ms + n, b"k", b"%d" % n, [("n", b"1")]) for n in range(20)
    ]
    return await requests_of(cluster, topic, NEWEST)


async def test_the_newest_versions_are_used_and_the_software_is_named(
    talkative: KafkaCluster,
) -> None:
    requests = await exchange(talkative, "newest")
    assert versions_in(requests) == {api: {version} for api, version in NEWEST.items()}
    software = {
        tuple(request["clientInformation"].values())
        for request in requests
        if request["requestHeader"]["requestApiKeyName"] != "API_VERSIONS"
    }
    assert software == {("aioproducer", __version__)}


@pytest.mark.parametrize(
    ("api", "version"),
    [
        pytest.param(api, version, id=f"{api.name}-{version}")
        for api in NEWEST
        if api is not Api.API_VERSIONS  # tests/matrix has brokers that speak older ones alone
        for version in range(SUPPORTED[api][0], NEWEST[api] + 1)
    ],
)
async def test_every_version_works(
    talkative: KafkaCluster, monkeypatch: pytest.MonkeyPatch, api: Api, version: int
) -> None:
    supported = cast("dict[Api, tuple[int, int]]", SUPPORTED)
    monkeypatch.setitem(supported, api, (supported[api][0], version))
    requests = await exchange(talkative, f"{api.name.lower()}-{version}")
    expected = {**NEWEST, api: version}
    if expected[Api.METADATA] < FIRST_METADATA_WITH_TOPIC_IDS:
        expected[Api.PRODUCE] = min(expected[Api.PRODUCE], LAST_PRODUCE_WITHOUT_TOPIC_IDS)
    assert versions_in(requests) == {api: {version} for api, version in expected.items()}


async def transact(cluster: KafkaCluster, topic: str, apis: Iterable[Api]) -> dict[Api, set[int]]:
    """One transaction that commits and one that aborts, with offsets; the versions that it took."""
    await cluster.create_topic(topic)
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers, client_id=topic, transactional_id=topic
    ) as producer:
        async with producer.transaction():
            await producer.send(topic, b"first")
            await producer.send_offsets_to_transaction({(topic, 0): 7}, topic)
        place = ours.TopicPartition(topic, 0)
        assert await producer.committed_offsets(topic, [place]) == {place: OffsetAndMetadata(7)}
        await producer.begin_transaction()
        await producer.send(topic, b"dropped")
        await producer.abort_transaction()
        async with producer.transaction():
            producer.send(topic, b"second")
    values = [value for _, _, _, value, _ in await asyncio.to_thread(read, cluster, topic, 2)]
    assert values == [b"first", b"second"]
    group = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic})
    (committed,) = await asyncio.to_thread(group.committed, [TopicPartition(topic, 0)])
    group.close()
    assert committed.offset == 7
    return versions_in(await requests_of(cluster, topic, apis))


EACH_IN_TRANSACTIONS = [
    pytest.param(protocol, api, version, id=f"protocol {protocol}-{api.name}-{version}")
    for protocol, newest in NEWEST_IN_TRANSACTIONS.items()
    for api in newest
    for version in range(SUPPORTED[api][0], newest[api] + 1)
    if api not in (Api.METADATA, Api.API_VERSIONS)
    if api is not Api.OFFSET_FETCH or version >= FIRST_STABLE_VERSION  # older: consumers
    # with version 2 of the protocol come brokers that have these
    if protocol == 1 or version >= {Api.PRODUCE: 12, Api.END_TXN: 5}.get(api, newest[api])
]


@pytest.mark.parametrize(("protocol", "api", "version"), EACH_IN_TRANSACTIONS)
async def test_every_version_works_in_transactions(
    talkative: KafkaCluster,
    talkative_without_epochs: KafkaCluster,
    monkeypatch: pytest.MonkeyPatch,
    protocol: int,
    api: Api,
    version: int,
) -> None:
    cluster = talkative if protocol == 2 else talkative_without_epochs
    supported = cast("dict[Api, tuple[int, int]]", SUPPORTED)
    monkeypatch.setitem(supported, api, (supported[api][0], version))
    newest = NEWEST_IN_TRANSACTIONS[protocol]
    versions = await transact(cluster, f"transact-{api.name.lower()}-{version}", newest)
    assert versions == {each: {number} for each, number in (newest | {api: version}).items()}
