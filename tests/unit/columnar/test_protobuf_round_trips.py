"""Random columns as messages: both forms write the same bytes, those of ``protobuf`` itself."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioproducer.engine.columnar import derived_message, derived_proto, protobuf_encoder
from aioproducer.engine.columnar.protobuf_plan import derived_file
from aioproducer.errors import SerializationError
from tests.support.arrow_values import FORMS, columns, encoded, for_arrow, message_types

pytestmark = pytest.mark.any_form

RELAXED: Final = [HealthCheck.too_slow, HealthCheck.data_too_large]
PARTS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
LOCAL: Final = {"s": (10**6, 1), "ms": (10**3, 1), "us": (1, 1), "ns": (1, 10**3)}


def without_nulls_in_lists(kind: pa.DataType, value: Any) -> Any:
    """A message has no null in a list or a map, and no instant behind the year 9999."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: without_nulls_in_lists(each.type, value[each.name]) for each in kind}
    if pa.types.is_map(kind):
        pairs = {key: without_nulls_in_lists(kind.item_type, each) for key, each in value.items()}
        return {key: each for key, each in pairs.items() if each is not None}
    if pa.types.is_nested(kind):
        items = [without_nulls_in_lists(kind.value_type, each) for each in value]
        return [each for each in items if each is not None]
    if pa.types.is_timestamp(kind) and kind.tz:
        return max(min(value, 253_402_300_799 * PARTS[kind.unit]), -62_135_596_800)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        multiply, divide = LOCAL[kind.unit]
        return value // multiply // divide * divide
    return value


def scalar(kind: pa.DataType, value: Any) -> Any:
    """A value as ``protobuf`` takes it."""
    if pa.types.is_decimal(kind):
        return f"{for_arrow(kind, value):f}"
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        multiply, divide = LOCAL[kind.unit]
        return value * multiply // divide
    return value


def fill(message: Any, kind: pa.DataType, value: Any) -> Any:
    """The message of a struct, made by ``protobuf``."""
    for field in kind:
        each = value[field.name]
        if each is None:
            continue
        if pa.types.is_struct(field.type):
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), field.type, each)
        elif pa.types.is_timestamp(field.type) and field.type.tz:
            instant(getattr(message, field.name), field.type, each)
        elif pa.types.is_map(field.type):
            for key, item in each.items():
                fill_item(getattr(message, field.name), key, field.type.item_type, item)
        elif pa.types.is_nested(field.type):
            for item in each:
                add_item(getattr(message, field.name), field.type.value_type, item)
        else:
            setattr(message, field.name, scalar(field.type, each))
    return message


def instant(message: Any, kind: pa.DataType, value: int) -> None:
    message.SetInParent()
    message.seconds, fraction = divmod(value, PARTS[kind.unit])
    message.nanos = fraction * (10**9 // PARTS[kind.unit])


def fill_item(items: Any, key: Any, kind: pa.DataType, value: Any) -> None:
    if pa.types.is_struct(kind):
        fill(items[key], kind, value)
    elif pa.types.is_timestamp(kind) and kind.tz:
        items[key].seconds, fraction = divmod(value, PARTS[kind.unit])
        items[key].nanos = fraction * (10**9 // PARTS[kind.unit])
    else:
        items[key] = scalar(kind, value)


def add_item(items: Any, kind: pa.DataType, value: Any) -> None:
    if pa.types.is_struct(kind):
        fill(items.add(), kind, value)
    elif pa.types.is_timestamp(kind) and kind.tz:
        instant(items.add(), kind, value)
    else:
        items.append(scalar(kind, value))


def has_maps(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(
        has_maps(kind.field(number).type) for number in range(kind.num_fields)
    )


@st.composite
def messages(draw: st.DrawFn) -> Any:
    array, rows = draw(columns(message_types()))
    kind = array.type
    plain = pa.struct([kind.field(number) for number in range(kind.num_fields)])
    rows = [without_nulls_in_lists(plain, each) for each in rows]
    made = pa.array([for_arrow(plain, each) for each in rows], plain)
    start = draw(st.integers(0, len(rows)))
    return made.slice(start), rows[start:]


@settings(max_examples=60, deadline=None, suppress_health_check=RELAXED)
@given(columns(message_types()))
def test_both_forms_agree_on_every_column(column: Any) -> None:
    """Also on the first value that has no form."""
    array, _ = column
    encoder: Any = protobuf_encoder(array.type, derived_message(array.type, "Row"))
    said = set()
    for form in FORMS:
        try:
            said.add(str(encoded(form, encoder, array).to_pylist()))
        except SerializationError as error:
            said.add(str(error))
    assert len(said) == 1


@settings(max_examples=60, deadline=None, suppress_health_check=RELAXED)
@given(messages())
def test_the_messages_are_those_of_protobuf(column: Any) -> None:
    array, rows = column
    descriptor = derived_message(array.type, "Row", "org.example")
    message_class = import_module("google.protobuf.message_factory").GetMessageClass(descriptor)
    encoder: Any = protobuf_encoder(array.type, descriptor, b"\0\0")
    made = [encoded(form, encoder, array).to_pylist() for form in FORMS]
    assert all(each == made[0] for each in made)
    for record, row in zip(made[0], rows, strict=True):
        if row is None:
            assert record is None
            continue
        expected = fill(message_class(), array.type, row)
        assert record[:2] == b"\0\0"
        assert message_class.FromString(record[2:]) == expected
        if not has_maps(array.type):
            assert record[2:] == expected.SerializeToString(deterministic=True)


@settings(max_examples=30, deadline=None, suppress_health_check=RELAXED)
@given(kind=message_types())
def test_protoc_reads_the_text_as_the_derived_file(
    kind: pa.DataType, tmp_path_factory: pytest.TempPathFactory
) -> None:
    protoc = import_module("grpc_tools.protoc")
    folder = tmp_path_factory.mktemp("protos")
    (folder / "Row.proto").write_text(derived_proto(kind, "Row", "org.example"), "utf-8")
    well_known = str(import_module("importlib.resources").files("grpc_tools") / "_proto")
    arguments = [f"-I{folder}", f"-I{well_known}", f"--descriptor_set_out={folder / 'set'}"]
    assert protoc.main(["protoc", *arguments, str(folder / "Row.proto")]) == 0
    files = import_module("google.protobuf.descriptor_pb2").FileDescriptorSet()
    files.ParseFromString((folder / "set").read_bytes())
    derived = derived_file(kind, "Row", "org.example", "value")
    for file in (files.file[0], derived):
        comparable(file.message_type[0])
    assert files.file[0] == derived


def comparable(message: Any) -> None:
    """protoc adds names for JSON, and has the entries of maps at other places."""
    for field in message.field:
        field.ClearField("json_name")
    for each in message.nested_type:
        comparable(each)
    message.nested_type.sort(key=lambda each: each.name)
