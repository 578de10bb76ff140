"""The producer with aiokafka's interface: records, batches, and their outcomes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiokafka.partitioner import DefaultPartitioner  # type: ignore[import-untyped]
from aiokafka.structs import RecordMetadata, TopicPartition  # type: ignore[import-untyped]

from aioproducer import errors as ours
from aioproducer.compat.aiokafka import AIOKafkaProducer, errors
from aioproducer.observability.otel import AioproducerInstrumentor
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.support.otel import InMemorySdk
from tests.support.read_back import read_topic, values

PRODUCE, METADATA = 0, 3
UNKNOWN_TOPIC, TOO_LARGE, UNAUTHORIZED = 3, 10, 29


def producer_on(cluster: MockCluster, **options: Any) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), **options)


async def test_records_arrive_in_order_with_their_metadata(orders: MockCluster) -> None:
    async with producer_on(orders) as producer:
        futures = [await producer.send("orders", b"%d" % n, partition=n % 2) for n in range(200)]
        assert not futures[-1].done()
        await producer.flush()
        results = [future.result() for future in futures]
        last = await producer.send_and_wait("orders", b"last", b"key", 1, 1_700_000_000_000)
    assert {type(each) for each in results} == {RecordMetadata}
    assert [each.offset for each in results] == [n // 2 for n in range(200)]
    assert [each.partition for each in results] == [n % 2 for n in range(200)]
    assert last.topic_partition == TopicPartition("orders", 1)
    assert (last.offset, last.log_start_offset) == (100, 0)
    for partition in (0, 1):
        expected = [b"%d" % n for n in range(200) if n % 2 == partition]
        assert values(orders, "orders", partition)[:100] == expected


async def test_tasks_that_await_each_record(orders: MockCluster) -> None:
    async with producer_on(orders, acks="all", compression_type="gzip") as producer:

        async def work(worker: int) -> list[int]:
            return [
                (await producer.send_and_wait("orders", b"%d" % worker, b"k")).offset
                for _ in range(20)
            ]

        offsets = await asyncio.gather(*map(work, range(30)))
    assert sorted(offset for each in offsets for offset in each) == list(range(600))
    assert all(each == sorted(each) for each in offsets)


async def test_keys_go_where_aiokafka_puts_them(orders: MockCluster) -> None:
    theirs = DefaultPartitioner()
    async with producer_on(orders) as producer:
        for number in range(100):
            key = b"customer-%d" % number
            made = await producer.send("orders", b"v", key=key)
            assert (await made).partition == theirs(key, [0, 1], [0, 1])


async def test_a_partitioner_chooses(orders: MockCluster) -> None:
    seen: list[Any] = []

    def choose(key: bytes | None, every: list[int], available: list[int]) -> int:
        seen.append((key, every, available))
        return 7 if key == b"WRONG" else 1

    async with producer_on(
        orders, partitioner=choose, key_serializer=lambda key: key and key.upper().encode()
    ) as producer:
        assert (await producer.send_and_wait("orders", b"v", key="a")).partition == 1
        assert (await producer.send_and_wait("orders", b"v")).partition == 1
        assert (await producer.send_and_wait("orders", b"v", key="a", partition=0)).partition == 0
        with pytest.raises(AssertionError, match="not 7"):
            await producer.send("orders", b"v", key="wrong")
    assert seen[:2] == [(b"A", [0, 1], [0, 1]), (None, [0, 1], [0, 1])]


async def test_serializers_headers_and_timestamps(orders: MockCluster) -> None:
    async with producer_on(
        orders,
        key_serializer=lambda key: None if key is None else key.encode(),
        value_serializer=lambda value: None if value is None else json.dumps(value).encode(),
    ) as producer:
        await producer.send_and_wait("orders", {"a": 1}, "key", 0, 1_700_000_000_123)
        headers = [("a", b"1"), ("a", None)]
        await producer.send_and_wait("orders", [1], key="key", partition=0, headers=headers)
        await producer.send_and_wait("orders", None, key="key", partition=0, headers=iter(headers))
    found = read_topic(orders, "orders")
    assert [(each.key, each.value) for each in found] == [
        (b"key", b'{"a": 1}'),
        (b"key", b"[1]"),
        (b"key", None),
    ]
    assert [each.headers for each in found[1:]] == [headers, headers]
    assert found[0].timestamp_ms == 1_700_000_000_123


async def test_bytes_alone_are_sent(orders: MockCluster) -> None:
    async with producer_on(orders) as producer:
        for fields in ({"value": "text"}, {"value": b"", "key": "text"}, {"value": 7}):
            with pytest.raises(TypeError, match="Not supported type") as caught:
                await producer.send("orders", **fields)
            assert isinstance(caught.value, ours.SerializationError)
        with pytest.raises(AssertionError, match="Need at least one"):
            await producer.send("orders")
        wrong: list[Any] = [-1, 2, True, "1"]
        for partition in wrong:
            with pytest.raises(AssertionError, match="Unrecognized partition"):
                await producer.send("orders", b"v", partition=partition)
        for value in (bytearray(b"a"), memoryview(b"a")):
            assert (await producer.send_and_wait("orders", value, partition=0)).partition == 0
    assert values(orders, "orders", 0) == [b"a", b"a"]


async def test_a_fraction_of_a_millisecond_is_cut_off(orders: MockCluster) -> None:
    async with producer_on(orders) as producer:
        await producer.send_and_wait("orders", b"v", partition=0, timestamp_ms=1_700_000_000_123.9)
        for wrong in (float("nan"), float("inf"), -1.5):
            with pytest.raises(errors.InvalidTimestampError):
                await producer.send("orders", b"v", partition=0, timestamp_ms=wrong)
    assert [each.timestamp_ms for each in read_topic(orders, "orders")] == [1_700_000_000_123]


async def test_fields_are_looked_at_before_serializers_are_called(orders: MockCluster) -> None:
    async with producer_on(orders, value_serializer=lambda value: b"v") as producer:
        for call in (producer.send("orders"), producer.send_and_wait("orders", partition=0)):
            with pytest.raises(AssertionError, match="Need at least one"):
                await call
        await producer.send_and_wait("orders", 0, partition=0)
    async with producer_on(orders, value_serializer=lambda value: None) as producer:
        await producer.send_and_wait("orders", "gone", partition=0)
    assert values(orders, "orders", 0) == [b"v", None]


async def test_without_acknowledgement(orders: MockCluster) -> None:
    async with producer_on(orders, acks=0) as producer:
        futures = [await producer.send("orders", b"%d" % n, partition=0) for n in range(5)]
        assert [await future for future in futures] == [None] * 5
        assert await producer.send_and_wait("orders", b"5", partition=0) is None
    assert values(orders, "orders", 0) == [b"%d" % n for n in range(6)]


async def test_without_a_key_all_partitions_are_used(orders: MockCluster) -> None:
    async with producer_on(orders, max_batch_size=1000) as producer:
        futures = [await producer.send("orders", bytes(500)) for _ in range(200)]
        partitions = {(await future).partition for future in futures}
    assert partitions == {0, 1}


async def test_partitions_and_the_cluster(orders: MockCluster) -> None:
    producer = producer_on(orders)
    assert producer.client.cluster.brokers() == set()
    await producer.start()
    assert await producer.partitions_for("orders") == {0, 1}
    client, cluster = producer.client, producer.client.cluster
    assert len(client.hosts) == 2
    assert {broker.nodeId for broker in cluster.brokers()} == {1, 2}
    assert cluster.topics() == {"orders"}
    assert cluster.partitions_for_topic("orders") == {0, 1}
    assert cluster.available_partitions_for_topic("orders") == {0, 1}
    assert cluster.partitions_for_topic("none") is None
    assert cluster.available_partitions_for_topic("none") is None
    leader = cluster.leader_for_partition(TopicPartition("orders", 1))
    assert leader is not None
    broker = cluster.broker_metadata(leader)
    assert broker is not None
    assert broker.port in {port for _, port in client.hosts}
    assert cluster.broker_metadata(77) is None
    assert cluster.leader_for_partition(TopicPartition("orders", 9)) is None
    assert await client.add_topic("payments")
    assert await client.force_metadata_update()
    assert "payments" in cluster.topics()
    assert await client.set_topics(["orders"])
    assert await client.fetch_all_metadata() is cluster
    await client.bootstrap()
    await producer.stop()
    with pytest.raises(errors.ProducerClosed):
        await client.fetch_all_metadata()


async def test_the_cluster_is_known_after_the_start(orders: MockCluster) -> None:
    """Readiness checks look at it before the first record."""
    orders.create_topic("payments", 3)
    async with producer_on(orders) as producer:
        cluster = producer.client.cluster
        assert {broker.nodeId for broker in cluster.brokers()} == {1, 2}
        assert cluster.topics() == {"orders", "payments"}
        assert cluster.partitions_for_topic("payments") == {0, 1, 2}
        assert cluster.available_partitions_for_topic("payments") == {0, 1, 2}
        assert cluster.leader_for_partition(TopicPartition("payments", 2)) in {1, 2}
        assert cluster.leader_for_partition(TopicPartition("payments", 3)) is None
        orders.create_topic("refunds", 1)
        assert await producer.client.force_metadata_update()
        assert "refunds" in cluster.topics()


async def test_the_cluster_is_described_again(orders: MockCluster) -> None:
    async with producer_on(orders, metadata_max_age_ms=50) as producer:
        orders.create_topic("payments", 3)
        async with asyncio.timeout(30):
            cluster = producer.client.cluster
            while not cluster.partitions_for_topic("payments"):  # noqa: ASYNC110 -- no event
                await asyncio.sleep(0.01)


class Counting(AIOKafkaProducer):
    """As tracing wrappers and retries of applications do."""

    sent = 0

    async def send(self, *arguments: Any, **options: Any) -> Any:
        self.sent += 1
        return await super().send(*arguments, **options)


async def test_send_and_wait_sends_by_an_overridden_send(orders: MockCluster) -> None:
    async with Counting(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.send_and_wait("orders", b"v", partition=0)
        await producer.send_and_wait("orders", b"v", b"k")
        assert producer.sent == 2


async def test_send_and_wait_sends_by_a_replaced_send(
    orders: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[Any, ...]] = []

    async def send(*arguments: Any) -> asyncio.Future[Any]:
        called.append(arguments)
        future = asyncio.get_running_loop().create_future()
        future.set_result("mocked")
        return future

    async with producer_on(orders) as producer:
        monkeypatch.setattr(producer, "send", send)
        assert await producer.send_and_wait("orders", b"v", partition=1) == "mocked"
        monkeypatch.undo()
        monkeypatch.setattr(AIOKafkaProducer, "send", send)
        assert await producer.send_and_wait("orders", b"v", partition=1) == "mocked"
        monkeypatch.undo()
    assert [each[-6:] for each in called] == [("orders", b"v", None, 1, None, None)] * 2
    assert values(orders, "orders", 1) == []


async def test_traced_records_have_the_same_results(orders: MockCluster) -> None:
    sdk = InMemorySdk()
    instrumentor = AioproducerInstrumentor()
    instrumentor.instrument(**sdk.providers)
    try:
        async with producer_on(orders) as producer:
            result = await producer.send_and_wait("orders", b"v", partition=1)
            with pytest.raises(errors.MessageSizeTooLargeError):
                await producer.send("orders", bytes(2_000_000))
    finally:
        instrumentor.uninstrument()
    assert type(result) is RecordMetadata
    assert (result.partition, result.offset) == (1, 0)
    assert len(sdk.spans("send orders")) == 2


# --- batches -------------------------------------------------------------------------------


async def test_batches_that_are_filled_by_hand(orders: MockCluster) -> None:
    async with producer_on(orders, max_batch_size=2_000) as producer:
        await producer.send_and_wait("orders", b"before", partition=1)
        batch = producer.create_batch()
        number = 0
        while batch.append(timestamp=5, key=b"k", value=b"%d" % number, headers=[("h", b"1")]):
            number += 1
        assert batch.record_count() == number > 50
        assert 1_900 < batch.size() <= 2_000
        future = await producer.send_batch(batch, "orders", partition=1)
        last = await producer.send("orders", b"after", partition=1)
        result = await future
        assert (result.partition, result.offset, result.topic) == (1, 1, "orders")
        assert (await last).offset == number + 1
    found = read_topic(orders, "orders")
    assert [each.value for each in found][1:-1] == [b"%d" % each for each in range(number)]
    assert {(each.key, each.timestamp_ms) for each in found[1:-1]} == {(b"k", 5)}
    assert [each.headers for each in found[1:-1]] == [[("h", b"1")]] * number


async def test_many_batches_keep_their_order(orders: MockCluster) -> None:
    async with producer_on(orders, max_batch_size=500) as producer:
        futures = []
        for number in range(100):
            batch = producer.create_batch()
            for each in range(3):
                batch.append(timestamp=None, key=None, value=b"%d" % (number * 3 + each))
            futures.append(await producer.send_batch(batch, "orders", partition=0))
        assert [(await future).offset for future in futures] == list(range(0, 300, 3))
    assert values(orders, "orders", 0) == [b"%d" % number for number in range(300)]


async def send_records(producer: AIOKafkaProducer, count: int, partition: int | None) -> Any:
    batch = producer.create_batch()
    for number in range(count):
        assert batch.append(timestamp=None, key=b"%d" % number, value=b"%d" % number)
    return await producer.send_batch(batch, "orders", partition=partition)


async def test_a_batch_without_partition_goes_to_one_as_a_whole(orders: MockCluster) -> None:
    async with producer_on(orders) as producer:
        futures = [await send_records(producer, 20, None) for _ in range(20)]
        found = [await future for future in futures]
    assert {each.partition for each in found} == {0, 1}
    counts = [len(values(orders, "orders", each)) for each in (0, 1)]
    assert sum(counts) == 400
    assert not any(count % 20 for count in counts)


async def test_a_batch_may_be_sent_again(orders: MockCluster) -> None:
    async with producer_on(orders, enable_idempotence=True) as producer:
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"1")
        batch.append(timestamp=None, key=None, value=b"2")
        sent = [await producer.send_batch(batch, "orders", partition=0) for _ in range(3)]
        assert [(await each).offset for each in sent] == [0, 2, 4]
    assert values(orders, "orders", 0) == [b"1", b"2"] * 3


async def test_batches_of_a_transaction(orders: MockCluster) -> None:
    async with producer_on(orders, transactional_id="t") as producer:
        with pytest.raises(errors.IllegalOperation):
            await send_records(producer, 2, 0)
        async with producer.transaction():
            future = await send_records(producer, 5, 0)
            last = await producer.send("orders", b"last", partition=0)
        assert (await future).offset == 0
        assert (await last).offset == 5


@pytest.mark.parametrize("acks", [0, 1])
async def test_a_batch_that_is_too_large_for_the_broker_is_split(
    orders: MockCluster, acks: int
) -> None:
    async with producer_on(orders, acks=acks) as producer:
        await producer.partitions_for("orders")
        if acks:
            orders.push_request_errors(PRODUCE, TOO_LARGE)
        future = await send_records(producer, 500, 0)
        last = await producer.send("orders", b"last", partition=0)
        if acks:
            assert ((await future).offset, (await last).offset) == (0, 500)
        else:
            assert (await future) is (await last) is None
    assert values(orders, "orders", 0) == [*(b"%d" % number for number in range(500)), b"last"]


async def test_batches_wait_for_memory_in_their_order(orders: MockCluster) -> None:
    options = {"max_batch_size": 1_000_000, "max_request_size": 1_200_000}
    async with producer_on(orders, **options) as producer:
        await producer.partitions_for("orders")
        orders.set_broker_rtt(ALL_BROKERS, 20)
        futures = []
        for number in range(60):
            batch = producer.create_batch()
            while batch.append(timestamp=None, key=b"%d" % number, value=bytes(100_000)):
                pass
            futures.append(await producer.send_batch(batch, "orders", partition=0))
            await producer.send("orders", b"between", partition=0)
        count = batch.record_count()
        assert [(await each).offset for each in futures] == [n * (count + 1) for n in range(60)]


async def test_an_empty_batch_sends_nothing(orders: MockCluster) -> None:
    async with producer_on(orders) as producer:
        assert (
            await (await producer.send_batch(producer.create_batch(), "orders", partition=0))
            is None
        )
        with pytest.raises(AssertionError, match="Unrecognized partition"):
            await producer.send_batch(producer.create_batch(), "orders", partition=5)
    assert values(orders, "orders", 0) == []


async def test_a_batch_with_a_record_that_is_too_large_is_not_sent_at_all(
    orders: MockCluster,
) -> None:
    async with producer_on(orders, max_request_size=1_000, max_batch_size=5_000) as producer:
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"small")
        batch.append(timestamp=None, key=None, value=bytes(2_000))
        with pytest.raises(errors.MessageSizeTooLargeError, match="max_request_size"):
            await producer.send_batch(batch, "orders", partition=0)
    assert values(orders, "orders", 0) == []


async def test_a_batch_that_is_refused(orders: MockCluster) -> None:
    async with producer_on(orders) as producer:
        await producer.partitions_for("orders")
        orders.push_request_errors(PRODUCE, UNAUTHORIZED)
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"1")
        batch.append(timestamp=None, key=None, value=b"2")
        future = await producer.send_batch(batch, "orders", partition=0)
        with pytest.raises(errors.TopicAuthorizationFailedError):
            await future


async def test_cancelling_the_future_of_a_batch_sends_it_all_the_same(orders: MockCluster) -> None:
    async with producer_on(orders) as producer:
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"1")
        (await producer.send_batch(batch, "orders", partition=0)).cancel()
    assert values(orders, "orders", 0) == [b"1"]


async def test_slow_brokers_hold_no_order_up(orders: MockCluster) -> None:
    """Without idempotence a retry never changes the order."""
    async with producer_on(orders, max_batch_size=200) as producer:
        await producer.send_and_wait("orders", b"first", partition=0)
        orders.set_broker_rtt(ALL_BROKERS, 20)
        orders.push_request_errors(PRODUCE, 6, 0, 6, 6, 0, 6)  # NOT_LEADER_OR_FOLLOWER
        futures = [await producer.send("orders", b"%d" % n * 40, partition=0) for n in range(60)]
        assert [(await future).offset for future in futures] == list(range(1, 61))
    assert values(orders, "orders", 0)[1:] == [b"%d" % n * 40 for n in range(60)]
