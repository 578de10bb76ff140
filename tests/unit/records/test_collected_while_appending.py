"""The collector runs in the midst of an append, and a finalizer sends a record."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import pairwise

import pytest

from aioproducer.engine.records.acceleration import RecordsBuilder

NOW = 1_700_000_000_000
NOW_NS = NOW * 1_000_000
pytestmark = pytest.mark.skipif(not gc.isenabled(), reason="the collector is off")


@pytest.fixture
def builder() -> Iterator[RecordsBuilder]:
    thresholds = gc.get_threshold()
    gc.collect()
    yield RecordsBuilder(bytearray(4000), 4000)
    gc.set_threshold(*thresholds)
    gc.enable()


@pytest.mark.parametrize("allocations", range(-1, 8))
def test_no_run_and_no_mark_is_lost(builder: RecordsBuilder, allocations: int) -> None:
    class Sends:
        """Part of a cycle, so only the collector ends it."""

        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            builder.mark(NOW_NS + 2 * 10**9)
            builder.append("nested", NOW + 5_000, None, b"longer")

    builder.mark(NOW_NS)
    builder.append("first", NOW, None, b"a")
    gc.disable()
    Sends()
    lists: list[list[int]] = [[] for _ in range(200)]  # none is left to be used again
    gc.set_threshold(gc.get_count()[0] + allocations, 1_000, 1_000)
    gc.enable()
    builder.mark(NOW_NS + 10**9)
    builder.append("second", NOW + 10, None, b"bc")
    gc.disable()
    gc.collect()
    del lists
    times = {"first": NOW, "second": NOW + 10, "nested": NOW + 5_000}
    runs = [*builder.runs, (builder.count, 0, 0, 0)]
    found = {}
    for (first, timestamp_ms, *_), (end, *_) in pairwise(runs):
        for token in builder.tokens[first:end]:
            found[token] = timestamp_ms
    assert found == {token: times[token] for token in builder.tokens}
    assert builder.max_timestamp_ms == max(found.values())
    sent = {sent_ns for _, sent_ns in builder.marks}
    assert sent == {NOW_NS, NOW_NS + 10**9, NOW_NS + 2 * 10**9}
