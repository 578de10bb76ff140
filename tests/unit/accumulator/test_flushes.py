"""A flush ends when all that was there has its fate; beside flushes that are obviously right."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aioproducer.engine.accumulator.results import Flushes
from aioproducer.errors import ProducerError
from tests.support.tokens import FlushToken
from tests.unit.accumulator.world import BATCH, FULL, LINGER, AccumulatorWorld


def test_flush_of_nothing_is_done_at_once() -> None:
    world, flushed = AccumulatorWorld(), FlushToken()
    world.accumulator.flush(flushed)
    assert flushed.resolved


def test_flush_waits_for_what_was_there_and_for_nothing_later() -> None:
    world, flushed = AccumulatorWorld(memory=2 * BATCH), FlushToken()
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
    unknown = world.pending.awaiting_metadata.of("unknown")
    assert world.pending.fail(unknown, ProducerError("no such topic")) == 1
    world.deliver(world.drain_one())
    assert world.admit()
    assert not flushed.resolved
    batch = world.drain_one()
    assert batch.builder.tokens == [in_line]
    world.fail(batch)
    assert flushed.resolved
    assert not later.done()


def test_flushes_can_be_ended_with_an_error(world: AccumulatorWorld) -> None:
    going_on, given_up = FlushToken(), FlushToken()
    world.send()
    for flushed in (going_on, given_up):
        world.accumulator.flush(flushed)
    given_up.given_up = True
    error = ProducerError("broken")
    world.accumulator.flushes.fail(error)
    assert (going_on.error, given_up.error) == (error, None)
    assert world.ready() == LINGER
    world.deliver(world.drain_one())


def test_a_record_withdrawn_from_the_line_ends_its_flush() -> None:
    world, flushed = AccumulatorWorld(), FlushToken()
    token = world.send(topic="unknown")
    world.accumulator.flush(flushed)
    assert not flushed.resolved
    world.withdraw(token)
    assert flushed.resolved
    assert not world.pending


def test_several_flushes_end_each_at_its_own_time(world: AccumulatorWorld) -> None:
    flushes = [FlushToken(), FlushToken(), FlushToken()]
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


class Item:
    generation = -1


class Reference:
    """A flush that has a copy of what was there."""

    def __init__(self, pending: set[Item]) -> None:
        self.pending = set(pending)
        self.flushed = FlushToken()


class FlushMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.flushes = Flushes()
        self.pending: list[Item] = []
        self.references: list[Reference] = []

    @rule(count=st.integers(1, 3))
    def something_comes(self, count: int) -> None:
        for _ in range(count):
            item = Item()
            self.flushes.began(item)
            self.pending.append(item)

    @rule()
    def a_flush_begins(self) -> None:
        reference = Reference(set(self.pending))
        self.flushes.begin(reference.flushed)
        self.references.append(reference)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def one_is_done(self, data: st.DataObject) -> None:
        self.end(self.choose(data))

    @precondition(lambda self: len(self.pending) > 1)
    @rule(data=st.data())
    def one_joins_another(self, data: st.DataObject) -> None:
        """As a record that gets from the line into a batch."""
        record = self.choose(data)
        batch = self.choose(data)
        if batch is not record:
            self.flushes.moved(record, batch)
            self.share(record, batch)
            self.end(record)

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), parts=st.integers(1, 4))
    def one_is_split(self, data: st.DataObject, parts: int) -> None:
        whole = self.choose(data)
        for _ in range(parts):
            part = Item()
            self.pending.append(part)
            self.flushes.began(part)
            self.flushes.moved(whole, part)
            self.share(whole, part)
        self.end(whole)

    @precondition(lambda self: self.references)
    @rule(data=st.data(), told=st.booleans())
    def a_caller_gives_up(self, data: st.DataObject, told: bool) -> None:
        flushed = data.draw(st.sampled_from(self.references)).flushed
        if not flushed.done():
            flushed.given_up = True
        if told:
            self.flushes.give_up(flushed)

    @rule()
    def it_breaks(self) -> None:
        error = ProducerError("broken")
        waiting = [each.flushed for each in self.references if not each.flushed.done()]
        self.flushes.fail(error)
        assert [flushed.error for flushed in waiting] == [error] * len(waiting)
        assert not self.flushes

    def choose(self, data: st.DataObject) -> Item:
        return data.draw(st.sampled_from(self.pending))

    def share(self, item: Item, other: Item) -> None:
        for reference in self.references:
            if item in reference.pending:
                reference.pending.add(other)

    def end(self, item: Item) -> None:
        self.pending.remove(item)
        self.flushes.done(item)
        for reference in self.references:
            reference.pending.discard(item)

    @invariant()
    def each_is_done_when_nothing_of_it_is_left(self) -> None:
        for reference in self.references:
            flushed = reference.flushed
            if not flushed.given_up and flushed.error is None:
                assert flushed.resolved is not bool(reference.pending)
        if not self.pending:
            assert not self.flushes, "none is kept"


TestFlushes = FlushMachine.TestCase
TestFlushes.settings = settings(max_examples=150, stateful_step_count=40)


@pytest.mark.parametrize("items", [1, 5_000])
def test_a_flush_costs_the_same_with_thousands_of_others(items: int) -> None:
    """Lines run, not seconds: for each record, with its flush and its outcome."""
    flushes, pending = Flushes(), []
    lines = 0

    def count(*_: Any) -> Any:
        nonlocal lines
        lines += 1
        return count

    sys.settrace(count)
    try:
        for _ in range(items):
            item = Item()
            pending.append(item)
            flushes.began(item)
            flushes.begin(FlushToken())
        for item in pending:
            flushes.done(item)
    finally:
        sys.settrace(None)
    assert not flushes
    assert lines <= 60 * items


def test_flushes_that_gave_up_are_not_kept() -> None:
    flushes, item = Flushes(), Item()
    flushes.began(item)
    for _ in range(1_000):
        flushed = FlushToken()
        flushes.begin(flushed)
        flushed.given_up = True
        flushes.give_up(flushed)
        flushes.give_up(flushed)
        assert not flushes
    flushes.done(item)
