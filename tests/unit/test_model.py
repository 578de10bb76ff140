from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from aioproducer.model import (
    BootstrapId,
    BootstrapServer,
    Node,
    Peer,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
)


@pytest.mark.parametrize(
    ("node", "address", "text"),
    [
        (Node(3, "kafka.example", 9092), "kafka.example:9092", "broker 3 (kafka.example:9092)"),
        (Node(0, "10.0.0.1", 1, "r1"), "10.0.0.1:1", "broker 0 (10.0.0.1:1)"),
        (
            BootstrapServer(BootstrapId("-1"), "::1", 9092),
            "[::1]:9092",
            "bootstrap server [::1]:9092",
        ),
        (
            BootstrapServer(BootstrapId("-2"), "fe80::1%eth0", 1),
            "[fe80::1%eth0]:1",
            "bootstrap server [fe80::1%eth0]:1",
        ),
    ],
)
def test_how_a_node_is_written(node: Peer, address: str, text: str) -> None:
    assert (node.address, str(node)) == (address, text)


def test_a_topic_partition_prints_as_kafka_prints_it() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
    assert f"{TopicPartition('a-b', 0)}" == "a-b-0"
    assert {TopicPartition("a", 1)} == {("a", 1)}, "it is its tuple, as key too"


def test_a_record_with_the_types_of_key_and_value_is_a_record() -> None:
    record = ProducerRecord[str, int]("orders", 1, key="a")
    assert record == ProducerRecord("orders", 1, key="a")
    assert pickle.loads(pickle.dumps(record)) == record
    assert not hasattr(record, "__dict__")


def test_record_metadata() -> None:
    metadata = RecordMetadata("orders", 3, 42, 1_700_000_000_000, -1, 5)
    assert metadata.topic_partition == TopicPartition("orders", 3)
    assert metadata._fields == (
        "topic",
        "partition",
        "offset",
        "timestamp_ms",
        "serialized_key_size",
        "serialized_value_size",
    )


def test_a_record_without_a_value_is_refused() -> None:
    with pytest.raises(TypeError, match="value"):
        ProducerRecord("orders", key=b"k")  # type: ignore[call-arg]


def test_a_record_is_immutable_and_all_but_topic_and_value_has_a_default() -> None:
    record: ProducerRecord = ProducerRecord("orders", None)
    assert dataclasses.asdict(record) == {
        "topic": "orders",
        "value": None,
        "key": None,
        "partition": None,
        "headers": None,
        "timestamp_ms": None,
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.topic = "other"  # type: ignore[misc]
    assert dataclasses.replace(record, value=b"x") == ProducerRecord("orders", b"x")


@pytest.mark.parametrize(
    "noun",
    [
        TopicPartition("orders", 3),
        Node(1, "h", 2, "r"),
        ProducerRecord("orders", b"v", b"k", 1, [("h", None)], 5),
        RecordMetadata("orders", 3, 42, 5, -1, 5),
    ],
)
def test_nouns_survive_pickle_and_copy(noun: object) -> None:
    twins = (pickle.loads(pickle.dumps(noun)), copy.copy(noun), copy.deepcopy(noun))
    for twin in twins:
        assert twin == noun
        assert type(twin) is type(noun)
