"""The accumulator's rules, with a clock that the test holds and futures that are none."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from aioproducer.accumulator.buffer_pool import BufferPool
from aioproducer.accumulator.partition_queue import NO_LEADER
from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.accumulator.record_accumulator import BatchingRules, RecordAccumulator
from aioproducer.accumulator.topic_queues import StickyChoice
from aioproducer.accumulator.waiting_line import WaitingLine, WaitingRecord
from aioproducer.cluster.snapshot import PartitionInfo, TopicInfo
from aioproducer.errors import (
    BufferExhaustedError,
    InvalidPartitionError,
    ProducerError,
    RecordTooLargeError,
)
from aioproducer.model import RecordMetadata
from aioproducer.partitioning import PartitionFunction, murmur2_partition
from aioproducer.records.builder import BATCH_OVERHEAD, MAX_RECORD_OVERHEAD, batch_size_bound

START = 1_000.0
TIMESTAMP_MS = 1_700_000_000_000
BATCH = 1_000
FULL = 900
"""Bytes of a value that leaves no room in its batch for another like it."""
LINGER = 0.1
DELIVERY = 120.0
BLOCK = 60.0


class Token:
    """Stands for a future: takes one fate."""

    def __init__(self) -> None:
        self.fate: RecordMetadata | BaseException | None = None
        self.cancelled = False

    def done(self) -> bool:
        return self.cancelled or self.fate is not None

    def set_result(self, metadata: RecordMetadata, /) -> None:
        assert not self.done()
        self.fate = metadata

    def set_exception(self, error: BaseException, /) -> None:
        assert not self.done()
        self.fate = error

    def exception(self) -> BaseException | None:
        return self.fate if isinstance(self.fate, BaseException) else None

    @property
    def partition(self) -> int:
        assert isinstance(self.fate, RecordMetadata)
        return self.fate.partition


class Flushed:
    """Stands for the future of a flush."""

    resolved = False
    given_up = False
    error: BaseException | None = None

    def done(self) -> bool:
        return self.resolved or self.given_up or self.error is not None

    def set_result(self, _result: None, /) -> None:
        assert not self.done()
        self.resolved = True

    def set_exception(self, error: BaseException, /) -> None:
        assert not self.done()
        self.error = error


class World:
    """An accumulator and the hands that the sender and the admission lay on it."""

    def __init__(
        self,
        *,
        memory: int = 100 * BATCH,
        line: int = 25 * BATCH,
        keep: int = 100 * BATCH,
        linger: float | None = LINGER,
        max_request_size: int = 100 * BATCH,
        partitioner: PartitionFunction | None = None,
        unavailable: Callable[[int], bool] = lambda _node: False,
        expansion: float = 1.0,
        **rules: Any,
    ) -> None:
        self.now = START
        self.wakes = 0
        self.pool = BufferPool(memory, BATCH)
        self.line = WaitingLine(line, self.pool, keep)
        self.accumulator = RecordAccumulator(
            BatchingRules(
                batch_size=BATCH,
                max_request_size=max_request_size,
                linger=linger,
                adaptive_linger=0.005,
                delivery_timeout=DELIVERY,
                **rules,
            ),
            self.pool,
            self.line,
            StickyChoice(Random(3), adaptive=True, unavailable=unavailable),
            self.wake,
            lambda _topic: expansion,
            partitioner,
        )

    def wake(self) -> None:
        self.wakes += 1

    def learn(self, *leaders: int, topic: str = "t") -> None:
        partitions = tuple(PartitionInfo(number, node) for number, node in enumerate(leaders))
        self.accumulator.update_topic(TopicInfo(topic, None, partitions), self.now)
        for queue in self.accumulator._topics[topic].partitions:
            queue.acknowledged = self.acknowledged

    acknowledged = True
    """Every partition has acknowledged a batch before."""

    def send(
        self,
        partition: int | None = 0,
        size: int = 10,
        *,
        key: bytes | None = None,
        topic: str = "t",
    ) -> Token:
        """What ``Producer.send()`` does."""
        token, value, accumulator = Token(), bytes(size), self.accumulator
        if partition is None and key is None:
            join = accumulator.keyless.get(topic)
            if join is not None and join(token, TIMESTAMP_MS, value):
                return token
        if partition is None:
            partition = accumulator.choose_partition(topic, key, value)
        found = accumulator.append(topic, partition, TIMESTAMP_MS, key, value, (), token, self.now)
        if found is None:
            accumulator.wait_in_line(
                WaitingRecord(
                    topic,
                    partition,
                    TIMESTAMP_MS,
                    key,
                    value,
                    (),
                    token,
                    size=accumulator.checked_size(topic, key, value, ()),
                    sent=self.now,
                    deadline=self.now + BLOCK,
                )
            )
        return token

    def withdraw(self, token: Token) -> None:
        """Cancel a record in line."""
        token.cancelled = True
        (record,) = (record for record in self.line if record.token is token)
        self.accumulator.withdraw(record, self.now)

    def ready(self, node: int = 1, *, idle: bool = False) -> Any:
        """In how many seconds."""
        due = self.accumulator.ready(node, self.now, idle=idle)
        return None if due is None else pytest.approx(due - self.now)

    def drain(self, node: int = 1, max_size: int = 100 * BATCH) -> list[ProducerBatch]:
        return self.accumulator.drain(node, max_size, self.now)

    def drain_one(self, node: int = 1) -> ProducerBatch:
        (batch,) = self.drain(node)
        return batch

    def retry(self, batch: ProducerBatch, after: float = 0.0) -> None:
        self.accumulator.retry(batch, self.now + after, self.now)

    def deliver(self, *batches: ProducerBatch) -> None:
        for batch in batches:
            batch.deliver(0, -1)
            self.complete(batch)

    def fail(self, batch: ProducerBatch) -> None:
        batch.fail(ProducerError("failed"))
        self.complete(batch)

    def complete(self, batch: ProducerBatch) -> None:
        buffer = self.accumulator.complete(batch, self.now)
        assert buffer is not None or batch.is_part
        if buffer is not None:
            with pytest.raises(StopIteration):
                self.pool.deallocate(buffer).send(None)

    def admit(self) -> bool:
        """Give memory to the first in line; whether there was any."""
        stalled = self.accumulator.next_stalled()
        if stalled is None:
            return False
        queue, size = stalled
        buffer = self.pool.try_allocate(size)
        if buffer is None:
            self.accumulator.give_up(queue)
            return False
        assert self.accumulator.admit(queue, buffer, self.now)
        return True

    def deliver_all(self, *nodes: int) -> None:
        """Until nothing is left."""
        while self.accumulator.incomplete or self.line:
            batches = [batch for node in nodes or (1,) for batch in self.drain_if_any(node)]
            self.deliver(*batches)
            assert self.admit() or batches

    def drain_if_any(self, node: int) -> list[ProducerBatch]:
        return self.drain(node) if node in self.accumulator.nodes() else []


def places(batches: Sequence[ProducerBatch]) -> list[int]:
    return [batch.topic_partition.partition for batch in batches]


# --- when batches may leave --------------------------------------------------------------------


@pytest.fixture
def world() -> World:
    made = World()
    made.learn(1, 1, 2)
    return made


def nothing(world: World) -> None:
    pass


def a_record(world: World) -> None:
    world.send()


def a_full_batch(world: World) -> None:
    world.send(size=FULL)
    world.send(size=FULL)


def many_records_of_one_batch(world: World) -> None:
    for _ in range(10):
        world.send()


def a_record_and_no_memory_elsewhere(world: World) -> None:
    world.send()
    while len(world.line) == 0:
        world.send(2, size=FULL)


def a_record_and_close(world: World) -> None:
    world.send()
    world.accumulator.close()


def a_record_and_flush(world: World) -> None:
    world.send()
    world.accumulator.flush(Flushed())


def a_record_and_an_old_flush(world: World) -> None:
    world.accumulator.flush(Flushed())
    world.send()
    world.deliver(world.drain_one())
    world.accumulator.flush(Flushed())
    world.send()


def a_record_and_a_flush_that_ended_with_a_late_record(world: World) -> None:
    world.send(topic="unknown")
    world.accumulator.flush(Flushed())
    world.now += BLOCK
    for late in world.line.expired(world.now):
        world.accumulator.fail_expired(late, BufferExhaustedError("late"))
    world.send()


def a_record_elsewhere(world: World) -> None:
    world.send(2)


def a_retry(world: World) -> None:
    world.send()
    world.retry(world.drain_one())


def a_retry_in_backoff(world: World) -> None:
    world.send()
    world.retry(world.drain_one(), after=0.5)


def a_retry_after_its_backoff(world: World) -> None:
    a_retry_in_backoff(world)
    world.now += 0.5
    world.accumulator.release_delayed(world.now)


@pytest.mark.parametrize(
    ("happened", "due"),
    [
        (nothing, None),
        (a_record, LINGER),
        (many_records_of_one_batch, LINGER),
        (a_full_batch, 0.0),
        (a_record_and_no_memory_elsewhere, 0.0),
        (a_record_and_close, 0.0),
        (a_record_and_flush, 0.0),
        (a_record_and_an_old_flush, LINGER),
        (a_record_and_a_flush_that_ended_with_a_late_record, LINGER),
        (a_record_elsewhere, None),
        (a_retry, 0.0),
        (a_retry_in_backoff, None),
        (a_retry_after_its_backoff, 0.0),
    ],
)
def test_a_node_is_ready(
    world: World, happened: Callable[[World], None], due: float | None
) -> None:
    happened(world)
    assert world.ready() == due


@pytest.mark.parametrize(
    ("linger", "idle", "age", "due"),
    [
        (0.1, False, 0.0, 0.1),
        (0.1, True, 0.0, 0.1),
        (0.1, False, 0.04, 0.06),
        (0.1, False, 0.1, 0.0),
        (0.1, False, 5.0, 0.0),
        (0.0, False, 0.0, 0.0),
        (None, True, 0.0, 0.0),
        (None, False, 0.0, 0.005),
        (None, False, 0.002, 0.003),
        (None, False, 0.005, 0.0),
    ],
)
def test_linger(linger: float | None, idle: bool, age: float, due: float) -> None:
    world = World(linger=linger)
    world.learn(1)
    world.send()
    world.now += age
    world.send()
    assert world.ready(idle=idle) == due


def test_the_oldest_batch_of_a_node_sets_its_time(world: World) -> None:
    world.send(0)
    world.now += 0.03
    world.send(1)
    assert world.ready() == 0.07
    world.now += 0.01
    world.deliver(world.drain(max_size=1)[0])
    assert world.ready() == 0.0, "a batch that found no place in the request is not kept waiting"


async def test_one_who_waits_in_the_pool_makes_every_node_ready(world: World) -> None:
    world.send()
    world.send(2)
    task = asyncio.create_task(world.pool.allocate(world.pool.total, 60.0))
    await asyncio.sleep(0)
    assert world.accumulator.exhausted
    assert (world.ready(1), world.ready(2)) == (0.0, 0.0)
    task.cancel()
    await asyncio.wait([task])
    assert world.ready(1) == LINGER


def test_lingering_batches_travel_along_with_a_full_one(world: World) -> None:
    world.send(1)
    a_full_batch(world)
    assert sorted(places(world.drain())) == [0, 1]


def test_a_new_batch_wakes_the_sender_and_a_record_in_an_old_one_does_not(world: World) -> None:
    world.send()
    assert world.wakes == 1
    world.send()
    assert world.wakes == 1
    world.send(size=FULL)
    assert world.wakes == 2


def test_the_backoff_that_ends_next(world: World) -> None:
    for partition in (0, 1, 2):
        world.send(partition)
    first, second = world.drain()
    assert world.accumulator.release_delayed(world.now) is None
    world.retry(first, after=0.7)
    world.retry(second, after=0.3)
    world.retry(world.drain_one(2), after=0.5)
    assert world.accumulator.release_delayed(world.now) == pytest.approx(START + 0.3)
    world.now += 0.3
    assert world.accumulator.release_delayed(world.now) == pytest.approx(START + 0.5)
    assert world.drain() == [second]


# --- what leaves -------------------------------------------------------------------------------


def test_one_batch_of_each_partition(world: World) -> None:
    for _ in range(3):
        world.send(0, FULL)
        world.send(1, FULL)
    world.send(2, FULL)
    assert [sorted(places(world.drain())) for _ in range(3)] == [[0, 1]] * 3
    assert world.accumulator.nodes() == [2]
    assert places(world.drain(2)) == [2]


def test_a_drained_batch_takes_no_more_records(world: World) -> None:
    world.send()
    batch = world.drain_one()
    world.send()
    assert batch.count == 1
    assert world.drain_one() is not batch
    keyless = World()
    keyless.learn(1)
    keyless.send(None)
    batch = keyless.drain_one()
    keyless.send(None)
    assert batch.count == 1


@pytest.mark.parametrize(
    ("max_size", "drained"), [(1, 1), (700, 1), (1_399, 1), (1_400, 2), (2_099, 2), (2_100, 3)]
)
def test_a_request_is_filled_up_to_its_limit_but_takes_one_batch_at_least(
    max_size: int, drained: int
) -> None:
    world = World()
    world.learn(1, 1, 1)
    for partition in range(3):
        world.send(partition, 700 - BATCH_OVERHEAD - 9)
    assert [batch.size for batch in world.accumulator.incomplete] == [700] * 3
    assert len(world.drain(max_size=max_size)) == drained
    assert world.ready() == (0.0 if drained < 3 else None)


def test_no_partition_starves_however_many_there_are() -> None:
    world = World(memory=1_000 * BATCH)
    world.learn(*[1] * 20)
    drained: Counter[int] = Counter()
    for _ in range(40):
        for partition in range(20):
            world.send(partition, FULL)
        batches = world.drain(max_size=3 * BATCH)
        drained.update(places(batches))
        world.deliver(*batches)
    assert max(drained.values()) - min(drained[partition] for partition in range(20)) <= 1


def test_a_batch_too_large_for_this_request_is_first_in_the_next() -> None:
    world = World()
    world.learn(1, 1, 1)
    for partition, size in enumerate((FULL, 5_000, FULL)):
        world.send(partition, size)
    assert places(world.drain(max_size=2 * BATCH)) == [0]
    world.send(0, FULL)
    assert places(world.drain(max_size=2 * BATCH)) == [1]
    assert places(world.drain(max_size=2 * BATCH)) == [2, 0]


def test_no_batch_in_backoff_and_none_behind_it(world: World) -> None:
    world.send(0, FULL)
    world.send(0, FULL)
    world.send(1)
    batches = world.drain()
    world.retry(batches[0], after=0.5)
    world.deliver(batches[1])
    assert world.drain_if_any(1) == []
    world.now += 0.5
    world.accumulator.release_delayed(world.now)
    assert world.drain() == [batches[0]]
    assert world.drain_one().order == 1


# --- retries keep their order ------------------------------------------------------------------


def three_on_the_wire(world: World) -> list[ProducerBatch]:
    for _ in range(4):
        world.send(0, FULL)
    return [world.drain_one() for _ in range(3)]


def test_retries_leave_in_their_first_order(world: World) -> None:
    batches = three_on_the_wire(world)
    assert [batch.order for batch in batches] == [0, 1, 2]
    for batch in (batches[2], batches[0], batches[1]):
        world.retry(batch)
    for batch in batches:
        assert world.drain() == [batch]
        assert batch.attempts == 1
        if batch is not batches[-1]:
            assert world.drain_if_any(1) == [], "the next retry waits for this one's answer"
        world.deliver(batch)
    assert world.drain_one().order == 3


def test_a_retry_waits_for_an_earlier_batch_on_the_wire(world: World) -> None:
    first, second, third = three_on_the_wire(world)
    world.retry(second)
    world.retry(third)
    assert world.drain_if_any(1) == []
    world.retry(first)
    assert world.drain() == [first]
    assert world.drain_if_any(1) == []
    world.deliver(first)
    assert world.drain() == [second]
    world.fail(second)
    assert world.drain() == [third]


def test_without_sequence_numbers_a_retry_leaves_when_it_can() -> None:
    world = World(in_order=False)
    world.learn(1)
    _, second, _ = three_on_the_wire(world)
    world.retry(second)
    assert world.drain() == [second]


def test_one_at_a_time_mutes_a_partition_until_its_answer() -> None:
    world = World(one_at_a_time=True, in_order=False)
    world.learn(1, 1)
    for _ in range(3):
        world.send(0, FULL)
        world.send(1, FULL)
    a, b = world.drain()
    assert world.ready() is None
    world.deliver(b)
    assert places(world.drain()) == [1]
    world.retry(a)
    assert world.drain() == [a]
    world.fail(a)
    assert places(world.drain()) == [0]


def test_a_batch_that_must_be_alone_is(world: World) -> None:
    first, second, _ = three_on_the_wire(world)
    second.alone = True
    world.retry(second)
    world.deliver(first)
    assert world.drain_if_any(1) == []
    world.deliver(_)
    assert world.drain() == [second]
    assert world.drain_if_any(1) == []
    assert world.accumulator.is_first_in_line(second)
    world.deliver(second)
    assert world.drain_one().order == 3


def test_nothing_follows_a_batch_that_may_be_written_already(world: World) -> None:
    first, second, third = three_on_the_wire(world)
    world.deliver(first, third)
    second.uncertain = True
    world.retry(second)
    assert world.drain() == [second]
    assert world.drain_if_any(1) == []
    second.uncertain = False
    world.retry(second)
    assert world.drain() == [second]
    assert world.drain_one().order == 3, "it is surely not written: new batches may follow"


def test_a_later_retry_does_not_shorten_the_backoff(world: World) -> None:
    first, second, _ = three_on_the_wire(world)
    world.retry(first, after=0.5)
    world.accumulator.put_back(second, world.now, world.now)
    assert world.ready() is None
    world.now += 0.5
    world.accumulator.release_delayed(world.now)
    assert world.drain() == [first]


def test_first_in_line_is_whom_no_earlier_batch_precedes(world: World) -> None:
    batches = three_on_the_wire(world)
    first_in_line = world.accumulator.is_first_in_line
    assert [first_in_line(batch) for batch in batches] == [True, False, False]
    world.retry(batches[0])
    assert [first_in_line(batch) for batch in batches] == [True, False, False]
    world.fail(batches[0])
    assert [first_in_line(batch) for batch in batches[1:]] == [True, False]


def test_put_back_is_no_attempt(world: World) -> None:
    world.send()
    batch = world.drain_one()
    assert world.accumulator.anything_on_wire()
    world.accumulator.put_back(batch, world.now, world.now)
    assert not world.accumulator.anything_on_wire()
    assert batch.attempts == 0
    assert world.drain() == [batch]


# --- leaders -----------------------------------------------------------------------------------


def test_without_a_leader_the_topic_is_named_and_nothing_is_ready() -> None:
    world = World()
    world.learn(NO_LEADER, 1)
    world.learn(NO_LEADER, topic="idle")
    world.send(1)
    assert world.accumulator.topics_without_leader() == set()
    world.send(0)
    assert world.accumulator.topics_without_leader() == {"t"}
    assert places(world.drain(1)) == [1]
    world.learn(2, 1)
    assert world.accumulator.topics_without_leader() == set()
    assert places(world.drain(2)) == [0]


def test_a_new_leader_takes_the_whole_queue_at_once(world: World) -> None:
    world.send(0, FULL)
    world.send(0, FULL)
    world.retry(world.drain_one(), after=60.0)
    assert world.drain_if_any(1) == []
    world.learn(2, 1, 2)
    assert world.ready(1) is None
    assert world.ready(2) == 0.0
    assert [world.drain_one(2).order for _ in range(2)] == [0, 1]


def test_the_same_leader_again_ends_no_backoff(world: World) -> None:
    world.send()
    world.retry(world.drain_one(), after=60.0)
    world.learn(1, 1, 2)
    world.learn(1, 1, 1)
    assert world.ready() is None


def test_losing_the_leader_ends_no_backoff(world: World) -> None:
    world.send()
    world.retry(world.drain_one(), after=60.0)
    world.learn(NO_LEADER, 1, 2)
    assert world.accumulator.topics_without_leader() == set()
    world.now += 60.0
    world.accumulator.release_delayed(world.now)
    assert world.accumulator.topics_without_leader() == {"t"}


def test_an_answer_of_the_old_leader_counts_after_the_move(world: World) -> None:
    world.send(0, FULL)
    world.send(0, FULL)
    batch = world.drain_one(1)
    world.learn(2, 1, 2)
    world.retry(batch)
    assert world.drain(2) == [batch]
    world.deliver(batch)
    world.deliver(world.drain_one(2))
    assert world.pool.available == world.pool.total


# --- expiry ------------------------------------------------------------------------------------


def test_batches_expire_wherever_they_are(world: World) -> None:
    world.send(0)
    on_wire = world.drain_one()
    world.now += 1.0
    world.send(1)
    backing_off = world.drain_one()
    world.retry(backing_off, after=500.0)
    world.now += 1.0
    world.send(2)
    (_, _, waiting) = world.accumulator.incomplete
    seen = []
    for seconds in (0.0, DELIVERY - 2.001, 0.001, 0.999, 0.001, 1.0):
        world.now += seconds
        late = world.accumulator.expired(world.now)
        seen.append(late)
        for batch in late:
            world.fail(batch)
    assert seen == [[], [], [on_wire], [], [backing_off], [waiting]]
    assert world.pool.available == world.pool.total
    assert world.accumulator.nodes() == []
    assert world.accumulator.next_deadline(world.now) is None


def test_the_batch_behind_an_expired_one_leaves(world: World) -> None:
    world.send(0, FULL)
    world.now += 1.0
    world.send(0, FULL)
    head, behind = world.accumulator.incomplete
    world.now = START + DELIVERY
    assert world.accumulator.expired(world.now) == [head]
    world.fail(head)
    assert world.drain() == [behind]


def test_the_next_deadline_is_the_earliest_of_batches_and_line(world: World) -> None:
    assert world.accumulator.next_deadline(world.now) is None
    world.send()
    assert world.accumulator.next_deadline(world.now) == START + DELIVERY
    world.send(topic="unknown")
    assert world.accumulator.next_deadline(world.now) == START + BLOCK
    world.now = START + BLOCK
    assert len(world.line.expired(world.now)) == 1
    assert world.accumulator.next_deadline(world.now) == START + DELIVERY


def test_the_time_in_line_counts_for_the_delivery() -> None:
    world = World(memory=BATCH)
    world.learn(1)
    world.send(0, FULL)
    world.now += 3.0
    world.send(0, FULL)
    world.now += 5.0
    world.deliver(world.drain_one())
    assert world.admit()
    (batch,) = world.accumulator.incomplete
    assert (batch.created, batch.deadline) == (START + 8.0, START + 3.0 + DELIVERY)


def test_a_batch_begun_later_may_expire_earlier() -> None:
    world = World(memory=2 * BATCH)
    world.learn(1, 1)
    for _ in range(2):
        world.send(0, FULL)
    world.now += 1.0
    waited = world.send(0, FULL)
    world.now += 4.0
    world.send(1, FULL)
    for _ in range(2):
        world.deliver(world.drain_one())
    assert world.admit(), "partition 1 holds less, so it comes first"
    (late,) = world.accumulator.incomplete
    world.now = START + DELIVERY + 0.5
    assert world.accumulator.expired(world.now) == []
    assert world.admit()
    world.now = START + DELIVERY + 1.0
    (admitted,) = world.accumulator.expired(world.now)
    assert admitted.builder.tokens == [waited]
    world.fail(admitted)
    world.now += 4.0
    assert world.accumulator.expired(world.now) == [late]


# --- records in line ---------------------------------------------------------------------------


def test_records_of_an_unknown_topic_are_placed_in_order() -> None:
    world = World()
    tokens = [world.send(None, key=b"%d" % (number % 3)) for number in range(30)]
    assert len(world.line) == 30
    assert world.accumulator.awaiting("t") == list(world.line)
    world.learn(1, 1, 1)
    assert not world.line
    assert world.accumulator.awaiting("t") == []
    batches = world.drain()
    assert sorted(token for batch in batches for token in map(id, batch.builder.tokens)) == sorted(
        map(id, tokens)
    )
    for batch in batches:
        numbers = [tokens.index(token) for token in batch.builder.tokens]
        assert numbers == sorted(numbers)
        assert {murmur2_partition(b"%d" % (number % 3), 3) for number in numbers} == {
            batch.topic_partition.partition
        }


def test_a_record_never_overtakes_one_in_line_for_its_partition() -> None:
    world = World(memory=2 * BATCH)
    world.learn(1, 1)
    sent = [world.send(0, size) for size in (FULL, FULL, FULL, 10, 10, FULL, 10)]
    assert len(world.line) == 5
    world.deliver(world.drain_one())
    sent.append(world.send(0, 10))
    assert len(world.line) == 6, "memory is there again, but others were first"
    log: list[Token] = [*sent[:1]]
    while world.accumulator.incomplete or world.line:
        world.admit()
        sent.append(world.send(0, 10))
        for batch in world.drain():
            log.extend(batch.builder.tokens)
            world.deliver(batch)
        if len(sent) > 20:
            world.deliver_all()
            break
    assert log == sent[: len(log)]
    assert all(token.done() for token in sent)


def test_the_short_way_in_is_closed_while_records_wait() -> None:
    world = World(memory=BATCH)
    world.learn(1)
    sent = [world.send(None, size) for size in (FULL, FULL, 10)]
    assert world.accumulator.keyless["t"](Token(), TIMESTAMP_MS, b"") == 0
    assert len(world.line) == 2
    batch = world.drain_one()
    assert batch.builder.tokens == sent[:1]
    world.deliver(batch)
    assert world.admit()
    assert world.drain_one().builder.tokens == sent[1:]


def test_who_holds_least_memory_is_served_first() -> None:
    world = World(memory=6 * BATCH)
    world.learn(1, 2, 2)
    for _ in range(4):
        world.send(0, FULL)
    for partition in (1, 2):
        world.send(partition, FULL)
    waiting = [world.send(0, FULL), world.send(2, FULL), world.send(1, FULL)]
    for batch in world.drain(2):
        world.deliver(batch)
        assert world.admit()
    assert [record.token for record in world.line] == waiting[:1]


def test_a_dead_partition_does_not_keep_memory_from_the_others() -> None:
    world = World(memory=4 * BATCH)
    world.learn(1, 2)
    dead = [world.send(0, FULL) for _ in range(8)]
    alive = [world.send(1, FULL) for _ in range(8)]
    world.fail(world.drain_one(1))
    for _ in range(8):
        assert world.admit()
        world.deliver(world.drain_one(2))
    assert all(isinstance(token.fate, RecordMetadata) for token in alive)
    assert sum(token.done() for token in dead) == 1


def test_a_cancelled_record_in_line_is_not_sent() -> None:
    world = World(memory=BATCH)
    world.learn(1)
    early = world.send(topic="unknown")
    first, second, third, fourth = (world.send(0, FULL) for _ in range(4))
    for token in (second, fourth, early):
        token.cancelled = True
    world.learn(1, topic="unknown")
    world.deliver_all()
    assert [first.done(), third.done()] == [True, True]
    assert [second.fate, fourth.fate, early.fate] == [None] * 3
    assert (world.line.bytes, len(world.line)) == (0, 0)


def test_a_record_is_cancelled_by_its_caller_not_by_its_token() -> None:
    world = World(memory=BATCH)
    token, caller = Token(), Token()
    record = WaitingRecord(
        "t",
        0,
        TIMESTAMP_MS,
        None,
        b"v",
        (),
        token,
        size=100,
        sent=world.now,
        deadline=world.now + BLOCK,
        caller=caller,
    )
    world.accumulator.wait_in_line(record)
    assert not record.cancelled
    caller.cancelled = True
    assert record.cancelled
    world.learn(1)
    assert not world.accumulator.incomplete
    assert not world.line
    assert isinstance(token.exception(), ProducerError), "interceptors are told"


def test_a_cancelled_record_in_a_batch_is_sent_and_counted(world: World) -> None:
    tokens = [world.send() for _ in range(3)]
    tokens[1].cancelled = True
    batch = world.drain_one()
    assert batch.count == 3
    batch.deliver(70, -1)
    assert [token.fate and token.fate[2] for token in tokens] == [70, None, 72]  # type: ignore[index]


def test_a_larger_record_does_not_get_the_buffer_of_one_that_gave_up() -> None:
    world = World(memory=6 * BATCH)
    world.learn(1)
    for _ in range(6):
        world.send(0, FULL)
    small, large = world.send(0, FULL), world.send(0, 3 * BATCH)
    stalled = world.accumulator.next_stalled()
    assert stalled is not None
    queue, size = stalled
    assert size == BATCH
    small.cancelled = True
    assert not world.accumulator.admit(queue, bytearray(size), world.now)
    assert all(batch.count for batch in world.accumulator.incomplete)
    assert world.accumulator.exhausted, "it waits still"
    world.deliver_all()
    assert isinstance(large.fate, RecordMetadata)
    assert world.pool.available == world.pool.total


def test_admission_without_anybody_left_uses_nothing() -> None:
    world = World(memory=BATCH)
    world.learn(1)
    world.send(0, FULL)
    token = world.send(0, FULL)
    stalled = world.accumulator.next_stalled()
    assert stalled is not None
    token.cancelled = True
    assert not world.accumulator.admit(stalled[0], bytearray(BATCH), world.now)
    assert len(world.accumulator.incomplete) == 1
    world.accumulator.give_up(stalled[0])
    assert world.accumulator.next_stalled() is None
    assert not world.accumulator.exhausted


def test_whom_no_memory_was_found_for_stays_in_line() -> None:
    world = World(memory=BATCH)
    world.learn(1)
    world.send(0, FULL)
    token = world.send(0, FULL)
    assert not world.admit()
    assert not world.admit()
    world.deliver_all()
    assert isinstance(token.fate, RecordMetadata)


def test_keyless_records_in_line_spread_over_the_partitions() -> None:
    world = World(memory=2 * BATCH, line=100 * BATCH)
    world.learn(*[1] * 6)
    tokens = [world.send(None, FULL) for _ in range(60)]
    world.deliver_all()
    assert len({token.partition for token in tokens}) == 6
    assert max(Counter(token.partition for token in tokens).values()) < 30


def test_crowded_tells_when_to_wait() -> None:
    world = World(memory=3 * BATCH, line=2 * BATCH)
    world.learn(1)
    accumulator = world.accumulator
    crowded = []
    for _ in range(4):
        world.send(0, FULL)
        crowded.append(accumulator.crowded)
    assert crowded == [False, False, True, True]
    world.deliver_all()
    accumulator.update_crowded(world.now)
    assert not accumulator.crowded
    world.send(topic="unknown", size=900)
    accumulator.update_crowded(world.now)
    assert not accumulator.crowded
    world.send(topic="unknown", size=900)
    accumulator.update_crowded(world.now)
    assert accumulator.crowded
    closed = World()
    closed.accumulator.close()
    assert closed.accumulator.crowded


# --- the line itself ---------------------------------------------------------------------------


def test_a_full_line_refuses_at_once_and_keeps_what_it_has() -> None:
    world = World(line=200)
    sent = [world.send(topic="unknown", size=10) for _ in range(2)]
    with pytest.raises(BufferExhaustedError, match=r"2 records \(184 bytes\).*drain\(\)"):
        world.send(topic="unknown", size=10)
    assert [record.token for record in world.line] == sent
    assert world.line.bytes == 184
    assert world.line.crowded


def test_one_record_larger_than_the_line_may_wait_alone() -> None:
    world = World(line=200)
    world.send(topic="unknown", size=500)
    with pytest.raises(BufferExhaustedError):
        world.send(topic="unknown", size=0)


def test_a_withdrawn_record_makes_place_in_a_full_line() -> None:
    world = World(line=200)
    first, second = (world.send(topic="unknown", size=10) for _ in range(2))
    with pytest.raises(BufferExhaustedError):
        world.send(topic="unknown", size=10)
    world.withdraw(first)
    third = world.send(topic="unknown", size=10)
    assert [record.token for record in world.line] == [second, third]
    assert [record.token for record in world.accumulator.awaiting("unknown")] == [second, third]


def test_a_record_that_was_placed_is_not_withdrawn(world: World) -> None:
    token = world.send(topic="later")
    (record,) = world.line
    world.learn(1, topic="later")
    token.cancelled = True
    world.accumulator.withdraw(record, world.now)
    (batch,) = world.drain(1)
    assert batch.count == 1


def test_the_line_borrows_what_batches_leave() -> None:
    world = World(memory=20 * BATCH, line=BATCH, keep=5 * BATCH)
    sent = [world.send(topic="unknown", size=FULL) for _ in range(16)]
    with pytest.raises(BufferExhaustedError):
        world.send(topic="unknown", size=FULL)
    assert world.pool.available >= 5 * BATCH
    assert world.line.bytes > 14 * BATCH
    assert world.accumulator.crowded
    world.learn(*[1, 2, 3] * 10, topic="unknown")
    while world.accumulator.incomplete or world.line:
        while world.admit():
            pass
        for node in (1, 2, 3):
            for batch in world.drain(node) if node in world.accumulator.nodes() else ():
                world.deliver(batch)
    assert all(isinstance(token.fate, RecordMetadata) for token in sent)
    assert world.pool.available == world.pool.total


def test_records_leave_the_line_when_their_time_is_over() -> None:
    world = World()
    world.send(topic="unknown")
    world.now += 1.0
    token = world.send(topic="unknown")
    world.now = START + BLOCK
    (late,) = world.line.expired(world.now)
    world.accumulator.fail_expired(late, BufferExhaustedError("late"))
    assert isinstance(late.token.exception(), BufferExhaustedError)
    assert not token.done()
    assert [record.token for record in world.line] == [token]
    assert world.accumulator.fail_waiting([late], ProducerError("again")) == 0


def test_records_that_all_failed_leave_no_trace_of_their_topic() -> None:
    world = World()
    for _ in range(3):
        world.send(topic="typo")
    world.now += BLOCK
    assert not world.accumulator.forget_topic("typo")
    for late in world.line.expired(world.now):
        world.accumulator.fail_expired(late, BufferExhaustedError("late"))
    assert world.accumulator.awaiting("typo") == []
    assert world.accumulator.forget_topic("typo")
    token = world.send(topic="forbidden")
    refused = ProducerError("not allowed")
    assert world.accumulator.fail_waiting(world.accumulator.awaiting("forbidden"), refused) == 1
    assert token.fate is refused
    assert world.accumulator.awaiting("forbidden") == []
    assert world.accumulator.forget_topic("forbidden")
    assert world.line.bytes == 0


# --- sizes -------------------------------------------------------------------------------------


def test_a_record_over_the_limits_is_refused_and_the_option_named() -> None:
    world = World(max_request_size=2 * BATCH)
    world.learn(1)
    most = 2 * BATCH - BATCH_OVERHEAD - MAX_RECORD_OVERHEAD
    world.send(0, most)
    with pytest.raises(RecordTooLargeError, match="max_request_size"):
        world.send(0, most + 1)
    with pytest.raises(RecordTooLargeError, match="max_request_size"):
        world.send(topic="unknown", size=most + 1)
    small = World(memory=2 * BATCH)
    small.learn(1)
    with pytest.raises(RecordTooLargeError, match="buffer_memory"):
        small.send(0, most + 1)
    assert small.pool.available == small.pool.total


def test_a_large_record_has_a_batch_of_its_own_size() -> None:
    world = World()
    world.learn(1)
    world.send(0, 5 * BATCH)
    (batch,) = world.accumulator.incomplete
    assert batch.buffer is not None
    assert len(batch.buffer) == batch_size_bound(None, bytes(5 * BATCH), ())
    world.deliver_all()
    assert world.pool.available == world.pool.total


@pytest.mark.parametrize(
    ("expansion", "max_request_size", "size"),
    [(1.0, 100_000, 1_000), (2.5, 100_000, 2_500), (2.5, 1_700, 1_700), (500.0, 10**6, 100_000)],
)
def test_batches_are_larger_where_compression_will_make_them_smaller(
    expansion: float, max_request_size: int, size: int
) -> None:
    world = World(expansion=expansion, max_request_size=max_request_size)
    world.learn(1)
    world.send()
    assert world.pool.total - world.pool.available == size


# --- topics come, grow, shrink and go ----------------------------------------------------------


def test_more_partitions_are_used_as_soon_as_they_are_known() -> None:
    world = World()
    world.learn(1)
    with pytest.raises(InvalidPartitionError, match="partitions 0 to 0, not 3"):
        world.send(3)
    world.send(0)
    world.learn(1, 1, 1, 1)
    world.send(3)
    key = next(b"%d" % n for n in range(100) if murmur2_partition(b"%d" % n, 4) == 2)
    world.send(None, key=key)
    assert sorted(places(world.drain())) == [0, 2, 3]


def test_a_topic_made_anew_with_fewer_partitions_gets_no_more_records_in_the_others() -> None:
    world = World(memory=8 * BATCH)
    world.learn(1, 1, 1, 1)
    old = [world.send(partition, FULL) for partition in range(4) for _ in range(2)]
    in_flight = world.drain()
    stuck = world.send(3, FULL)
    keyed = {n: world.send(None, FULL, key=b"%d" % n) for n in range(8)}
    world.learn(2, 2)
    assert isinstance(stuck.fate, InvalidPartitionError)
    with pytest.raises(InvalidPartitionError):
        world.send(3)
    assert world.accumulator.topics_without_leader() == {"t"}
    assert world.ready(1) is None
    for batch in in_flight:
        if batch.topic_partition.partition < 2:
            world.deliver(batch)
        else:
            world.retry(batch, after=0.1)
            assert world.accumulator.queue_for(batch).leader == NO_LEADER
    keyless = [world.send(None) for _ in range(50)]
    world.now += DELIVERY
    for batch in world.accumulator.expired(world.now):
        if batch.topic_partition.partition >= 2:
            world.fail(batch)
    world.deliver_all(2)
    assert {token.partition for token in keyless} <= {0, 1}
    assert {n: token.partition for n, token in keyed.items()} == {
        n: murmur2_partition(b"%d" % n, 2) for n in keyed
    }
    assert all(token.done() for token in old)
    assert world.pool.available == world.pool.total
    world.learn(2, 2)
    assert world.accumulator.forget_topic("t")


def test_keyless_records_leave_a_partition_that_is_gone() -> None:
    world = World()
    world.learn(NO_LEADER, 1)
    first = world.send(None, 10)
    world.learn(1)
    later = [world.send(None, 10) for _ in range(3)]
    batch = world.drain_one()
    assert batch.topic_partition.partition == 0
    assert batch.builder.tokens == later
    (retired,) = (each for each in world.accumulator.incomplete if each is not batch)
    assert retired.builder.tokens == [first]


def test_partitions_that_come_back_take_their_batches_up_again() -> None:
    world = World()
    world.learn(1, 1, 1)
    tokens = [world.send(2, FULL) for _ in range(2)]
    first = world.drain_one()
    world.learn(1)
    assert world.accumulator.topics_without_leader() == {"t"}
    world.learn(1, 1, 1)
    tokens.append(world.send(2, FULL))
    world.deliver(first)
    world.deliver_all()
    assert [token.partition for token in tokens] == [2, 2, 2]
    assert world.pool.available == world.pool.total


def test_a_topic_is_forgotten_once_nothing_of_it_is_left(world: World) -> None:
    forget = world.accumulator.forget_topic
    world.send(None)
    assert not forget("t")
    batch = world.drain(1)[0] if 1 in world.accumulator.nodes() else world.drain(2)[0]
    assert not forget("t")
    world.deliver(batch)
    assert forget("t")
    assert "t" not in world.accumulator.keyless
    token = world.send(None)
    assert [record.token for record in world.accumulator.awaiting("t")] == [token]
    assert not forget("t")
    world.learn(1)
    assert [each.builder.tokens for each in world.accumulator.incomplete] == [[token]]
    assert forget("never seen")


# --- partitioners ------------------------------------------------------------------------------


def test_a_partitioner_of_the_users_sees_the_topic_and_is_obeyed() -> None:
    seen: list[Any] = []

    def choose(topic: str, key: bytes | None, value: bytes | None, partitions: Any) -> int:
        seen.append((topic, key, value, partitions.count, list(partitions.available)))
        return 2

    world = World(partitioner=choose)
    waiting = world.send(None, 1, key=b"k")
    assert seen == []
    world.learn(1, NO_LEADER, 1)
    world.send(None, 2)
    assert seen == [("t", b"k", b"\0", 3, [0, 2]), ("t", None, b"\0\0", 3, [0, 2])]
    batch = world.drain_one()
    assert batch.topic_partition.partition == 2
    assert batch.builder.tokens[0] is waiting


@pytest.mark.parametrize("answer", [-1, 3, None, "1", 1.0])
def test_a_partitioner_that_names_no_partition_fails_the_record(answer: Any) -> None:
    world = World(partitioner=lambda *_: answer)
    waiting, also = world.send(None), world.send(1)
    world.learn(1, 1, 1)
    assert isinstance(waiting.fate, InvalidPartitionError)
    assert not also.done()
    with pytest.raises(InvalidPartitionError, match="returned"):
        world.send(None)


def test_a_partitioner_that_raises_fails_the_record() -> None:
    def fails(*_: Any) -> int:
        raise KeyError("oops")

    world = World(partitioner=fails)
    waiting, also = world.send(None), world.send(1)
    world.learn(1, 1)
    assert isinstance(waiting.fate, InvalidPartitionError)
    assert isinstance(waiting.fate.__cause__, KeyError)
    assert world.drain_one().builder.tokens == [also]
    with pytest.raises(InvalidPartitionError, match="KeyError"):
        world.send(None)


def test_keyless_records_stick_to_a_partition_until_a_batch_is_full() -> None:
    world = World()
    world.learn(*[1] * 5)
    tokens = [world.send(None, 10) for _ in range(500)]
    world.deliver_all()
    partitions = [token.partition for token in tokens]
    changes = [n for n in range(1, 500) if partitions[n] != partitions[n - 1]]
    assert len(set(partitions)) == 5
    per_batch = (BATCH - BATCH_OVERHEAD) // 17
    assert all(after - before >= per_batch for before, after in pairwise(changes))


def test_small_batches_add_up_before_keyless_records_move_on() -> None:
    world = World()
    world.learn(*[1] * 50)
    partitions = []
    for _ in range(40):
        token = world.send(None, 100)
        world.deliver_all()
        partitions.append(token.partition)
    runs = [1]
    for before, after in pairwise(partitions):
        if before == after:
            runs[-1] += 1
        else:
            runs.append(1)
    # A record is 108 bytes here, and 182 at most: the eighth that would begin a batch at 756 goes.
    assert set(runs[:-1]) == {8}


def test_keyless_records_join_the_batch_that_keyed_ones_began() -> None:
    world = World()
    world.learn(1, NO_LEADER)
    for partition in (0, 1):
        world.send(partition, 100)
    world.send(None, 400)
    world.send(None, 400)
    world.learn(NO_LEADER, 1)
    world.send(None, 400)
    assert [batch.count for batch in world.accumulator.incomplete] == [3, 2]


def test_ignore_keys_makes_keyed_records_stick() -> None:
    world = World(ignore_keys=True)
    world.learn(*[1] * 12)
    for n in range(20):
        world.send(None, 1, key=b"%d" % n)
    assert len(world.accumulator.incomplete) == 1
    waiting = World(ignore_keys=True, memory=BATCH)
    waiting.learn(*[1] * 12)
    for n in range(4):
        waiting.send(None, FULL, key=b"%d" % n)
    waiting.deliver_all()


def test_keyless_records_avoid_leaderless_and_unavailable_partitions() -> None:
    world = World(unavailable=lambda node: node == 3)
    world.learn(NO_LEADER, 1, 3, NO_LEADER, 3)
    tokens = [world.send(None, FULL) for _ in range(20)]
    world.deliver_all(1)
    assert {token.partition for token in tokens} == {1}
    world.learn(NO_LEADER, NO_LEADER, 3, NO_LEADER, 3)
    tokens = [world.send(None, FULL) for _ in range(20)]
    world.deliver_all(3)
    assert {token.partition for token in tokens[1:]} == {2, 4}
    world.learn(*[NO_LEADER] * 5)
    for _ in range(40):
        world.send(None, FULL)
    assert {batch.topic_partition.partition for batch in world.accumulator.incomplete} == set(
        range(5)
    )


# --- flush -------------------------------------------------------------------------------------


def test_flush_of_nothing_is_done_at_once() -> None:
    world, flushed = World(), Flushed()
    world.accumulator.flush(flushed)
    assert flushed.resolved


def test_flush_waits_for_what_was_there_and_for_nothing_later() -> None:
    world, flushed = World(memory=2 * BATCH), Flushed()
    world.learn(1, 1)
    for partition in (0, 1):
        world.send(partition, FULL)
    in_line = world.send(0, FULL)
    world.send(topic="unknown")
    world.accumulator.flush(flushed)
    later = world.send(1, FULL)
    first, second = world.drain()
    world.deliver(second)
    world.retry(first)
    unknown = world.accumulator.awaiting("unknown")
    assert world.accumulator.fail_waiting(unknown, ProducerError("no such topic")) == 1
    world.deliver(world.drain_one())
    assert world.admit()
    assert not flushed.resolved
    batch = world.drain_one()
    assert batch.builder.tokens == [in_line]
    world.fail(batch)
    assert flushed.resolved
    assert not later.done()


def test_flushes_can_be_ended_with_an_error(world: World) -> None:
    going_on, given_up = Flushed(), Flushed()
    world.send()
    for flushed in (going_on, given_up):
        world.accumulator.flush(flushed)
    given_up.given_up = True
    error = ProducerError("broken")
    world.accumulator.fail_flushes(error)
    assert (going_on.error, given_up.error) == (error, None)
    assert world.ready() == LINGER
    world.deliver(world.drain_one())


def test_a_record_withdrawn_from_the_line_ends_its_flush() -> None:
    world, flushed = World(), Flushed()
    token = world.send(topic="unknown")
    world.accumulator.flush(flushed)
    assert not flushed.resolved
    world.withdraw(token)
    assert flushed.resolved
    assert not world.line


def test_several_flushes_end_each_at_its_own_time(world: World) -> None:
    flushes = [Flushed(), Flushed(), Flushed()]
    for partition, flushed in enumerate(flushes):
        world.send(partition)
        world.accumulator.flush(flushed)
    first, second = world.drain(1)
    world.deliver(second)
    assert [flushed.resolved for flushed in flushes] == [False, False, False]
    world.deliver(first)
    assert [flushed.resolved for flushed in flushes] == [True, True, False]
    flushes[2].given_up = True
    world.deliver(world.drain_one(2))
    assert not flushes[2].resolved


# --- a batch's fate ----------------------------------------------------------------------------


def test_delivery_tells_each_record_its_offset_time_and_sizes(world: World) -> None:
    def send(timestamp_ms: int, key: bytes | None, value: bytes | None) -> Token:
        token = Token()
        assert world.accumulator.append("t", 0, timestamp_ms, key, value, (), token, world.now)
        return token

    tokens = [
        send(5, None, b"aa"),
        send(5, None, b"aa"),
        send(5, None, b"aa"),
        send(9, b"k", None),
        send(5, None, b"aa"),
        send(5, b"", b""),
    ]
    batch = world.drain_one()
    batch.deliver(100, -1)
    assert [token.fate for token in tokens] == [
        RecordMetadata("t", 0, 100, 5, -1, 2),
        RecordMetadata("t", 0, 101, 5, -1, 2),
        RecordMetadata("t", 0, 102, 5, -1, 2),
        RecordMetadata("t", 0, 103, 9, 1, -1),
        RecordMetadata("t", 0, 104, 5, -1, 2),
        RecordMetadata("t", 0, 105, 5, 0, 0),
    ]
    assert isinstance(tokens[0].fate, RecordMetadata)


@pytest.mark.parametrize(
    ("base_offset", "log_append_time_ms", "offsets", "time"),
    [(7, -1, [7, 8], TIMESTAMP_MS), (-1, -1, [-1, -1], TIMESTAMP_MS), (0, 99, [0, 1], 99)],
)
def test_delivery_without_offsets_or_with_the_brokers_time(
    world: World, base_offset: int, log_append_time_ms: int, offsets: list[int], time: int
) -> None:
    tokens = [world.send(), world.send()]
    world.drain_one().deliver(base_offset, log_append_time_ms)
    assert [token.fate for token in tokens] == [
        RecordMetadata("t", 0, offset, time, -1, 10) for offset in offsets
    ]


def test_each_record_may_fail_with_its_own_error(world: World) -> None:
    tokens = [world.send() for _ in range(4)]
    tokens[3].cancelled = True
    own, others = ProducerError("own"), ProducerError("others")
    world.drain_one().fail_records({1: own, 3: own}, others)
    assert [token.fate for token in tokens] == [others, own, others, None]


def test_a_finished_batch_lets_go_of_its_records(world: World) -> None:
    world.send()
    batch = world.drain_one()
    world.deliver(batch)
    assert batch.builder.tokens == []
    assert batch.buffer is None
    assert batch.release() is None


# --- the first batch of an identity ------------------------------------------------------------


def test_nothing_follows_the_first_batch_before_it_is_acknowledged() -> None:
    world = World()
    world.acknowledged = False
    world.learn(1)
    for _ in range(3):
        world.send(0, FULL)
    (first,) = world.drain()
    assert world.drain() == []
    world.deliver(first)
    (second,) = world.drain()
    (third,) = world.drain()
    assert (first.order, second.order, third.order) == (0, 1, 2)
    world.accumulator.begin_identity()
    world.send(0, FULL)
    assert world.drain() == [], "nor under a new identity"


def test_a_batch_with_numbers_of_the_last_identity_does_not_count_for_the_next() -> None:
    world = World()
    world.learn(1)
    for _ in range(3):
        world.send(0, FULL)
    (kept,) = world.drain()
    world.retry(kept)
    kept.alone = True
    world.accumulator.begin_identity()
    assert world.drain() == [kept]
    world.deliver(kept)
    assert len(world.drain()) == 1
    assert world.drain_if_any(1) == []


def test_nothing_goes_to_a_new_leader_while_an_earlier_batch_is_at_the_old_one() -> None:
    world = World()
    world.learn(1)
    world.send(0, FULL)
    world.send(0, FULL)
    (first,) = world.drain(1)
    world.learn(2)
    assert world.accumulator.ready(2, world.now, idle=True) is None
    world.deliver(first)
    (second,) = world.drain(2)
    assert (second.order, second.node) == (1, 2)


# --- too large --------------------------------------------------------------------------------


def test_a_batch_is_split_in_its_place(world: World) -> None:
    flushed = Flushed()
    tokens = [world.send(0, 100) for _ in range(6)]
    big = world.drain_one()
    tokens.append(world.send(0, 100))
    world.accumulator.flush(flushed)
    assert world.accumulator.split(big, world.now) > 1
    assert big not in world.accumulator.incomplete
    order = []
    while world.accumulator.incomplete:
        assert not flushed.resolved
        batch = world.drain_one()
        order += batch.builder.tokens
        world.deliver(batch)
    assert order == tokens
    assert flushed.resolved
    assert world.pool.available == world.pool.total


def test_a_batch_over_the_batch_size_is_split_to_it_first() -> None:
    world = World(expansion=4.0)
    world.learn(1)
    for _ in range(30):
        world.send(0, 100)
    assert world.accumulator.split(world.drain_one(), world.now) == 4
    counts = []
    while world.accumulator.incomplete:
        batch = world.drain_one()
        counts.append(batch.count)
        world.deliver(batch)
    assert sum(counts) == 30


def test_parts_are_halved_down_to_single_records(world: World) -> None:
    tokens = [world.send(0, 100) for _ in range(6)]
    while world.accumulator.incomplete:
        batch = world.drain_one()
        if batch.count > 1:
            assert world.accumulator.split(batch, world.now) > 1
        else:
            world.deliver(batch)
    assert all(isinstance(token.fate, RecordMetadata) for token in tokens)


def test_a_retried_part_stays_in_front_of_the_next(world: World) -> None:
    tokens = [world.send(0, 100) for _ in range(6)]
    world.accumulator.split(world.drain_one(), world.now)
    order: list[Any] = []
    for attempt in range(10):
        batch = world.drain_one()
        if attempt % 2:
            order += batch.builder.tokens
            world.deliver(batch)
        else:
            world.accumulator.retry(batch, world.now, world.now)
        if not world.accumulator.incomplete:
            break
    assert order == tokens
