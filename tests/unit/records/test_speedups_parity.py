"""What is compiled does what its reference does: bytes, state, results, exceptions."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aioproducer.engine.records import builder as reference
from aioproducer.engine.records import delivery
from aioproducer.engine.records.builder import RecordsBuilder
from aioproducer.engine.records.delivery import RecordResults
from aioproducer.model import RecordMetadata

pytestmark = pytest.mark.any_form

speedups = pytest.importorskip(
    "aioproducer.engine.records._speedups",
    reason="installed without a compiler",
    exc_type=ImportError,
)

NOW: Final = 1_700_000_000_000
DIRT: Final = 0xA5
IMPLEMENTATIONS: Final[list[type[RecordsBuilder]]] = [
    reference.RecordsBuilder,
    speedups.RecordsBuilder,
]

Step: TypeAlias = Callable[[RecordsBuilder], Any]


class Text(bytes):
    """Bytes of another class."""


def outcome(step: Callable[[], Any]) -> Any:
    """What was returned, or the type of what was raised."""
    try:
        return step()
    except Exception as error:
        return type(error)


def state(builder: RecordsBuilder, limit: int | None = None) -> tuple[Any, ...]:
    """All that can be seen, but for the bytes between the last record and ``limit``.

    A record that did not fit may have left bytes there. A closed builder has no limit of its own.
    """
    end = max(builder.limit if limit is None else limit, builder.position)
    return (
        bytes(builder.buffer[: builder.position]),
        bytes(builder.buffer[end:]),
        len(builder.buffer),
        builder.limit,
        builder.position,
        builder.count,
        list(builder.tokens),
        list(builder.runs),
        builder.base_timestamp_ms,
        builder.max_record_size,
        outcome(lambda: bytes(builder.records)),
        outcome(lambda: builder.max_timestamp_ms),
    )


def check_twins(steps: list[Step], size: int, limit: int) -> None:
    first, second = (make(bytearray([DIRT]) * size, limit) for make in IMPLEMENTATIONS)
    for step in steps:
        before = state(first, limit)
        expected = outcome(lambda step=step: step(first))  # type: ignore[misc]
        assert outcome(lambda step=step: step(second)) == expected  # type: ignore[misc]
        assert state(second, limit) == state(first, limit)
        if isinstance(expected, type) or expected == 0:
            assert state(first, limit) == before


# --- steps ---------------------------------------------------------------------------------


def append(*arguments: Any) -> Step:
    token = object()
    return lambda builder: builder.append(token, *arguments)


def replace_buffer(size: int) -> Step:
    def step(builder: RecordsBuilder) -> None:
        builder.buffer = bytearray([DIRT]) * size

    return step


def close(builder: RecordsBuilder) -> None:
    builder.close()


def release(builder: RecordsBuilder) -> None:
    builder.release()


timestamps = st.sampled_from([NOW, NOW, NOW, NOW, NOW + 1, NOW - 1, NOW + 10_000, 0, 2**63 - 1])
fields = st.sampled_from(
    [b"", b"a", b"bc", b"bc", b"bc", b"x" * 63, b"y" * 64, b"z" * 200, bytearray(b"de"), Text(b"f")]
)
headers = st.sampled_from(
    [
        (),
        (),
        (),
        [],
        None,
        (("h", None),),
        (("größe", b"\xff" * 70), ("h", b"")),
        [("h", b"x")] * 70,
    ]
)
bad_timestamps = st.sampled_from([None, "now", 1.5, -1, 2**63, 10**30, -(2**63) - 1, b"", object()])
bad_fields = st.sampled_from(["", "bc", 2, 0, 1.5, memoryview(b"bc"), [98, 99], object()])
bad_headers = st.sampled_from(
    [
        7,
        [None],
        [("h",)],
        [(b"h", b"")],
        [("h", "text")],
        [("h", 5)],
        [("\ud800", None)],
        {"h": b""},
        "hh",
        iter([("h", None)]),
        object(),
    ]
)

records = st.builds(append, timestamps, st.none() | fields, st.none() | fields, headers)
values = st.builds(append, timestamps, st.none(), fields)
wrong = st.one_of(
    st.builds(append, timestamps | bad_timestamps, fields | bad_fields | st.none(), bad_fields),
    st.builds(append, timestamps | bad_timestamps, bad_fields, fields | st.none()),
    st.builds(append, bad_timestamps, fields | st.none(), fields | st.none(), headers),
    st.builds(append, timestamps, fields | st.none(), fields | st.none(), bad_headers),
    st.just(append()),
    st.just(append(NOW, None, b"", (), "too many")),
    st.just(append(NOW)),
)
rare = st.one_of(
    st.just(close),
    st.just(release),
    st.builds(replace_buffer, st.integers(0, 600)),
)
repeated = st.tuples(st.one_of(records, values, values, wrong), st.integers(1, 6))
programs = st.lists(repeated | st.tuples(rare, st.just(1)), min_size=1, max_size=20).map(
    lambda groups: [step for step, times in groups for _ in range(times)]
)

V = append(NOW, None, b"bc")
K = append(NOW, b"k", b"bc")


# --- the builder ---------------------------------------------------------------------------


@given(programs, st.integers(0, 800), st.integers(-1, 900) | st.just(2**63 - 1))
@settings(max_examples=500)
@example([V, V, V, replace_buffer(70), V, V], 300, 300)
@example([V, V, V, release, V], 300, 300)
@example([V, V, append(NOW, None, memoryview(b"bc")), append(NOW, None, "bc"), V], 300, 300)
@example([K, K, K, append(NOW, "k", b"bc"), append(NOW, b"k", "bc"), K], 300, 300)
@example([V, V, append(NOW, None, bytearray(b"bc")), V], 300, 2**63 - 1)
@example([V, V], 300, -(2**63))
def test_whatever_is_appended_both_do_the_same(steps: list[Step], size: int, limit: int) -> None:
    check_twins(steps, size, limit)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=20))
def test_any_distance_of_timestamps(chosen: list[int]) -> None:
    check_twins([append(each, None, b"v") for each in chosen], 1_000, 1_000)


@pytest.mark.parametrize("size", [8_191, 8_192, 1_048_575, 1_048_576])
def test_wider_lengths(size: int) -> None:
    check_twins([append(NOW, bytes(size), bytes(size))] * 3, 4 * size, 4 * size)


@pytest.mark.parametrize("make", IMPLEMENTATIONS)
def test_a_buffer_that_somebody_looks_at_is_written_to(make: type[RecordsBuilder]) -> None:
    builder = make(bytearray(300), 300)
    with memoryview(builder.buffer) as view:
        for step in (V, V, V, K, append(NOW, None, None, [("h", b"x")])):
            assert step(builder)
        assert view[: builder.position] == builder.buffer[: builder.position]


class _Disturbing:
    """Headers that use the builder while they are read."""

    def __init__(self, disturb: Callable[[], object]) -> None:
        self._disturb = disturb

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        self._disturb()
        yield "h", b"x"


@pytest.mark.parametrize("disturb", [V, K, close, release, replace_buffer(63), replace_buffer(400)])
def test_headers_that_use_the_builder_do_no_harm(disturb: Step) -> None:
    def step(builder: RecordsBuilder) -> int:
        chain: Any = _Disturbing(lambda: disturb(builder))
        return builder.append("outer", NOW, b"k", b"bc", chain)

    first, second = (make(bytearray([DIRT]) * 300, 300) for make in IMPLEMENTATIONS)
    for builder in (first, second):
        V(builder)
    assert step(first) == step(second)
    assert state(first) == state(second)


@pytest.mark.parametrize("make", IMPLEMENTATIONS)
def test_a_builder_that_holds_itself_is_collected(make: type[RecordsBuilder]) -> None:
    class LoggingToken:
        builder: RecordsBuilder

    token = LoggingToken()
    token.builder = make(bytearray(100), 100)
    assert token.builder.append(token, NOW, None, b"v")
    gone = weakref.ref(token)
    del token
    gc.collect()
    assert gone() is None


def test_both_have_the_same_public_names() -> None:
    first, second = (
        {name for name in dir(make(bytearray(), 0)) if not name.startswith("_")}
        for make in IMPLEMENTATIONS
    )
    assert first == second


# --- delivery ------------------------------------------------------------------------------


class LoggingToken:
    """Logs the calls that it gets, and fails as its kind says."""

    def __init__(self, kind: str, number: int, log: list[Any]) -> None:
        self._kind = kind
        self._number = number
        self._log = log

    def done(self) -> bool:
        self._log.append(("done", self._number))
        if self._kind == "refuses to tell":
            raise LookupError
        return self._kind == "done"

    def set_result(self, metadata: RecordMetadata) -> None:
        assert type(metadata) is RecordMetadata
        self._log.append((self._number, metadata))
        if self._kind == "refuses":
            raise OSError

    def set_exception(self, error: BaseException) -> None:
        self._log.append((self._number, error))
        if self._kind == "refuses":
            raise OSError

    def exception(self) -> None:
        self._log.append(("exception", self._number))


class TokenOfMany(LoggingToken):
    """It gets its result with others."""

    @staticmethod
    def set_results(tokens: list[TokenOfMany], results: RecordResults, *facts: Any) -> None:
        metadata = [results[place] for place in reversed(range(len(tokens)))]
        tokens[0]._log.append(([each._number for each in tokens], metadata, facts))
        tokens[0]._log.append([*map(results.offset, range(len(tokens)))])
        tokens[0]._log.append([*map(results.timestamp_ms, range(len(tokens)))])
        assert metadata[::-1] == [*results] == results[:]
        assert len(results) == len(tokens)


class TokenOfOthers(TokenOfMany):
    """It gets its result with others, but not with those of the base class."""


kinds = st.sampled_from(["open"] * 10 + ["done"] * 4 + ["refuses", "refuses to tell"])
delivered = st.lists(
    st.tuples(
        kinds | st.sampled_from(["of many", "of others"]),
        timestamps,
        st.none() | st.just(b"k"),
        st.none() | st.just(b"v"),
    ),
    max_size=20,
)


@given(delivered, st.sampled_from([-1, 0, 41, 2**62, 2**63 - 1]), st.sampled_from([-1, 0, NOW]))
@settings(max_examples=200)
def test_both_deliver_the_same_to_every_token(
    sent: list[tuple[str, int, bytes | None, bytes | None]], base_offset: int, append_time: int
) -> None:
    told = []
    for deliver in (delivery.deliver_records, speedups.deliver_records):
        log: list[Any] = []
        builder = RecordsBuilder(bytearray(2_000), 2_000)
        for number, (kind, timestamp_ms, key, value) in enumerate(sent):
            made = {"of many": TokenOfMany, "of others": TokenOfOthers}.get(kind, LoggingToken)
            token = made(kind, number, log)
            assert builder.append(token, timestamp_ms, key, value)
        arguments = (builder.tokens, builder.runs, "orders", 3, base_offset, append_time, 17)
        log.append(outcome(lambda to=deliver, of=arguments: to(*of)))  # type: ignore[misc]
        told.append(log)
    assert told[0] == told[1]


@pytest.mark.parametrize("deliver", [delivery.deliver_records, speedups.deliver_records])
async def test_futures_get_their_metadata_and_a_cancelled_one_is_left_alone(deliver: Any) -> None:
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(4)]
    futures[1].cancel()
    deliver(futures, [(0, NOW, -1, 7), (2, NOW + 1, 3, -1)], "orders", 3, 40, -1)
    assert futures[1].cancelled()
    assert [each.result() for each in futures if not each.cancelled()] == [
        RecordMetadata("orders", 3, 40, NOW, -1, 7),
        RecordMetadata("orders", 3, 42, NOW + 1, 3, -1),
        RecordMetadata("orders", 3, 43, NOW + 1, 3, -1),
    ]
    assert hash(futures[0].result()) == hash(("orders", 3, 40, NOW, -1, 7))


@pytest.mark.parametrize("kind", ["open", "done", "refuses", "refuses to tell"])
def test_both_fail_a_token_alike(kind: str) -> None:
    error = OSError("no")
    told = []
    for fail in (delivery.fail_record, speedups.fail_record):
        log: list[Any] = []
        token = LoggingToken(kind, 1, log)
        log.append(outcome(lambda to=fail, of=token: to(of, error)))  # type: ignore[misc]
        told.append(log)
    assert told[0] == told[1]
