"""Which schema is used, which is refused, and its id before the payload or in a header."""

from __future__ import annotations

import io
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.schema_registry import AvroDeserializer, AvroSerializer, Rule, Schema
from aioproducer.schema_registry.model import (
    refuse_rules_of_readers,
    refuse_rules_of_writers,
)
from aioproducer.schema_registry.policies import checked_strategy, subject_name
from aioproducer.schema_registry.wire_format import (
    HEADERS,
    header_bytes,
    id_bytes,
    unframed,
)
from aioproducer.testing import InMemorySchemaRegistry

ENCRYPT = Rule("encrypt-pii", "TRANSFORM", "WRITEREAD", "ENCRYPT")
UPGRADE = Rule("to-v2", "TRANSFORM", "UPGRADE", "JSONATA", phase="migration")
CHECK = Rule("positive", "CONDITION", "WRITE", "CEL")
OFF = Rule("old", "TRANSFORM", "WRITEREAD", "ENCRYPT", disabled=True)


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("topic_name", "orders-key"),
        ("record_name", "shop.Order"),
        ("topic_record_name", "orders-shop.Order"),
        (lambda topic, field, record: f"{record}/{field}/{topic}", "shop.Order/key/orders"),
    ],
)
def test_the_strategies(strategy: Any, subject: str) -> None:
    assert subject_name(checked_strategy(strategy), "orders", "key", "shop.Order") == subject


def test_a_strategy_that_needs_a_name_says_so() -> None:
    assert subject_name("topic_name", "orders", "value", None) == "orders-value"
    with pytest.raises(SerializationError, match="'record_name' needs a record name"):
        subject_name("record_name", "orders", "value", None)
    with pytest.raises(ConfigError, match="neither a function nor one of topic_name, record_name"):
        checked_strategy("topics")  # type: ignore[arg-type]


def test_rules_are_refused_by_their_names() -> None:
    schema = Schema('"string"', rules=(ENCRYPT, UPGRADE, CHECK, OFF))
    with pytest.raises(SerializationError) as caught:
        refuse_rules_of_writers(schema, "topic 'orders', subject 'orders-value'")
    text = str(caught.value)
    assert text.startswith("topic 'orders', subject 'orders-value': the data contract of the")
    assert "'encrypt-pii' (domain ENCRYPT WRITEREAD)" in text
    assert "'to-v2' (migration JSONATA UPGRADE)" in text
    assert "'positive' (domain CEL WRITE)" in text
    assert "old" not in text


def test_readers_need_not_obey_the_rules_of_writers() -> None:
    refuse_rules_of_readers(Schema('"string"', rules=(CHECK, OFF)), "schema 1")
    with pytest.raises(SerializationError, match="encrypt-pii"):
        refuse_rules_of_readers(Schema('"string"', rules=(ENCRYPT, CHECK)), "schema 1")


async def test_a_contract_with_rules_is_neither_written_nor_read() -> None:
    registry = InMemorySchemaRegistry()
    made = await registry.register("orders-value", Schema('"string"', rules=(ENCRYPT,)))
    for options in ({"use_latest_version": True}, {"use_schema_id": made.id}):
        serializer = AvroSerializer(registry, **options)
        await serializer.prepare("orders")
        with pytest.raises(SerializationError, match="encrypt-pii"):
            serializer.serialize("orders", "secret", [])
    with pytest.raises(SerializationError, match="encrypt-pii"):
        await AvroDeserializer(registry).deserialize("orders", id_bytes(made.id) + b"\x02a")


async def test_a_schema_of_another_type_is_refused() -> None:
    registry = InMemorySchemaRegistry()
    made = await registry.register("orders-value", Schema("{}", "JSON"))
    serializer = AvroSerializer(registry, use_latest_version=True)
    await serializer.prepare("orders")
    with pytest.raises(SerializationError, match="has the type JSON, not AVRO"):
        serializer.serialize("orders", "x", [])
    with pytest.raises(SerializationError, match="has the type JSON, not AVRO"):
        await AvroDeserializer(registry).deserialize("orders", id_bytes(made.id) + b"x")


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
