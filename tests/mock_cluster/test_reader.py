"""A reader against librdkafka's mock cluster: positions, ends, codecs, leader changes, errors."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.errors import (
    ClientClosedError,
    ConfigError,
    CorruptRecordsError,
    IllegalStateError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader import Reader
from aioproducer.testing.mock_cluster import MockCluster
from tests.support import read_back

FETCH, LIST_OFFSETS = 1, 2
NOT_LEADER, CORRUPT, OUT_OF_RANGE, NOT_AUTHORIZED, UNKNOWN_TOPIC = 6, 2, 1, 29, 3
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS = 2000
MINUTE = 60.0


@pytest.fixture(autouse=True)
async def _bounded() -> AsyncIterator[None]:
    async with asyncio.timeout(MINUTE):
        yield


async def write(cluster: MockCluster, count: int = RECORDS, **options: Any) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, **options) as producer:
        futures = [
            producer.send(
                "orders",
                b"value %d" % number,
                key=b"key %d" % number,
                headers=[("n", b"%d" % number), ("null", None)],
                partition=number % 3,
                timestamp_ms=1_000_000 + number,
            )
            for number in range(count)
        ]
        await asyncio.gather(*futures)


def reader(cluster: MockCluster, assignment: Any = "orders", **options: Any) -> Reader:
    return Reader(
        assignment,
        bootstrap_servers=cluster.bootstrap_servers,
        retry_backoff_ms=10,
        fetch_max_wait_ms=50,
        **options,
    )


async def everything(cluster: MockCluster, **options: Any) -> list[ConsumerRecord]:
    async with reader(cluster, end="end", **options) as reading:
        return [record async for record in reading]


def in_order(records: list[ConsumerRecord]) -> bool:
    """True if the records of each partition have growing offsets."""
    offsets: defaultdict[TopicPartition, list[int]] = defaultdict(list)
    for record in records:
        offsets[record.topic_partition].append(record.offset)
    return all(each == sorted(set(each)) for each in offsets.values())


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 3)
    return mock_cluster


# --- everything ---------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
async def test_all_that_another_client_reads_is_read(cluster: MockCluster, codec: str) -> None:
    await write(cluster, compression_type=codec)
    records = await everything(cluster)
    assert in_order(records)
    expected = {
        (each.partition, each.offset): each for each in read_back.read_topic(cluster, "orders")
    }
    assert len(records) == len(expected) == RECORDS
    for record in records:
        other = expected[record.partition, record.offset]
        assert (record.key, record.value) == (other.key, other.value)
        assert list(record.headers) == other.headers
        assert (record.timestamp_ms, record.timestamp_type) == (other.timestamp_ms, "CreateTime")


async def test_batches_and_arrow_batches_have_the_same_records(cluster: MockCluster) -> None:
    await write(cluster)
    records = await everything(cluster)
    async with reader(cluster, end="end") as reading:
        batches = [batch async for batch in reading.batches()]
    assert sorted(record for batch in batches for record in batch) == sorted(records)
    assert all(batch.topic == "orders" for batch in batches)
    async with reader(cluster, end="end") as reading:
        rows = [row async for batch in reading.arrow_batches() for row in batch.to_pylist()]
    told = sorted((row["partition"], row["offset"], row["key"], row["value"]) for row in rows)
    assert told == sorted((each.partition, each.offset, each.key, each.value) for each in records)


async def test_arrow_batches_can_be_sent_again(cluster: MockCluster) -> None:
    await write(cluster)
    cluster.create_topic("copies", 3)
    async with (
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
        reader(cluster, end="end") as reading,
    ):
        async for batch in reading.arrow_batches():
            report = await producer.send_many("copies", batch)
            assert report.delivered == batch.num_rows
    copies = read_back.read_topic(cluster, "copies")
    originals = read_back.read_topic(cluster, "orders")
    assert [each._replace(offset=0) for each in sorted(copies, key=repr)] == [
        each._replace(offset=0) for each in sorted(originals, key=repr)
    ]


async def test_an_empty_topic_ends_at_once(cluster: MockCluster) -> None:
    assert await everything(cluster) == []


# --- positions ----------------------------------------------------------------------------------


async def test_offsets_bound_what_is_read(cluster: MockCluster) -> None:
    await write(cluster)
    place = TopicPartition("orders", 1)
    async with reader(cluster, place, start=100, end=150) as reading:
        assert [each.offset async for each in reading] == list(range(100, 150))
        assert reading.positions == {place: 150}
    async with reader(cluster, place, start=100, end=150) as reading:
        found = [each.offset async for batch in reading.batches() for each in batch]
    assert found == list(range(100, 150))


async def test_negative_offsets_count_from_the_end(cluster: MockCluster) -> None:
    await write(cluster, 300)
    async with reader(cluster, start=-10, end=-3) as reading:
        offsets = [(each.partition, each.offset) async for each in reading]
    assert sorted(offsets) == [(part, offset) for part in range(3) for offset in range(90, 97)]
    assert len([each async for each in reader_of_all(cluster)]) == 300


async def reader_of_all(cluster: MockCluster) -> AsyncIterator[ConsumerRecord]:
    """More records than there are: from the beginning."""
    async with reader(cluster, start=-10_000, end="end") as reading:
        async for record in reading:
            yield record


async def test_a_mapping_gives_each_partition_its_offset(cluster: MockCluster) -> None:
    await write(cluster, 300)
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 2)
    async with reader(cluster, {first: 98, second: 99}, end="end") as reading:
        found = [(each.partition, each.offset) async for each in reading]
    assert sorted(found) == [(0, 98), (0, 99), (2, 99)]


async def test_a_time_that_no_record_has_reached_is_the_end(cluster: MockCluster) -> None:
    await write(cluster, 30)
    late = datetime(2200, 1, 1, tzinfo=UTC)
    async with reader(cluster, start=late, end="end") as reading:
        assert [each async for each in reading] == []


async def test_new_records_come_while_a_reader_waits(cluster: MockCluster) -> None:
    await write(cluster, 3)
    async with reader(cluster, start="end") as reading:
        waiting = asyncio.ensure_future(anext(aiter(reading)))
        await write(cluster, 1)
        record = await waiting
        assert (record.value, record.offset) == (b"value 0", 1)


async def test_seek_reads_again_from_there(cluster: MockCluster) -> None:
    await write(cluster, 300)
    place = TopicPartition("orders", 0)
    async with reader(cluster, place, end="end") as reading:
        records = aiter(reading)
        assert [(await anext(records)).offset for _ in range(5)] == [0, 1, 2, 3, 4]
        assert reading.positions == {place: 5}
        await reading.seek(place, 90)
        assert reading.positions == {place: 90}
        assert [each.offset async for each in reading] == list(range(90, 100))
        await reading.seek(place, -2)
        assert [each.offset async for each in reading] == [98, 99]
        await reading.seek(place, "end")
        assert [each.offset async for each in reading] == []
        with pytest.raises(ConfigError, match="orders-1 is not assigned"):
            await reading.seek(TopicPartition("orders", 1), 0)


async def test_a_reader_goes_on_where_another_one_was(cluster: MockCluster) -> None:
    await write(cluster)
    found: list[ConsumerRecord] = []
    positions: Any = "orders"
    while len(found) < RECORDS:
        async with reader(cluster, positions, end="end") as reading:
            async for record in reading:
                found.append(record)
                if len(found) % 300 == 0:
                    break
            positions = reading.positions
    assert in_order(found)
    assert len(set(found)) == RECORDS


async def test_records_batches_and_arrow_take_turns(cluster: MockCluster) -> None:
    await write(cluster)
    found: list[tuple[int, int]] = []
    async with reader(cluster, end="end") as reading:
        step = 0
        while len(found) < RECORDS:
            step += 1
            if step % 3 == 0:
                async for record in reading:
                    found.append((record.partition, record.offset))
                    if len(found) % 7 == 0:
                        break
            elif step % 3 == 1:
                async for batch in reading.batches():
                    found += [(each.partition, each.offset) for each in batch]
                    break
            else:
                async for rows in reading.arrow_batches(max_rows=10):
                    found += [(row["partition"], row["offset"]) for row in rows.to_pylist()]
                    break
    assert len(found) == len(set(found)) == RECORDS


async def test_the_ends_of_partitions(cluster: MockCluster) -> None:
    await write(cluster, 300)
    async with reader(cluster) as reading:
        places = [TopicPartition("orders", number) for number in range(3)]
        assert await reading.end_offsets() == dict.fromkeys(places, 100)
        assert await reading.beginning_offsets() == dict.fromkeys(places, 0)
        assert reading.partitions == tuple(places)
        async for record in reading:
            if record.offset == 99:
                break
        assert reading.high_watermarks[record.topic_partition] == 100


# --- bounds -------------------------------------------------------------------------------------


async def test_read_ahead_is_bounded(cluster: MockCluster) -> None:
    value = bytes(10_000)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, batch_size=20_000) as producer:
        await asyncio.gather(
            *(producer.send("orders", value, partition=number % 3) for number in range(300))
        )
    async with reader(cluster, end="end", read_ahead_bytes=200_000) as reading:
        most = found = 0
        async for _ in reading:
            found += 1
            await asyncio.sleep(0)
            states = reading._started().fetcher.partitions.values()
            most = max(most, sum(each.buffered for each in states))
        assert found == 300
    assert most <= 200_000 + 3 * 21_000, "three leaders, each with a batch over its share"


async def test_a_large_batch_comes_in_spite_of_small_bounds(cluster: MockCluster) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send("orders", bytes(500_000), partition=0)
    async with reader(
        cluster, end="end", read_ahead_bytes=1000, max_partition_fetch_bytes=1000
    ) as reading:
        assert [len(each.value or b"") async for each in reading] == [500_000]


@pytest.mark.parametrize("seconds", [0, 1])
async def test_a_batch_that_unpacks_to_too_much_is_an_error(
    cluster: MockCluster, seconds: float
) -> None:
    """It is fetched again at once, also if the ones behind it were read ahead after ``seconds``."""
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers, compression_type="zstd"
    ) as producer:
        await producer.send("orders", bytes(500_000), partition=0)
        await producer.send("orders", b"small", partition=0)
    place = TopicPartition("orders", 0)
    async with reader(cluster, place, end="end", max_batch_bytes=10_000) as reading:
        await asyncio.sleep(seconds)
        for _ in range(2):
            with pytest.raises(CorruptRecordsError, match="orders-0") as caught:
                await anext(aiter(reading))
        assert reading.positions == {place: 0}
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == (*place, 0)
        assert caught.value.next_offset is not None
        await reading.seek(place, caught.value.next_offset)
        assert [each.value async for each in reading] == [b"small"]


async def test_other_tasks_run_while_much_is_there(cluster: MockCluster) -> None:
    await write(cluster, 3 * RECORDS, batch_size=0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with reader(cluster, end="end") as reading:
        counting = asyncio.ensure_future(count())
        async for _ in reading:
            pass
        counting.cancel()
    assert turns > 10


# --- cancellation and states --------------------------------------------------------------------


async def test_cancelled_steps_lose_nothing(cluster: MockCluster) -> None:
    await write(cluster, 900)
    found: list[ConsumerRecord] = []
    async with reader(cluster, end="end") as reading:
        records = aiter(reading)
        step = 0
        while True:
            step += 1
            task = asyncio.ensure_future(anext(records))
            for _ in range(step % 4):
                await asyncio.sleep(0)
            if task.cancel():
                await asyncio.wait([task])
            if task.cancelled():
                await asyncio.sleep(0.001)
                continue
            if isinstance(task.exception(), StopAsyncIteration):
                break
            found.append(task.result())
    assert in_order(found)
    assert len(found) == 900


async def test_close_ends_a_read_that_waits(cluster: MockCluster) -> None:
    reading = reader(cluster)
    await reading.start()
    waiting = asyncio.ensure_future(anext(aiter(reading)))
    await asyncio.sleep(0.05)
    with pytest.raises(IllegalStateError, match="another task reads from this Reader"):
        await anext(aiter(reading))
    await reading.close()
    with pytest.raises(ClientClosedError, match="the Reader is closed"):
        await waiting
    with pytest.raises(ClientClosedError):
        await anext(aiter(reading))


async def test_a_reader_that_was_not_started(cluster: MockCluster) -> None:
    reading = reader(cluster)
    with pytest.raises(IllegalStateError, match="async with Reader"):
        await anext(aiter(reading))
    await reading.close()


@pytest.mark.parametrize(
    ("assignment", "options", "said"),
    [
        ([], {}, "the assignment is empty"),
        (7, {}, "the assignment is a topic"),
        ([("orders", 0), "orders"], {}, "and a partition of it"),
        ("orders", {"start": 1.5}, "start is an offset"),
        ("orders", {"end": "latest"}, "end is an offset"),
        ("orders", {"isolation_level": "serializable"}, "isolation_level"),
        ("orders", {"fetch_max_wait_ms": 30_000}, "be less than request_timeout_ms=30000"),
        ("orders", {"linger_ms": 5}, r"linger_ms: Reader\(\) has no such option, a Producer has"),
        ("orders", {"group_id": "mine"}, "group_id"),
    ],
)
def test_wrong_arguments_are_refused(assignment: Any, options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Reader(assignment, bootstrap_servers="localhost:9092", **options)


# --- errors of brokers --------------------------------------------------------------------------


async def test_an_unknown_topic_or_partition_is_an_error_of_the_start(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioproducer.reader.positions._GRACE", 0.05)
    with pytest.raises(UnknownTopicOrPartitionError, match="'nowhere'"):
        await reader(cluster, "nowhere").start()
    with pytest.raises(UnknownTopicOrPartitionError, match=r"orders-9: .* partitions 0 to 2"):
        await reader(cluster, TopicPartition("orders", 9)).start()


@pytest.mark.parametrize("error", [NOT_LEADER, CORRUPT, UNKNOWN_TOPIC])
async def test_errors_that_pass_are_retried(cluster: MockCluster, error: int) -> None:
    await write(cluster, 300)
    cluster.push_request_errors(FETCH, *[error] * 5)
    records = await everything(cluster)
    assert in_order(records)
    assert len(records) == 300


async def test_an_error_that_stays_reaches_the_application_once_per_read(
    cluster: MockCluster,
) -> None:
    await write(cluster, 300)
    place = TopicPartition("orders", 0)
    cluster.push_partition_request_errors("orders", 0, FETCH, NOT_AUTHORIZED, NOT_AUTHORIZED)
    async with reader(cluster, place, end="end") as reading:
        for _ in range(2):
            with pytest.raises(TopicAuthorizationFailedError, match="needs the READ perm"):
                await anext(aiter(reading))
        assert len([each async for each in reading]) == 100


async def test_leaders_move_while_a_reader_reads(cluster: MockCluster) -> None:
    found: list[ConsumerRecord] = []
    async with reader(cluster) as reading:

        async def read() -> None:
            async for record in reading:
                found.append(record)
                if len(found) == RECORDS:
                    return

        task = asyncio.ensure_future(read())
        for step in range(10):
            await write(cluster, RECORDS // 10)
            cluster.set_partition_leader("orders", step % 3, step % 2 + 1)
        await task
    assert in_order(found)


async def test_brokers_that_go_and_come_back(cluster: MockCluster) -> None:
    await write(cluster, 300)
    found: list[ConsumerRecord] = []
    async with reader(cluster, start="beginning", reconnect_backoff_ms=10) as reading:
        records = aiter(reading)
        found += [await anext(records) for _ in range(300)]
        for broker in (1, 2, 3):
            cluster.set_broker_down(broker)
            await asyncio.sleep(0.1)
            cluster.set_broker_up(broker)
        await write(cluster, 30)
        found += [await anext(records) for _ in range(30)]
    assert in_order(found)


async def test_an_offset_that_the_log_has_not(cluster: MockCluster) -> None:
    await write(cluster, 300)
    place = TopicPartition("orders", 0)
    async with reader(cluster, place, start=500) as reading:
        for _ in range(2):
            with pytest.raises(
                OffsetOutOfRangeError, match="no offset 500: it begins at 0 and ends at 100"
            ):
                await anext(aiter(reading))
    for reset, first in (("earliest", 0), ("latest", 100)):
        async with reader(cluster, place, start=500, auto_offset_reset=reset) as reading:
            waiting = asyncio.ensure_future(anext(aiter(reading)))
            async with asyncio.timeout(MINUTE):
                while reading.positions[place] == 500:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert reading.positions[place] in (first, first + 1)
            waiting.cancel()


# --- a start that the log lacks, with an end ------------------------------------------------------


@pytest.mark.parametrize("end", ["end", 400, 50, 500, -10, datetime(2200, 1, 1, tzinfo=UTC)])
async def test_a_start_beyond_the_log_is_an_error_whatever_the_end(
    cluster: MockCluster, end: Any
) -> None:
    await write(cluster, 300)
    place = TopicPartition("orders", 0)
    for isolation in ("read_uncommitted", "read_committed"):
        async with reader(
            cluster, {place: 500}, end=end, isolation_level=isolation, max_block_ms=30_000
        ) as reading:
            for _ in range(2):
                with pytest.raises(
                    OffsetOutOfRangeError,
                    match="orders-0: the log has no offset 500: it begins at 0 and ends at 100",
                ):
                    await anext(aiter(reading))
            await reading.seek(place, 40)
            if end in ("end", -10):
                assert len([each async for each in reading]) == (60 if end == "end" else 50)


@pytest.mark.parametrize(("reset", "count"), [("earliest", 100), ("latest", 0)])
async def test_a_start_beyond_the_log_goes_where_auto_offset_reset_says(
    cluster: MockCluster, reset: str, count: int
) -> None:
    await write(cluster, 300)
    place, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    start = {place: 500, other: 90}
    async with reader(cluster, start, end="end", auto_offset_reset=reset) as reading:
        found = [record async for record in reading]
        assert reading.positions == {place: 100, other: 100}
    assert sum(record.partition == 0 for record in found) == count
    assert sum(record.partition == 1 for record in found) == 10


async def test_a_start_within_the_log_may_be_behind_the_end(cluster: MockCluster) -> None:
    await write(cluster, 300)
    place = TopicPartition("orders", 0)
    for start, end in ((100, "end"), (60, 50), (50, 50), ("end", 50), ("beginning", 0)):
        async with reader(cluster, place, start=start, end=end) as reading:
            assert [each async for each in reading] == []


async def test_a_seek_beyond_the_log_is_an_error_whatever_the_end(cluster: MockCluster) -> None:
    await write(cluster, 300)
    place = TopicPartition("orders", 0)
    async with reader(cluster, place, end="end") as reading:
        await reading.seek(place, 101)
        with pytest.raises(OffsetOutOfRangeError, match="no offset 101"):
            await anext(aiter(reading))
        await reading.seek(place, 99)
        assert [each.offset async for each in reading] == [99]
