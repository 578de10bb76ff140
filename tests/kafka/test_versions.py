"""Which versions of its requests a producer agrees on with Kafka, as the broker's log tells it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, TopicPartition

from aioproducer import Producer, __version__
from aioproducer.network.apis import SUPPORTED, Api
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
LAST_PRODUCE_WITHOUT_TOPIC_IDS = 12
FIRST_METADATA_WITH_TOPIC_IDS = 10
FIRST_API_VERSIONS_WITH_SOFTWARE = 3


@pytest.fixture(scope="module")
def talkative(kafka_distribution: KafkaDistribution) -> Iterator[KafkaCluster]:
    """One broker that logs every request."""
    with KafkaCluster(brokers=1) as cluster:
        tool = asyncio.run(
            cluster.tool(
                "kafka.admin.ConfigCommand",
                *("--bootstrap-server", cluster.bootstrap_servers, "--alter"),
                *("--entity-type", "broker-loggers", "--entity-name", "1"),
                *("--add-config", "kafka.request.logger=DEBUG"),
            )
        )
        assert tool.returncode == 0, tool.stderr
        yield cluster


async def requests_of(cluster: KafkaCluster, client_id: str) -> list[dict[str, Any]]:
    """What the broker has logged of a client, its Produce requests included."""
    deadline = time.monotonic() + 10
    while True:
        log = cluster.brokers[0].log_file.read_text(encoding="utf-8")
        entries = [json.loads(entry) for entry in LOGGED.findall(log) if client_id in entry]
        mine = [each for each in entries if each["requestHeader"]["clientId"] == client_id]
        if "PRODUCE" in {each["requestHeader"]["requestApiKeyName"] for each in mine}:
            return mine
        assert time.monotonic() < deadline, "the broker logs no requests"
        await asyncio.sleep(0.05)


def versions_in(requests: list[dict[str, Any]]) -> dict[Api, set[int]]:
    versions: dict[Api, set[int]] = {}
    for request in requests:
        header = request["requestHeader"]
        versions.setdefault(Api(header["requestApiKey"]), set()).add(header["requestApiVersion"])
    return versions


def read(cluster: KafkaCluster, topic: str, count: int) -> list[tuple[Any, ...]]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "never-used"})
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
    return await requests_of(cluster, topic)


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
        for api, (lowest, highest) in SUPPORTED.items()
        for version in range(lowest, highest + 1)
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
    if expected[Api.API_VERSIONS] < FIRST_API_VERSIONS_WITH_SOFTWARE:
        assert requests[-1]["clientInformation"]["softwareName"] == "unknown"
