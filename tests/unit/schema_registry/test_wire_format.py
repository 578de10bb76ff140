"""The wire format: the id of a schema before the payload, or in a header."""

from __future__ import annotations

import io
from uuid import UUID

import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.errors import SerializationError
from aioproducer.schema_registry.wire_format import (
    HEADERS,
    header_bytes,
    id_bytes,
    unframed,
)

ids = st.integers(0, 0xFFFF_FFFF)
paths = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=100)


@given(ids, st.binary(max_size=20))
def test_the_prefix_is_that_of_confluents_clients(schema_id: int, payload: bytes) -> None:
    ours = id_bytes(schema_id) + payload
    assert ours == SchemaId("AVRO", schema_id).id_to_bytes() + payload
    framed = unframed("orders", "value", ours)
    assert (framed.id, framed.guid, framed.payload) == (schema_id, None, payload)


@given(ids, paths, st.binary(max_size=20))
def test_message_indexes_are_those_of_confluents_clients(
    schema_id: int, indexes: list[int], payload: bytes
) -> None:
    ours = id_bytes(schema_id, indexes) + payload
    assert ours == SchemaId("PROTOBUF", schema_id, None, indexes).id_to_bytes() + payload
    framed = unframed("orders", "value", ours, indexes=True)
    assert (framed.indexes, framed.payload) == (tuple(indexes), payload)


@given(st.uuids(), paths)
def test_a_guid_in_a_header_is_that_of_confluents_clients(guid: UUID, indexes: list[int]) -> None:
    ours = header_bytes(7, guid, indexes)
    assert ours == SchemaId("PROTOBUF", 7, str(guid), indexes).guid_to_bytes()
    theirs = SchemaId("PROTOBUF")
    theirs.from_bytes(io.BytesIO(ours))
    assert (theirs.guid, theirs.message_indexes) == (guid, indexes)
    framed = unframed("orders", "key", b"payload", [(HEADERS["key"], ours)], indexes=True)
    assert (framed.key, framed.indexes) == (guid, tuple(indexes))
    assert framed.payload == b"payload"


def test_without_a_guid_the_header_has_the_number() -> None:
    mark = header_bytes(7, None)
    theirs = SchemaId("AVRO")
    theirs.from_bytes(io.BytesIO(mark))
    assert theirs.id == 7
    assert unframed("orders", "value", b"x", {HEADERS["value"]: mark}).id == 7


def test_the_last_header_counts_and_a_null_is_none() -> None:
    headers = [
        (HEADERS["value"], id_bytes(1)),
        (HEADERS["value"], id_bytes(2)),
        (HEADERS["value"], None),
        (HEADERS["key"], id_bytes(3)),
    ]
    assert unframed("orders", "value", b"x", headers).id == 2
    assert unframed("orders", "value", id_bytes(4), [(HEADERS["value"], None)]).id == 4


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "topic 'orders': a value is empty"),
        (b'{"id": 1}', "begins with the byte 0x7b; a serializer of a schema registry writes 0x00"),
        (b"\x00\x00\x00", "ends within a schema's id: it has 3 bytes"),
        (b"\x01" + bytes(15), "ends within a schema's GUID: it has 16 bytes"),
    ],
)
def test_other_bytes_are_named(data: bytes, text: str) -> None:
    with pytest.raises(SerializationError) as caught:
        unframed("orders", "value", data)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("tail", "text"),
    [
        (b"", "ends within its message indexes"),
        (b"\x01", "claims -1 message indexes"),
        (b"\xff\xff\xff\xff\x0f", "message indexes; at most 100 are read"),
        (b"\xff" * 9, "a message index of more than 32 bits"),
        (b"\x02\x03", "contains a negative message index: [-2]"),
        (b"\x04\x02", "ends within its message indexes"),
    ],
)
def test_message_indexes_that_are_none(tail: bytes, text: str) -> None:
    with pytest.raises(SerializationError) as caught:
        unframed("orders", "value", id_bytes(1) + tail, indexes=True)
    assert text in str(caught.value)


@given(st.binary(max_size=40), st.booleans(), st.booleans())
def test_any_bytes_are_framed_or_refused(data: bytes, indexes: bool, header: bool) -> None:
    headers = [(HEADERS["value"], data)] if header else None
    try:
        framed = unframed("orders", "value", data, headers, indexes=indexes)
    except SerializationError:
        return
    assert (framed.id is None) != (framed.guid is None)
    assert len(framed.payload) <= len(data)


def test_an_id_of_more_than_four_bytes_is_refused() -> None:
    with pytest.raises(SerializationError, match="does not fit into four bytes"):
        id_bytes(2**32)
