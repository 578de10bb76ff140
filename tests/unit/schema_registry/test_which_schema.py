"""Subjects, and rules of data contracts: which schema is used, and which is refused."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.schema_registry import AvroDeserializer, AvroSerializer, Rule, Schema
from aioproducer.schema_registry.model import (
    refuse_rules_of_readers,
    refuse_rules_of_writers,
)
from aioproducer.schema_registry.policies import checked_strategy, subject_name
from aioproducer.schema_registry.wire_format import id_bytes
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
