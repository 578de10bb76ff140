"""Retries, and what waits for them, leave in the order in which they were filled."""

from __future__ import annotations

from aioproducer.engine.accumulator.producer_batch import ProducerBatch
from aioproducer.engine.records.builder import NO_PRODUCER_STATE, ProducerState
from aioproducer.model import TopicPartition
from tests.unit.accumulator.world import FULL, AccumulatorWorld, place_of, places

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
    world.batches.renumber(third.topic_partition, world.now)
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
    place, block = first.topic_partition, world.batches.block
    assert not block(place, second.order, world.now), "all three are on the wire"
    world.retry(first)
    world.retry(second)
    assert not block(place, second.order, world.now), (
        "the third is on the wire, the first is before"
    )
    assert world.drain() == [first]
    assert world.drain_if_any(1) == []
    world.retry(third)
    assert not block(place, second.order, world.now)
    world.deliver(first)
    assert world.drain_if_any(1) == []
    assert block(place, second.order, world.now)
    assert not block(place, third.order, world.now), "the second is before that"
    world.batches.renumber(place, world.now)
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
    place, block = first.topic_partition, world.batches.block
    second.uncertain = True
    assert not block(place, 0, world.now)
    assert world.drain() == [first], "a broker that takes the second one takes the first one, too"
    first.state = NO_PRODUCER_STATE  # a broker misses an earlier number
    world.retry(first)
    assert not block(place, 0, world.now)
    assert world.drain() == [second]
    assert world.drain_if_any(1) == [], "the third is certainly not there"
    world.deliver(second)
    assert block(place, 0, world.now), "nothing is left to ask for"
    world.batches.renumber(place, world.now)
    assert world.drain() == [first], "their order is the old one"
    world.deliver(first)
    assert world.drain() == [third]


def test_a_barrier_that_is_lifted_lets_everything_go_on(world: AccumulatorWorld) -> None:
    first, second, third = three_on_the_wire(world)
    place = first.topic_partition
    world.send(0, FULL)
    assert not world.batches.block(place, 0, world.now)
    world.deliver(first, second, third)
    assert world.drain_if_any(1) == []
    assert not world.batches.block(place, None, world.now)
    assert place_of(world.drain_one()) == 3


def test_a_partition_that_is_gone_needs_no_barrier(world: AccumulatorWorld) -> None:
    gone = (TopicPartition("other", 0), TopicPartition("orders", 99))
    world.send()
    for place in gone:
        assert world.batches.block(place, 3, world.now)
        assert not world.batches.block(place, None, world.now)
        world.batches.renumber(place, world.now)


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
