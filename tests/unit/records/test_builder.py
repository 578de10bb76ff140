"""The builder against a reference encoder in its plainest form, and its batches read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aioproducer.engine.records import builder as reference_form
from aioproducer.engine.records.acceleration import RecordsBuilder, batch_size_bound, new_buffer
from aioproducer.engine.records.batch_header import BATCH_OVERHEAD
from aioproducer.engine.records.builder import MAX_RECORD_OVERHEAD
from aioproducer.engine.records.compression import CompressionRatios
from aioproducer.engine.records.field_reader import WrittenRecord, read_records
from aioproducer.model import Header

NOW = 1_700_000_000_000
DIRT = 0xA5


@dataclass(frozen=True)
class Rec:
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def zigzag(number: int) -> bytes:
    """Kafka's varint, written from its definition."""
    rest = 2 * number if number >= 0 else -2 * number - 1
    out: list[int] = []
    while True:
        rest, low = divmod(rest, 128)
        if not rest:
            return bytes([*out, low])
        out.append(low + 128)


def field(data: bytes | None) -> bytes:
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def reference(record: Rec, index: int, base_timestamp_ms: int) -> bytes:
    """The record as ``DefaultRecord`` describes it."""
    body = b"\0" + zigzag(record.timestamp_ms - base_timestamp_ms) + zigzag(index)
    body += field(record.key) + field(record.value) + zigzag(len(record.headers))
    for name, value in record.headers:
        body += field(name.encode("utf-8")) + field(value)
    return zigzag(len(body)) + body


def state(builder: RecordsBuilder) -> tuple[Any, ...]:
    """All that ``append`` may change."""
    return (
        bytes(builder.buffer),
        builder.position,
        builder.count,
        list(builder.tokens),
        list(builder.runs),
        list(builder.marks),
        builder.max_record_size,
        builder.base_timestamp_ms,
        builder.max_timestamp_ms if builder.count else None,
    )


def put(builder: RecordsBuilder, record: Rec, token: object = None) -> int:
    return builder.append(token, record.timestamp_ms, record.key, record.value, record.headers)


def expanded_runs(builder: RecordsBuilder) -> list[tuple[int, int, int]]:
    """What the runs say of each record."""
    ends = [run[0] for run in builder.runs[1:]] + [builder.count] * bool(builder.runs)
    return [
        run[1:] for run, end in zip(builder.runs, ends, strict=True) for _ in range(run[0], end)
    ]


def check_against_reference(records: Sequence[Rec], limit: int) -> None:
    """Append all; at every step the bytes are the reference's, or nothing at all was changed."""
    builder = RecordsBuilder(bytearray([DIRT]) * (limit + 64), limit)
    written = b""
    taken: list[tuple[object, Rec]] = []
    for record in records:
        base = taken[0][1].timestamp_ms if taken else record.timestamp_ms
        expected = reference(record, len(taken), base)
        before = state(builder)
        token = object()
        size = put(builder, record, token)
        if BATCH_OVERHEAD + len(written) + len(expected) > limit:
            assert size == 0
            assert state(builder) == before
            continue
        assert size == len(expected)
        written += expected
        taken.append((token, record))
        assert builder.position == BATCH_OVERHEAD + len(written)
    assert bytes(builder.records) == written
    assert bytes(builder.buffer[builder.position :]) == bytes([DIRT]) * (
        limit + 64 - builder.position
    )
    assert bytes(builder.buffer[:BATCH_OVERHEAD]) == bytes([DIRT]) * BATCH_OVERHEAD
    assert builder.count == len(taken)
    assert builder.tokens == [token for token, _ in taken]
    assert expanded_runs(builder) == [
        (
            record.timestamp_ms,
            -1 if record.key is None else len(record.key),
            -1 if record.value is None else len(record.value),
        )
        for _, record in taken
    ]
    if taken:
        assert builder.base_timestamp_ms == taken[0][1].timestamp_ms
        assert builder.max_timestamp_ms == max(record.timestamp_ms for _, record in taken)
        assert builder.max_record_size == max(
            len(reference(record, index, taken[0][1].timestamp_ms))
            for index, (_, record) in enumerate(taken)
        )


few_bytes = st.none() | st.sampled_from([b"", b"a", b"bc", b"de", b"x" * 63, b"y" * 64, b"z" * 200])
few_timestamps = st.sampled_from([NOW, NOW, NOW, NOW + 1, NOW - 1, NOW + 10_000, 0, 2**63 - 1])
few_headers = st.sampled_from(
    [(), (), (), (("h", None),), (("h", b""), ("h", b"again")), (("größe", b"\xff" * 70),)]
)
records = st.builds(Rec, few_timestamps, few_bytes, few_bytes, few_headers)
runs = st.lists(st.tuples(records, st.integers(1, 6)), min_size=1, max_size=12).map(
    lambda groups: [record for record, times in groups for _ in range(times)]
)

A = Rec(NOW, None, b"a" * 10)
B = Rec(NOW + 5, None, b"b" * 20)
K = Rec(NOW, b"k" * 3, b"a" * 10)


@given(runs, st.integers(BATCH_OVERHEAD, 2_000))
@settings(max_examples=200)
@example([A, A, B, A, A, B, B], 2_000)
@example([A, A, Rec(NOW, None, b"a" * 10, (("h", b"x" * 70),)), A, A, A], 170)
@example([A, A, K, K, A, A, K], 2_000)
@example([A, A, Rec(NOW, None, None), A, Rec(NOW, b"", b""), A], 2_000)
def test_every_record_is_what_the_reference_writes_or_changes_nothing(
    sent: list[Rec], limit: int
) -> None:
    check_against_reference(sent, limit)


@pytest.mark.parametrize("shapes", ["a", "ak", "aab", "aakkb", "aaaakkkk"])
@pytest.mark.parametrize("rounds", [200, 9_000])
def test_offsets_grow_wider_at_64_and_at_8192(shapes: str, rounds: int) -> None:
    shape = {"a": A, "b": B, "k": K}
    check_against_reference_at_once([shape[shapes[i % len(shapes)]] for i in range(rounds)])


def check_against_reference_at_once(sent: Sequence[Rec]) -> None:
    """As above for many records, without looking after each."""
    expected = b"".join(
        reference(record, index, sent[0].timestamp_ms) for index, record in enumerate(sent)
    )
    limit = BATCH_OVERHEAD + len(expected)
    builder = RecordsBuilder(bytearray([DIRT]) * limit, limit)
    assert all(put(builder, record) for record in sent)
    assert bytes(builder.records) == expected
    assert builder.position == limit
    assert not put(builder, Rec(NOW, None, None))
    assert len(expanded_runs(builder)) == len(sent)


@pytest.mark.parametrize("record", [A, K, Rec(NOW, b"", b""), Rec(NOW, None, b"v" * 5_000)])
@pytest.mark.parametrize("spare", [-1, 0, 1])
@pytest.mark.parametrize("times", [1, 2, 3, 63, 64, 65, 66, 200])
def test_the_last_record_is_taken_exactly_when_its_last_byte_fits(
    record: Rec, spare: int, times: int
) -> None:
    sizes = [len(reference(record, index, NOW)) for index in range(times)]
    limit = BATCH_OVERHEAD + sum(sizes) + spare
    builder = RecordsBuilder(bytearray(limit + 10_000), limit)
    taken = [put(builder, record) for _ in range(times)]
    assert taken == (sizes if spare >= 0 else [*sizes[:-1], 0])


def test_a_record_that_does_not_fit_leaves_room_for_a_smaller_one() -> None:
    small, large = Rec(NOW + 1, None, b""), Rec(NOW + 9, None, b"x" * 300)
    limit = BATCH_OVERHEAD + len(reference(A, 0, NOW)) + len(reference(small, 1, NOW))
    builder = RecordsBuilder(bytearray(limit + 1_000), limit)
    assert put(builder, A)
    assert not put(builder, large)
    assert builder.max_timestamp_ms == NOW
    assert put(builder, small)
    assert builder.max_timestamp_ms == NOW + 1


def test_a_run_that_was_interrupted_is_counted_as_a_new_run() -> None:
    builder = RecordsBuilder(bytearray(5_000), 5_000)
    for record in (A, A, A, B, A):
        put(builder, record)
    assert [run[0] for run in builder.runs] == [0, 3, 4]


def test_consecutive_records_of_one_shape_are_one_run_whatever_their_headers() -> None:
    builder = RecordsBuilder(bytearray(5_000), 5_000)
    for _ in range(5):
        put(builder, A)
        put(builder, Rec(NOW, None, b"c" * 10, (("h", b"1"),)))
    assert builder.runs == [(0, NOW, -1, 10)]


@pytest.mark.parametrize("before", [0, 1, 2, 5])
def test_a_closed_builder_takes_nothing_and_keeps_what_it_has(before: int) -> None:
    builder = RecordsBuilder(bytearray(5_000), 5_000)
    for _ in range(before):
        put(builder, A)
    kept = state(builder)
    builder.close()
    for record in (A, A, Rec(NOW, None, None), Rec(NOW, None, b"")):
        assert put(builder, record) == 0
    assert state(builder) == kept


def test_a_fast_record_takes_nothing_from_the_one_before() -> None:
    builder = RecordsBuilder(bytearray(5_000), 5_000)
    for value in (b"1", b"2", b"3", b"4"):
        builder.append(value, NOW, b"k" + value, value)
    assert b"k4\x024" in bytes(builder.records)
    assert builder.tokens == [b"1", b"2", b"3", b"4"]


sizes = st.sampled_from([0, 1, 63, 64, 8_191, 8_192, 1_048_575, 1_048_576])


@given(
    st.none() | sizes.map(bytes),
    st.none() | sizes.map(bytes),
    st.lists(st.tuples(st.text(max_size=70), st.none() | st.binary(max_size=70)), max_size=70),
    st.sampled_from([0, NOW, 2**63 - 1]),
)
@settings(max_examples=100)
def test_the_bound_is_above_the_batch_of_one_record_and_not_far(
    key: bytes | None, value: bytes | None, headers: list[Header], timestamp_ms: int
) -> None:
    record = Rec(timestamp_ms, key, value, tuple(headers))
    size = BATCH_OVERHEAD + len(reference(record, 0, timestamp_ms))
    bound = batch_size_bound(key, value, headers)
    assert bound == reference_form.batch_size_bound(key, value, headers)
    assert size <= bound <= size + MAX_RECORD_OVERHEAD
    assert put(RecordsBuilder(bytearray(bound), bound), record)


@pytest.mark.parametrize("size", [0, 1, 16_000])
def test_a_new_buffer_has_the_size_that_is_asked_for(size: int) -> None:
    for made in (new_buffer(size), reference_form.new_buffer(size)):
        assert (type(made), len(made)) == (bytearray, size)


def test_an_appended_record_is_described() -> None:
    builder = RecordsBuilder(bytearray(100), 100)
    first = builder.append_described(5_999_999, None, None, b"v")
    second = builder.append_described(0, 9, b"k", None, [("h", b"1")])
    assert first is not None
    assert (first, first.crc) == ((0, 8, 5), None)
    assert second is not None
    assert (second.offset, second.timestamp, second.size) == (1, 9, 12)
    assert builder.append_described(0, 1, None, b"x" * 20) is None
    assert builder.tokens == [None, None]
    for wrong in (1.5, "1"):
        with pytest.raises(TypeError):
            builder.append_described(0, wrong, None, b"v")  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        builder.append_described(0, -1, None, b"v")


def test_records_are_copied_as_a_whole() -> None:
    source = RecordsBuilder(bytearray(500), 500)
    for number in range(20):
        put(source, Rec(NOW + number // 7, b"k", b"v" * number))
    copy = RecordsBuilder(bytearray(source.position), source.position)
    copy.mark(3)
    tokens = [object()] * 20
    copy.copy_records(source, tokens)
    assert bytes(copy.records) == bytes(source.records)
    assert (copy.count, copy.runs, copy.tokens) == (20, source.runs, tokens)
    assert copy.runs is not source.runs
    assert (copy.base_timestamp_ms, copy.max_record_size) == (NOW, source.max_record_size)
    assert put(copy, A) == 0
    assert put(source, A)
    for builder, count in (
        (RecordsBuilder(bytearray(source.position - 1), 1), 21),
        (RecordsBuilder(bytearray(500), 500), 20),
        (copy, 21),
    ):
        with pytest.raises(ValueError, match="empty"):
            builder.copy_records(source, [None] * count)


OPTIONAL_BYTES = st.none() | st.binary(max_size=300)
RECORDS = st.builds(
    WrittenRecord,
    st.integers(0, 2**62),
    OPTIONAL_BYTES,
    OPTIONAL_BYTES,
    st.lists(st.tuples(st.text(max_size=20), OPTIONAL_BYTES), max_size=3).map(tuple),
)


@given(st.lists(RECORDS, max_size=100))
def test_what_was_appended_comes_back(records: list[WrittenRecord]) -> None:
    builder = RecordsBuilder(bytearray(1_000_000), 1_000_000)
    for record in records:
        assert builder.append(object(), *record)
    assert list(read_records(builder)) == records


def test_many_records_of_one_shape() -> None:
    builder = RecordsBuilder(bytearray(1_000_000), 1_000_000)
    records = [WrittenRecord(5, b"k%05d" % n, b"v%05d" % n, ()) for n in range(10_000)]
    for record in records:
        assert builder.append(object(), *record)
    assert list(read_records(builder)) == records


MARGIN = 1.05


def estimate(ratios: CompressionRatios, topic: str = "t") -> float:
    return ratios.estimate(topic) / MARGIN


def after(*observed: float) -> CompressionRatios:
    ratios = CompressionRatios()
    for ratio in observed:
        ratios.observe("t", ratio)
    return ratios


# Kafka's CompressionRatioEstimatorTest: one step down at a time, up at once or by one large step.
@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        ((), 1.0),
        ((1.0,), 1.0),
        ((0.2,), 0.995),
        ((0.2, 0.2), 0.990),
        ((0.997,), 0.997),
        ((0.9975, 0.9975), 0.9975),
        ((1.01,), 1.05),
        ((1.3,), 1.3),
        ((0.2, 0.2, 0.991), 1.04),
        ((0.2,) * 100, 0.5),
        ((0.2,) * 100 + (0.8,), 0.8),
        ((0.2,) * 100 + (0.51,), 0.55),
        ((0.2,) * 1000, 0.2),
    ],
)
def test_better_slowly_worse_fast(observed: tuple[float, ...], expected: float) -> None:
    assert estimate(after(*observed)) == pytest.approx(expected)


def test_topics_are_apart() -> None:
    ratios = after(0.1, 0.1)
    ratios.observe("other", 1.5)
    assert estimate(ratios) == pytest.approx(0.99)
    assert estimate(ratios, "other") == pytest.approx(1.5)
    assert estimate(ratios, "third") == 1.0


@pytest.mark.parametrize(("ratio", "expected"), [(0.3, 1.0), (1.0, 1.0), (1.7, 1.7)])
def test_reset_never_goes_below_one(ratio: float, expected: float) -> None:
    ratios = after(*[0.1] * 50)
    ratios.reset("t", ratio)
    assert estimate(ratios) == pytest.approx(expected)


def test_a_forgotten_topic_begins_anew() -> None:
    ratios = after(*[0.1] * 50)
    ratios.observe("kept", 0.5)
    ratios.forget("t")
    ratios.forget("never seen")
    assert estimate(ratios) == 1.0
    assert estimate(ratios, "kept") == pytest.approx(0.995)
