"""What goes wrong between ``send()`` and the log: errors, silence; retried, or told."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from aioproducer import (
    BufferExhaustedError,
    DeliveryTimeoutError,
    KafkaError,
    Producer,
    ProducerError,
    RecordMetadata,
    RecordTooLargeError,
    errors,
    sync,
)
from aioproducer.testing.mock_cluster import ALL_BROKERS, DISCONNECT, MockCluster
from tests.support.inside import accumulator_of
from tests.support.waiting import until

PRODUCE, METADATA, INIT_PRODUCER_ID = 0, 3, 22
PATIENCE = 60.0


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=3, topics={"orders": 3}) as cluster:
        yield cluster


def produced(cluster: MockCluster) -> list[tuple[int, float]]:
    """Broker and time of each produce request that was tracked."""
    return [(each.broker_id, each.timestamp) for each in cluster.requests() if not each.api_key]


async def tracked(cluster: MockCluster, **options: Any) -> Producer:
    """A producer that knows the topic and has its identity; its requests are tracked from here."""
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, **options)
    await producer.start()
    first = [producer.send("orders", b"first", partition=partition) for partition in range(3)]
    await producer.flush(PATIENCE)
    assert all(future.result().offset == 0 for future in first)
    cluster.start_request_tracking()
    return producer


FATAL = [
    (29, "TopicAuthorizationFailedError", PermissionError, "TOPIC_AUTHORIZATION_FAILED.*WRITE"),
    (87, "InvalidRecordError", KafkaError, "INVALID_RECORD.*keys"),
    (10, "MessageTooLargeError", ValueError, "MESSAGE_TOO_LARGE.*max.message.bytes"),
    (18, "RecordListTooLargeError", ValueError, "RECORD_LIST_TOO_LARGE"),
    (17, "InvalidTopicError", ValueError, "INVALID_TOPIC"),
    (21, "InvalidRequiredAcksError", KafkaError, "INVALID_REQUIRED_ACKS"),
    (31, "ClusterAuthorizationFailedError", KafkaError, "CLUSTER_AUTHORIZATION_FAILED"),
    (32, "InvalidTimestampError", ValueError, "INVALID_TIMESTAMP"),
    (43, "UnsupportedForMessageFormatError", KafkaError, "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
    (44, "PolicyViolationError", KafkaError, "POLICY_VIOLATION"),
    (76, "UnsupportedCompressionTypeError", KafkaError, "UNSUPPORTED_COMPRESSION_TYPE"),
    (-1, "UnknownServerError", KafkaError, "UNKNOWN_SERVER_ERROR"),
]


@pytest.mark.parametrize(("code", "name", "also", "match"), FATAL, ids=[row[1] for row in FATAL])
async def test_a_fatal_error_is_in_the_future(
    orders: MockCluster, code: int, name: str, also: type[Exception], match: str
) -> None:
    producer = await tracked(orders)
    orders.push_request_errors(PRODUCE, code)
    with pytest.raises(ProducerError, match=match) as raised:
        await producer.send("orders", b"v", partition=1)
    error = raised.value
    assert type(error) is getattr(errors, name)
    assert isinstance(error, KafkaError)
    assert (error.code, error.retriable) == (code, False)
    assert "orders-1" in str(error)
    assert "broker 2" in str(error)
    if also is not PermissionError:
        assert isinstance(error, also)
    assert len(produced(orders)) == 1
    # and the producer goes on
    assert (await producer.send("orders", b"v", partition=1)).offset == 1
    await producer.close()


async def test_a_record_too_large_for_the_broker_is_a_record_too_large_error(
    orders: MockCluster,
) -> None:
    producer = await tracked(orders)
    orders.push_request_errors(PRODUCE, 10)
    with pytest.raises(RecordTooLargeError):
        await producer.send("orders", b"v", partition=0)
    await producer.close()


RETRIABLE = {
    "CORRUPT_MESSAGE": 2,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "LEADER_NOT_AVAILABLE": 5,
    "REQUEST_TIMED_OUT": 7,
    "NETWORK_EXCEPTION": 13,
    "NOT_ENOUGH_REPLICAS": 19,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20,
    "KAFKA_STORAGE_ERROR": 56,
    "disconnect": DISCONNECT,
}


@pytest.mark.parametrize("code", RETRIABLE.values(), ids=RETRIABLE)
async def test_an_error_that_may_pass_is_retried(orders: MockCluster, code: int) -> None:
    producer = await tracked(orders, retry_backoff_ms=5, reconnect_backoff_ms=5)
    orders.push_request_errors(PRODUCE, code, code)
    assert (await producer.send("orders", b"v", partition=0)).offset == 1
    assert len(produced(orders)) == 3
    metrics = producer.metrics()
    assert metrics["producer-metrics"]["record-retry-total"] == 2.0
    assert metrics["producer-topic-metrics"]["orders"]["record-retry-total"] == 2.0
    assert metrics["producer-metrics"]["record-error-total"] == 0.0
    await producer.close()


async def test_the_number_of_retries_is_bounded(orders: MockCluster) -> None:
    producer = await tracked(orders, retries=2, retry_backoff_ms=1)
    orders.push_request_errors(PRODUCE, *[19] * 10)
    with pytest.raises(errors.NotEnoughReplicasError, match="orders-0"):
        await producer.send("orders", b"v", partition=0)
    assert len(produced(orders)) == 3
    orders.clear_request_errors(PRODUCE)
    assert (await producer.send("orders", b"v", partition=0)).offset == 1
    await producer.close()


async def test_no_retries_without_idempotence(orders: MockCluster) -> None:
    producer = await tracked(orders, retries=0, enable_idempotence=False)
    orders.push_request_errors(PRODUCE, DISCONNECT)
    with pytest.raises(errors.BrokerConnectionError, match=r"broker 1 .*closed the connection"):
        await producer.send("orders", b"v", partition=0)
    assert len(produced(orders)) == 1
    await producer.close()


async def test_the_delivery_timeout_names_the_last_error(orders: MockCluster) -> None:
    producer = await tracked(
        orders,
        request_timeout_ms=1_000,
        delivery_timeout_ms=2_000,
        retry_backoff_ms=30_000,  # so its time is over while it waits for the next attempt
        retry_backoff_max_ms=30_000,
    )
    orders.push_request_errors(PRODUCE, *[19] * 100)
    future = producer.send("orders", b"v", partition=0)
    with pytest.raises(DeliveryTimeoutError, match=r"orders-0.*delivery_timeout_ms") as raised:
        await asyncio.wait_for(asyncio.shield(future), PATIENCE)
    assert isinstance(raised.value, TimeoutError)
    assert "NOT_ENOUGH_REPLICAS" in str(raised.value)
    await producer.close()


async def test_the_delivery_timeout_when_the_broker_is_down(orders: MockCluster) -> None:
    producer = await tracked(orders, request_timeout_ms=1_000, delivery_timeout_ms=2_000)
    orders.set_broker_down(2)
    dead = producer.send("orders", b"v", partition=1)
    with pytest.raises(DeliveryTimeoutError, match="orders-1"):
        await asyncio.wait_for(asyncio.shield(dead), PATIENCE)
    # the others were never touched, and the partition works again when its broker does
    assert (await producer.send("orders", b"v", partition=0)).offset == 1
    orders.set_broker_up(2)
    for _ in range(20):
        try:
            sent = await producer.send("orders", b"v", partition=1)
            break
        except DeliveryTimeoutError:
            continue
    assert sent.partition == 1
    await producer.close()


async def test_a_request_timeout_closes_the_connection_and_retries(
    orders: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aioproducer")
    producer = await tracked(
        orders, request_timeout_ms=2_000, delivery_timeout_ms=60_000, retry_backoff_ms=5
    )
    orders.push_broker_request_errors(1, PRODUCE, (0, 30_000))
    sent = await producer.send("orders", b"v", partition=0)
    assert sent.offset in (1, 2)  # the mock does not check sequence numbers
    assert len(produced(orders)) == 2
    assert "did not answer a PRODUCE" in caplog.text
    assert "request_timeout_ms" in caplog.text
    await producer.close()


async def test_a_leader_that_moved_is_found_by_metadata(orders: MockCluster) -> None:
    orders.set_api_version(PRODUCE, 0, 9)  # no hints
    producer = await tracked(orders, retry_backoff_ms=10)
    orders.set_partition_leader("orders", 0, 3)
    assert (await producer.send("orders", b"v", partition=0)).offset == 1
    asked = [broker for broker, _ in produced(orders)]
    assert (asked[0], asked[-1]) == (1, 3)
    assert any(request.api_key == METADATA for request in orders.requests())
    await producer.close()


async def test_a_broker_too_old_says_so(orders: MockCluster) -> None:
    orders.set_api_version(PRODUCE, 0, 6)
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        with pytest.raises(errors.UnsupportedVersionError, match="PRODUCE versions 0 to 6"):
            await asyncio.wait_for(producer.send("orders", b"v"), PATIENCE)


# --- the producer's identity ------------------------------------------------------------------


async def test_without_idempotence_no_identity_is_asked_for(orders: MockCluster) -> None:
    producer = await tracked(orders, enable_idempotence=False)
    orders.start_request_tracking()
    await producer.send("orders", b"v")
    await producer.close()
    assert not [each for each in orders.requests() if each.api_key == INIT_PRODUCER_ID]


# --- fire and forget --------------------------------------------------------------------------


async def test_failures_that_nobody_looks_at_make_one_line_per_batch(
    orders: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    producer = await tracked(orders, linger_ms=10_000, delivery_timeout_ms=60_000)
    orders.push_request_errors(PRODUCE, 87)
    for number in range(500):
        producer.send("orders", b"%d" % number, partition=0)
    await producer.flush(PATIENCE)
    gc.collect()
    await asyncio.sleep(0)
    lines = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert len(lines) == 1
    assert "500 records" in lines[0].getMessage()
    assert "orders-0" in lines[0].getMessage()
    assert complaints == []
    assert producer.metrics()["producer-topic-metrics"]["orders"]["record-error-total"] == 500.0
    await producer.close()


async def test_expired_and_refused_records_that_nobody_looks_at(
    orders: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    producer = await tracked(
        orders, max_block_ms=2_000, request_timeout_ms=1_000, delivery_timeout_ms=3_000
    )
    orders.set_broker_down(ALL_BROKERS)
    for _ in range(100):
        producer.send("orders", b"v", partition=0)
        producer.send("not-known-yet", b"v")
    await producer.flush(PATIENCE)
    producer.send("orders", b"v", partition=0)
    await producer.close(0)
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
    failed = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
    without_topic = [each for each in failed if "for not-known-yet failed" in each]
    assert 1 <= len(without_topic) <= 3  # they need not all be over at once
    batch, close = (each for each in failed if each not in without_topic)
    assert "A batch of 100 records" in batch
    assert "closed with 1 record" in close


async def test_a_broker_that_misses_a_number_where_there_is_none_fails_the_record_alone(
    orders: MockCluster,
) -> None:
    producer = await tracked(orders, acks=1, enable_idempotence=False)
    orders.push_request_errors(PRODUCE, 45)
    with pytest.raises(errors.OutOfOrderSequenceNumberError):
        await producer.send("orders", b"first", partition=0)
    await producer.send("orders", b"second", partition=0)
    await producer.close()


VALUE = bytes(200)
MEMORY = 400_000
RECORDS = 5_000
"""Several times as many as the memory has place for."""
FOREVER_MS = 3_600_000

ALIVE = 0
"""The partition of the broker that answers."""


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=3, topics={"orders": 3}) as cluster:
        yield cluster


def silence(cluster: MockCluster, brokers: int) -> list[int]:
    """Let so many brokers answer nothing; the partitions that they lead."""
    silent = list(range(3 - brokers, 3))
    for partition in silent:
        cluster.set_broker_rtt(partition + 1, FOREVER_MS)
    return silent


@asynccontextmanager
async def producing(cluster: MockCluster, memory: int = MEMORY) -> AsyncIterator[Producer]:
    producer = Producer(
        bootstrap_servers=cluster.bootstrap_servers, buffer_memory=memory, batch_size=4_000
    )
    await producer.start()
    await asyncio.gather(*(producer.send("orders", b"first", partition=p) for p in range(3)))
    yield producer
    await producer.close(0)


async def send(producer: Producer, partition: int, count: int) -> None:
    """Without ``drain()``, with some futures awaited."""
    for _ in range(count // 50):
        futures = [producer.send("orders", VALUE, partition=partition) for _ in range(50)]
        await asyncio.gather(*futures)


async def send_and_drain(producer: Producer, partition: int, count: int) -> None:
    futures = []
    for _ in range(count):
        futures.append(producer.send("orders", VALUE, partition=partition))
        await producer.drain()
    await asyncio.gather(*futures)


async def send_many(producer: Producer, partition: int, count: int) -> None:
    for _ in range(count // 200):
        report = await producer.send_many("orders", [VALUE] * 200, partition=partition)
        report.raise_for_failures()


async def never_ending(producer: Producer, way: Any, partition: int) -> None:
    while True:
        with suppress(BufferExhaustedError):
            await way(producer, partition, RECORDS)
        await asyncio.sleep(0.001)


async def flood(producer: Producer, partition: int) -> None:
    """Send without waiting for anything, until nothing more is taken; and go on."""
    while True:
        with suppress(BufferExhaustedError):
            while True:
                producer.send("orders", VALUE, partition=partition)
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("brokers", [1, 2])
@pytest.mark.parametrize("way", [send, send_and_drain, send_many])
async def test_the_healthy_ones_go_on(cluster: MockCluster, way: Any, brokers: int) -> None:
    async with producing(cluster) as producer:
        silent = silence(cluster, brokers)
        stuck = [asyncio.create_task(flood(producer, partition)) for partition in silent]
        stuck += [asyncio.create_task(never_ending(producer, way, part)) for part in silent]
        await until(lambda: accumulator_of(producer).waiters.is_full)
        async with asyncio.timeout(PATIENCE):
            await way(producer, ALIVE, RECORDS)
        for task in stuck:
            assert not task.done()
            task.cancel()
        await asyncio.wait(stuck)


async def test_threads_with_records_for_healthy_brokers_go_on(cluster: MockCluster) -> None:
    producer = sync.Producer(
        bootstrap_servers=cluster.bootstrap_servers, buffer_memory=MEMORY, batch_size=4_000
    )
    producer.start()
    for partition in range(3):
        producer.send("orders", b"first", partition=partition).result(PATIENCE)
    silent = silence(cluster, 2)
    stopped = threading.Event()

    def write(partition: int) -> None:
        with suppress(ProducerError):
            while not stopped.is_set():
                producer.send("orders", VALUE, partition=partition)

    threads = [threading.Thread(target=write, args=[partition]) for partition in silent]
    for thread in threads:
        thread.start()
    await until(lambda: all(map(producer._thread._inbox.stalled, threads)))
    futures: list[Future[RecordMetadata]] = [
        producer.send("orders", VALUE, partition=ALIVE) for _ in range(RECORDS)
    ]
    for future in futures:
        assert future.result(PATIENCE).partition == ALIVE
    stopped.set()
    producer.close(0)
    for thread in threads:
        thread.join(PATIENCE)


async def test_a_single_caller_waits_for_a_stuck_broker_and_loses_nothing(
    cluster: MockCluster,
) -> None:
    """Its records go everywhere, so it stops where memory ends, and goes on with the broker."""
    async with producing(cluster, MEMORY // 4) as producer:
        cluster.set_broker_rtt(3, 1_500)
        futures = []
        async with asyncio.timeout(PATIENCE):
            for number in range(RECORDS // 3):
                futures.append(producer.send("orders", VALUE, partition=number % 3))
                await producer.drain()
            cluster.set_broker_rtt(3, 0)
            await asyncio.gather(*futures)
