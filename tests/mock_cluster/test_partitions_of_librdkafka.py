"""A key goes to the partition where librdkafka sends it, judged by librdkafka itself."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer as Librdkafka

from aioproducer import Producer, ProducerConfig
from aioproducer.testing.mock_cluster import MockCluster

PARTITIONS = 7


def some_keys() -> list[bytes]:
    random = Random("some keys")
    corners = [b"\xff" * length for length in range(1, 41)] + [bytes(range(40))]
    return corners + [random.randbytes(random.randrange(1, 41)) for _ in range(1_000)]


@pytest.mark.parametrize(
    ("theirs", "empty"),
    [
        ({}, False),
        ({"partitioner": "consistent"}, True),
        ({"partitioner": "murmur2"}, True),
        ({"partitioner": "murmur2_random"}, True),
        ({"partitioner": "fnv1a"}, True),
        ({"partitioner": "fnv1a_random"}, True),
    ],
    ids=lambda each: each.get("partitioner", "default") if isinstance(each, dict) else "",
)
async def test_keys_have_the_partitions_that_librdkafka_chooses(
    mock_cluster: MockCluster, theirs: dict[str, str], empty: bool
) -> None:
    """``empty``: the partition of an empty key is not a random one."""
    mock_cluster.create_topic("orders", PARTITIONS)
    keys = some_keys() + [b""] * empty
    chosen: dict[bytes, int] = {}

    def delivered(error: object, message: Any) -> None:
        assert error is None
        chosen[message.key()] = message.partition()

    config = {"bootstrap.servers": mock_cluster.bootstrap_servers, **theirs}
    peer = Librdkafka(config)
    for key in keys:
        peer.produce("orders", b"v", key, on_delivery=delivered)
    assert peer.flush(60) == 0
    assert set(chosen.values()) == set(range(PARTITIONS))

    async with Producer(ProducerConfig.from_librdkafka(config)) as producer:
        sent = [producer.send("orders", b"v", key=key) for key in keys]
        assert [(await each).partition for each in sent] == [chosen[key] for key in keys]


async def test_our_names_of_their_partitioners(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", PARTITIONS)
    for name in ("consistent_random", "consistent", "fnv1a", "random"):
        config = ProducerConfig(
            bootstrap_servers=mock_cluster.bootstrap_servers,
            partitioner=name,
        )
        async with Producer(config) as producer:
            assert 0 <= (await producer.send("orders", b"v")).partition < PARTITIONS


async def test_keyless_records_of_librdkafkas_partitioners_share_batches(
    mock_cluster: MockCluster,
) -> None:
    mock_cluster.create_topic("orders", PARTITIONS)
    config = {"bootstrap.servers": mock_cluster.bootstrap_servers}
    async with Producer(ProducerConfig.from_librdkafka(config)) as producer:
        await producer.send("orders", b"the topic is known now")
        sent = [producer.send("orders", bytes(80)) for _ in range(100)]
        assert len({(await each).partition for each in sent}) <= 2
