"""The route cache is the same in C as in its reference: where records go, and which are refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioproducer.engine.partitioning import murmur2_partition
from aioproducer.engine.records import builder as reference
from aioproducer.engine.records import routes
from aioproducer.engine.records.builder import RecordsBuilder
from aioproducer.engine.records.entry_token import EntryToken
from aioproducer.engine.records.routes import Routes
from tests.unit.records.test_speedups_parity import (
    NOW,
    bad_fields,
    bad_timestamps,
    fields,
    outcome,
    state,
    timestamps,
)

pytestmark = pytest.mark.any_form

speedups = pytest.importorskip(
    "aioproducer.engine.records._speedups",
    reason="installed without a compiler",
    exc_type=ImportError,
)

NOW_NS: Final = NOW * 1_000_000

SHORT_WAYS: Final = [
    (routes.Routes, routes.OpenBuilders, reference.RecordsBuilder),
    (speedups.Routes, speedups.OpenBuilders, speedups.RecordsBuilder),
]
BATCHES: Final = ["none", "closed", "small", "large"]


class Topic(str):
    """A str of another class."""


def short_ways(
    partitions: list[str], sticky: int, *, ignore_keys: bool = False, is_open: bool = True
) -> Iterator[tuple[Routes, list[RecordsBuilder | None]]]:
    """Both, with the same batches of the topic "t"."""
    for make_routes, make_batches, make_builder in SHORT_WAYS:

        def builder(kind: str, make: Any = make_builder) -> RecordsBuilder | None:
            if kind == "none":
                return None
            size = 200 if kind == "small" else 3_000
            made: RecordsBuilder = make(bytearray(size), size)
            if kind == "closed":
                made.close()
            return made

        way, batches = make_routes(ignore_keys=ignore_keys), make_batches()
        batches.partitions = [builder(kind) for kind in partitions]
        batches.sticky = min(sticky, len(partitions) - 1)
        way.topics["t"] = batches
        way.topics["new"] = make_batches()
        way.is_open = is_open
        yield way, batches.partitions


def check_short_ways(sent: list[tuple[Any, ...]], *batches: Any, **options: Any) -> list[Any]:
    """The results of the appends."""
    seen = []
    for way, builders in short_ways(*batches, **options):
        results = [outcome(partial(way.append, *record)) for record in sent]
        states = [None if builder is None else state(builder) for builder in builders]
        seen.append((results, states))
    assert seen[0] == seen[1]
    return seen[0][0]


topics = st.sampled_from(["t"] * 8 + ["new", "other", Topic("t"), b"t", None, 7])
partitions_named = st.sampled_from([None] * 4 + [0, 1, 2, -1, True, 2.0, "1", 2**70])
exact = st.sampled_from([None, b"", b"a", b"key-of-a-record", b"bc" * 40])
way_fields = exact | fields | bad_fields
sent_times = st.integers(0, 2**62) | st.integers(NOW_NS, NOW_NS + 200_000)
appended = st.tuples(
    st.integers(),
    sent_times,
    timestamps | bad_timestamps,
    topics,
    way_fields,
    way_fields,
    partitions_named,
) | st.tuples(
    st.integers(), sent_times, timestamps | st.none(), st.just("t"), exact, exact, st.none()
)


@given(
    st.lists(appended, max_size=20),
    st.lists(st.sampled_from(BATCHES), max_size=4),
    st.integers(-1, 3),
    st.booleans(),
    st.sampled_from([True] * 9 + [False]),
)
@settings(max_examples=300)
def test_both_route_every_record_alike(
    sent: list[tuple[Any, ...]],
    partitions: list[str],
    sticky: int,
    ignore_keys: bool,
    is_open: bool,
) -> None:
    check_short_ways(sent, partitions, sticky, ignore_keys=ignore_keys, is_open=is_open)


def test_the_fast_path_is_found() -> None:
    """The twins do not agree on doing nothing at all."""
    sent: list[tuple[Any, ...]] = [
        (1, NOW_NS, None, "t", b"value", None, None),
        (2, NOW_NS, None, "t", b"value", b"key", None),
        (3, NOW_NS, None, "t", None, b"key", 1),
        (4, NOW_NS, None, "t", b"value", None, 0),
    ]
    assert all(check_short_ways(sent, ["large"] * 2, 0))


@given(st.binary(max_size=40) | st.binary(min_size=200, max_size=300), st.integers(1, 300))
def test_a_key_belongs_to_the_partition_of_its_hash(key: bytes, count: int) -> None:
    for way, builders in short_ways(["large"] * count, -1):
        assert way.append(0, NOW_NS, None, "t", b"", key, None)
        (chosen,) = (number for number, each in enumerate(builders) if each and each.count)
        assert chosen == murmur2_partition(key, count)


def token_in(state: str) -> EntryToken:
    token = EntryToken()
    token._state = state
    return token


states = st.sampled_from(["PENDING"] * 10 + ["CANCELLED"])
entries = st.tuples(
    states,
    topics,
    way_fields,
    way_fields,
    partitions_named,
    st.sampled_from([None] * 6 + [(), (("h", b"1"),)]),
    timestamps | bad_timestamps | st.none(),
    sent_times | st.sampled_from([-1, None, 2**70, 1.5]),
) | st.tuples(states, st.just("t"), exact, exact, st.none(), st.none(), timestamps, sent_times)


@given(
    st.lists(entries, max_size=20),
    st.integers(0, 3),
    st.lists(st.sampled_from(BATCHES), max_size=4),
    st.integers(-1, 3),
)
@settings(max_examples=300)
def test_both_append_the_same_entries(
    sent: list[tuple[Any, ...]], start: int, partitions: list[str], sticky: int
) -> None:
    seen = []
    for way, builders in short_ways(partitions, sticky):
        tokens = [token_in(entry[0]) for entry in sent]
        flat = [
            field
            for token, entry in zip(tokens, sent, strict=True)
            for field in (token, *entry[1:], None, None)
        ]
        count = way.append_entries(flat, start, len(sent))
        for builder in builders:
            if builder is not None:
                builder.tokens = [tokens.index(each) for each in builder.tokens]
        states_now = [None if builder is None else state(builder) for builder in builders]
        seen.append((count, [token._state for token in tokens], states_now))
    assert seen[0] == seen[1]
    count, token_states, _ = seen[0]
    assert token_states == [
        "RUNNING" if start <= place < start + count else entry[0]
        for place, entry in enumerate(sent)
    ]


def test_entries_are_appended() -> None:
    for way, builders in short_ways(["large"], 0):
        tokens = [token_in("PENDING") for _ in range(4)]
        flat: list[Any] = []
        for token in tokens:
            flat += (token, "t", b"value", None, None, None, None, NOW_NS, None, None)
        assert way.append_entries(flat, 1, 3) == 2
        assert [token._state for token in tokens] == ["PENDING", "RUNNING", "RUNNING", "PENDING"]
        assert sum(builder.count for builder in builders if builder is not None) == 2
