"""Arrays whose buffers lie: an error or some bytes, and no read outside of the buffers.

The reads themselves are seen by a build with AddressSanitizer alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioproducer.engine.columnar import (
    avro_encoder,
    derived_avro_schema,
    derived_message,
    json_encoder,
    protobuf_encoder,
)
from aioproducer.errors import SerializationError
from tests.support.arrow_values import FORMS, encoded

ROWS = 3
PLACES = st.integers(-3, 12) | st.integers(-(2**31), 2**31 - 1)
OFFSETS = st.lists(PLACES, min_size=ROWS + 1, max_size=ROWS + 1)
WIDE_OFFSETS = st.lists(
    PLACES | st.integers(-(2**63), 2**63 - 1), min_size=ROWS + 1, max_size=ROWS + 1
)
VALID = st.none() | st.binary(min_size=1, max_size=1)


def buffers(kind: pa.DataType, *parts: bytes | None) -> pa.Array:
    """An array whose buffers have not one byte more, unchecked."""
    given_parts = [None if each is None else pa.py_buffer(each) for each in parts]
    return pa.Array.from_buffers(kind, ROWS, given_parts)


def nested(kind: pa.DataType, items: pa.Array, *parts: bytes | None) -> pa.Array:
    given_parts = [None if each is None else pa.py_buffer(each) for each in parts]
    return pa.Array.from_buffers(kind, ROWS, given_parts, children=[items])


@settings(max_examples=300, deadline=None)
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
    for encoder in (
        avro_encoder(rows.type, derived_avro_schema(rows.type, "Row")),
        json_encoder(rows.type),
        protobuf_encoder(rows.type, derived_message(rows.type, "Row")),
    ):
        with suppress(SerializationError):
            records = encoder.encode(rows)
            records.validate(full=True)
            assert len(records) == ROWS - start


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
    with pytest.raises(SerializationError, match="no valid array of Arrow"):
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
