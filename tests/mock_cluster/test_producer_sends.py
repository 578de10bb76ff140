"""Every kind of record that ``send()`` takes, in order, read back by a client that is not ours."""

from __future__ import annotations

import asyncio
import importlib
import time
from array import array
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from enum import StrEnum
from random import Random
from typing import Any

import pytest

from aioproducer import (
    OffsetRange,
    Producer,
    ProducerRecord,
    RecordMetadata,
    SendReport,
    SerializationError,
    TopicPartition,
)
from aioproducer.errors import InvalidPartitionError
from aioproducer.testing.mock_cluster import ALL_BROKERS, DISCONNECT, MockCluster
from tests.support.inside import accumulator_of
from tests.support.read_back import read_first, values

PATIENCE = 60.0
PRODUCE, TOPIC_AUTHORIZATION_FAILED = 0, 29


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, topics={"orders": 3}) as cluster:
        yield cluster


async def test_the_first_program_of_the_readme(orders: MockCluster) -> None:
    began = time.time_ns() // 1_000_000
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        metadata = await producer.send(
            "orders", b"value", key=b"customer-7", headers={"trace": b"1"}
        )
    said = metadata.timestamp_ms
    assert metadata == RecordMetadata("orders", metadata.partition, 0, said, 10, 5)
    assert metadata.topic_partition == TopicPartition("orders", metadata.partition)
    (read,) = read_first(orders, "orders", 1, metadata.partition)
    assert read[1:5] == (0, b"customer-7", b"value", [("trace", b"1")])
    assert began <= read.timestamp_ms == said <= time.time_ns() // 1_000_000


async def test_the_first_record_needs_one_broker_beside_the_bootstrap_server() -> None:
    with MockCluster(brokers=3, topics={"orders": 1}) as cluster:
        for _ in range(6):  # another broker for the producer id would be one by chance
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send("orders", b"value")
                assert producer.metrics()["producer-metrics"]["connection-creation-total"] == 2


@pytest.mark.parametrize(
    ("given", "wire"),
    [
        (b"bytes", b"bytes"),
        ("grüße", "grüße".encode()),
        (bytearray(b"array"), b"array"),
        (memoryview(b"a view")[2:], b"view"),
        (b"", b""),
        ("", b""),
        (None, None),
        (b"x" * 100_000, b"x" * 100_000),
    ],
    ids=["bytes", "str", "bytearray", "memoryview", "empty", "empty str", "None", "large"],
)
async def test_keys_and_values(orders: MockCluster, given: Any, wire: bytes | None) -> None:
    size = -1 if wire is None else len(wire)
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        sent = [
            await producer.send("orders", given, key=b"k", partition=0),
            await producer.send("orders", b"v", key=given, partition=0),
            await producer.send("orders", given, key=given, partition=0),
        ]
    sizes = [(each.serialized_key_size, each.serialized_value_size) for each in sent]
    assert sizes == [(1, size), (size, 1), (size, size)]
    read = read_first(orders, "orders", 3)
    assert [(each.key, each.value) for each in read] == [(b"k", wire), (wire, b"v"), (wire, wire)]


async def test_a_mutable_value_is_copied_at_the_call(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        value = bytearray(b"before")
        waiting = producer.send("orders", value, partition=0)
        value[:] = b"after!"
        await waiting
        again = producer.send("orders", value, partition=0)
        value[:] = b"later!"
        await again
    assert [read.value for read in read_first(orders, "orders", 2)] == [b"before", b"after!"]


@pytest.mark.parametrize(
    ("given", "wire"),
    [
        ({"a": b"1", "b": None, "c": b""}, [("a", b"1"), ("b", None), ("c", b"")]),
        ([("a", b"1"), ("a", b"2"), ("a", b"1")], [("a", b"1"), ("a", b"2"), ("a", b"1")]),
        ((("ключ", b"v"),), [("ключ", b"v")]),
        ([("", b"v")], [("", b"v")]),
        ([("m", memoryview(b"xyz")[1:]), ("n", bytearray(b"n"))], [("m", b"yz"), ("n", b"n")]),
        ({}, None),
        ([], None),
        (None, None),
    ],
    ids=["mapping", "repeated", "unicode", "no name", "bytes-like", "{}", "[]", "None"],
)
async def test_headers(orders: MockCluster, given: Any, wire: Any) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        for _ in range(2):  # by way of the waiting line, and at once
            await producer.send("orders", b"v", partition=0, headers=given)
    assert [read.headers for read in read_first(orders, "orders", 2)] == [wire, wire]


async def test_partition_and_timestamp(orders: MockCluster) -> None:
    moments = [0, 1, 1_700_000_000_000, 946_684_800_000, 2**40]
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        sent = await asyncio.gather(
            *(producer.send("orders", b"v", partition=2, timestamp_ms=each) for each in moments)
        )
    assert [(each.partition, each.offset) for each in sent] == [(2, n) for n in range(5)]
    assert [each.timestamp_ms for each in read_first(orders, "orders", 5, partition=2)] == moments


async def test_a_record_as_the_only_argument(orders: MockCluster) -> None:
    record = ProducerRecord(
        "orders", "v", key="k", partition=1, headers=[("h", None)], timestamp_ms=77
    )
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        for _ in range(2):
            assert (await producer.send(record)).partition == 1
    assert [each[2:] for each in read_first(orders, "orders", 2, partition=1)] == [
        (b"k", b"v", [("h", None)], 77)
    ] * 2


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_compression(orders: MockCluster, codec: Any) -> None:
    values = [b"%d" % number * 30 for number in range(500)]
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, compression_type=codec, linger_ms=50
    ) as producer:
        futures = [producer.send("orders", value, partition=0) for value in values]
        assert [(await future).offset for future in futures] == list(range(500))
        rate = producer.metrics()["producer-metrics"]["compression-rate-avg"]
    assert [read.value for read in read_first(orders, "orders", 500)] == values
    assert rate == 1.0 if codec == "none" else rate < 0.5


async def test_large_batches_are_compressed_off_the_loop_and_stay_in_order(
    orders: MockCluster,
) -> None:
    values = [b"%05d" % number * 200 for number in range(2000)]
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, compression_type="zstd", batch_size=300_000
    ) as producer:
        report = await producer.send_many("orders", values, partition=0)
    assert (report.delivered, report.failed) == (2000, 0)
    assert [read.value for read in read_first(orders, "orders", 2000)] == values


async def test_keys_go_where_every_java_client_puts_them() -> None:
    # Kafka's own UtilsTest: murmur2("21"), ("foobar"), ("a-little-bit-long-string"), …
    hashes = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    with MockCluster(brokers=1, topics={"keyed": 12}) as cluster:
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for key, murmur2 in hashes.items():
                for _ in range(2):
                    sent = await producer.send("keyed", b"v", key=key)
                    assert sent.partition == (murmur2 & 0x7FFF_FFFF) % 12


async def test_many_futures_have_their_own_offsets(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        futures = [producer.send("orders", b"%d" % number) for number in range(10_000)]
        sent = await asyncio.gather(*futures)
    places = {(each.partition, each.offset) for each in sent}
    assert len(places) == 10_000
    for partition in range(3):
        count = sum(each.partition == partition for each in sent)
        values = [read.value for read in read_first(orders, "orders", count, partition)]
        expected = {
            each.offset: b"%d" % number
            for number, each in enumerate(sent)
            if each.partition == partition
        }
        assert values == [expected[offset] for offset in range(count)]


# --- send_many --------------------------------------------------------------------------------


async def test_send_many_reports(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.send("orders", b"before", partition=1)
        report = await producer.send_many(
            "orders", (b"%d" % n for n in range(3000)), partition=1, headers={"h": b"1"}
        )
        assert (report.sent, report.delivered, report.failed) == (3000, 3000, 0)
        assert report.partitions == array("i", [1]) * 3000
        assert report.offsets == array("q", range(1, 3001))
        assert report.failures == {}
        assert report.ranges == {TopicPartition("orders", 1): OffsetRange(1, 3000, 3000)}
        report.raise_for_failures()
    read = read_first(orders, "orders", 3001, partition=1)
    assert [each.value for each in read[1:]] == [b"%d" % n for n in range(3000)]
    assert read[5].headers == [("h", b"1")]


async def test_send_many_takes_what_comes_bit_by_bit(orders: MockCluster) -> None:
    async def numbers() -> AsyncIterator[Any]:
        for number in range(100):
            await asyncio.sleep(0)
            yield ProducerRecord("orders", str(number), partition=number % 3)

    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        report = await producer.send_many("elsewhere", numbers())
    assert report.delivered == 100
    assert {place: spread.count for place, spread in report.ranges.items()} == {
        ("orders", 0): 34,
        ("orders", 1): 33,
        ("orders", 2): 33,
    }


async def test_send_many_counts_what_is_wrong_and_goes_on(orders: MockCluster) -> None:
    values: list[Any] = [
        b"good",
        object(),
        ProducerRecord("orders", b"v", partition=-99),
        "good",
        None,
    ]
    values += [object()] * 20
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.send("orders", b"known")
        report = await producer.send_many("orders", values)
    assert (report.delivered, report.failed, report.sent) == (3, 22, 25)
    assert list(report.failures) == [1, 2, *range(5, 25)]
    assert [type(error) for error in report.failures.values()] == [
        SerializationError,
        InvalidPartitionError,
        *[SerializationError] * 20,
    ]
    for index in range(25):
        assert (report.partitions[index] == -1) == (index in report.failures)
        assert (report.offsets[index] == -1) == (index in report.failures)
    with pytest.raises(SerializationError):
        report.raise_for_failures()


@pytest.mark.parametrize("kind", ["list", "tuple", "generator"])
async def test_records_of_send_many_keep_their_order_whichever_way_they_take(
    orders: MockCluster, kind: str
) -> None:
    values: list[Any] = [
        str(number)
        if number % 97 == 5
        else ProducerRecord("orders", b"%d" % number, key=b"k", partition=0)
        if number % 89 == 7
        else object()
        if number % 83 == 9
        else b"%d" % number
        for number in range(6_000)
    ]
    given = {"list": values, "tuple": tuple(values), "generator": (each for each in values)}
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, batch_size=2_000, buffer_memory=64_000
    ) as producer:
        report = await producer.send_many("orders", given[kind], partition=0)
    wrong = [number for number in range(6_000) if type(values[number]) is object]
    assert list(report.failures) == wrong
    right = [number for number in range(6_000) if type(values[number]) is not object]
    assert [report.offsets[number] for number in right] == list(range(len(right)))
    read = read_first(orders, "orders", len(right))
    assert [each.value for each in read] == [b"%d" % number for number in right]


async def test_each_record_of_a_batch_that_fails_is_a_failure(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.send("orders", b"known", partition=0)
        orders.push_request_errors(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
        report = await producer.send_many("orders", [b"v"] * 100, partition=0)
    assert report.failed == 100
    assert list(report.failures) == list(range(100))
    assert report.offsets == array("q", [-1]) * 100


async def test_send_many_of_nothing(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        assert await producer.send_many("orders", []) == SendReport(0, 0)


async def test_every_record_of_send_many_has_headers_that_can_be_read_only_once(
    orders: MockCluster,
) -> None:
    headers: Any = ((name, bytearray(b"1")) for name in ("trace", "span"))
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        own = ProducerRecord("orders", b"own", partition=0, headers={"own": b"2"})
        report = await producer.send_many("orders", [b"a", own, b"c"], partition=0, headers=headers)
        assert report.delivered == 3
    shared = [("trace", b"1"), ("span", b"1")]
    read = read_first(orders, "orders", 3)
    assert [each.headers for each in read] == [shared, [("own", b"2")], shared]


async def test_headers_of_send_many_that_are_wrong_are_so_for_the_call(orders: MockCluster) -> None:
    wrong: Any = {"trace": 7}
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        with pytest.raises(SerializationError, match="trace"):
            await producer.send_many("orders", [b"v"], headers=wrong)
        assert (await producer.send_many("orders", [b"v"], headers={})).delivered == 1


async def test_an_iterable_that_raises_ends_send_many(orders: MockCluster) -> None:
    def failing() -> Iterator[bytes]:
        yield b"one"
        raise ZeroDivisionError

    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        with pytest.raises(ZeroDivisionError):
            await producer.send_many("orders", failing(), partition=0)
    assert read_first(orders, "orders", 1)[0].value == b"one"


# --- event loops ------------------------------------------------------------------------------


async def use_everything(servers: str) -> None:
    async with Producer(
        bootstrap_servers=servers, buffer_memory=64_000, batch_size=1000, compression_type="lz4"
    ) as producer:
        assert (await producer.send("orders", b"v", partition=0)).offset == 0
        futures = []
        for number in range(2000):
            futures.append(producer.send("orders", b"%d" % number * 20, partition=0))
            await producer.drain()
        await producer.flush(PATIENCE)
        assert [future.result().offset for future in futures] == list(range(1, 2001))
        assert (await producer.send_many("orders", [b"v"] * 500)).delivered == 500
        waiting = producer.send("another", b"v")
    assert waiting.result().offset == 0


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_on_both_event_loops(orders: MockCluster, kind: str) -> None:
    new_loop: Callable[[], asyncio.AbstractEventLoop] = (
        importlib.import_module("uvloop").new_event_loop
        if kind == "uvloop"
        else asyncio.new_event_loop
    )
    work: Coroutine[Any, Any, None] = use_everything(orders.bootstrap_servers)
    with asyncio.Runner(loop_factory=new_loop, debug=True) as runner:
        runner.run(work)


async def test_batch_size_zero_gives_every_record_its_own_batch(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 1)
    async with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, batch_size=0) as producer:
        futures = [producer.send("orders", b"v") for _ in range(20)]
        await producer.flush()
        assert [(await future).offset for future in futures] == list(range(20))
        assert producer.metrics()["producer-metrics"]["batch-size-max"] == 61 + 8


async def test_a_member_of_a_str_enum_is_a_topic(mock_cluster: MockCluster) -> None:
    class Topics(StrEnum):
        ORDERS = "orders"

    async with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        for _ in range(2):
            metadata = await producer.send(Topics.ORDERS, b"v")
            assert type(metadata.topic) is str
            assert metadata.topic == "orders"


METADATA, INIT_PRODUCER_ID = 3, 22


@pytest.fixture
def three_brokers() -> Iterator[MockCluster]:
    with MockCluster(brokers=3, topics={"orders": 3}) as cluster:
        yield cluster


async def test_metadata_wait_memory_wait_and_fast_path(three_brokers: MockCluster) -> None:
    """One stream of records, keyed by partition; keys, headers and sizes choose the way in."""
    random = Random(3)
    three_brokers.set_broker_rtt(ALL_BROKERS, 5)
    ways = set()
    futures: list[asyncio.Future[RecordMetadata]] = []
    sent: list[list[bytes]] = [[], [], []]
    async with Producer(
        bootstrap_servers=three_brokers.bootstrap_servers, buffer_memory=40_000, batch_size=1_000
    ) as producer:
        for number in range(900):
            partition = number % 3
            value = b"%d " % number + bytes(random.choice([0, 1, 300, 2_000]))
            headers = {"h": b"v"} if number % 5 == 0 else None
            futures.append(producer.send("orders", value, partition=partition, headers=headers))
            sent[partition].append(value)
            accumulator = accumulator_of(producer)
            ways.add(
                "metadata"
                if not accumulator._topics
                else "memory"
                if accumulator.pending
                else "fast"
            )
            if accumulator._pending_memory.quota.used > 3_000:
                await producer.drain()
        await producer.flush(PATIENCE)
    assert ways == {"metadata", "memory", "fast"}
    for partition in range(3):
        offsets = [future.result().offset for future in futures[partition::3]]
        assert offsets == list(range(300))
        assert values(three_brokers, "orders", partition) == sent[partition]


async def test_disconnects_lose_nothing_and_change_no_order(three_brokers: MockCluster) -> None:
    """A disconnect takes all five requests in flight with it; they go again as they went."""
    async with Producer(
        bootstrap_servers=three_brokers.bootstrap_servers,
        batch_size=500,
        linger_ms=0,
        retry_backoff_ms=5,
        reconnect_backoff_ms=5,
        reconnect_backoff_max_ms=20,
    ) as producer:
        for partition in range(3):
            await producer.send("orders", b"-", partition=partition)
        for turn in range(5):
            for broker in three_brokers.broker_ids:
                three_brokers.push_broker_request_errors(broker, PRODUCE, *[(DISCONNECT, 0)] * 5)
            for number in range(300):
                producer.send("orders", b"%d-%d" % (turn, number), partition=number % 3)
            await producer.flush(PATIENCE)
    for partition in range(3):
        expected = [
            b"%d-%d" % (turn, number) for turn in range(5) for number in range(partition, 300, 3)
        ]
        assert values(three_brokers, "orders", partition)[1:] == expected


async def test_leaders_that_move_change_no_order(three_brokers: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=three_brokers.bootstrap_servers, retry_backoff_ms=5
    ) as producer:
        for turn in range(20):
            for number in range(50):
                producer.send("orders", b"%d-%d" % (turn, number), partition=0)
            await producer.flush(PATIENCE)
            three_brokers.set_partition_leader("orders", 0, turn % 3 + 1)
    expected = [b"%d-%d" % (turn, number) for turn in range(20) for number in range(50)]
    assert values(three_brokers, "orders", 0) == expected


async def test_a_lone_record_makes_one_request_and_lingering_records_share_one(
    three_brokers: MockCluster,
) -> None:
    def produced() -> int:
        return sum(request.api_key == PRODUCE for request in three_brokers.requests())

    async with Producer(bootstrap_servers=three_brokers.bootstrap_servers) as producer:
        await producer.send("orders", b"v", partition=0)
        three_brokers.start_request_tracking()
        for number in range(5):
            await producer.send("orders", b"v", partition=0)
            assert produced() == number + 1
    async with Producer(
        bootstrap_servers=three_brokers.bootstrap_servers, linger_ms=4_000
    ) as producer:
        await producer.send("orders", b"v", partition=0)
        three_brokers.start_request_tracking()
        futures = []
        for _ in range(20):
            futures.append(producer.send("orders", b"v", partition=0))
            await asyncio.sleep(0.001)
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
        assert produced() == 1
        (request,) = [each for each in three_brokers.requests() if each.api_key == PRODUCE]
        assert request.broker_id == 1
