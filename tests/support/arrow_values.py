"""Random types of Arrow and random arrays of them: nested, null, sliced, with dictionaries."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute
from hypothesis import strategies as st

from aioproducer.engine.columnar import avro_rows, json_rows, protobuf_rows
from aioproducer.engine.columnar.arrow_types import integer_range
from aioproducer.engine.columnar.layout import laid_out

FORMS: Final[dict[str, Any]] = {
    "reference": SimpleNamespace(
        avro=avro_rows.avro_rows,
        json=json_rows.json_rows,
        protobuf=protobuf_rows.protobuf_rows,
    )
}
"""The forms of the encoders that are installed."""

try:
    from aioproducer.engine.columnar import _speedups

    FORMS["compiled"] = SimpleNamespace(
        avro=_speedups.avro_rows, json=_speedups.json_rows, protobuf=_speedups.protobuf_rows
    )
except ImportError:
    pass


def encoded(form: str, encoder: Any, array: pa.Array) -> pa.Array:
    """The records that one form of the encoder makes."""
    rows = getattr(FORMS[form], encoder.format)
    made = rows(laid_out(encoder.plan, array), len(array), encoder.prefix)
    made.validate(full=True)
    return made


INTEGERS: Final = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16()]
TIMES: Final = [
    pa.date32(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ("UTC", None)),
]
OTHERS: Final = [
    pa.bool_(),
    pa.uint32(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(5),
]
DECIMALS: Final = [pa.decimal128(5, 2), pa.decimal128(38, 10), pa.decimal128(20, 0)]
WIDE_DECIMALS: Final = [pa.decimal256(50, 7)]
LEAVES: Final = [*INTEGERS, *TIMES, *OTHERS, *DECIMALS, *WIDE_DECIMALS]
NAMES: Final = ["a", "b", "c", "name_of_some_length"]


def structs(members: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.dictionaries(st.sampled_from(NAMES), members, min_size=1, max_size=4)
    return fields.map(lambda each: pa.struct(list(each.items())))


def _nested(members: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        structs(members),
        members.map(pa.list_),
        members.map(pa.large_list),
        st.tuples(members, st.integers(0, 3)).map(lambda each: pa.list_(*each)),
        members.map(lambda each: pa.map_(pa.string(), each)),
    )


def types() -> st.SearchStrategy[pa.DataType]:
    """Structs of anything that has a form in every format."""
    return structs(st.recursive(st.sampled_from(LEAVES), _nested, max_leaves=8))


def message_types() -> st.SearchStrategy[pa.DataType]:
    """Structs of what a message of Protocol Buffers can have: no list within a list or map."""

    def fields(values: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        maps = st.tuples(st.sampled_from([pa.string(), pa.int32(), pa.bool_()]), values)
        return structs(
            values
            | values.map(pa.list_)
            | values.map(pa.large_list)
            | maps.map(lambda each: pa.map_(*each))
        )

    leaves = st.sampled_from([*LEAVES, pa.uint64()])
    return fields(leaves | fields(leaves) | fields(leaves | fields(leaves)))


def _bounds(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_time(kind):
        parts = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
        return 0, 86_400 * parts[kind.unit] - 1
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return -(2**62) // 1000, 2**62 // 1000
    if pa.types.is_integer(kind):
        return integer_range(kind)
    half = 2 ** (kind.bit_width - 1)
    return -half, half - 1


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values: times are their numbers, decimals their unscaled numbers, maps dicts."""
    found: st.SearchStrategy[Any]
    if pa.types.is_struct(kind):
        found = st.fixed_dictionaries({each.name: values(each.type) for each in kind})
    elif pa.types.is_map(kind):
        keys = values(kind.key_type).filter(lambda each: each is not None)
        found = st.dictionaries(keys, values(kind.item_type), max_size=3)
    elif pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        found = st.lists(values(kind.value_type), min_size=size, max_size=size)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        found = st.lists(values(kind.value_type), max_size=3)
    elif pa.types.is_boolean(kind):
        found = st.booleans()
    elif pa.types.is_floating(kind):
        found = st.floats(width=kind.bit_width, allow_nan=False)
    elif pa.types.is_decimal(kind):
        found = st.integers(-(10**kind.precision) + 1, 10**kind.precision - 1)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = st.text(max_size=12)
    elif pa.types.is_fixed_size_binary(kind):
        found = st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        found = st.binary(max_size=12)
    else:
        found = st.integers(*_bounds(kind))
    return st.none() | found


def for_arrow(kind: pa.DataType, value: Any) -> Any:
    """A value as ``pyarrow.array`` takes it: decimals as decimals, maps as pairs."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: for_arrow(each.type, value[each.name]) for each in kind}
    if pa.types.is_map(kind):
        return [(key, for_arrow(kind.item_type, each)) for key, each in value.items()]
    if pa.types.is_nested(kind):
        return [for_arrow(kind.value_type, each) for each in value]
    if pa.types.is_decimal(kind):
        digits = tuple(map(int, str(abs(value))))
        return Decimal((int(value < 0), digits, -kind.scale))
    return value


@st.composite
def columns(draw: st.DrawFn, kinds: st.SearchStrategy[pa.DataType] | None = None) -> Any:
    """``(array, values)``: the values are those of the array, which may be a slice."""
    kind = draw(types() if kinds is None else kinds)
    rows = draw(st.lists(values(kind), max_size=6))
    array = pa.array([for_arrow(kind, each) for each in rows], kind)
    start = draw(st.integers(0, len(rows)))
    stop = draw(st.integers(start, len(rows)))
    return rearranged(draw, array.slice(start, stop - start)), rows[start:stop]


def rearranged(draw: st.DrawFn, array: pa.Array) -> pa.Array:
    """The same values in other buffers: members sliced, texts in dictionaries."""
    kind = array.type
    if not pa.types.is_struct(kind) or not len(array):
        return array
    members = []
    for number in range(kind.num_fields):
        member = array.field(number)
        if pa.types.is_string(member.type) and draw(st.booleans()):
            member = member.dictionary_encode()
        elif draw(st.booleans()):
            member = pa.concat_arrays([member.slice(0, 1), member]).slice(1)
        members.append(rearranged(draw, member) if pa.types.is_struct(member.type) else member)
    mask = pyarrow.compute.is_null(array) if array.null_count else None
    names = [kind.field(number).name for number in range(kind.num_fields)]
    return pa.StructArray.from_arrays(members, names, mask=mask)
