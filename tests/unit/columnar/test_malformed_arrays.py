"""Arrays whose buffers lie: an error or some bytes, and no read outside of the buffers.

Only a build with AddressSanitizer sees the reads themselves: ``make sanitize``.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aioproducer.engine.columnar import (
    RowEncoder,
    avro_encoder,
    derived_avro_schema,
    derived_message,
    json_encoder,
    protobuf_encoder,
)
from aioproducer.engine.records import columns
from aioproducer.errors import SerializationError
from tests.support.arrow_values import FORMS, encoded
from tests.support.encoded_batches import exact

ROWS = 3
PLACES = st.integers(-3, 12) | st.integers(-(2**31), 2**31 - 1)
OFFSETS = st.lists(PLACES, min_size=ROWS + 1, max_size=ROWS + 1)
WIDE_OFFSETS = st.lists(
    PLACES | st.integers(-(2**63), 2**63 - 1), min_size=ROWS + 1, max_size=ROWS + 1
)
VALID = st.none() | st.binary(min_size=1, max_size=1)


def buffers(kind: pa.DataType, *parts: bytes | None) -> pa.Array:
    """An array whose buffers have not one byte more, unchecked."""
    given_parts = [None if each is None else pa.py_buffer(exact(each)) for each in parts]
    return pa.Array.from_buffers(kind, ROWS, given_parts)


def nested(kind: pa.DataType, items: pa.Array, *parts: bytes | None) -> pa.Array:
    given_parts = [None if each is None else pa.py_buffer(exact(each)) for each in parts]
    return pa.Array.from_buffers(kind, ROWS, given_parts, children=[items])


@settings(max_examples=150, deadline=None)
@given(OFFSETS, WIDE_OFFSETS, OFFSETS, OFFSETS, st.binary(max_size=9), VALID, st.integers(0, ROWS))
def test_no_offset_leads_out_of_its_buffer(
    short: list[int],
    wide: list[int],
    lists: list[int],
    maps: list[int],
    data: bytes,
    valid: bytes | None,
    start: int,
) -> None:
    numbers = pa.array([1, 2, None], pa.int16())
    pairs = pa.StructArray.from_arrays([pa.array(["k", "l", "m"]), numbers], ["key", "value"])
    map_kind = pa.map_(pa.string(), pa.int16())
    made: dict[str, Any] = {}
    makers: dict[str, Callable[[], Any]] = {
        "text": lambda: buffers(pa.string(), valid, array("i", short).tobytes(), data),
        "wide": lambda: buffers(pa.large_binary(), valid, array("q", wide).tobytes(), data),
        "list": lambda: nested(pa.list_(pa.int16()), numbers, valid, array("i", lists).tobytes()),
        "map": lambda: nested(map_kind, pairs, valid, array("i", maps).tobytes()),
    }
    for name, make in makers.items():
        with suppress(pa.ArrowInvalid):  # pyarrow notices some of them
            made[name] = make()
    if not made:
        return
    rows = pa.StructArray.from_arrays(list(made.values()), list(made)).slice(start)
    for encoder in encoders(rows):
        with suppress(SerializationError):
            records = encoder.encode(rows)
            records.validate(full=True)
            assert len(records) == ROWS - start


def encoders(rows: pa.Array) -> list[RowEncoder]:
    return [
        avro_encoder(rows.type, derived_avro_schema(rows.type, "Row")),
        json_encoder(rows.type),
        protobuf_encoder(rows.type, derived_message(rows.type, "Row")),
    ]


@pytest.mark.parametrize("valid", [None, b"\5", b"\6"], ids=["all", "row 1 null", "row 0 null"])
@pytest.mark.parametrize("size", [0, 1, 8, 64])
@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.binary(), pa.large_binary(), pa.list_(pa.int16()), pa.large_list(pa.int16())],
    ids=str,
)
def test_an_end_that_is_one_too_far_is_refused(
    kind: pa.DataType, size: int, valid: bytes | None
) -> None:
    """pyarrow itself looks at the first end and the last one alone."""
    code = "q" if kind in (pa.large_binary(), pa.large_list(pa.int16())) else "i"
    for middle in (size, size + 1, -1):
        ends = array(code, [0, middle, size, size]).tobytes()
        if pa.types.is_nested(kind):
            data = pa.py_buffer(exact(bytes(2 * size)))
            column = nested(
                kind, pa.Array.from_buffers(pa.int16(), size, [None, data]), valid, ends
            )
        else:
            column = buffers(kind, valid, ends, b"x" * size)
        rows = pa.StructArray.from_arrays([column], ["it"])
        for encoder in encoders(rows):
            if middle == size:
                assert len(encoder.encode(rows)) == ROWS
                continue
            with pytest.raises(SerializationError):
                encoder.encode(rows)


def view_out_of_its_buffer() -> pa.Array:
    size, prefix, buffer, start = (100).to_bytes(4, "little"), b"abcd", 7, 0
    view = size + prefix + buffer.to_bytes(4, "little") + start.to_bytes(4, "little")
    return pa.Array.from_buffers(pa.string_view(), 1, [None, pa.py_buffer(view)])


def index_out_of_its_dictionary() -> pa.Array:
    indices = pa.array([100_000_000], pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)


@pytest.mark.parametrize("make", [view_out_of_its_buffer, index_out_of_its_dictionary])
def test_what_arrow_decodes_is_checked_before(make: Callable[[], pa.Array]) -> None:
    rows = pa.StructArray.from_arrays([make()], ["text"])
    with pytest.raises(SerializationError, match="not a valid array of Arrow"):
        json_encoder(rows.type).encode(rows)


@pytest.mark.parametrize("wrap", [lambda kind: kind, lambda kind: pa.struct([("inner", kind)]),
                                  lambda kind: pa.list_(kind, 2)])  # fmt: skip
def test_a_null_row_has_any_index_of_a_dictionary(wrap: Any) -> None:
    """Arrow's own builders put the index 0 of an empty dictionary below a null."""
    inner = pa.struct([("text", pa.dictionary(pa.int32(), pa.string()))])
    rows = pa.array([None], pa.struct([("row", wrap(inner))]))
    nulls = pa.array([{"row": None}], rows.type)
    encoder = json_encoder(rows.type)
    for form in FORMS:
        assert encoded(form, encoder, rows).to_pylist() == [None]
        assert encoded(form, encoder, nulls).to_pylist() == [b"{}"]


# --- columns of send_many() --------------------------------------------------------------------

COLUMNS: Final[dict[str, Any]] = {"reference": columns}
try:
    from aioproducer.engine.records import _speedups

    COLUMNS["compiled"] = _speedups
except ImportError:
    pass


def rows_of(make: Callable[[], Any]) -> list[Any]:
    """Each row of a column; "refused" for a row, or for the whole column."""
    found: list[Any] = []
    with suppress(SerializationError):
        column = make()
        for row in range(len(column)):
            found.append("refused")
            with suppress(SerializationError):
                found[row] = column[row]
    return found


def unaligned(parts: list[bytes], shift: int) -> list[memoryview]:
    """The bytes at addresses that no array promises, with none behind them."""
    return [memoryview(exact(b"!" * shift + part))[shift:] for part in parts]


@settings(max_examples=250)
@given(
    st.booleans(),
    WIDE_OFFSETS | OFFSETS,
    OFFSETS,
    st.binary(max_size=9),
    VALID,
    st.integers(-1, ROWS),
    st.integers(-1, ROWS + 2),
    st.integers(0, 3),
)
@example(True, [0, 2, 1, 2], [0, 4, 3, 3], b"ab", None, 0, ROWS, 1)
@example(False, [0, 2, 3, 2], [0, 1, 2, 3], b"ab", b"\5", 0, ROWS, 3)
@example(False, [0, 1, 2, 3], [0, 1, 1, 2], b"\xff\xfea", None, 1, ROWS - 1, 0)
def test_no_column_that_is_sent_is_read_out_of_its_buffers(
    wide: bool,
    ends: list[int],
    lists: list[int],
    data: bytes,
    valid: bytes | None,
    first: int,
    count: int,
    shift: int,
) -> None:
    if not wide:
        ends = [max(min(each, 2**31 - 1), -(2**31)) for each in ends]
    packed = [array("q" if wide else "i", ends).tobytes(), array("i", lists).tobytes(), data]
    places, pairs, content = unaligned(packed, shift)
    outcomes = []
    for form in COLUMNS.values():

        def texts(first: int = first, count: int = count, form: Any = form) -> Any:
            return form.BinaryColumn(valid, places, content, first, count, wide=wide)

        def headers(form: Any = form, texts: Any = texts) -> Any:
            both = texts(0, ROWS), texts(0, ROWS)
            return form.HeadersColumn(valid, pairs, *both, first, count, wide=False)

        def numbers(form: Any = form) -> Any:
            return form.IntColumn(valid, places, first, count, wide=wide)

        found: list[Any] = [rows_of(make) for make in (texts, headers, numbers)]
        with suppress(SerializationError):
            found.append(form.partitions_of_keys(texts(), 7))
        with suppress(SerializationError):
            sent = columns.Columns(texts(), texts(), None, None, None)
            found.append(form.rows_by_partition(sent, 5, 0, count, 7, ignore_keys=False))
        outcomes.append(found)
    assert outcomes[0] == outcomes[-1]
