"""The offsets of commits: named ones, positions behind records, the last ones before the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.consumer import Consumer
from aioproducer.consumer.assigned_partition import AssignedPartition
from aioproducer.consumer.progress import Progress
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    AbortableTransactionError,
    CommitUnconfirmedError,
    ConfigError,
    CoordinatorLoadInProgressError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    ProducerTimeoutError,
    RecordTooLargeError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.reader.partition import Cursor
from aioproducer.reader.requests import FetchedPartition
from aioproducer.testing import SimulatedWorld
from aioproducer.testing.simulation.kafka.groups.consumer_group import ConsumerGroup
from tests.support.simulated_world import ONE, ZERO, consumer, each_protocol, fill, live, model_of
from tests.support.waiting import until
from tests.unit.reader.written import batch, marker

SLOWEST = 1.5
"""Seconds of one way: the messages of two connections overtake each other."""


class Ledger:
    """The commits of a member: what the group has taken, and which errors there were."""

    def __init__(self) -> None:
        self.taken: dict[TopicPartition, int] = {}
        self.refused: list[tuple[TopicPartition, bool]] = []
        """The partition of each error, and whether it was this member's before and after."""

    async def read(self, reader: Consumer) -> None:
        async for record in reader:
            where, next_offset = record.topic_partition, record.offset + 1
            try:
                await reader.commit({where: next_offset})
            except KafkaError:
                self.refused.append((where, where in reader.assignment))
            else:
                self.taken[where] = next_offset
            await asyncio.sleep(0.01)


@each_protocol
def test_offsets_of_partitions_that_stay_are_committed_in_a_rebalance(protocol: str) -> None:
    options: dict[str, Any] = {"group_protocol": protocol, "auto_commit": False}
    if protocol == "classic":
        options["partition_assignment_strategy"] = "cooperative-sticky"
    rounds = 0

    async def life(world: SimulatedWorld) -> None:
        nonlocal rounds
        await fill(world, 4_000, 4)
        ledger = Ledger()
        async with consumer(world, client_id="a", **options) as first:
            reading = asyncio.create_task(ledger.read(first))
            await asyncio.sleep(20)
            world.cluster.set_latency(0.01, SLOWEST)
            for name in "bcd":
                async with consumer(world, client_id=name, **options):
                    await asyncio.sleep(30)
                    rounds += len(first.assignment) < 4
                await asyncio.sleep(30)
            assert not reading.done()
            first.finish()
            await reading
        assert not [where for where, stays in ledger.refused if stays], ledger.refused
        committed = world.cluster.committed_offsets("g")
        assert {where: committed[where].offset for where in ledger.taken} == ledger.taken

    for seed in range(4):
        live(life, 4, seed=seed)
    assert rounds


# --- the position behind the records -----------------------------------------------------------

each_way = pytest.mark.parametrize("way", ["loop", "lists", "batches", "run", "transactions"])


@each_protocol
def test_the_groups_offsets_can_be_read_at_any_time_of_a_rebalance(protocol: str) -> None:
    """A member may not know its new epoch yet, with which KIP-848 lets it read them as itself."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 4, 2)
        async with consumer(world, group_protocol=protocol) as reader:
            await reader.commit({(await anext(aiter(reader))).topic_partition: 1})
            for _ in range(2):
                async with consumer(world, group_protocol=protocol):
                    for _ in range(500):
                        found = await reader.committed(ZERO, ONE)
                        assert sum(each is not None for each in found.values()) >= 1
                        for where in reader.assignment:
                            with suppress(ConfigError):  # it has gone meanwhile
                                await reader.seek(where, "committed")
                        await asyncio.sleep(0.01)

    live(life, 2)


READ_COMMITTED: Mapping[str, Any] = {"isolation_level": "read_committed"}


def a_producer(world: SimulatedWorld, name: str) -> Producer:
    return Producer(
        bootstrap_servers=world.cluster.bootstrap_servers, transactional_id=name, linger_ms=0
    )


async def write(producer: Producer, partition: int, *, commits: bool = True) -> None:
    """A transaction of three records, and its marker."""
    await producer.begin_transaction()
    for number in range(3):
        producer.send("orders", b"%d" % number, partition=partition)
    await producer.flush()
    await (producer.commit_transaction() if commits else producer.abort_transaction())


async def read_all(world: SimulatedWorld, reader: Consumer, way: str, *, commits: bool) -> None:
    """Read in one way, and commit after each step if ``commits``."""

    async def handle(_: object) -> None: ...

    if way == "run":
        await reader.run(handle)
    elif way == "transactions":
        async with a_producer(world, "worker") as producer:
            async for work in reader.transactions(producer):
                async with work:
                    assert work.records
    else:
        steps: Any = {"loop": aiter, "lists": Consumer.lists, "batches": Consumer.batches}[way]
        async for _ in steps(reader):
            if commits:
                await reader.commit()


def ends(world: SimulatedWorld) -> dict[TopicPartition, int]:
    return {each.where: each.high_watermark for each in model_of(world).topic("orders").partitions}


def committed(world: SimulatedWorld) -> dict[TopicPartition, int]:
    return {at: each.offset for at, each in world.cluster.committed_offsets("g").items()}


@each_protocol
@each_way
@pytest.mark.parametrize("auto_commit", [True, False])
def test_a_lag_reaches_zero(protocol: str, way: str, auto_commit: bool) -> None:
    """There are markers, and a partition that has aborted records only."""
    if way == "run" and not auto_commit:
        return

    async def life(world: SimulatedWorld) -> None:
        async with a_producer(world, "writer") as producer:
            await write(producer, 0)
            await write(producer, 0)
            await write(producer, 0, commits=False)
            await write(producer, 1, commits=False)
        options = {**READ_COMMITTED, "group_protocol": protocol, "auto_commit": auto_commit}
        async with consumer(world, **options) as reader:
            reading = asyncio.create_task(read_all(world, reader, way, commits=not auto_commit))
            await asyncio.sleep(20)
            assert committed(world) == ends(world) == {ZERO: 12, ONE: 4}
            assert reader.health().lag == 0
            assert reader.positions == ends(world)
            reading.cancel()
        assert committed(world) == ends(world)

    live(life, 2)


@pytest.mark.parametrize(("isolation", "lag"), [("read_committed", 0), ("read_uncommitted", 3)])
def test_every_lag_counts_what_can_be_read(isolation: str, lag: int) -> None:
    """The records of an open transaction can't be read as committed ones."""

    async def life(world: SimulatedWorld) -> None:
        async with (
            a_producer(world, "writer") as producer,
            consumer(world, isolation_level=isolation) as reader,
        ):
            await write(producer, 0)
            await producer.begin_transaction()
            for _ in range(3):
                producer.send("orders", b"open", partition=0)
            await producer.flush()
            records = aiter(reader)
            for _ in range(3):
                await anext(records)
            await asyncio.sleep(20)
            assert ends(world) == {ZERO: 7}
            assert reader.positions == {ZERO: 4}
            assert await reader.lag() == {ZERO: lag}
            assert reader.health().lag == lag
            metrics = reader.metrics()
            [found] = metrics["consumer-fetch-manager-partition-metrics"].values()
            assert found["records-lag"] == lag
            assert metrics["consumer-fetch-manager-metrics"]["records-lag-max"] == lag
            await producer.abort_transaction()

    live(life)


@each_protocol
@each_way
def test_a_marker_that_is_fetched_later_is_committed(protocol: str, way: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        async with (
            a_producer(world, "writer") as producer,
            consumer(world, group_protocol=protocol) as reader,
        ):
            reading = asyncio.create_task(read_all(world, reader, way, commits=False))
            for commits in (True, False):
                await producer.begin_transaction()
                producer.send("orders", b"1")
                await producer.flush()
                await asyncio.sleep(20)
                before = committed(world)[ZERO]
                assert before == ends(world)[ZERO]
                await (producer.commit_transaction() if commits else producer.abort_transaction())
                await asyncio.sleep(20)
                assert committed(world)[ZERO] == ends(world)[ZERO] == before + 1
            reading.cancel()

    live(life)


def test_the_next_commit_is_behind_a_marker_that_is_fetched_later() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with (
            a_producer(world, "writer") as producer,
            consumer(world, auto_commit=False) as reader,
        ):
            await producer.begin_transaction()
            for _ in range(2):
                producer.send("orders", b"1")
            await producer.flush()
            records = aiter(reader)
            await anext(records)
            await reader.commit()
            assert committed(world) == {ZERO: 1}
            await anext(records)
            await producer.commit_transaction()
            await asyncio.sleep(5)
            assert committed(world) == {ZERO: 1}, "the record at 1 is in work"
            await reader.commit()
            assert committed(world) == {ZERO: 3}

    live(life)


def test_a_commit_that_fails_after_it_was_late_is_aborted_and_the_next_one_succeeds() -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("results", 1)
        await fill(world, 4, 1)
        async with a_producer(world, "worker") as producer, consumer(world) as reader:

            class LateOnce:
                """The commit of the first transaction takes longer than max_block_ms."""

                commit_transaction = staticmethod(producer.commit_transaction)
                abort_transaction = staticmethod(producer.abort_transaction)
                send_offsets_to_transaction = staticmethod(producer.send_offsets_to_transaction)
                transactions = 0

                @asynccontextmanager
                async def transaction(self) -> AsyncIterator[None]:
                    self.transactions += 1
                    if self.transactions > 1:
                        async with producer.transaction():
                            yield
                        return
                    await producer.begin_transaction()
                    yield
                    with suppress(RecordTooLargeError):  # the commit can only fail
                        producer.send("results", bytes(2_000_000))
                    raise CommitUnconfirmedError("late") from ProducerTimeoutError("late")

            async def copy_nothing() -> None:
                async for work in reader.transactions(late):
                    async with work:
                        pass

            late = LateOnce()
            with pytest.raises(AbortableTransactionError):
                await copy_nothing()
            async for work in reader.transactions(late):
                async with work:
                    assert [each.offset for each in work] == [0, 1, 2, 3]
                break
            assert late.transactions == 2
            await asyncio.sleep(1)  # for the marker
            assert committed(world) == {ZERO: 4}

    live(life)


def test_a_repeated_commit_does_not_undo_that_of_a_transaction() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 8, 1)
        async with a_producer(world, "worker") as producer, consumer(world) as reader:
            records = aiter(reader)
            for _ in range(4):
                await anext(records)
            world.cluster.fail_next(Api.OFFSET_COMMIT, CoordinatorLoadInProgressError, times=5)
            await until(lambda: reader._commits._turn.locked())
            async for work in reader.transactions(producer):
                async with work:
                    assert [each.offset for each in work][-1] == 7
                break
            await asyncio.sleep(10)
            assert committed(world) == {ZERO: 8}

    live(life)


@pytest.mark.parametrize("slow", ["the application", "its deserializer"])
def test_records_of_a_partition_that_went_and_came_back_have_one_transaction(slow: str) -> None:
    """Nothing tells the group's new assignment from the one in which they were read."""

    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("results", 1)
        await fill(world, 4, 1)
        servers = world.cluster.bootstrap_servers
        waits = asyncio.Event()

        async def number(data: bytes) -> int:
            if slow == "its deserializer" and not waits.is_set():
                waits.set()
                await asyncio.sleep(20)
            return int(data)

        async def copy(reader: Consumer, producer: Producer) -> None:
            async for work in reader.transactions(producer):
                if not waits.is_set():
                    waits.set()
                    await asyncio.sleep(20)
                async with work:
                    for each in work:
                        value: Any = each.value
                        producer.send("results", b"%d" % value)

        async with (
            consumer(world, value_deserializer=number, **READ_COMMITTED) as reader,
            Producer(bootstrap_servers=servers, transactional_id="t") as producer,
        ):
            copying = asyncio.create_task(copy(reader, producer))
            await waits.wait()
            reader._refused(ErrorCode.UNKNOWN_MEMBER_ID)
            await asyncio.sleep(60)
            copying.cancel()
        assert [each.value for each in world.cluster.records("results")] == [b"0", b"1", b"2", b"3"]

    live(life)


def test_nothing_but_the_end_of_its_transaction_acknowledges_a_record() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 8, 1)
        async with a_producer(world, "worker") as producer, consumer(world) as reader:
            works = reader.transactions(producer, max_records=4)
            work = await anext(works)
            with pytest.raises(IllegalStateError, match="before their transaction"):
                await reader.commit()
            with pytest.raises(IllegalStateError, match="not entered, or its block has not ended"):
                await anext(works)
            with suppress(ZeroDivisionError):
                async with work:
                    with pytest.raises(IllegalStateError, match="its block has not ended"):
                        await anext(works)
                    with pytest.raises(IllegalStateError, match="before their transaction"):
                        await reader.commit()
                    raise ZeroDivisionError
            work = await anext(works)
            async with work:
                assert [each.offset for each in work] == [0, 1, 2, 3]
            await reader.commit()
            await asyncio.sleep(1)  # for the marker
            assert committed(world) == {ZERO: 4}

    live(life)


def test_an_error_of_another_group_in_a_transaction_is_raised() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 4, 1)
        async with a_producer(world, "worker") as producer, consumer(world) as reader:
            async for work in reader.transactions(producer):
                with pytest.raises(IllegalGenerationError, match="of another group"):
                    async with work:
                        raise IllegalGenerationError("of another group")
                break

    live(life)


@each_protocol
def test_a_topic_that_goes_in_a_transaction_ends_no_loop_over_others(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        for name in ("bills", "results"):
            world.cluster.create_topic(name, 1)
        await fill(world, 20, 1)
        servers = world.cluster.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send("bills", b"")
        options: dict[str, Any] = {"topics": ("orders", "bills"), "group_protocol": protocol}
        async with a_producer(world, "worker") as producer, consumer(world, **options) as reader:
            async for work in reader.transactions(producer, max_records=5):
                async with work:
                    if any(each.topic == "bills" for each in work):
                        async with Admin(bootstrap_servers=servers) as admin:
                            await admin.delete_topics("bills")
                    for each in work:
                        producer.send("results", each.value or b"")
                await asyncio.sleep(1)  # for the marker
                if committed(world).get(ZERO) == 20:
                    break
        results = [each.value for each in world.cluster.records("results")]
        assert results == [b"%d" % number for number in range(20)]

    live(life)


@each_protocol
def test_partitions_without_records_are_committed_with_a_transaction(protocol: str) -> None:
    """The loop never waits, so there is no other time for it."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 400, 1)
        async with a_producer(world, "writer") as producer:
            await write(producer, 1, commits=False)
        options = {**READ_COMMITTED, "group_protocol": protocol}
        async with a_producer(world, "worker") as producer, consumer(world, **options) as reader:
            async for work in reader.transactions(producer, max_records=10):
                async with work:
                    last = work.records[-1]
                if last.offset == 199:
                    break
            await asyncio.sleep(1)  # the coordinator writes its marker
            assert committed(world) == {ZERO: 200, ONE: 4}

    live(life, 2)


def test_a_marker_behind_a_commit_is_no_record_that_another_member_repeats() -> None:
    progress = Progress(Cursor())
    partition = AssignedPartition(ZERO)
    partition.begin(OffsetAndMetadata(0), None)
    progress.add(partition)
    state = partition.state
    written = batch(0, b"a", producer_id=7, transactional=True) + marker(1, 7, commits=True)
    fetched = FetchedPartition(0, written, 2, 2, ())
    for _ in state.taking(fetched, committed_only=False, check_crcs=True):
        pass
    state.advance(state.pop().next_offset)
    progress.committed(ZERO, 1)  # the marker was not fetched yet
    assert progress.position(ZERO) == 2
    progress.release(ZERO)
    assert progress.take_uncommitted() == frozenset()


"""Seconds of one way: the messages of two connections overtake each other."""


async def read(reader: Consumer, done: dict[TopicPartition, int]) -> None:
    async for record in reader:
        await asyncio.sleep(0.05)
        done[record.topic_partition] = record.offset  # those before it are acknowledged


def losses(moment: float, seed: int, options: Mapping[str, Any]) -> list[TopicPartition]:
    """The partitions whose last commit is lost by a close so many seconds after a join."""
    lost: list[TopicPartition] = []

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 2_000, 4)
        done: dict[TopicPartition, int] = {}
        first = consumer(world, auto_commit_interval_ms=100_000, client_id="a", **options)
        async with consumer(world, client_id="b", **options):
            await first.start()
            reading = asyncio.create_task(read(first, done))
            await asyncio.sleep(22)
            async with consumer(world, client_id="c", **options):
                await asyncio.sleep(0.3)
                world.cluster.set_latency(0.01, SLOWEST)
                await asyncio.sleep(moment)
                reading.cancel()
                await asyncio.wait([reading])
                assert done
                began = world.now
                await first.close()
                assert world.now - began < 12
                committed = world.cluster.committed_offsets("g")
                for where, offset in done.items():
                    if where not in committed or committed[where].offset < offset:
                        lost.append(where)

    live(life, 4, seed=seed)
    return lost


def test_a_join_under_way_loses_no_commit() -> None:
    options = {"partition_assignment_strategy": "cooperative-sticky"}
    for seed in range(10):
        assert not losses(2.2 + seed * 0.12, seed, options), seed


def test_a_new_epoch_loses_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers before Kafka 4.3 (KIP-1251) take commits in the newest epoch alone."""
    stale = 0

    def refuses_commit(
        group: ConsumerGroup, member_id: str, _: str | None, epoch: int, **__: Any
    ) -> ErrorCode:
        nonlocal stale
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        stale += epoch != member.epoch
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    monkeypatch.setattr(ConsumerGroup, "refuses_commit", refuses_commit)
    options = {"group_protocol": "consumer"}
    for seed in range(12):
        assert not losses(1.0 + seed * 0.15, seed, options), seed
    assert stale


@each_protocol
@pytest.mark.parametrize("error", [UnknownTopicIdError, UnknownTopicOrPartitionError])
def test_a_coordinator_that_does_not_know_the_topic_yet_loses_no_commit(
    protocol: str, error: type[KafkaError]
) -> None:
    """The leaders serve the partitions, so the coordinator's metadata are late."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 300, 2)
        done: dict[TopicPartition, int] = {}
        options: dict[str, Any] = {"group_protocol": protocol}
        first = consumer(world, auto_commit_interval_ms=100_000, **options)
        async with first:
            reading = asyncio.create_task(read(first, done))
            await asyncio.sleep(20)
            world.cluster.fail_next(Api.OFFSET_COMMIT, error, times=3)
            async with consumer(world, **options) as second:
                await asyncio.sleep(20)
                [where] = second.assignment
                assert where not in first.assignment
                committed = world.cluster.committed_offsets("g")
                assert committed[where].offset == done[where] + 1
            reading.cancel()

    live(life, 2)


@each_protocol
@pytest.mark.parametrize("moment", [0.0, 1.0, 10.0])
def test_offsets_of_a_deleted_topic_hold_up_no_revocation(
    protocol: str, moment: float, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("bills", 2)
        await fill(world, 300, 2)
        servers = world.cluster.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            for number in range(2):
                await producer.send("bills", b"", partition=number)
        options: dict[str, Any] = {"topics": ("orders", "bills"), "group_protocol": protocol}
        async with consumer(world, auto_commit_interval_ms=100_000, **options) as first:
            reading = asyncio.create_task(read(first, {}))
            await asyncio.sleep(20)
            async with Admin(bootstrap_servers=servers) as admin:
                await admin.delete_topics("bills")
            await asyncio.sleep(moment)
            arrived = asyncio.Event()
            async with (
                consumer(world, on_assigned=lambda _: arrived.set(), **options),
                asyncio.timeout(10),
            ):
                await arrived.wait()
            reading.cancel()

    live(life, 2)
    failed = [each for each in caplog.records if "a commit failed" in each.getMessage()]
    assert {each.levelno for each in failed} <= {logging.INFO}
