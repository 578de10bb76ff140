"""Keys and values as objects, in every way to read, and records that have none."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.consumer import Consumer
from aioproducer.errors import (
    ConfigError,
    NotPreparedError,
    RecordDeserializationError,
    SchemaRegistryAuthenticationError,
    SchemaRegistryUnavailableError,
)
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader import Reader
from aioproducer.serialization import JsonDeserializer, StringDeserializer
from aioproducer.serialization.primitives import RecordDeserializers
from aioproducer.testing import SimulatedWorld
from tests.support.simulated_world import ZERO, consumer, fill, live

BAD = b"no number"


def record(key: bytes | None = b"7", value: bytes | None = b"[1]") -> ConsumerRecord:
    return ConsumerRecord("orders", 1, 5, 0, "CreateTime", key, value, (("a", b"b"),))


# --- forms -------------------------------------------------------------------------------------


class WithHeaders:
    def deserialize(self, topic: str, data: bytes, headers: Any) -> Any:
        return topic, data, headers


class InJavasOrder:
    def deserialize(self, topic: str, headers: Any, data: bytes) -> Any:
        return topic, data, headers


class Without:
    def deserialize(self, topic: str, data: bytes) -> Any:
        return topic, data


class Later:
    async def deserialize(self, topic: str, data: bytes, headers: Any) -> Any:
        await asyncio.sleep(0)
        return topic, data, headers


class Called:
    async def __call__(self, data: bytes) -> Any:
        await asyncio.sleep(0)
        return data


class OfASchema:
    """Fetches the schema once, as those of a schema registry do."""

    def __init__(self, field: str = "value") -> None:
        self.field = field
        self.fetched = 0

    def for_field(self, field: str) -> OfASchema:
        return OfASchema(field)

    def decode(self, topic: str, data: bytes, headers: Any) -> Any:
        if not self.fetched:
            raise NotPreparedError("the schema is not known")
        return self.field, data

    async def deserialize(self, topic: str, data: bytes, headers: Any) -> Any:
        self.fetched += 1
        return self.decode(topic, data, headers)


HEADERS = (("a", b"b"),)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (json.loads, [1]),
        (JsonDeserializer(), [1]),
        (StringDeserializer(), "[1]"),
        (StringDeserializer, "[1]"),
        (bytes.decode, "[1]"),
        (WithHeaders(), ("orders", b"[1]", HEADERS)),
        (InJavasOrder(), ("orders", b"[1]", HEADERS)),
        (Without, ("orders", b"[1]")),
        (Later(), ("orders", b"[1]", HEADERS)),
        (Called(), b"[1]"),
        (lambda data: Called()(data), b"[1]"),
        (OfASchema(), ("value", b"[1]")),
    ],
)
async def test_each_form_of_a_deserializer_gets_the_bytes(given: Any, found: Any) -> None:
    deserializers = RecordDeserializers(None, given, None)
    for _ in range(2):
        assert await deserializers.record(record()) == record()._replace(value=found)
    null = record(value=None)
    assert await deserializers.record(null) == null, "a tombstone"


async def test_a_deserializer_of_keys_knows_that_it_is_one() -> None:
    found = await RecordDeserializers(OfASchema(), int, None).record(record(value=b"3"))
    expected: ConsumerRecord[Any, Any] = record()
    assert found == expected._replace(key=("key", b"7"), value=3)


async def test_an_error_has_the_bytes_and_says_how_to_skip_the_record() -> None:
    with pytest.raises(RecordDeserializationError) as caught:
        await RecordDeserializers(None, int, None).record(record())
    error = caught.value
    assert (error.record, error.field) == (record(), "value")
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("orders", 1, 5, 6)
    assert isinstance(error.__cause__, ValueError)
    assert str(error).startswith(
        "the value_deserializer failed on orders-1 at offset 5: ValueError: invalid literal for"
    )
    assert "in a loop, so does a seek() to error.next_offset" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.record, again.next_offset) == (str(error), record(), 6)
    with pytest.raises(RecordDeserializationError, match="the key_deserializer failed"):
        await RecordDeserializers(json.loads, json.loads, None).record(record(key=b"{"))


@pytest.mark.parametrize("client", [Consumer, Reader])
def test_what_is_no_deserializer_is_refused(client: Any) -> None:
    options = {"group_id": "g"} if client is Consumer else {}
    with pytest.raises(ConfigError, match="value_deserializer: 'str' object is not callable"):
        client("orders", bootstrap_servers="a:1", value_deserializer="json", **options)


# --- in every way to read ----------------------------------------------------------------------


async def write(world: SimulatedWorld, values: list[bytes], partition: int = 0) -> None:
    async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send("orders", value, partition=partition)
        await producer.flush()


async def by_loop(
    reader: Consumer[bytes, int], found: Callable[[ConsumerRecord[Any, int]], None]
) -> None:
    async for each in reader:
        found(each)


async def by_call(
    reader: Consumer[bytes, int], found: Callable[[ConsumerRecord[Any, int]], None]
) -> None:
    while True:
        each = await reader.record(max_wait_ms=500)
        if each is not None:
            found(each)


async def by_lists(
    reader: Consumer[bytes, int], found: Callable[[ConsumerRecord[Any, int]], None]
) -> None:
    async for some in reader.lists(7):
        for each in some:
            found(each)


async def by_handlers(
    reader: Consumer[bytes, int], found: Callable[[ConsumerRecord[Any, int]], None]
) -> None:
    async def handle(each: ConsumerRecord[Any, int]) -> None:
        found(each)

    await reader.run(handle)


async def by_transactions(
    reader: Consumer[bytes, int], found: Callable[[ConsumerRecord[Any, int]], None]
) -> None:
    servers = reader.config.bootstrap_servers
    async with Producer(bootstrap_servers=servers, transactional_id="t") as producer:
        async for work in reader.transactions(producer, max_records=7):
            async with work:
                for each in work:
                    found(each)


each_way = pytest.mark.parametrize(
    "way", [by_loop, by_call, by_lists, by_handlers, by_transactions]
)


@each_way
@pytest.mark.parametrize("skips", [True, False])
def test_a_record_that_fails_is_never_lost_and_others_are_read(way: Any, skips: bool) -> None:
    """It comes again until it is skipped, and no commit passes it."""

    async def life(world: SimulatedWorld) -> None:
        values = [b"%d" % number for number in range(40)]
        values[3] = values[20] = BAD
        found: list[tuple[int, int]] = []
        failed: list[tuple[int, int]] = []
        reader = consumer(world, value_deserializer=int)
        async with reader:
            await write(world, values)
            await write(world, [b"%d" % number for number in range(40)], partition=1)

            def take(each: ConsumerRecord[Any, int]) -> None:
                if each.partition == 1 or each.offset not in (3, 20):
                    assert each.value == each.offset
                found.append((each.partition, each.offset))

            async def read() -> None:
                while True:
                    try:
                        await way(reader, take)
                    except RecordDeserializationError as error:
                        failed.append((error.record.partition, error.offset))
                        await asyncio.sleep(0.1)
                        if skips:
                            where = error.record.topic_partition
                            await reader.seek(where, error.next_offset)

            reading = asyncio.create_task(read())
            await asyncio.sleep(60)
            if skips or way is not by_handlers:  # the first error ends run()
                assert {offset for partition, offset in found if partition == 1} >= {*range(39)}
            seen = {offset for partition, offset in found if partition == 0}
            committed = (await reader.committed(ZERO))[ZERO]
            if skips:
                assert set(failed) == {(0, 3), (0, 20)}
                assert seen == set(range(40)) - {3, 20}
            else:
                assert set(failed) == {(0, 3)}
                assert len(failed) > 3
                assert seen == {0, 1, 2}
                assert committed is None or committed.offset <= 3
            reading.cancel()
        if not skips:
            async with consumer(world, value_deserializer=bytes) as again:
                async with asyncio.timeout(60):
                    async for each in again:
                        if each.topic_partition == ZERO:
                            assert each.offset <= 3
                            break

    live(life, 2)


@each_way
@pytest.mark.parametrize("waits", [True, False])
def test_a_callback_takes_the_records_that_fail_and_the_reading_goes_on(
    way: Any, waits: bool
) -> None:
    async def life(world: SimulatedWorld) -> None:
        values = [b"%d" % number if number % 9 else BAD for number in range(40)]
        await write(world, values)
        found: list[int] = []
        taken: list[int] = []

        def take(error: RecordDeserializationError) -> None:
            assert error.record.value == BAD
            taken.append(error.offset)

        async def take_later(error: RecordDeserializationError) -> None:
            await asyncio.sleep(0.1)
            take(error)

        options: Any = {"on_deserialization_error": take_later if waits else take}
        async with consumer(world, value_deserializer=int, **options) as reader:
            reading = asyncio.create_task(way(reader, lambda each: found.append(each.offset)))
            await asyncio.sleep(60)
            assert sorted(taken) == [0, 9, 18, 27, 36]
            assert sorted([*found, *taken]) == list(range(40))
            if way in (by_handlers, by_transactions):
                assert (await reader.committed(ZERO))[ZERO].offset >= 40  # type: ignore[union-attr]
            reading.cancel()

    live(life)


AWAY: list[Exception] = [
    SchemaRegistryUnavailableError("away"),
    SchemaRegistryAuthenticationError("the password has changed"),
    TimeoutError("late"),
    ConnectionResetError("reset"),
]


@each_way
def test_no_record_is_skipped_while_a_schema_registry_is_away(way: Any) -> None:
    async def life(world: SimulatedWorld) -> None:
        await write(world, [b"%d" % number for number in range(10)])
        outage = [*AWAY]
        found: list[int] = []
        skipped: list[RecordDeserializationError] = []
        raised: list[str] = []

        def number(data: bytes) -> int:
            if data == b"3" and outage:
                raise outage.pop()
            return int(data)

        options: Any = {"on_deserialization_error": skipped.append}
        async with consumer(world, value_deserializer=number, **options) as reader:

            async def read() -> None:
                while True:
                    try:
                        await way(reader, lambda each: found.append(each.offset))
                    except RecordDeserializationError as error:
                        raised.append(str(error))
                        await asyncio.sleep(0.1)

            reading = asyncio.create_task(read())
            await asyncio.sleep(60)
            assert (sorted({*found}), skipped) == ([*range(10)], [])
            assert len(raised) >= len(AWAY)
            assert all("No record is skipped for that: read again" in each for each in raised)
            reading.cancel()

    live(life)


@each_way
def test_a_schema_that_comes_late_and_reads_that_are_cancelled_lose_nothing(way: Any) -> None:
    class Slow(OfASchema):
        async def deserialize(self, topic: str, data: bytes, headers: Any) -> Any:
            await asyncio.sleep(0.2)
            self.fetched = fetched.is_set()
            return int(data)

        def decode(self, topic: str, data: bytes, headers: Any) -> Any:
            if not self.fetched:
                raise NotPreparedError("the schema is not known")
            return int(data)

        def for_field(self, field: str) -> Slow:
            return self

    fetched = asyncio.Event()

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 2)
        found: list[tuple[int, int]] = []
        async with consumer(world, value_deserializer=Slow()) as reader:
            for attempt in range(30):
                if attempt == 15:
                    fetched.set()
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1 if attempt < 10 else 1.0):
                        await way(reader, lambda each: found.append((each.partition, each.offset)))
            assert set(found) == {(number % 2, number // 2) for number in range(40)}

    live(life, 2)


def test_batches_have_bytes() -> None:
    async def life(world: SimulatedWorld) -> None:
        await write(world, [BAD])
        async with consumer(world, value_deserializer=int) as reader:
            batch = await anext(reader.batches())
            assert batch[0].value == BAD

    live(life)


def test_a_lost_partition_is_not_moved_by_a_record_that_fails_late() -> None:
    """The record was handed out before its partition was lost, and read by another member."""

    async def life(world: SimulatedWorld) -> None:
        go = asyncio.Event()

        async def wait(data: bytes) -> int:
            await go.wait()
            return int(data)

        class Waiting:
            async def deserialize(self, topic: str, data: bytes) -> int:
                return await wait(data)

        await write(world, [BAD, b"1", b"2"])
        async with consumer(world, value_deserializer=Waiting()) as reader:
            reading = asyncio.ensure_future(anext(reader.lists()))
            await asyncio.sleep(10)
            reader._refused(25)  # UNKNOWN_MEMBER_ID
            await asyncio.sleep(10)
            await reader.commit({ZERO: 1})
            await reader.seek(ZERO, "committed")
            go.set()
            values: list[Any] = [each.value for each in await reading]
            assert values == [1, 2]

    live(life)


@pytest.mark.parametrize("way", ["loop", "lists"])
def test_a_commit_beside_a_read_leaves_out_what_was_not_returned(way: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        begun = asyncio.Event()

        async def fail_once(data: bytes) -> int:
            if not begun.is_set():
                begun.set()
                await asyncio.sleep(5)
                raise ValueError
            return int(data)

        await write(world, [b"0", b"1"])
        options: Any = {"auto_commit": False, "value_deserializer": fail_once}
        async with consumer(world, **options) as reader:
            loop: Any = aiter(reader) if way == "loop" else reader.lists()
            reading = asyncio.ensure_future(anext(loop))
            await begun.wait()
            await reader.commit()
            committed = world.cluster.committed_offsets("g")
            assert not committed or committed[ZERO].offset == 0
            with pytest.raises(RecordDeserializationError):
                await reading
            found = await anext(loop)
            assert (found if way == "loop" else found[0]).offset == 0

    live(life)


@pytest.mark.parametrize("way", ["loop", "singly"])
def test_a_record_is_not_returned_after_its_position_was_moved(way: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await write(world, [b"%d" % number for number in range(10)])

        begun = asyncio.Event()

        class Slow:
            async def deserialize(self, topic: str, data: bytes) -> int:
                begun.set()
                await asyncio.sleep(1)
                return int(data)

        async with consumer(world, value_deserializer=Slow()) as reader:
            records: Any = aiter(reader) if way == "loop" else reader.unacknowledged()
            first = asyncio.create_task(anext(records))
            await begun.wait()
            await reader.seek(ZERO, 5)
            assert (await first).offset == 5
            assert (await anext(records)).offset == 6

    live(life)


def test_any_number_of_lists_can_be_skipped() -> None:
    async def life(world: SimulatedWorld) -> None:
        await write(world, [*[BAD] * 1_500, b"7"])
        skipped: list[int] = []
        options: Any = {"on_deserialization_error": lambda error: skipped.append(error.offset)}
        async with consumer(world, value_deserializer=int, **options) as reader:
            [found] = await anext(reader.lists(1))
            value: Any = found.value
            assert (value, len(skipped)) == (7, 1_500)

    live(life)


def test_a_list_ends_in_time_if_its_records_are_skipped() -> None:
    async def life(world: SimulatedWorld) -> None:
        async def keep_writing() -> None:
            while True:
                await write(world, [BAD])
                await asyncio.sleep(0.4)

        writing = asyncio.create_task(keep_writing())
        options: Any = {"on_deserialization_error": lambda error: None}
        async with consumer(world, value_deserializer=int, **options) as reader:
            lists = reader.lists(max_wait_ms=1_000)
            assert await anext(lists) == []
            for _ in range(10):
                began = world.now
                assert await anext(lists) == []
                assert 0.9 < world.now - began < 1.5
        writing.cancel()

    live(life)


@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_handlers_finish_the_records_before_one_that_fails(order: Any) -> None:
    """Else the first error would end them each time, and they would never be done."""

    async def life(world: SimulatedWorld) -> None:
        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            for number in range(10):
                value = BAD if number == 3 else b"%d" % number
                producer.send("orders", value, key=b"%d" % (number % 2))
            await producer.flush()
        done: list[int] = []

        async def handle(each: ConsumerRecord[Any, Any]) -> None:
            await asyncio.sleep(5)
            done.append(each.offset)

        async with consumer(world, value_deserializer=int, auto_commit=False) as reader:
            with pytest.raises(RecordDeserializationError) as caught:
                await reader.run(handle, order=order)
            assert [each for each in done if each < 3] == [0, 1, 2]
            await reader.commit()
            assert (await reader.committed(ZERO))[ZERO].offset == 3  # type: ignore[union-attr]
            await reader.seek(ZERO, caught.value.next_offset)
            running = asyncio.create_task(reader.run(handle, order=order))
            await asyncio.sleep(60)
            assert {*done} == {*range(10)} - {3}
            running.cancel()

    live(life)


@pytest.mark.parametrize("order", ["key", "none"])
def test_a_record_that_fails_keeps_no_revocation_waiting_for_paused_records(order: Any) -> None:
    async def life(world: SimulatedWorld) -> None:
        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            for number in range(4):
                value = BAD if number == 3 else b"%d" % number
                producer.send("orders", value, key=b"%d" % (1 if number == 2 else number))
            await producer.flush()

        async def handle(each: ConsumerRecord[Any, Any]) -> None:
            await asyncio.sleep(2)
            reader.pause(ZERO)
            await asyncio.sleep(2)

        async with consumer(world, value_deserializer=int) as reader:
            with pytest.raises(RecordDeserializationError):
                async with asyncio.timeout(60):
                    await reader.run(handle, order=order)

    live(life)


def test_a_reader_has_objects_and_reads_a_failed_record_again() -> None:
    async def life(world: SimulatedWorld) -> None:
        await write(world, [b"0", BAD, b"2"])
        servers = world.cluster.bootstrap_servers
        async with Reader(
            "orders", bootstrap_servers=servers, end="end", value_deserializer=int
        ) as reader:
            records = aiter(reader)
            assert (await anext(records)).value == 0
            for _ in range(3):
                with pytest.raises(RecordDeserializationError) as caught:
                    await anext(records)
            await reader.seek(TopicPartition("orders", 0), caught.value.next_offset)
            assert [each.value async for each in records] == [2]

    live(life)
