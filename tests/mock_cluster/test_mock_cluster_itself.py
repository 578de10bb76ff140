"""What the mock cluster, or a proxy before it, is told is what other clients then see."""

from __future__ import annotations

import importlib
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.errors import MessageSizeTooLargeError  # type: ignore[import-untyped]
from kio.schema.metadata.v7.response import MetadataResponse
from kio.serial import entity_reader

from aioproducer import ConfigError, Producer
from aioproducer.consumer import Consumer
from aioproducer.reader import Reader
from aioproducer.testing.fault_proxy import END, ApiKey, Cut, FaultProxies, Rule, Way
from aioproducer.testing.mock_cluster import (
    ALL_BROKERS,
    DISCONNECT,
    NO_LEADER,
    MockCluster,
    MockClusterArgumentError,
)
from tests.support.read_back import read_first

PRODUCE, METADATA, FIND_COORDINATOR, API_VERSIONS, INIT_PRODUCER_ID = 0, 3, 10, 18, 22
TELEMETRY = {71, 72}
UNKNOWN_TOPIC, NOT_LEADER, TIMED_OUT, TOO_LARGE, NOT_AUTHORIZED = 3, 6, 7, 10, 29
PATIENCE = 20.0


def confluent(kind: str, cluster: MockCluster, **options: str | int | bool) -> Any:
    """A client of confluent-kafka, which is imported late: without it these tests are skipped."""
    config = {"bootstrap.servers": cluster.bootstrap_servers} | {
        key.replace("_", "."): value for key, value in options.items()
    }
    return getattr(importlib.import_module("confluent_kafka"), kind)(config)


def produce(
    cluster: MockCluster,
    topic: str,
    *values: bytes,
    partition: int = 0,
    **options: str | int | bool,
) -> list[int]:
    """Produce with librdkafka, one record per request; the error code of each, 0 for none."""
    codes: list[int] = []
    producer = confluent("Producer", cluster, linger_ms=0, **options)
    for value in values:
        producer.produce(
            topic,
            value,
            partition=partition,
            on_delivery=lambda error, _: codes.append(error.code() if error else 0),
        )
        assert producer.flush(PATIENCE) == 0
    return codes


def consume(cluster: MockCluster, topic: str, count: int, partition: int = 0) -> list[bytes | None]:
    return [each.value for each in read_first(cluster, topic, count, partition)]


def metadata(cluster: MockCluster, topic: str | None = None) -> Any:
    return confluent("Producer", cluster).list_topics(topic, timeout=PATIENCE)


def leader(cluster: MockCluster, topic: str, partition: int) -> int:
    return int(metadata(cluster, topic).topics[topic].partitions[partition].leader)


def brokers_asked(cluster: MockCluster, api_key: int) -> list[int]:
    return [request.broker_id for request in cluster.requests() if request.api_key == api_key]


def test_confluent_kafka_writes_and_reads() -> None:
    with MockCluster(brokers=3, topics={"orders": 12}) as cluster:
        assert produce(cluster, "orders", b"one", b"two", partition=11) == [0, 0]
        assert consume(cluster, "orders", 2, partition=11) == [b"one", b"two"]
        assert len(metadata(cluster).topics["orders"].partitions) == 12


async def test_aiokafka_writes_and_two_clients_read() -> None:
    async with MockCluster(brokers=3, topics={"orders": 12}) as cluster:
        servers = cluster.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            for value in (b"one", b"two"):
                await producer.send_and_wait("orders", value, partition=5)
        async with AIOKafkaConsumer(
            bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None
        ) as consumer:
            consumer.assign([TopicPartition("orders", 5)])
            assert [(await consumer.getone()).value for _ in range(2)] == [b"one", b"two"]
        assert consume(cluster, "orders", 2, partition=5) == [b"one", b"two"]


def test_a_consumer_group_without_rebalance_delay(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders")
    mock_cluster.set_group_initial_rebalance_delay(0)
    produce(mock_cluster, "orders", b"one")
    consumer = confluent("Consumer", mock_cluster, group_id="readers", auto_offset_reset="earliest")
    consumer.subscribe(["orders"])
    message = consumer.poll(PATIENCE)
    consumer.close()
    assert message is not None
    assert message.value() == b"one"


def test_without_replication_the_leaders_go_round(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", partitions=6)
    partitions = metadata(mock_cluster).topics["orders"].partitions
    assert [partitions[p].leader for p in range(6)] == [1, 2, 3, 1, 2, 3]
    mock_cluster.create_topic("copied", partitions=1, replication_factor=3)
    assert metadata(mock_cluster).topics["copied"].partitions[0].replicas == [1, 2, 3]


@pytest.mark.parametrize("one_by_one", [True, False])
def test_thousands_of_topics(mock_cluster: MockCluster, one_by_one: bool) -> None:
    topics = {f"topic-{i:05}": 2 for i in range(2000)}
    started = time.monotonic()
    if one_by_one:
        for name, partitions in topics.items():
            mock_cluster.create_topic(name, partitions)
    else:
        mock_cluster.create_topics(topics)
    assert time.monotonic() - started < PATIENCE  # each lost wake-up would cost a second
    seen = metadata(mock_cluster).topics
    assert {name: len(topic.partitions) for name, topic in seen.items()} == topics


async def test_a_pushed_error_reaches_aiokafka_once(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders")
    mock_cluster.push_request_errors(PRODUCE, TOO_LARGE)
    async with AIOKafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait("orders", b"one")
        assert (await producer.send_and_wait("orders", b"two")).offset == 0


def test_pushed_errors_and_disconnects_come_in_order(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders")
    mock_cluster.push_request_errors(PRODUCE, NOT_LEADER, DISCONNECT, 0, TOO_LARGE)
    mock_cluster.start_request_tracking()
    assert produce(mock_cluster, "orders", b"one", b"two", b"three") == [0, TOO_LARGE, 0]
    assert brokers_asked(mock_cluster, PRODUCE) == [1] * 5
    assert consume(mock_cluster, "orders", 2) == [b"one", b"three"]


def test_cleared_errors_are_not_answered(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders")
    mock_cluster.push_request_errors(PRODUCE, TOO_LARGE)
    mock_cluster.clear_request_errors(PRODUCE)
    assert produce(mock_cluster, "orders", b"one") == [0]


def test_errors_and_delays_of_one_broker(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", partitions=2)
    delays = [(TOO_LARGE, 0), (0, 300), *[(TOO_LARGE, 0)] * 10]
    mock_cluster.push_broker_request_errors(2, PRODUCE, *delays)
    assert produce(mock_cluster, "orders", b"one", partition=0) == [0]
    assert produce(mock_cluster, "orders", b"one", partition=1) == [TOO_LARGE]
    started = time.monotonic()
    assert produce(mock_cluster, "orders", b"two", partition=1) == [0]
    assert time.monotonic() - started >= 0.3
    assert produce(mock_cluster, "orders", *[b"x"] * 11, partition=1) == [*[TOO_LARGE] * 10, 0]


def test_errors_of_one_partition(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", partitions=4)
    mock_cluster.push_partition_request_errors("orders", 3, PRODUCE, *[TOO_LARGE] * 8)
    assert produce(mock_cluster, "orders", b"one", partition=0) == [0]
    assert produce(mock_cluster, "orders", *[b"x"] * 9, partition=3) == [*[TOO_LARGE] * 8, 0]


def test_topic_errors(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders")
    mock_cluster.set_topic_error("orders", NOT_AUTHORIZED)
    error = metadata(mock_cluster, "orders").topics["orders"].error
    assert error is not None
    assert error.code() == NOT_AUTHORIZED
    mock_cluster.set_topic_error("orders", UNKNOWN_TOPIC)
    assert metadata(mock_cluster, "orders").topics["orders"].partitions == {}
    mock_cluster.set_topic_error("orders", 0)
    assert metadata(mock_cluster, "orders").topics["orders"].error is None


def connects(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, PATIENCE).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_broker_goes_down_and_up_on_its_port(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", partitions=2)
    address = mock_cluster.broker_address(2)
    with socket.create_connection(address, PATIENCE) as connection:
        mock_cluster.set_broker_down(2)
        with suppress(ConnectionResetError):  # it was not accepted yet
            assert connection.recv(1) == b""
    assert not connects(address)
    assert set(metadata(mock_cluster).brokers) == {1, 3}
    assert leader(mock_cluster, "orders", 1) == 2
    up = threading.Timer(0.3, mock_cluster.set_broker_up, [2])
    up.start()
    assert produce(mock_cluster, "orders", b"one", partition=1) == [0]
    up.join()
    assert mock_cluster.broker_address(2) == address
    assert consume(mock_cluster, "orders", 1, partition=1) == [b"one"]


def test_all_brokers_go_down_and_up(mock_cluster: MockCluster) -> None:
    addresses = [mock_cluster.broker_address(id_) for id_ in mock_cluster.broker_ids]
    mock_cluster.set_broker_down(ALL_BROKERS)
    mock_cluster.set_broker_down(ALL_BROKERS)
    assert not any(map(connects, addresses))
    for address in addresses:  # nobody else gets its port meanwhile
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
    mock_cluster.set_broker_up(ALL_BROKERS)
    assert all(map(connects, addresses))


def test_the_leader_moves(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders")
    mock_cluster.start_request_tracking()
    assert produce(mock_cluster, "orders", b"one") == [0]
    mock_cluster.set_partition_leader("orders", 0, 3)
    assert leader(mock_cluster, "orders", 0) == 3
    assert produce(mock_cluster, "orders", b"two") == [0]
    assert brokers_asked(mock_cluster, PRODUCE) == [1, 3]
    assert consume(mock_cluster, "orders", 2) == [b"one", b"two"]


async def test_the_leader_moves_away_under_a_producer(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders")
    async with AIOKafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("orders", b"one")
        mock_cluster.start_request_tracking()
        mock_cluster.set_partition_leader("orders", 0, 2)
        assert (await producer.send_and_wait("orders", b"two")).offset == 1
    asked = brokers_asked(mock_cluster, PRODUCE)
    assert (asked[0], asked[-1]) == (1, 2)


def test_no_leader_needs_versions_that_survive_it(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders")
    with pytest.raises(MockClusterArgumentError, match=r"set_api_version\(0, 0, 9\)"):
        mock_cluster.set_partition_leader("orders", 0, NO_LEADER)
    mock_cluster.set_api_version(0, 0, 9)
    mock_cluster.set_api_version(1, 0, 15)
    mock_cluster.set_partition_leader("orders", 0, NO_LEADER)
    assert leader(mock_cluster, "orders", 0) == -1
    assert produce(mock_cluster, "orders", b"one", message_timeout_ms=500) != [0]


def leader_and_epoch(connection: socket.socket, topic: str) -> tuple[int, int]:
    name = topic.encode()
    body = struct.pack(f">ih{len(name)}s?", 1, len(name), name, False)
    connection.sendall(struct.pack(">ihhih", 10 + len(body), METADATA, 7, 0, -1) + body)
    answer, _ = entity_reader(MetadataResponse)(connection.recv(1 << 16), 8)
    (partition,) = answer.topics[0].partitions
    return partition.leader_id, partition.leader_epoch


def test_metadata_names_each_pushed_leader_once(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders")
    mock_cluster.push_leader_response("orders", 0, 2, 7)
    mock_cluster.push_leader_response("orders", 0, NO_LEADER, 8)
    with socket.create_connection(mock_cluster.broker_address(1), PATIENCE) as connection:
        answers = [leader_and_epoch(connection, "orders") for _ in range(3)]
    assert answers == [(2, 7), (-1, 8), (1, 0)]


def test_round_trip_time(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders")
    mock_cluster.set_broker_rtt(ALL_BROKERS, 150)
    started = time.monotonic()
    assert produce(mock_cluster, "orders", b"one") == [0]
    assert time.monotonic() - started >= 0.3  # metadata, then produce


def test_the_advertised_address(mock_cluster: MockCluster) -> None:
    mock_cluster.set_broker_address(2, "localhost", 4711)
    broker = metadata(mock_cluster).brokers[2]
    assert (broker.host, broker.port) == ("localhost", 4711)
    assert mock_cluster.broker_address(2) != ("localhost", 4711)


def test_the_coordinator(mock_cluster: MockCluster) -> None:
    for broker_id in (3, 2):
        mock_cluster.set_coordinator("transaction", "shop-1", broker_id)
        mock_cluster.start_request_tracking()
        producer = confluent("Producer", mock_cluster, transactional_id="shop-1")
        producer.init_transactions(PATIENCE)
        assert brokers_asked(mock_cluster, INIT_PRODUCER_ID) == [broker_id]


def versions_on_the_wire(address: tuple[str, int]) -> dict[int, tuple[int, int]]:
    with socket.create_connection(address, PATIENCE) as connection:
        connection.sendall(struct.pack(">ihhih", 10, API_VERSIONS, 0, 7, -1))
        answer = connection.recv(1 << 16)
    assert struct.unpack(">iih", answer[:10]) == (len(answer) - 4, 7, 0)
    return {key: (first, last) for key, first, last in struct.iter_unpack(">hhh", answer[14:])}


def test_api_versions(mock_cluster: MockCluster) -> None:
    address = mock_cluster.broker_address(1)
    assert mock_cluster.api_versions == versions_on_the_wire(address)
    mock_cluster.set_api_version(PRODUCE, 3, 7)
    mock_cluster.set_api_version(INIT_PRODUCER_ID, -1, -1)
    versions = versions_on_the_wire(address)
    assert versions[PRODUCE] == mock_cluster.api_versions[PRODUCE] == (3, 7)
    assert INIT_PRODUCER_ID not in versions
    assert mock_cluster.api_versions[INIT_PRODUCER_ID] == (-1, -1)


def test_request_tracking(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders")
    assert mock_cluster.requests() == []
    mock_cluster.start_request_tracking()
    started = time.monotonic()
    produce(mock_cluster, "orders", b"one")
    tracked = mock_cluster.requests()
    assert {request.api_key for request in tracked} >= {PRODUCE, METADATA, API_VERSIONS}
    timestamps = [request.timestamp for request in tracked]
    assert timestamps == sorted(timestamps)
    assert started <= timestamps[0] <= timestamps[-1] <= time.monotonic()
    mock_cluster.clear_requests()
    versions_on_the_wire(mock_cluster.broker_address(3))
    # The last requests of librdkafka's producer may come as late as this.
    tracked = [each for each in mock_cluster.requests() if each.api_key not in TELEMETRY]
    assert [request[:2] for request in tracked] == [(3, API_VERSIONS)]
    mock_cluster.stop_request_tracking()
    versions_on_the_wire(mock_cluster.broker_address(3))
    assert mock_cluster.requests() == []


def test_a_topic_that_a_client_created_is_known(mock_cluster: MockCluster) -> None:
    with pytest.raises(MockClusterArgumentError):
        mock_cluster.set_partition_leader("auto", 0, 1)
    assert produce(mock_cluster, "auto", b"one", allow_auto_create_topics=True) == [0]
    mock_cluster.set_partition_leader("auto", 3, 1)
    assert len(metadata(mock_cluster).topics["auto"].partitions) == 4


async def test_metadata_with_a_stray_byte_behind_it_is_read(mock_cluster: MockCluster) -> None:
    """librdkafka's mock ends Metadata from version 9 on with one; other clients read on as well."""
    assert mock_cluster.api_versions[METADATA] == (0, 13)
    for highest in (9, 12, 13):
        mock_cluster.set_api_version(METADATA, 0, highest)
        async with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
            assert (await producer.send(f"topic-{highest}", b"v", partition=0)).offset == 0


async def test_a_consumer_is_told_that_a_mock_cluster_has_no_groups() -> None:
    for protocol in ("classic", "consumer"):
        with MockCluster(1, {"t": 1}) as cluster:
            servers = cluster.bootstrap_servers
            async with Consumer(
                "t", group_id="g", group_protocol=protocol, bootstrap_servers=servers
            ) as consumer:
                with pytest.raises(ConfigError, match=r"mock cluster.*no consumer groups.*Reader"):
                    await anext(aiter(consumer))
            async with Reader("t", end="end", bootstrap_servers=servers) as reader:
                assert [record async for record in reader] == [], "the cluster has survived"


async def test_clients_meet_the_proxies_alone() -> None:
    async with (
        MockCluster(brokers=3, topics={"orders": 3}) as cluster,
        FaultProxies(3) as proxies,
    ):
        proxies.lead_to(cluster)
        for proxy in proxies.values():
            proxy.add(
                Rule(Cut(END), ApiKey.PRODUCE, Way.RESPONSE),
                Rule(Cut(), ApiKey.PRODUCE, Way.REQUEST, after=1),
            )
        async with Producer(
            bootstrap_servers=proxies.bootstrap_servers, retry_backoff_ms=2, reconnect_backoff_ms=2
        ) as producer:
            for number in range(12):
                sent = await producer.send("orders", b"v", partition=number % 3)
                assert (sent.partition, sent.offset) == (number % 3, number // 3)
        assert [proxy.counts[Cut] for proxy in proxies.values()] == [2, 2, 2]
        assert proxies.counts == {Cut: 6}
