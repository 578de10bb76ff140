"""Flushes that count, beside the obvious ones: each with a set of all that it waits for."""

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
TestFlushes.settings = settings(max_examples=300, stateful_step_count=40)


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
