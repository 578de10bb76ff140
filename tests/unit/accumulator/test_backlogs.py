"""When batches may leave, which of them do, for which node, and in which order after retries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from aioproducer.engine.accumulator.producer_batch import ProducerBatch
from aioproducer.engine.records.batch_header import BATCH_OVERHEAD
from aioproducer.engine.records.builder import NO_PRODUCER_STATE, ProducerState
from aioproducer.errors import BufferExhaustedError
from aioproducer.foundation.tuning import STUCK_AFTER
from aioproducer.model import TopicPartition
from tests.support.tokens import FlushToken
from tests.unit.accumulator.world import (
    BATCH,
    BLOCK,
    FULL,
    LINGER,
    START,
    AccumulatorWorld,
    place_of,
    places,
)

# --- when batches may leave --------------------------------------------------------------------


def nothing(world: AccumulatorWorld) -> None:
    pass


def a_record(world: AccumulatorWorld) -> None:
    world.send()


def a_full_batch(world: AccumulatorWorld) -> None:
    world.send(size=FULL)
    world.send(size=FULL)


def many_records_of_one_batch(world: AccumulatorWorld) -> None:
    for _ in range(10):
        world.send()


def a_record_and_no_memory_elsewhere(world: AccumulatorWorld) -> None:
    world.send()
    while len(world.pending) == 0:
        world.send(2, size=FULL)


def a_record_and_close(world: AccumulatorWorld) -> None:
    world.send()
    world.accumulator.close()


def a_record_and_flush(world: AccumulatorWorld) -> None:
    world.send()
    world.accumulator.flush(FlushToken())


def a_record_and_an_old_flush(world: AccumulatorWorld) -> None:
    world.accumulator.flush(FlushToken())
    world.send()
    world.deliver(world.drain_one())
    world.accumulator.flush(FlushToken())
    world.send()


def a_record_and_a_flush_that_ended_with_a_late_record(world: AccumulatorWorld) -> None:
    world.send(topic="unknown")
    world.accumulator.flush(FlushToken())
    world.now += BLOCK
    for late in world.pending.expired(world.now):
        world.pending.fail([late], BufferExhaustedError("late"))
    world.send()


def a_record_elsewhere(world: AccumulatorWorld) -> None:
    world.send(2)


def a_retry(world: AccumulatorWorld) -> None:
    world.send()
    world.retry(world.drain_one())


def a_retry_in_backoff(world: AccumulatorWorld) -> None:
    world.send()
    world.retry(world.drain_one(), after=0.5)


def a_retry_after_its_backoff(world: AccumulatorWorld) -> None:
    a_retry_in_backoff(world)
    world.now += 0.5
    world.batches.backlogs.release_delayed(world.now)


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
    world: AccumulatorWorld, happened: Callable[[AccumulatorWorld], None], due: float | None
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
    world = AccumulatorWorld(linger=linger)
    world.learn(1)
    world.send()
    world.now += age
    world.send()
    assert world.ready(idle=idle) == due


@pytest.mark.parametrize(
    ("linger", "idle", "due"), [(LINGER, False, 0.0), (None, False, 0.005), (None, True, 0.0)]
)
def test_a_batch_without_memory_for_the_next_waits_for_responses_if_the_linger_adapts(
    linger: float | None, idle: bool, due: float
) -> None:
    """Otherwise batches for a distant broker leave nearly empty, and its requests are few."""
    world = AccumulatorWorld(linger=linger, memory=4 * BATCH)
    world.learn(1, 2)
    world.send(0)
    while not world.pending:
        world.send(1, FULL)
    assert world.memory_quota.is_awaited(1, world.now)
    assert world.ready(1, idle=idle) == due


def test_the_oldest_batch_of_a_node_sets_its_time(world: AccumulatorWorld) -> None:
    world.send(0)
    world.now += 0.03
    world.send(1)
    assert world.ready() == 0.07
    world.now += 0.01
    world.deliver(world.drain(max_size=1)[0])
    assert world.ready() == 0.0, "a batch that found no place in the request is not kept waiting"


def test_a_caller_that_waits_for_room_makes_every_node_ready(world: AccumulatorWorld) -> None:
    world.send()
    world.send(2)
    world.memory_quota.await_node(1)
    assert (world.ready(1), world.ready(2)) == (0.0, 0.0)
    world.memory_quota.await_no_more(1)
    assert world.ready(1) == LINGER


def test_who_waits_for_a_stuck_node_makes_that_node_ready_alone(world: AccumulatorWorld) -> None:
    world.now += 100 * LINGER
    for node in (1, 2):
        world.memory_quota.record_came(node, world.now)
    world.send()
    world.send(2)
    world.memory_quota.await_node(1)
    world.memory_quota._silent_since[1] -= STUCK_AFTER
    assert (world.ready(1), world.ready(2)) == (0.0, LINGER)


def test_lingering_batches_travel_along_with_a_full_one(world: AccumulatorWorld) -> None:
    world.send(1)
    a_full_batch(world)
    assert sorted(places(world.drain())) == [0, 1]


def test_the_backoff_that_ends_next(world: AccumulatorWorld) -> None:
    for partition in (0, 1, 2):
        world.send(partition)
    first, second = world.drain()
    assert world.batches.backlogs.release_delayed(world.now) is None
    world.retry(first, after=0.7)
    world.retry(second, after=0.3)
    world.retry(world.drain_one(2), after=0.5)
    assert world.batches.backlogs.release_delayed(world.now) == pytest.approx(START + 0.3)
    world.now += 0.3
    assert world.batches.backlogs.release_delayed(world.now) == pytest.approx(START + 0.5)
    assert world.drain() == [second]


# --- what leaves -------------------------------------------------------------------------------


def test_one_batch_of_each_partition(world: AccumulatorWorld) -> None:
    for _ in range(3):
        world.send(0, FULL)
        world.send(1, FULL)
    world.send(2, FULL)
    assert [sorted(places(world.drain())) for _ in range(3)] == [[0, 1]] * 3
    assert world.backlogs.nodes() == [2]
    assert places(world.drain(2)) == [2]


def test_a_drained_batch_takes_no_more_records(world: AccumulatorWorld) -> None:
    world.send()
    batch = world.drain_one()
    world.send()
    assert batch.count == 1
    assert world.drain_one() is not batch
    keyless = AccumulatorWorld()
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
    world = AccumulatorWorld()
    world.learn(1, 1, 1)
    for partition in range(3):
        world.send(partition, 700 - BATCH_OVERHEAD - 9)
    assert [batch.size for batch in world.batches] == [700] * 3
    assert len(world.drain(max_size=max_size)) == drained
    assert world.ready() == (0.0 if drained < 3 else None)


def test_no_partition_starves_however_many_there_are() -> None:
    world = AccumulatorWorld(memory=1_000 * BATCH)
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
    world = AccumulatorWorld()
    world.learn(1, 1, 1)
    for partition, size in enumerate((FULL, 5_000, FULL)):
        world.send(partition, size)
    assert places(world.drain(max_size=BATCH)) == [0]
    world.send(0, FULL)
    assert places(world.drain(max_size=2 * BATCH)) == [1]
    assert places(world.drain(max_size=2 * BATCH)) == [2, 0]


def test_smaller_batches_fill_a_request_behind_one_that_is_too_large() -> None:
    world = AccumulatorWorld()
    world.learn(1, 1, 1, 1)
    for partition, size in enumerate((FULL, 5_000, FULL, FULL)):
        world.send(partition, size)
        world.send(partition, size)
    assert places(world.drain(max_size=3 * BATCH)) == [0, 2, 3]
    assert world.ready() == 0.0
    assert places(world.drain(max_size=3 * BATCH)) == [1]
    assert places(world.drain(max_size=3 * BATCH)) == [0, 2, 3]
    assert places(world.drain(max_size=3 * BATCH)) == [1]


def test_a_request_that_is_nearly_full_is_not_filled() -> None:
    """Otherwise thousands of partitions would be looked at for each request."""
    world = AccumulatorWorld()
    world.learn(1, 1, 1)
    for partition, size in enumerate((FULL, FULL, 10)):
        world.send(partition, size)
    assert places(world.drain(max_size=BATCH + BATCH // 5)) == [0]


def test_no_batch_in_backoff_and_none_behind_it(world: AccumulatorWorld) -> None:
    world.send(0, FULL)
    world.send(0, FULL)
    world.send(1)
    batches = world.drain()
    world.retry(batches[0], after=0.5)
    world.deliver(batches[1])
    assert world.drain_if_any(1) == []
    world.now += 0.5
    world.batches.backlogs.release_delayed(world.now)
    assert world.drain() == [batches[0]]
    assert place_of(world.drain_one()) == 1


# --- leaders -----------------------------------------------------------------------------------


def test_without_a_leader_the_topic_is_named_and_nothing_is_ready() -> None:
    world = AccumulatorWorld()
    world.learn(None, 1)
    world.learn(None, topic="idle")
    world.send(1)
    assert world.backlogs.topics_without_leader() == set()
    world.send(0)
    assert world.backlogs.topics_without_leader() == {"t"}
    assert places(world.drain(1)) == [1]
    world.learn(2, 1)
    assert world.backlogs.topics_without_leader() == set()
    assert places(world.drain(2)) == [0]


def test_a_new_leader_takes_the_whole_queue_at_once(world: AccumulatorWorld) -> None:
    world.send(0, FULL)
    world.send(0, FULL)
    world.retry(world.drain_one(), after=60.0)
    assert world.drain_if_any(1) == []
    world.learn(2, 1, 2)
    assert world.ready(1) is None
    assert world.ready(2) == 0.0
    assert [place_of(world.drain_one(2)) for _ in range(2)] == [0, 1]


def test_the_same_leader_again_ends_no_backoff(world: AccumulatorWorld) -> None:
    world.send()
    world.retry(world.drain_one(), after=60.0)
    world.learn(1, 1, 2)
    world.learn(1, 1, 1)
    assert world.ready() is None


def test_losing_the_leader_ends_no_backoff(world: AccumulatorWorld) -> None:
    world.send()
    world.retry(world.drain_one(), after=60.0)
    world.learn(None, 1, 2)
    assert world.backlogs.topics_without_leader() == set()
    world.now += 60.0
    world.batches.backlogs.release_delayed(world.now)
    assert world.backlogs.topics_without_leader() == {"t"}


def test_an_answer_of_the_old_leader_counts_after_the_move(world: AccumulatorWorld) -> None:
    world.send(0, FULL)
    world.send(0, FULL)
    batch = world.drain_one(1)
    world.learn(2, 1, 2)
    world.retry(batch)
    assert world.drain(2) == [batch]
    world.deliver(batch)
    world.deliver(world.drain_one(2))
    assert world.pool.available == world.pool.total


# --- retries keep their order ------------------------------------------------------------------


def three_on_the_wire(world: AccumulatorWorld) -> list[ProducerBatch]:
    for _ in range(4):
        world.send(0, FULL)
    return [world.drain_one() for _ in range(3)]


def test_retries_leave_in_their_first_order(world: AccumulatorWorld) -> None:
    batches = three_on_the_wire(world)
    assert list(map(place_of, batches)) == [0, 1, 2]
    for batch in (batches[2], batches[0], batches[1]):
        world.retry(batch)
    for batch in batches:
        assert world.drain() == [batch]
        assert batch.attempts == 1
        if batch is not batches[-1]:
            assert world.drain_if_any(1) == [], "the next retry waits for this one's answer"
        world.deliver(batch)
    assert place_of(world.drain_one()) == 3


def test_a_retry_waits_for_an_earlier_batch_on_the_wire(world: AccumulatorWorld) -> None:
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
    world = AccumulatorWorld(in_order=False)
    world.learn(1)
    _, second, _ = three_on_the_wire(world)
    world.retry(second)
    assert world.drain() == [second]


def test_one_at_a_time_mutes_a_partition_until_its_answer() -> None:
    world = AccumulatorWorld(one_at_a_time=True, in_order=False)
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


def test_nothing_follows_a_batch_that_may_be_written_already(world: AccumulatorWorld) -> None:
    first, second, third = three_on_the_wire(world)
    world.deliver(first, third)
    second.uncertain = True
    world.retry(second)
    assert world.drain() == [second]
    assert world.drain_if_any(1) == []
    second.uncertain = False
    world.retry(second)
    assert world.drain() == [second]
    assert place_of(world.drain_one()) == 3, "it is surely not written: new batches may follow"


def test_a_later_retry_does_not_shorten_the_backoff(world: AccumulatorWorld) -> None:
    first, second, _ = three_on_the_wire(world)
    world.retry(first, after=0.5)
    world.batches.put_back(second, world.now, world.now)
    assert world.ready() is None
    world.now += 0.5
    world.batches.backlogs.release_delayed(world.now)
    assert world.drain() == [first]


def test_first_in_line_is_whom_no_earlier_batch_precedes(world: AccumulatorWorld) -> None:
    batches = three_on_the_wire(world)

    def first_in_line(batch: ProducerBatch) -> bool:
        return bool(batch.partition.is_first_in_line(batch))

    assert [first_in_line(batch) for batch in batches] == [True, False, False]
    world.retry(batches[0])
    assert [first_in_line(batch) for batch in batches] == [True, False, False]
    world.fail(batches[0])
    assert [first_in_line(batch) for batch in batches[1:]] == [True, False]


def test_put_back_is_no_attempt(world: AccumulatorWorld) -> None:
    world.send()
    batch = world.drain_one()
    assert batch in batch.partition.in_flight
    world.batches.put_back(batch, world.now, world.now)
    assert batch not in batch.partition.in_flight
    assert batch.attempts == 0
    assert world.drain() == [batch]


# --- sequence numbers --------------------------------------------------------------------------


def test_nothing_follows_the_first_batch_before_it_is_acknowledged() -> None:
    world = AccumulatorWorld()
    world.acknowledged = False
    world.learn(1)
    for _ in range(3):
        world.send(0, FULL)
    (first,) = world.drain()
    assert world.drain() == []
    world.deliver(first)
    (second,) = world.drain()
    (third,) = world.drain()
    assert list(map(place_of, (first, second, third))) == [0, 1, 2]
    world.deliver(second, third)
    third.partition.renumber(world.now)
    for _ in range(2):
        world.send(0, FULL)
    assert len(world.drain()) == 1
    assert world.drain() == [], "nor the first of a new epoch"


def test_a_batch_that_failed_lets_no_others_follow_one_another() -> None:
    world = AccumulatorWorld()
    world.acknowledged = False
    world.learn(1)
    for _ in range(3):
        world.send(0, FULL)
    world.fail(*world.drain())
    (second,) = world.drain()
    assert world.drain() == [], "no broker is known to have seen the producer"
    world.deliver(second)
    assert len(world.drain()) == 1


def test_behind_a_barrier_only_what_is_numbered_before_it_leaves(world: AccumulatorWorld) -> None:
    first, second, third = three_on_the_wire(world)
    for number, batch in enumerate((first, second, third)):
        batch.state = ProducerState(7, 0, number)
    partition = first.partition
    assert not partition.block(second.order, world.now), "all three are on the wire"
    world.retry(first)
    world.retry(second)
    assert not partition.block(second.order, world.now), (
        "the third is on the wire, the first is before"
    )
    assert world.drain() == [first]
    assert world.drain_if_any(1) == []
    world.retry(third)
    assert not partition.block(second.order, world.now)
    world.deliver(first)
    assert world.drain_if_any(1) == []
    assert partition.block(second.order, world.now)
    assert not partition.block(third.order, world.now), "the second is before that"
    partition.renumber(world.now)
    assert {second.state, third.state} == {NO_PRODUCER_STATE}
    assert world.drain() == [second]
    assert world.drain_if_any(1) == [], "the first of its epoch is on its way"
    world.deliver(second)
    assert world.drain() == [third]


def test_behind_a_barrier_brokers_are_asked_for_what_may_be_in_the_log(
    world: AccumulatorWorld,
) -> None:
    first, second, third = three_on_the_wire(world)
    for number, batch in enumerate((first, second, third)):
        batch.state = ProducerState(7, 0, number)
        world.retry(batch)
    partition = first.partition
    second.uncertain = True
    assert not partition.block(0, world.now)
    assert world.drain() == [first], "a broker that takes the second one takes the first one, too"
    first.state = NO_PRODUCER_STATE  # a broker misses an earlier number
    world.retry(first)
    assert not partition.block(0, world.now)
    assert world.drain() == [second]
    assert world.drain_if_any(1) == [], "the third is certainly not there"
    world.deliver(second)
    assert partition.block(0, world.now), "nothing is left to ask for"
    partition.renumber(world.now)
    assert world.drain() == [first], "their order is the old one"
    world.deliver(first)
    assert world.drain() == [third]


def test_a_barrier_that_is_lifted_lets_everything_go_on(world: AccumulatorWorld) -> None:
    first, second, third = three_on_the_wire(world)
    partition = first.partition
    world.send(0, FULL)
    assert not partition.block(0, world.now)
    world.deliver(first, second, third)
    assert world.drain_if_any(1) == []
    assert not partition.block(None, world.now)
    assert place_of(world.drain_one()) == 3


def test_a_partition_without_batches_needs_no_barrier(world: AccumulatorWorld) -> None:
    partition = world.accumulator._topics["t"].partitions[0]
    assert partition.block(3, world.now)
    assert not partition.block(None, world.now)
    partition.renumber(world.now)


def test_nothing_goes_to_a_new_leader_while_an_earlier_batch_is_at_the_old_one() -> None:
    world = AccumulatorWorld()
    world.learn(1)
    world.send(0, FULL)
    world.send(0, FULL)
    (first,) = world.drain(1)
    world.learn(2)
    assert world.ready(2, idle=True) is None
    world.deliver(first)
    (second,) = world.drain(2)
    assert (place_of(second), second.node) == (1, 2)


# --- partitions that may not be written to yet -------------------------------------------------


def test_a_batch_waits_until_its_partition_is_admitted() -> None:
    """A transaction has to take it in before."""
    inside: set[TopicPartition] = set()
    asked: list[TopicPartition] = []

    def add(place: TopicPartition) -> bool:
        asked.append(place)
        return place in inside

    world = AccumulatorWorld(add_to_transaction=add)
    world.learn(1, 1)
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    world.send(0, FULL)
    world.send(1, FULL)
    assert set(asked) == {one, two}
    assert world.ready() is None
    inside |= {one}
    world.batches.line_up([one, TopicPartition("t", 9), TopicPartition("gone", 0)], world.now)
    assert places(world.drain()) == [0]
    inside |= {two}
    world.batches.line_up([two], world.now)
    (batch,) = world.drain()
    inside.clear()
    world.retry(batch)
    assert world.drain_if_any(1) == [], "nor does a retry leave"
    inside |= {two}
    world.batches.line_up([two], world.now)
    assert world.drain() == [batch]


def test_a_partition_without_a_batch_is_not_asked_for() -> None:
    asked: list[TopicPartition] = []

    def add(place: TopicPartition) -> bool:
        asked.append(place)
        return True

    world = AccumulatorWorld(add_to_transaction=add)
    world.learn(1, 1)
    world.batches.line_up([TopicPartition("t", 0)], world.now)
    assert asked == []
    world.send(0, FULL)
    assert asked == [TopicPartition("t", 0)]


def test_under_another_producer_id_the_first_batch_goes_alone_again(
    world: AccumulatorWorld,
) -> None:
    world.batches.forget_acknowledged()
    for _ in range(2):
        world.send(0, FULL)
    (first,) = world.drain()
    assert world.drain_if_any(1) == []
    world.deliver(first)
    assert len(world.drain()) == 1
