"""Keys and values pass their serializers in Kafka's order, with one list of headers."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer.errors import SerializationError
from aioproducer.serialization import FieldSerializer, RecordHeaders, RecordSerializers


class Stamp:
    """Logs what it sees, and adds a header."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.saw: list[RecordHeaders] = []
        self.topics: list[str] = []

    def serialize(self, topic: str, data: Any, headers: RecordHeaders) -> bytes | None:
        self.saw.append(list(headers))
        headers.append((self.name, b"1"))
        return str(data).encode()

    async def prepare(self, topic: str) -> None:
        self.topics.append(topic)


def both(key: Any, value: Any) -> RecordSerializers:
    return RecordSerializers(FieldSerializer(key, "key"), FieldSerializer(value, "value"))


def test_the_value_sees_the_header_that_the_key_added() -> None:
    key, value = Stamp("k"), Stamp("v")
    given = {"trace": b"0"}
    made = both(key, value).serialized("orders", 1, 2, given)
    assert made == (b"1", b"2", (("trace", b"0"), ("k", b"1"), ("v", b"1")))
    assert value.saw == [[("trace", b"0"), ("k", b"1")]]
    assert given == {"trace": b"0"}, "the caller's own headers stay as they are"


def test_a_header_of_a_serializer_is_checked() -> None:
    class Wrong:
        def serialize(self, topic: str, data: Any, headers: Any) -> bytes:
            headers.append(("a", 1))
            return b""

    with pytest.raises(SerializationError, match=r"'a'.*int"):
        both(Wrong(), Wrong()).serialized("orders", 1, 2, None)


def test_a_serializer_may_take_a_header_away() -> None:
    class Removes:
        def serialize(self, topic: str, data: Any, headers: RecordHeaders) -> bytes:
            headers.clear()
            return b""

    assert both(Removes(), Removes()).serialized("orders", 1, 2, {"a": b""}) == (b"", b"", ())


def test_a_field_without_a_serializer_passes_as_it_is() -> None:
    made = RecordSerializers(value=FieldSerializer(str.encode, "value"))
    assert made.serialized("orders", "k", "v", None) == (b"k", b"v", ())
    with pytest.raises(SerializationError, match="key_serializer"):
        made.serialized("orders", 1, "v", None)
    assert RecordSerializers().serialized("orders", b"k", None, [("a", None)]) == (
        b"k",
        None,
        (("a", None),),
    )


async def test_both_are_prepared() -> None:
    key, value = Stamp("k"), Stamp("v")
    serializers = both(key, value)
    assert serializers.need_preparation
    await serializers.prepare("orders")
    assert (key.topics, value.topics) == (["orders"], ["orders"])
    assert not both(str.encode, str.encode).need_preparation


def test_a_waiting_record_has_its_own_copy_of_what_needs_no_serializer() -> None:
    key, headers = bytearray(b"k"), {"a": b"1"}
    value = {"any": "object"}
    made = RecordSerializers(value=FieldSerializer(Stamp("v"), "value"))
    converted = made.converted("orders", key, value, headers)
    key[:] = b"x"
    headers.clear()
    assert converted == (b"k", value, (("a", b"1"),))
    with pytest.raises(SerializationError, match="key_serializer"):
        made.converted("orders", 1, value, None)


async def test_a_plain_method_may_prepare() -> None:
    class Plain(Stamp):
        def prepare(self, topic: str) -> None:  # type: ignore[override]
            self.topics.append(topic)

    key = Plain("k")
    await RecordSerializers(FieldSerializer(key, "key")).prepare("orders")
    assert key.topics == ["orders"]
