"""A key goes to the partition where librdkafka's default sends it, judged by librdkafka itself."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer as Librdkafka

from aioproducer import Producer
from aioproducer.testing.mock_cluster import MockCluster

PARTITIONS = 7


def some_keys() -> list[bytes]:
    random = Random("some keys")
    corners = [b"\xff" * length for length in range(1, 41)] + [bytes(range(40))]
    return corners + [random.randbytes(random.randrange(1, 41)) for _ in range(1_000)]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [({}, "consistent_random"), ({"partitioner": "murmur2_random"}, "murmur2_random")],
    ids=["default", "murmur2_random"],
)
async def test_keys_have_the_partitions_that_librdkafka_chooses(
    mock_cluster: MockCluster, theirs: dict[str, str], ours: Any
) -> None:
    mock_cluster.create_topic("orders", PARTITIONS)
    keys = some_keys()
    chosen: dict[bytes, int] = {}

    def delivered(error: object, message: Any) -> None:
        assert error is None
        chosen[message.key()] = message.partition()

    peer = Librdkafka({"bootstrap.servers": mock_cluster.bootstrap_servers, **theirs})
    for key in keys:
        peer.produce("orders", b"v", key, on_delivery=delivered)
    assert peer.flush(60) == 0
    assert set(chosen.values()) == set(range(PARTITIONS))

    async with Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers, partitioner=ours
    ) as producer:
        sent = [producer.send("orders", b"v", key=key) for key in keys]
        assert [(await each).partition for each in sent] == [chosen[key] for key in keys]
