"""Random columns in Avro: both forms write the same bytes, and fastavro reads the values back."""

from __future__ import annotations

import io
import struct
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from aioproducer.engine.columnar import avro_encoder, derived_avro_schema
from tests.support.arrow_values import FORMS, columns, encoded

pytestmark = [
    pytest.mark.any_form,
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning"),
]
RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large]


def plain(schema: Any) -> Any:
    """A schema without its logical types, so that a reader gives numbers and bytes."""
    if isinstance(schema, list):
        return [plain(each) for each in schema]
    if isinstance(schema, dict):
        return {key: plain(each) for key, each in schema.items() if key != "logicalType"}
    return schema


def as_read(kind: pa.DataType, value: Any) -> Any:
    """A value as fastavro reads it with such a schema."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: as_read(each.type, value[each.name]) for each in kind}
    if pa.types.is_map(kind):
        return {key: as_read(kind.item_type, each) for key, each in value.items()}
    if pa.types.is_nested(kind):
        return [as_read(kind.value_type, each) for each in value]
    if pa.types.is_decimal(kind):
        size = ((value if value >= 0 else ~value).bit_length() + 8) // 8
        return value.to_bytes(size, "big", signed=True)
    if pa.types.is_float32(kind):
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and kind.unit == "s":
        return value * 1000
    return value


def read(record: bytes | None, schema: Any) -> Any:
    if record is None:
        return None
    stream = io.BytesIO(record)
    value = fastavro.schemaless_reader(stream, schema, None)
    assert not stream.read(), "bytes are left over"
    return value


@settings(max_examples=60, deadline=None, suppress_health_check=RELAXED)
@given(columns())
def test_each_form_writes_what_fastavro_reads(column: Any) -> None:
    array, rows = column
    schema = derived_avro_schema(array.type, "Row", "org.example")
    encoder: Any = avro_encoder(array.type, schema, b"\0\0\0\0\7")
    made = {form: encoded(form, encoder, array).to_pylist() for form in FORMS}
    reference = made.pop("reference")
    assert all(each == reference for each in made.values())
    reader = fastavro.parse_schema(plain(schema))
    assert all(each is None or each[:5] == b"\0\0\0\0\7" for each in reference)
    values = [read(each and each[5:], reader) for each in reference]
    assert values == [as_read(array.type, each) for each in rows]
