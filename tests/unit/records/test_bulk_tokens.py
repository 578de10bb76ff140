"""Values and rows that go into a batch together, and spans: in Python and in C."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioproducer.engine.partitioning import STICKY, UNKNOWN, murmur2_partition
from aioproducer.engine.records import builder as reference
from aioproducer.engine.records import bulk_tokens, delivery
from aioproducer.engine.records import columns as reference_columns
from aioproducer.engine.records.bulk_tokens import BulkToken, tokens_by_record
from aioproducer.engine.records.columns import Columns
from aioproducer.errors import SerializationError

pytestmark = pytest.mark.any_form

speedups = pytest.importorskip(
    "aioproducer.engine.records._speedups",
    reason="installed without a compiler",
    exc_type=ImportError,
)

NOW: Final = 1_700_000_000_000
BOTH: Final[list[Any]] = [reference_columns, speedups]


class BulkOutcomes:
    """Writes down what it is told."""

    def __init__(self, *, cancelled: bool = False) -> None:
        self.told: list[Any] = []
        self.cancelled = cancelled

    def done(self) -> bool:
        return self.cancelled

    def arrived(self, span: BulkToken, topic: str, partition: int, base_offset: int) -> None:
        self.told.append((span.first, span.count, topic, partition, base_offset))

    def one(self, index: int) -> int:
        return index


class SingleToken:
    """Keeps the last result."""

    metadata: Any = None

    def done(self) -> bool:
        return False

    def set_result(self, metadata: Any) -> None:
        self.metadata = metadata


def outcome(function: Any, *arguments: Any) -> Any:
    """What was returned, or the type of what was raised."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


def state(builder: Any) -> tuple[Any, ...]:
    return (
        bytes(builder.buffer),
        builder.position,
        builder.count,
        list(builder.tokens),
        list(builder.runs),
        builder.base_timestamp_ms,
        builder.max_timestamp_ms if builder.count else None,
        builder.max_record_size,
    )


def twin_builders(size: int, limit: int) -> tuple[Any, Any]:
    return (
        reference.RecordsBuilder(bytearray(size), limit),
        speedups.RecordsBuilder(bytearray(size), limit),
    )


# --- values --------------------------------------------------------------------------------

some_values = st.lists(
    st.one_of(
        st.sampled_from([b"", b"ab", b"ab", b"ab", b"x" * 63, b"y" * 64, b"z" * 200]),
        st.sampled_from([None, "text", bytearray(b"no"), 7]),
    ),
    max_size=12,
)
timestamps = st.sampled_from([NOW, NOW, NOW + 1, NOW - 70, 0, 2**63 - 1, True])
wrong_timestamps = st.sampled_from([-1, 2**63, None, "now", 1.5])
some_headers = st.sampled_from([(), (("trace", b"1"),), (("é", None), ("é", b"x" * 70))])
calls = st.lists(
    st.tuples(timestamps | wrong_timestamps, some_values, st.integers(-3, 14), some_headers),
    max_size=6,
)


@given(calls, st.integers(0, 600), st.integers(0, 600))
@settings(max_examples=150)
def test_values_that_go_in_together(calls: list[Any], size: int, limit: int) -> None:
    first, second = twin_builders(size, limit)
    singly, _ = twin_builders(size, limit)
    for token, (timestamp, values, start, headers) in enumerate(calls):
        taken = outcome(first.append_values, token, timestamp, values, start, headers)
        assert outcome(second.append_values, token, timestamp, values, start, headers) == taken
        assert state(second) == state(first)
        for value in values[start:][: 0 if isinstance(taken, type) else taken]:
            assert singly.append(token, timestamp, None, value, headers)
        assert first.runs == singly.runs[:1]
        singly.runs = list(first.runs)
        assert state(singly) == state(first)


single_or_many = st.tuples(
    st.booleans(), st.integers(0, 2), st.lists(st.sampled_from([b"", b"ab", b"cde"]), min_size=1)
)


@given(st.lists(single_or_many, max_size=8))
def test_single_records_between_values_have_their_own_results(calls: list[Any]) -> None:
    """Values that go in together need no sizes: only single records make runs."""
    for builder in twin_builders(20_000, 20_000):
        expected = []
        for is_single, later, values in calls:
            if is_single:
                token = SingleToken()
                expected.append((token, ("t", 3, builder.count, NOW + later, 2, len(values[0]))))
                assert builder.append(token, NOW + later, b"k!", values[0])
            else:
                span = BulkToken(BulkOutcomes(), 0, count=len(values))
                assert builder.append_values(span, NOW + later, values) == len(values)
        assert len(builder.runs) <= 1 + len(expected)
        if not calls:
            continue
        assert builder.max_timestamp_ms == max(NOW + later for _, later, _ in calls)
        for deliver in (delivery.deliver_records, speedups.deliver_records):
            deliver(builder.tokens, builder.runs, "t", 3, 0, -1)
            assert [token.metadata for token, _ in expected] == [each for _, each in expected]


# --- columns -------------------------------------------------------------------------------


def bitmap(rows: list[Any]) -> bytes | None:
    bits = sum(1 << place for place, row in enumerate(rows) if row is not None)
    return bits.to_bytes(len(rows) // 8 + 1, "little") if None in rows else None


def binary_buffers(rows: list[bytes | None], *, wide: bool) -> tuple[Any, Any, Any]:
    """Validity, offsets and data, as Arrow has them."""
    offsets = array("q" if wide else "i", [0])
    for row in rows:
        offsets.append(offsets[-1] + len(row or b""))
    return bitmap(rows), offsets, b"".join(row or b"" for row in rows)


def binary(room: Any, rows: list[bytes | None], first: int, *, wide: bool) -> Any:
    buffers = binary_buffers(rows, wide=wide)
    return room.BinaryColumn(*buffers, first, len(rows) - first, wide=wide)


def ints(room: Any, rows: list[int | None], first: int, *, wide: bool) -> Any:
    data = array("q" if wide else "i", [row or 0 for row in rows])
    return room.IntColumn(bitmap(rows), data, first, len(rows) - first, wide=wide)


def headers_of(room: Any, rows: list[Any], first: int, *, wide: bool) -> Any:
    """Pairs of bytes in each row, or None."""
    offsets = array("q" if wide else "i", [0])
    pairs: list[tuple[bytes | None, bytes | None]] = []
    for row in rows:
        pairs += row or ()
        offsets.append(len(pairs))
    names, values = ([pair[place] for pair in pairs] for place in range(2))
    return room.HeadersColumn(
        bitmap(rows),
        offsets,
        binary(room, names, 0, wide=wide),
        binary(room, values, 0, wide=not wide),
        first,
        len(rows) - first,
        wide=wide,
    )


def twin_columns(
    table: list[Any], first: int, has: tuple[bool, bool, bool, bool], *, wide: bool
) -> list[Columns]:
    keys, values, partitions, stamps, headers = (
        [row[place] for row in table] for place in range(5)
    )
    return [
        Columns(
            binary(room, values, first, wide=wide),
            binary(room, keys, first, wide=wide) if has[0] else None,
            ints(room, partitions, first, wide=False) if has[1] else None,
            ints(room, stamps, first, wide=True) if has[2] else None,
            headers_of(room, headers, first, wide=wide) if has[3] else None,
        )
        for room in BOTH
    ]


fields = st.sampled_from([None, b"", b"k", b"key", b"key", b"x" * 70])
numbers = st.none() | st.integers(-2, 6)
row_timestamps = st.sampled_from([None, NOW, NOW, NOW + 3, 0, -1])
pair = st.tuples(
    st.sampled_from([b"trace", "é".encode(), b"", b"n" * 70] * 3 + [None, b"\xff", b"\xc3"]), fields
)
row_headers = st.none() | st.lists(pair, max_size=3)
tables = st.lists(
    st.tuples(fields, fields, numbers, row_timestamps, row_headers), min_size=1, max_size=20
)
flags = st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans())


@given(tables, st.integers(0, 3), flags, st.booleans())
def test_what_is_in_columns(
    table: list[Any], first: int, has: tuple[bool, bool, bool, bool], wide: bool
) -> None:
    first = min(first, len(table))
    for columns in twin_columns(table, first, has, wide=wide):
        for name, place in (("keys", 0), ("values", 1), ("partitions", 2), ("timestamps", 3)):
            column = getattr(columns, name)
            if column is not None:
                rows = [row[place] for row in table[first:]]
                assert [column[row] for row in range(len(column))] == rows
        if columns.headers is not None:
            for row, given_pairs in enumerate(table[first:]):
                assert outcome(columns.headers.__getitem__, row) == as_text(given_pairs[4])


def as_text(pairs: Any) -> Any:
    """The pairs as they are read: names are text."""
    if not pairs:
        return None
    try:
        return [(None if name is None else name.decode(), value) for name, value in pairs]
    except UnicodeDecodeError:
        return SerializationError


@given(st.lists(fields), st.integers(0, 3), st.booleans(), st.integers(1, 5))
def test_partitions_of_keys(keys: list[bytes | None], first: int, wide: bool, count: int) -> None:
    first = min(first, len(keys))
    expected = [STICKY if key is None else murmur2_partition(key, count) for key in keys[first:]]
    for room in BOTH:
        column = binary(room, keys, first, wide=wide)
        assert room.partitions_of_keys(column, count).tolist() == expected
        with pytest.raises(ValueError, match="partitions"):
            room.partitions_of_keys(column, 0)


@given(
    tables,
    flags,
    st.booleans(),
    st.integers(1, 5),
    st.booleans(),
    st.integers(0, 700),
    some_headers,
)
@settings(max_examples=150)
def test_rows_by_partition_and_in_batches(
    table: list[Any],
    has: tuple[bool, bool, bool, bool],
    wide: bool,
    partitions: int,
    ignore_keys: bool,
    size: int,
    headers: Any,
) -> None:
    first, second = twin_columns(table, 0, has, wide=wide)
    base, count = 1_000, len(table)
    rows, groups = reference_columns.rows_by_partition(
        first, base, 0, count, partitions, ignore_keys=ignore_keys
    )
    assert (rows, groups) == speedups.rows_by_partition(
        second, base, 0, count, partitions, ignore_keys=ignore_keys
    )
    assert sorted(rows) == list(range(base, base + len(rows)))
    assert len(rows) > 0
    for partition, begin, end in groups:
        assert list(rows[begin:end]) == sorted(rows[begin:end])
        assert partition in (UNKNOWN, STICKY) or 0 <= partition < partitions
    assert len(groups) == 1 or STICKY not in [group[0] for group in groups]

    builders = twin_builders(size, size)
    for order, start, stop in [(None, base, base + count), *[(rows, *each[1:]) for each in groups]]:
        span = BulkToken(BulkOutcomes(), start, order)
        taken = [
            builder.append_rows(span, NOW, columns, base, stop, headers)
            for builder, columns in zip(builders, (first, second), strict=True)
        ]
        assert taken[0] == taken[1]
        assert state(builders[0]) == state(builders[1])


@pytest.mark.parametrize("room", BOTH)
@pytest.mark.parametrize("ignore_keys", [False, True])
def test_a_key_that_decides_nothing_is_not_read(room: Any, ignore_keys: bool) -> None:
    damaged = room.BinaryColumn(None, array("i", [0, 9, 2]), b"ab", 0, 2, wide=False)
    values = room.BinaryColumn(None, array("i", [0, 1, 2]), b"ab", 0, 2, wide=False)
    named = room.IntColumn(None, array("i", [1, 0]), 0, 2, wide=False)
    columns = Columns(values, damaged, None if ignore_keys else named)
    rows, groups = room.rows_by_partition(columns, 0, 0, 2, 3, ignore_keys=ignore_keys)
    assert list(rows) == ([0, 1] if ignore_keys else [1, 0])
    assert groups == ([(STICKY, 0, 2)] if ignore_keys else [(0, 0, 1), (1, 1, 2)])


@pytest.mark.parametrize("room", BOTH)
@pytest.mark.parametrize("wide", [False, True])
def test_columns_that_contradict_themselves(room: Any, wide: bool) -> None:
    validity, offsets, data = binary_buffers([b"ab", None, b"c"], wide=wide)
    column = room.BinaryColumn(validity, offsets, data, 0, 3, wide=wide)
    with pytest.raises(IndexError):
        column[3]
    for first, count in ((0, 4), (1, 3), (4, 1), (-1, 2), (0, -1), (2**62, 2**62)):
        with pytest.raises(SerializationError):
            room.BinaryColumn(validity, offsets, data, first, count, wide=wide)
    with pytest.raises(SerializationError):
        room.BinaryColumn(b"", offsets, data, 0, 3, wide=wide)
    with pytest.raises(SerializationError):
        room.IntColumn(None, bytes(15), 0, 2 if wide else 4, wide=wide)
    with pytest.raises(SerializationError):
        room.IntColumn(None, None, 0, 1, wide=wide)
    assert len(room.BinaryColumn(None, None, None, 0, 0, wide=wide)) == 0
    for wrong in ([0, 2, 1, 3], [0, 2, 2, 4], [-1, 2, 2, 3]):
        spoiled = room.BinaryColumn(None, array(offsets.typecode, wrong), data, 0, 3, wide=wide)
        found = [outcome(spoiled.__getitem__, row) for row in range(3)]
        assert SerializationError in found


@pytest.mark.parametrize("room", BOTH)
@pytest.mark.parametrize("wide", [False, True])
def test_headers_that_contradict_themselves(room: Any, wide: bool) -> None:
    code = "q" if wide else "i"
    items = binary(room, [b"a", b"b"], 0, wide=False)
    for offsets, first, count in (([0, 1], 0, 2), ([0, 1], 1, 1), ([0], -1, 1), ([0], 2**62, 2)):
        with pytest.raises(SerializationError):
            room.HeadersColumn(None, array(code, offsets), items, items, first, count, wide=wide)
    values = binary(room, [b"v"] * 3, 0, wide=False)
    builder = (reference if room is reference_columns else speedups).RecordsBuilder(
        bytearray(500), 500
    )
    for wrong in ([0, 3, 3, 3], [-1, 0, 1, 2], [1, 0, 1, 2]):
        headers = room.HeadersColumn(None, array(code, wrong), items, items, 0, 3, wide=wide)
        with pytest.raises(SerializationError):
            headers[0]
        span = BulkToken(BulkOutcomes(), 0)
        assert builder.append_rows(span, NOW, Columns(values, headers=headers), 0, 3) == 0
    with pytest.raises(IndexError):
        headers[3]


# --- spans ---------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=8),
    st.sampled_from([-1, 0, 41]),
    st.booleans(),
)
def test_a_span_is_told_once(counts: list[int], base_offset: int, cancelled: bool) -> None:
    for deliver in (delivery.deliver_records, speedups.deliver_records):
        fates = BulkOutcomes(cancelled=cancelled)
        builder = reference.RecordsBuilder(bytearray(2_000), 2_000)
        expected = []
        for number, count in enumerate(counts):
            span = BulkToken(fates, 10 * number, count=count)
            if count:
                offset = base_offset + builder.count if base_offset >= 0 else base_offset
                expected.append((span.first, count, "t", 3, offset))
            for each in range(count):
                assert builder.append(span, NOW + each % 2, None, b"v")
        deliver(builder.tokens, builder.runs, "t", 3, base_offset, -1)
        assert fates.told == ([] if cancelled else expected)


@given(
    st.integers(0, 6),
    st.integers(-1, 8),
    st.integers(-1, 8),
    st.none() | st.lists(st.integers(-1, 7), max_size=8),
    st.sampled_from([-1, 0, 2**40]),
)
def test_places_are_filled_the_same(
    records: int, first: int, count: int, rows: list[int] | None, base_offset: int
) -> None:
    filled = []
    for fill in (bulk_tokens.fill_places, speedups.fill_places):
        partitions, offsets = array("i", [-1]) * records, array("q", [-1]) * records
        span = BulkToken(BulkOutcomes(), first, None if rows is None else array("q", rows), count)
        result = outcome(fill, partitions, offsets, span, 2, base_offset)
        filled.append((result, partitions, offsets))
        if result is None:
            chosen = range(first, first + count) if rows is None else rows[first : first + count]
            assert [partitions[index] for index in chosen] == [2] * count
    assert filled[0] == filled[1]


@pytest.mark.parametrize("codes", ["qqq", "iiq", "iqi"])
def test_arrays_of_other_types_are_refused(codes: str) -> None:
    partitions, offsets, rows = (array(code, [0]) for code in codes)
    with pytest.raises(TypeError):
        speedups.fill_places(partitions, offsets, BulkToken(BulkOutcomes(), 0, rows, 1), 0, 0)


def test_records_of_spans_one_by_one() -> None:
    fates = BulkOutcomes()
    plain, turned = BulkToken(fates, 7, count=3), BulkToken(fates, 1, array("q", [40, 41, 42]), 2)
    tokens = ["a", plain, plain, plain, turned, turned, "b"]
    assert list(tokens_by_record(tokens)) == ["a", 7, 8, 9, 41, 42, "b"]


def test_a_column_that_was_not_made_has_no_rows() -> None:
    items = binary(speedups, [b"a"], 0, wide=False)
    for kind, arguments in (
        (speedups.BinaryColumn, (None, 5, b"", 0, 3)),
        (speedups.HeadersColumn, (None, 5, items, items, 0, 3)),
        (speedups.IntColumn, (None, 5, 0, 3)),
    ):
        column = kind.__new__(kind)
        with pytest.raises(TypeError):
            column.__init__(*arguments, wide=False)
        with pytest.raises(IndexError):
            column[0]


# --- values taken ahead ------------------------------------------------------------------------


@pytest.mark.parametrize("form", [bulk_tokens, speedups])
@pytest.mark.parametrize(
    ("values", "most", "expected"),
    [
        ([b"1", "2", 3, 4.0, True, None, b"7"], 10, 7),
        ([b"1", b"2", b"3"], 2, 2),
        ([b"1", bytearray(b"2"), b"3"], 10, 2),
        ([{}, b"2"], 10, 1),
        ([b"1", array("B"), memoryview(b"3")], 10, 2),
        ([], 10, 0),
    ],
)
def test_values_are_taken_up_to_the_first_that_may_change(
    form: Any, values: list[Any], most: int, expected: int
) -> None:
    taken: list[Any] = [b"before"]
    rest = iter(values)
    form.take_ahead(rest, most, taken)
    assert taken == [b"before", *values[:expected]]
    assert list(rest) == values[expected:]


@pytest.mark.parametrize("form", [bulk_tokens, speedups])
def test_values_before_an_error_of_the_iterator_are_kept(form: Any) -> None:
    def values() -> Iterator[bytes]:
        yield b"1"
        raise OSError("gone")

    taken: list[Any] = []
    with pytest.raises(OSError, match="gone"):
        form.take_ahead(values(), 10, taken)
    assert taken == [b"1"]
