"""The garbage collector sees futures and metadata, and may run in the midst of an append."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest

from aioproducer.engine.records.acceleration import ACCELERATED, RecordsBuilder

_SEND = """
import asyncio, gc
from aioproducer.engine.core.sending import FastPath
from aioproducer.engine.records.acceleration import (
    OpenBuilders, RecordsBuilder, Routes, deliver_records, fail_record
)

async def main():
    routes, open_builders = Routes(), OpenBuilders()
    builder = RecordsBuilder(bytearray(999), 999)
    open_builders.partitions, open_builders.sticky = [builder], 0
    routes.topics["t"] = open_builders
    fast_path = FastPath()
    fast_path.open(asyncio.get_running_loop(), routes, None, print, float)
    delivered, failed = [fast_path.send("t", b"v", None, None) for _ in range(2)]
    tracked = [gc.is_tracked(delivered), gc.is_tracked(builder.tokens)]
    deliver_records(builder.tokens[:1], builder.runs, "t", 0, 0, -1)
    fail_record(failed, OSError("no"))
    builder.append(OSError(), 1, None, b"v")
    tracked.append(gc.is_tracked(builder.tokens))
    print(*tracked, gc.is_tracked(delivered.result()), gc.is_tracked(failed), *delivered.result())

asyncio.run(main())
"""


@pytest.mark.skipif(not ACCELERATED, reason="the compiled part is not in use")
@pytest.mark.parametrize(
    ("switch", "tracked"), [("", "False False True False True"), ("1", "True True True True True")]
)
def test_the_switch_shows_objects_to_the_collector(switch: str, tracked: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", _SEND],
        env={**os.environ, "AIOPRODUCER_PLAIN_OBJECTS": switch},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.startswith(f"{tracked} t 0 0 ")


NOW = 1_700_000_000_000
NOW_NS = NOW * 1_000_000


@pytest.fixture
def builder() -> Iterator[RecordsBuilder]:
    thresholds = gc.get_threshold()
    gc.collect()
    yield RecordsBuilder(bytearray(4000), 4000)
    gc.set_threshold(*thresholds)
    gc.enable()


@pytest.mark.skipif(not gc.isenabled(), reason="the collector is off")
@pytest.mark.parametrize("allocations", range(-1, 8))
def test_no_run_and_no_mark_is_lost(builder: RecordsBuilder, allocations: int) -> None:
    class Sends:
        """Part of a cycle, so only the collector ends it."""

        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            builder.append("nested", NOW + 5_000, None, b"longer", (), NOW_NS + 2 * 10**9)

    builder.append("first", NOW, None, b"a", (), NOW_NS)
    gc.disable()
    Sends()
    lists: list[list[int]] = [[] for _ in range(200)]  # none is left to be used again
    gc.set_threshold(gc.get_count()[0] + allocations, 1_000, 1_000)
    gc.enable()
    builder.append("second", NOW + 10, None, b"bc", (), NOW_NS + 10**9)
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
