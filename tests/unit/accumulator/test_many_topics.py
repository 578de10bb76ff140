"""The cost of thousands of topics: the lines and the objects of one do not depend on the others."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from aioproducer.engine.records.acceleration import RecordsBuilder
from tests.support.counting import counted_lines
from tests.unit.accumulator.world import AccumulatorWorld

FEW, MANY = 100, 1_000
ROUNDING = 1.15
MOST_OBJECTS = 11
MEMORY = {"memory": 4_000_000, "pending_memory": 4_000_000}


def _known_first(world: AccumulatorWorld, topics: list[str]) -> None:
    for topic in topics:
        world.learn(1, topic=topic)
        world.send(None, topic=topic)


def _known_later(world: AccumulatorWorld, topics: list[str]) -> None:
    for topic in topics:
        world.send(None, topic=topic)
    for topic in topics:
        world.learn(1, topic=topic)


def _delivered_one_by_one(world: AccumulatorWorld, topics: list[str]) -> None:
    for topic in topics:
        world.send(None, topic=topic)
        world.learn(1, topic=topic)
        world.deliver_all()


@pytest.mark.source_form
@pytest.mark.parametrize("cold_start", [_known_first, _known_later, _delivered_one_by_one])
def test_the_work_grows_with_the_number_of_topics(
    cold_start: Callable[[AccumulatorWorld, list[str]], None],
) -> None:
    lines = []
    for count in (FEW, MANY):
        world = AccumulatorWorld(**MEMORY)
        topics = [f"topic-{number}" for number in range(count)]
        with counted_lines() as counted:
            cold_start(world, topics)
            world.deliver_all()
        assert not world.batches
        assert not world.pending
        lines.append(counted.count / count)
    few, many = lines
    assert many <= few * ROUNDING


def test_a_delivered_batch_leaves_no_object_at_its_topic() -> None:
    world = AccumulatorWorld()
    world.learn(1, 1)
    for partition in (None, 0, 1):
        world.send(partition)
    topic = world.accumulator._topics["t"]
    assert isinstance(topic.open_builders.sticky, RecordsBuilder)
    world.deliver_all()
    assert topic.sticky_batch is None
    assert topic.open_builders.sticky is None
    assert topic.open_builders.partitions == [None, None]


def test_a_batch_that_is_done_leaves_a_newer_one_alone() -> None:
    world = AccumulatorWorld(linger=0.0)
    world.learn(1)
    world.send(None)
    first = world.drain_one()
    second = world.send(None)
    world.deliver(first)
    (open_batch,) = world.batches
    topic = world.accumulator._topics["t"]
    assert topic.sticky_batch is open_batch
    assert topic.open_builders.sticky is open_batch.builder
    world.send(None)
    assert open_batch.count == 2
    world.deliver_all()
    assert second.done()


def test_a_known_topic_is_few_objects_for_the_garbage_collector() -> None:
    world = AccumulatorWorld(**MEMORY)
    topics = [f"topic-{number}" for number in range(FEW)]
    world.send(None, topic="warm")
    world.learn(1, topic="warm")
    world.deliver_all()
    gc.collect()
    before = len(gc.get_objects())
    _known_later(world, topics)
    world.deliver_all()
    gc.collect()
    assert (len(gc.get_objects()) - before) / FEW <= MOST_OBJECTS
