"""What may go wrong around a consumer, in a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.consumer.assigned_partition import AssignedPartition
from aioproducer.consumer.progress import Progress
from aioproducer.consumer.subscription import GroupTopics, Subscription
from aioproducer.errors import (
    ClientBrokenError,
    CorruptRecordsError,
    IllegalStateError,
    InvalidOffsetError,
    InvalidTopicError,
)
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation import tuning
from aioproducer.model import ConsumerRecord, OffsetAndMetadata, TopicPartition
from aioproducer.reader.partition import Cursor
from aioproducer.testing import SimulatedWorld
from tests.support.simulated_world import (
    ONE,
    ZERO,
    consumer,
    each_protocol,
    fill,
    live,
    loop_of,
    model_of,
)

# --- callbacks ---------------------------------------------------------------------------------


@each_protocol
def test_a_commit_in_a_callback_leaves_the_record_in_work(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 2)
        told: list[Collection[TopicPartition]] = []

        async def revoked(partitions: Collection[TopicPartition]) -> None:
            told.append(partitions)
            await reader.commit()

        reader = consumer(world, on_revoked=revoked, auto_commit=False, group_protocol=protocol)
        async with reader:
            where = (record := await anext(aiter(reader))).topic_partition
            await reader._assignment.revoked([ZERO if where == ONE else ONE])
            assert len(told) == 1
            committed = (await reader.committed(where))[where]
            assert committed is None or committed.offset <= record.offset
            await reader.commit()  # outside of the callback it is done
            committed = (await reader.committed(where))[where]
            assert committed is not None
            assert committed.offset == record.offset + 1

    live(life, 2)


def test_a_task_that_a_callback_has_started_commits_as_others_do() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 2, 1)
        tasks: list[asyncio.Task[None]] = []
        go = asyncio.Event()

        async def work() -> None:
            await go.wait()
            await anext(aiter(reader))
            await reader.commit()

        reader = consumer(
            world,
            auto_commit=False,
            on_assigned=lambda partitions: tasks.append(asyncio.create_task(work())),
        )
        async with reader:
            await asyncio.sleep(10)
            go.set()
            await tasks[0]
            assert (await reader.committed(ZERO))[ZERO] == OffsetAndMetadata(1, "", 0)

    live(life)


@each_protocol
def test_a_callback_that_is_cancelled_is_an_error_of_the_next_read(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        async def assigned(partitions: Collection[TopicPartition]) -> None:
            raise asyncio.CancelledError

        async with consumer(world, on_assigned=assigned, group_protocol=protocol) as reader:
            async with asyncio.timeout(60):
                with pytest.raises(IllegalStateError, match="was cancelled"):
                    await anext(aiter(reader))
            assert reader.health().state == "failed"

    live(life)


def test_a_callback_can_not_close_its_consumer_and_may_not_hold_up_its_end() -> None:
    async def life(world: SimulatedWorld) -> None:
        refused: list[Exception] = []

        async def assigned(partitions: Collection[TopicPartition]) -> None:
            try:
                await reader.close()
            except IllegalStateError as error:
                refused.append(error)
            for _ in range(3):
                try:
                    await asyncio.sleep(1_000)
                except asyncio.CancelledError:
                    continue

        reader = consumer(world, on_assigned=assigned)
        await reader.start()
        await asyncio.sleep(10)
        assert len(refused) == 1
        began = world.now
        await reader.close()
        assert world.now - began < 30

    live(life)


# --- handlers ----------------------------------------------------------------------------------


def test_a_full_partition_that_is_sought_goes_on() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 2_000, 2)
        gate = asyncio.Event()
        first: list[int] = []
        done: dict[int, int] = {0: 0, 1: 0}

        async def handle(record: ConsumerRecord) -> None:
            first.append(record.partition)
            if record.partition == first[0]:
                await gate.wait()
            done[record.partition] += 1

        async with consumer(world) as reader:
            running = asyncio.create_task(reader.run(handle, concurrency=1))
            await asyncio.sleep(5)
            await reader.seek(TopicPartition("orders", 1 - first[0]), 0)
            gate.set()
            await asyncio.sleep(60)
            running.cancel()
        assert done == {0: 1_000, 1: 1_000}

    live(life, 2)


def test_a_handler_that_fails_holds_up_no_revocation() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 200, 1)
        told: list[float] = []

        async def handle(record: ConsumerRecord) -> None:
            await asyncio.sleep(0.01)
            if record.offset == 0:
                await asyncio.sleep(20)
                raise ZeroDivisionError

        async with consumer(world, on_revoked=lambda _: told.append(world.now)) as reader:
            running = asyncio.create_task(reader.run(handle, concurrency=5, order="key"))
            await asyncio.sleep(5)
            async with consumer(world):
                with pytest.raises(ZeroDivisionError):
                    await running
                await asyncio.sleep(10)
                assert told

    live(life)


def test_a_handler_of_before_a_seek_acknowledges_nothing_behind_it() -> None:
    progress = Progress(Cursor())
    partition = AssignedPartition(ZERO)
    partition.begin(OffsetAndMetadata(0), None)
    progress.add(partition)
    old = partition.work
    old.take(5)
    old.begin(5, 0.0)
    progress.sought(ZERO)
    new = partition.work
    new.take(5)
    new.begin(5, 1.0)
    progress.acknowledge(old, 5)
    assert progress.to_commit([ZERO])[ZERO].offset == 5, "it is in work once more"
    progress.acknowledge(new, 5)
    assert progress.is_idle


def test_a_loop_that_was_left_acknowledges_nothing_of_another_one() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 20, 1)
        async with consumer(world, auto_commit=False) as reader:
            stale = reader.batches()
            await anext(stale)
            lists = reader.lists(5)
            assert len(await anext(lists)) == 5
            with pytest.raises(IllegalStateError, match="another loop works on a batch"):
                await anext(stale)
            assert (await reader.committed(ZERO))[ZERO] is None

    live(life)


# --- the group ---------------------------------------------------------------------------------


@each_protocol
def test_a_member_gives_up_once_for_each_record(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 5, 1)
        options: dict[str, Any] = {"max_poll_interval_ms": 5_000, "group_protocol": protocol}
        async with consumer(world, **options) as reader:
            records = aiter(reader)
            await anext(records)
            await asyncio.sleep(60)
            losses = reader.metrics()["consumer-coordinator-metrics"]["failed-rebalance-total"]
            assert losses == 1
            async with asyncio.timeout(60):
                await anext(records)

    live(life)


@each_protocol
@pytest.mark.parametrize("way", ["loop", "run"])
@pytest.mark.parametrize("instance", [None, "one"])
def test_a_member_gives_up_each_time_that_a_record_hangs(
    protocol: str, way: str, instance: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The record comes again, to the same member, and hangs again."""
    hung: list[float] = []

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 5, 1)

        async def handle(record: ConsumerRecord) -> None:
            if record.offset == 2:
                hung.append(world.now)
                await asyncio.sleep(60)

        async def read() -> None:
            if way == "run":
                await reader.run(handle)
            async for record in reader:
                await handle(record)

        options: dict[str, Any] = {
            "max_poll_interval_ms": 20_000,
            "group_protocol": protocol,
            "group_instance_id": instance,
        }
        async with consumer(world, **options) as reader:
            reading = asyncio.create_task(read())
            await asyncio.sleep(260)
            reading.cancel()

    live(life)
    said = [each for each in caplog.messages if "(max_poll_interval_ms) this member" in each]
    left = [each for each in caplog.messages if "(max_poll_interval_ms). It joins" in each]
    assert len(hung) >= 4
    assert len(hung) - 1 <= len(left) <= len(said) <= len(hung)


def test_a_silent_leader_keeps_no_other_partition_from_its_start() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 4)
        coordinator = model_of(world).coordinators.groups.partition_of("g").leader
        leaders = {number: world.cluster.leader("orders", number) for number in range(4)}
        silent = next(each for each in leaders.values() if each not in (None, coordinator))
        assert silent is not None
        world.cluster.stall(silent)
        found: set[int] = set()

        async def read() -> None:
            async for record in reader:
                found.add(record.partition)

        async with consumer(world) as reader:
            reading = asyncio.create_task(read())
            await asyncio.sleep(120)
            reading.cancel()
        assert found == {number for number, leader in leaders.items() if leader != silent}

    live(life, 4, brokers=3, seed=3)


async def test_the_topic_of_another_member_is_no_error_of_the_leader() -> None:
    class Client:
        async def describe(self, topics: tuple[str, ...]) -> Any:
            codes: Mapping[str, int] = {"bad": ErrorCode.INVALID_TOPIC_EXCEPTION}
            return SimpleNamespace(
                topics={
                    name: SimpleNamespace(error_code=codes.get(name, 0), partitions=[0, 1])
                    for name in topics
                }
            )

    client: Any = Client()
    told: list[Exception] = []
    orders, bad = (Subscription((name,), "Consumer") for name in ("orders", "bad"))
    topics = GroupTopics(orders, client, "g", "earliest", told.append)
    assert await topics.counts(["orders", "bad"]) == {"orders": 2}
    with pytest.raises(InvalidTopicError):
        await GroupTopics(bad, client, "g", "earliest", told.append).counts(["orders", "bad"])


def test_wrong_arguments_are_errors_of_their_call_alone() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 5, 1)
        async with consumer(world) as reader:
            for offset in ("5", None, -5, 2**70, True):
                with pytest.raises(InvalidOffsetError):
                    await reader.commit({ZERO: offset})  # type: ignore[dict-item]
            for place in (("orders", 2**40), ("orders", "x"), "orders", ("orders", -1)):
                with pytest.raises(InvalidOffsetError):
                    await reader.committed(place)  # type: ignore[arg-type]
                with pytest.raises(InvalidOffsetError):
                    reader.pause(place)  # type: ignore[arg-type]
            assert (await anext(aiter(reader))).offset == 0

    live(life)


def test_a_part_that_dies_is_an_error_of_the_next_read() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with consumer(world) as reader:
            await asyncio.sleep(5)
            for task in [*reader._tasks]:
                task.cancel()
            async with asyncio.timeout(10):
                with pytest.raises(ClientBrokenError, match="was cancelled"):
                    await anext(aiter(reader))

    live(life)


def test_a_batch_that_can_not_be_decoded_is_skipped_by_a_seek() -> None:
    async def life(world: SimulatedWorld) -> None:
        servers = world.cluster.bootstrap_servers
        async with Producer(bootstrap_servers=servers, compression_type="gzip") as producer:
            for size in (5, 500_000, 6):
                await producer.send("orders", bytes(size))
        found: list[int] = []
        async with consumer(world, max_batch_bytes=10_000) as reader:
            records = aiter(reader)
            found.append(len((await anext(records)).value or b""))
            for _ in range(2):
                with pytest.raises(CorruptRecordsError) as caught:
                    await anext(records)
            error = caught.value
            assert (error.topic, error.partition, error.offset, error.next_offset) == (*ZERO, 1, 2)
            await reader.seek(ZERO, error.next_offset or 0)
            found.append(len((await anext(records)).value or b""))
        assert found == [5, 6]

    live(life)


@each_protocol
def test_a_consumer_has_three_connections_to_a_broker(protocol: str) -> None:
    """For fetches, for heartbeats, and with the classic protocol for joins, which wait for other
    members."""

    async def life(world: SimulatedWorld) -> None:
        most = members = 0

        async def count() -> None:
            nonlocal most
            while True:
                most = max(most, len(world.cluster._connections(1)) - 3 * members)
                await asyncio.sleep(0.001)

        await fill(world, 40, 2)
        await asyncio.sleep(1)
        counting = asyncio.create_task(count())
        async with consumer(world, group_protocol=protocol) as one:
            records = aiter(one)
            await anext(records)
            await one.commit()
            members = 1
            async with consumer(world, group_protocol=protocol) as other:
                while len(one.assignment) != 1 or len(other.assignment) != 1:
                    async with asyncio.timeout(60):
                        await anext(records)
                    await asyncio.sleep(0.5)
            members = 0
            await asyncio.sleep(30)
        counting.cancel()
        assert most == {"classic": 3, "consumer": 2}[protocol]

    live(life, 2)


# --- large batches -----------------------------------------------------------------------------


def decoding_takes(
    monkeypatch: pytest.MonkeyPatch, world: SimulatedWorld, seconds: float
) -> asyncio.Event:
    """Every batch is decoded in a thread, which takes so long; the event tells of the first one."""
    began = asyncio.Event()

    def delay() -> float:
        began.set()
        return seconds

    monkeypatch.setattr(tuning, "DECODED_AT_ONCE", 0)
    loop_of(world).executor_delay = delay
    return began


@pytest.mark.parametrize("way", ["records", "batches", "lists", "run"])
def test_batches_that_are_decoded_in_a_thread_are_read_in_order(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 300, 1)
        decoding_takes(monkeypatch, world, 0.5)
        found: list[bytes | None] = []
        all_there = asyncio.Event()

        async def handle(record: ConsumerRecord) -> None:
            found.append(record.value)
            if len(found) == 300:
                all_there.set()

        async def read() -> None:
            if way == "run":
                await reader.run(handle, concurrency=1)
            elif way == "records":
                async for record in reader:
                    await handle(record)
            else:
                async for several in reader.batches() if way == "batches" else reader.lists(7):
                    for record in several:
                        await handle(record)

        async with consumer(world) as reader:
            reading = asyncio.create_task(read())
            async with asyncio.timeout(60):
                await all_there.wait()
            reading.cancel()
        assert found == [b"%d" % number for number in range(300)]

    live(life)


@pytest.mark.parametrize("event", ["cancelled", "paused", "sought", "closed", "revoked"])
def test_a_batch_in_a_thread_is_read_once_whatever_happens_meanwhile(
    monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        offsets: list[int] = []
        reader = consumer(world)
        await reader.start()
        began = decoding_takes(monkeypatch, world, 5.0)

        async def read() -> None:
            async for record in reader:
                offsets.append(record.offset)

        reading = asyncio.create_task(read())
        await began.wait()
        expected = [*range(10)]
        match event:
            case "cancelled":
                reading.cancel()
                await asyncio.wait([reading])
                reading = asyncio.create_task(read())
            case "paused":
                reader.pause(ZERO)
                await asyncio.sleep(20)
                assert not offsets
                reader.resume(ZERO)
            case "sought":
                await reader.seek(ZERO, 7)
                expected = [7, 8, 9]
            case "revoked":
                await reader._assignment.revoked([ZERO])
                await asyncio.sleep(20)
                expected = []
            case _:
                await reader.close()
                expected = []
        await asyncio.sleep(20)
        assert offsets == expected
        reading.cancel()
        await reader.close()
        async with consumer(world) as other:
            if len(expected) < 10 and event != "sought":
                assert (await anext(aiter(other))).offset == 0, "nothing was committed"

    live(life)
