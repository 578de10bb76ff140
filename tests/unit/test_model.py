from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable, Collection
from typing import Any

import pytest

from aioproducer.auth.tls import server_name
from aioproducer.config.proxy_url import Proxy
from aioproducer.engine.client.requests import ClusterDescription, DescribeRequest
from aioproducer.engine.network.proxy_handshake import handshake
from aioproducer.engine.protocol import Api, response_schema
from aioproducer.engine.sender.produce import read_produce_response
from aioproducer.engine.transactions.requests import FindCoordinator, group_coordinator
from aioproducer.errors import (
    BrokerConnectionError,
    ProducerError,
    ProtocolError,
    SslAuthenticationError,
)
from aioproducer.model import (
    BootstrapId,
    BootstrapServer,
    Node,
    Peer,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
)
from tests.support.responses import at_once, read_to_its_end, unread


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


# --- hosts that no broker can have -----------------------------------------------------------


def in_metadata(host: str) -> Collection[int]:
    message = _schema(Api.METADATA)
    brokers = tuple(message.MetadataResponseBroker(*each) for each in _nodes(host))
    response = message.MetadataResponse(brokers=brokers)
    return read_to_its_end(unread(13, _wire(Api.METADATA, response, 13)), ()).brokers


def in_a_description(host: str) -> Collection[int]:
    message = _schema(Api.METADATA)
    brokers = tuple(message.MetadataResponseBroker(*each) for each in _nodes(host))
    response = message.MetadataResponse(brokers=brokers)
    description: ClusterDescription = at_once(
        DescribeRequest(()).read(unread(13, _wire(Api.METADATA, response, 13)))
    )
    return description.brokers


def in_a_produce_response(host: str) -> Collection[int]:
    message = _schema(Api.PRODUCE)
    endpoints = tuple(message.NodeEndpoint(*each) for each in _nodes(host))
    return read_produce_response(message.ProduceResponse(node_endpoints=endpoints), {}, {}).nodes


def as_a_coordinator(host: str) -> Collection[int]:
    message = _schema(Api.FIND_COORDINATOR)
    found = message.Coordinator(key="readers", node_id=2, host=host, port=9092)
    return [_coordinator(message.FindCoordinatorResponse(coordinators=(found,)))]


def as_the_only_coordinator(host: str) -> Collection[int]:
    message = _schema(Api.FIND_COORDINATOR)
    response = message.FindCoordinatorResponse(node_id=2, host=host, port=9092, coordinators=None)
    return [_coordinator(response)]


def behind_a_proxy(scheme: str) -> Callable[[str], Collection[int]]:
    def ask(host: str) -> Collection[int]:
        next(handshake(Proxy(scheme, "proxy", 1, None), host, 9092))
        return [2]

    return ask


def in_tls(host: str) -> Collection[int]:
    return [2] if server_name(host) else []


def _schema(api: Api) -> Any:
    return response_schema(api)


def _wire(api: Api, response: Any, version: int) -> bytes:
    return bytes(5) + response_schema(api).encode(response, version)


def _nodes(host: str) -> list[tuple[int, str, int, None]]:
    return [(1, "kafka.example", 9092, None), (2, host, 9092, None)]


def _coordinator(response: Any) -> int:
    node = FindCoordinator(group_coordinator("readers")).read(response).node
    assert node is not None
    return node.id


PLACES = [
    in_metadata,
    in_a_description,
    in_a_produce_response,
    as_a_coordinator,
    as_the_only_coordinator,
    behind_a_proxy("socks5h"),
    behind_a_proxy("http"),
    in_tls,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda each: each.__qualname__)
@pytest.mark.parametrize(
    "host", ["", ".", "..", "%x", ".%eth0", "-", "a\nb", "a\x1b[2J", "a\u202eb"]
)
def test_a_host_that_no_broker_can_have_is_refused_wherever_it_is_told(
    place: Callable[[str], Collection[int]], host: str
) -> None:
    """A name of which nothing is left for TLS would not be verified: asyncio takes it for none."""
    assert 2 in place("b.example"), "else this test finds nothing"
    refusal: ProducerError | None = None
    told: Collection[int] = (1,)
    try:
        told = place(host)
    except (ProtocolError, BrokerConnectionError, SslAuthenticationError) as error:
        refusal = error
    assert refusal is None or str(refusal).isprintable()
    assert 1 in told
    assert 2 not in told
