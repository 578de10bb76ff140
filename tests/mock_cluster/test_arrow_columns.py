"""Arrow columns on the wire: what is read back is what pyarrow says is in them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from aioproducer import Producer, SendReport, sync
from aioproducer.engine.partitioning import murmur2_partition
from aioproducer.errors import (
    InvalidPartitionError,
    InvalidTimestampError,
    MetadataTimeoutError,
    SerializationError,
)
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.read_back import ReadRecord, read_first

pa: Any = pytest.importorskip("pyarrow")

PATIENCE: Final = 60.0
PARTITIONS: Final = 3
NOW: Final = 1_700_000_000_000


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, topics={"orders": PARTITIONS}) as cluster:
        yield cluster


def places(cluster: MockCluster, report: SendReport) -> list[ReadRecord | None]:
    """What is at the places that the report names, by index."""
    logs: dict[int, list[ReadRecord]] = {}
    for partition in range(PARTITIONS):
        offsets = [
            offset
            for offset, at in zip(report.offsets, report.partitions, strict=True)
            if at == partition
        ]
        assert offsets == sorted(offsets)
        if offsets:
            logs[partition] = read_first(cluster, "orders", max(offsets) + 1, partition)
    return [
        None if partition < 0 else logs[partition][offset]
        for partition, offset in zip(report.partitions, report.offsets, strict=True)
    ]


def as_bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


VALUES: Final[list[str | None]] = [
    None if number % 7 == 3 else "" if number % 11 == 5 else f"wert-{number}" * (number % 5)
    for number in range(5_000)
]
KEYS: Final[list[str | None]] = [
    None if number % 5 == 0 else f"schlüssel-{number % 97}" for number in range(5_000)
]


def encoded(column: list[str | None], kind: Any) -> Any:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return pa.array(column if text else [as_bytes(each) for each in column], kind)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
async def test_keys_and_values_of_every_type_with_nulls_slices_and_chunks(
    orders: MockCluster, kind: Any
) -> None:
    whole = pa.table({"value": encoded(VALUES, kind), "key": encoded(KEYS, kind)})
    table = pa.concat_tables([whole.slice(13, 2_001), whole.slice(17, 0), whole.slice(2_500)])
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.send("orders", b"known", partition=0)
        report = await producer.send_many("orders", table)
    assert (report.delivered, report.failed) == (len(table), 0)
    values, keys = table["value"].to_pylist(), table["key"].to_pylist()
    for read, value, key in zip(places(orders, report), values, keys, strict=True):
        assert read is not None
        assert (read.value, read.key) == (as_bytes(value), as_bytes(key))
        if read.key is not None:
            assert read.partition == murmur2_partition(read.key, PARTITIONS)


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_array_of_values(orders: MockCluster, chunked: bool) -> None:
    array = pa.array([as_bytes(value) for value in VALUES], pa.binary()).slice(3)
    values = pa.chunked_array([array, array.slice(0, 0), array.slice(100)]) if chunked else array
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        report = await producer.send_many("orders", values)
        assert (await producer.send_many("orders", array.slice(0, 0))).sent == 0
        nulls = await producer.send_many("orders", pa.nulls(3), partition=2)
    assert [read and read.value for read in places(orders, report)] == values.to_pylist()
    assert list(nulls.partitions) == [2] * 3


async def test_partitions_timestamps_and_headers(orders: MockCluster) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers: list[Any] = [
        [],
        None,
        [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    ] * 400
    batch = pa.record_batch(
        {
            "value": pa.array([b"%d" % number for number in range(1_200)]),
            "key": pa.array([b"k"] * 1_200),
            "partition": pa.array([0, 2, None] * 400, pa.int32()),
            "timestamp": pa.array([NOW + 5, NOW, None] * 400, pa.timestamp("ms", "UTC")),
            "headers": pa.array(headers, kind),
        }
    )
    began = int(time.time() * 1000)
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.send("orders", b"known", partition=0)
        with_headers = await producer.send_many("orders", batch)
        without = await producer.send_many("orders", batch.drop_columns(["headers"]).slice(3))
    by_key = murmur2_partition(b"k", PARTITIONS)
    for first, report in ((0, with_headers), (3, without)):
        assert list(report.partitions) == [0, 2, by_key] * ((1_200 - first) // 3)
        for number, read in enumerate(places(orders, report), first):
            assert read is not None
            assert (read.key, read.value) == (b"k", b"%d" % number)
            stamp = read.timestamp_ms
            assert stamp >= began if number % 3 == 2 else stamp == NOW + 5 * (number % 3 == 0)
            expected = headers[number] if first == 0 else None
            assert (read.headers or []) == [(each["key"], each["value"]) for each in expected or ()]


PAIR: Final = pa.struct([("value", pa.large_binary()), ("key", pa.large_string())])
HEADERS: Final[list[Any]] = [
    None
    if number % 4 == 0
    else [
        {"key": f"kopf-{item}-ü", "value": None if item == 2 else b"%d" % number}
        for item in range(number % 4)
    ]
    for number in range(5_000)
]


@pytest.mark.parametrize("kind", [pa.list_(PAIR), pa.large_list(PAIR)])
async def test_headers_of_slices_and_chunks(orders: MockCluster, kind: Any) -> None:
    whole = pa.table(
        {
            "value": encoded(VALUES, pa.binary()),
            "key": encoded(KEYS, pa.binary()),
            "headers": pa.array(HEADERS, kind),
        }
    )
    table = pa.concat_tables([whole.slice(13, 2_001), whole.slice(17, 0), whole.slice(2_500)])
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.send("orders", b"known", partition=0)
        report = await producer.send_many("orders", table)
    assert (report.delivered, report.failed) == (len(table), 0)
    rows = table.to_pylist()
    for read, row in zip(places(orders, report), rows, strict=True):
        assert read is not None
        assert (read.value, read.key) == (row["value"], row["key"])
        expected = [(each["key"], each["value"]) for each in row["headers"] or ()]
        assert (read.headers or []) == expected


async def test_headers_of_all_rows(orders: MockCluster) -> None:
    batch = pa.record_batch(
        {"value": encoded(VALUES, pa.binary()), "key": encoded(KEYS, pa.binary())}
    )
    headers = [("trace", b"1"), ("trace", None)]
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.send("orders", b"known", partition=0)
        columns = await producer.send_many("orders", batch, headers=headers)
        values = await producer.send_many("orders", batch["value"].to_pylist(), headers=headers)
    for report, keys in ((columns, batch["key"].to_pylist()), (values, [None] * len(batch))):
        assert (report.delivered, report.failed) == (len(batch), 0)
        found = [read and (read.value, read.key, read.headers) for read in places(orders, report)]
        assert found == [
            (value, key, headers)
            for value, key in zip(batch["value"].to_pylist(), keys, strict=True)
        ]


async def test_a_row_with_wrong_headers_fails_alone(orders: MockCluster) -> None:
    names = pa.StringArray.from_buffers(3, *pa.array([b"a", b"\xff", b"c"]).buffers()[1:])
    values = pa.array([b"1", b"2", b"3"])
    pairs = pa.StructArray.from_arrays([names, values], ["key", "value"])
    no_pair = pa.array(
        [None, {"key": "d", "value": b"4"}, {"key": None, "value": b"5"}], pairs.type
    )
    headers = pa.ListArray.from_arrays(
        pa.array(range(7), pa.int32()), pa.concat_arrays([pairs, no_pair])
    )
    batch = pa.record_batch({"value": pa.array([b"x"] * 6), "headers": headers})
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.send("orders", b"known", partition=0)
        report = await producer.send_many("orders", batch, partition=0)
    assert list(report.failures) == [1, 3, 5]
    assert all(isinstance(error, SerializationError) for error in report.failures.values())
    assert [read and read.headers for read in places(orders, report)] == [
        [("a", b"1")],
        None,
        [("c", b"3")],
        None,
        [("d", b"4")],
        None,
    ]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([NOW * 1_000 + 999] * 3, pa.timestamp("us")),
        pa.array([NOW * 1_000_000 + 999_999] * 3, pa.timestamp("ns", "Europe/Berlin")),
        pa.array([NOW // 1_000] * 3, pa.timestamp("s")),
        pa.array([NOW] * 3, pa.int64()),
    ],
    ids=lambda column: str(column.type),
)
async def test_timestamps_of_every_unit(orders: MockCluster, column: Any) -> None:
    batch = pa.record_batch({"value": pa.array([b"a", b"b", b"c"]), "timestamp": column})
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        report = await producer.send_many("orders", batch, partition=0)
    assert [read and read.timestamp_ms for read in places(orders, report)] == [NOW] * 3


async def test_offsets_that_contradict_themselves_in_the_middle(orders: MockCluster) -> None:
    """The rows before are sent, and the report that the error carries has them."""
    offsets = [*range(0, 12_004, 4)]
    offsets[2_501] = 2**30
    buffers = [None, pa.array(offsets, pa.int32()).buffers()[1], pa.py_buffer(b"wert" * 3_000)]
    spoiled = pa.table({"value": pa.Array.from_buffers(pa.binary(), 3_000, buffers)})
    options: dict[str, Any] = {"linger_ms": 300, "batch_size": 900_000}
    async with Producer(bootstrap_servers=orders.bootstrap_servers, **options) as producer:
        await producer.send("orders", b"first", partition=1)
        sending = asyncio.create_task(producer.send_many("orders", [b"v"] * 2_000, partition=1))
        await asyncio.sleep(0)
        with pytest.raises(SerializationError, match="do not fit its data") as raised:
            await producer.send_many("orders", spoiled, partition=1)
        assert (await sending).delivered == 2_000
        report = SendReport.of(raised.value)
        assert report is not None
        assert (report.delivered, report.failed) == (2_500, 0)
        assert report.offsets[:2_500].tolist() == [*range(2_001, 4_501)]
        await producer.flush(PATIENCE)


async def test_what_is_wrong_with_a_row_is_its_own_failure(orders: MockCluster) -> None:
    batch = pa.record_batch(
        {
            "value": pa.array([b"v"] * 100),
            "partition": pa.array([0, 99, -1, 1] * 25, pa.int32()),
            "timestamp": pa.array([NOW] * 7 + [-1] + [NOW] * 92, pa.int64()),
        }
    )
    async with Producer(bootstrap_servers=orders.bootstrap_servers, max_block_ms=300) as producer:
        await producer.send("orders", b"known", partition=2)
        report = await producer.send_many("orders", batch)
    wrong = [number for number in range(100) if number % 4 in (1, 2) or number == 7]
    assert list(report.failures) == wrong
    assert type(report.failures[7]) is InvalidTimestampError
    for number in wrong:
        if number % 4 == 1:
            assert type(report.failures[number]) is MetadataTimeoutError
        elif number != 7 and number % 4 == 2:
            assert type(report.failures[number]) is InvalidPartitionError
    assert [number for number in range(100) if report.partitions[number] < 0] == wrong
    assert sum(read is not None for read in places(orders, report)) == 49


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"key": pa.array([b"k"])}, "needs a column 'value'"),
        ({"value": pa.array([1])}, "'value' is of type int64; .* binary"),
        ({"value": pa.array([b"v"]), "keys": pa.array([b"k"])}, "does not know the column 'keys'"),
        ({"value": pa.array([b"v"]), "partition": pa.array([1])}, "of type int64.* int32"),
        (
            {"value": pa.array([b"v"]), "timestamp": pa.array([1.5])},
            "'timestamp' is of type double",
        ),
        ({"value": pa.array([b"v"]), "headers": pa.array(["h"])}, "'headers' is of type string"),
        ({"value": pa.array(["v"]).dictionary_encode()}, "dictionary.* cast it"),
    ],
)
async def test_columns_that_it_does_not_know(columns: Any, says: str) -> None:
    with MockCluster(brokers=1) as cluster:
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            with pytest.raises(SerializationError, match=says):
                await producer.send_many("orders", pa.table(columns))


async def test_a_column_and_an_argument_that_say_the_same(orders: MockCluster) -> None:
    table = pa.table({"value": pa.array([b"v"]), "partition": pa.array([1], pa.int32())})
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        with pytest.raises(SerializationError, match="rows have a column 'partition': drop it"):
            await producer.send_many("orders", table, partition=1)


async def test_little_memory_and_other_senders(orders: MockCluster) -> None:
    table = pa.table({"value": encoded(VALUES, pa.binary()), "key": encoded(KEYS, pa.binary())})
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, buffer_memory=64_000, batch_size=1_000
    ) as producer:
        many = asyncio.create_task(producer.send_many("orders", table))
        for number in range(200):
            await producer.send("orders", b"other", key=b"%d" % number)
        report = await many
    assert report.delivered == 5_000
    assert [read and read.value for read in places(orders, report)] == table["value"].to_pylist()


async def test_cancelled_it_sends_no_more(orders: MockCluster) -> None:
    table = pa.table({"value": pa.array([bytes(500)] * 50_000)})
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, buffer_memory=200_000
    ) as producer:
        await producer.send("orders", b"known", partition=0)
        many = asyncio.create_task(producer.send_many("orders", table, partition=0))
        while (await producer.send("orders", b"probe", partition=0)).offset < 500:
            pass
        many.cancel()
        with pytest.raises(asyncio.CancelledError):
            await many
        await producer.flush()
        last = await producer.send("orders", b"last", partition=0)
    assert last.offset < 20_000


async def test_serializers_see_bytes(orders: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, value_serializer=lambda value: value[::-1]
    ) as producer:
        report = await producer.send_many("orders", pa.array(["ab", "cd"]))
    assert [read and read.value for read in places(orders, report)] == [b"ba", b"dc"]


def test_the_blocking_shell_takes_them_too(orders: MockCluster) -> None:
    with sync.Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        report = producer.send_many("orders", pa.array(VALUES))
    assert [read and read.value for read in places(orders, report)] == [
        as_bytes(value) for value in VALUES
    ]
