from __future__ import annotations

import gc
import math
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.engine.metrics.counts import ClientStats, NodeStats, Stats, Summary, TopicStats

NUMBERS = st.lists(st.integers(-(10**12), 10**12))


def summary_of(values: list[int]) -> Summary:
    summary = Summary()
    for value in values:
        summary.add(value)
    return summary


@given(NUMBERS, NUMBERS)
def test_absorbing_is_having_counted_both(left: list[int], right: list[int]) -> None:
    summary = summary_of(left)
    summary.absorb(summary_of(right))
    everything = left + right
    assert summary.count == len(everything)
    assert summary.total == sum(everything)
    if everything:
        assert summary.mean == sum(everything) / len(everything)
        assert summary.max == max(everything)
    else:
        assert math.isnan(summary.mean)
        assert math.isnan(summary.max)


@pytest.mark.parametrize("kind", [TopicStats, NodeStats, ClientStats])
def test_a_struct_absorbs_each_of_its_fields(kind: type[Stats]) -> None:
    into, other = kind(), kind()
    names = [each.name for each in fields(kind)]
    for value, name in enumerate(names, start=1):
        counted = getattr(other, name)
        if isinstance(counted, Summary):
            counted.add(value)
        else:
            setattr(other, name, value)
    into.absorb(other)
    into.absorb(other)
    for value, name in enumerate(names, start=1):
        counted = getattr(into, name)
        total = counted.total if isinstance(counted, Summary) else counted
        assert total == 2 * value
    assert names, "a struct without fields would count nothing"


def test_a_topic_is_one_object_for_the_garbage_collector() -> None:
    assert [each for each in gc.get_referents(TopicStats()) if gc.is_tracked(each)] == [TopicStats]
