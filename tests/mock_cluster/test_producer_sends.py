"""Every kind of record that ``send()`` takes, in order, read back by a client that is not ours."""

from __future__ import annotations

import asyncio
import importlib
import time
from array import array
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from enum import StrEnum
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
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.read_back import read_first

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
