"""The bytes of numbers, text and UUIDs: those of Java's serializers."""

from __future__ import annotations

import math
import struct
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from aioproducer import serialization
from aioproducer.errors import ConfigError, SerializationError
from aioproducer.serialization import (
    BytesDeserializer,
    BytesSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntegerDeserializer,
    IntegerSerializer,
    LongDeserializer,
    LongSerializer,
    ShortSerializer,
    StringDeserializer,
    StringSerializer,
    UUIDDeserializer,
    UUIDSerializer,
)

KINDS = ["Short", "Integer", "Long", "Float", "Double", "String", "UUID", "Bytes"]


def pair(kind: str) -> tuple[Any, Any]:
    return (
        getattr(serialization, f"{kind}Serializer")(),
        getattr(serialization, f"{kind}Deserializer")(),
    )


# The bytes that kafka-clients 4.3.1 makes of them; tests/kafka asks it again.
GOLDEN: list[tuple[str, Any, str]] = [
    ("Short", 0, "0000"),
    ("Short", -1, "ffff"),
    ("Short", 32767, "7fff"),
    ("Short", -32768, "8000"),
    ("Integer", 1, "00000001"),
    ("Integer", -2, "fffffffe"),
    ("Integer", 2**31 - 1, "7fffffff"),
    ("Integer", -(2**31), "80000000"),
    ("Long", 258, "0000000000000102"),
    ("Long", 2**63 - 1, "7fffffffffffffff"),
    ("Long", -(2**63), "8000000000000000"),
    ("Float", 1.5, "3fc00000"),
    ("Float", -0.0, "80000000"),
    ("Float", math.inf, "7f800000"),
    ("Float", 2, "40000000"),
    ("Double", 0.1, "3fb999999999999a"),
    ("Double", -math.inf, "fff0000000000000"),
    ("String", "Grüße 🗝", "4772c3bcc39f6520f09f979d"),
    ("String", "", ""),
    (
        "UUID",
        UUID("12345678-90AB-cdef-1234-567890abcdef"),
        b"12345678-90ab-cdef-1234-567890abcdef".hex(),
    ),
    ("Bytes", b"\0\xff", "00ff"),
]


@pytest.mark.parametrize(("kind", "value", "in_hex"), GOLDEN)
def test_the_bytes_of_java(kind: str, value: Any, in_hex: str) -> None:
    serializer, deserializer = pair(kind)
    made = serializer.serialize("orders", value, [])
    assert type(made) is bytes
    assert made.hex() == in_hex
    assert deserializer.deserialize("orders", made, ()) == value
    assert deserializer(made) == value


@given(st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(), st.uuids())
def test_every_value_comes_back(number: int, fraction: float, text: str, uuid: UUID) -> None:
    values: list[tuple[str, Any]] = [
        ("Long", number),
        ("Double", fraction),
        ("String", text),
        ("UUID", uuid),
    ]
    for kind, value in values:
        serializer, deserializer = pair(kind)
        read = deserializer.deserialize("orders", serializer.serialize("orders", value, []))
        assert read == value or (math.isnan(read) and math.isnan(value))


@pytest.mark.parametrize("kind", KINDS)
def test_null_is_none(kind: str) -> None:
    _, deserializer = pair(kind)
    assert deserializer.deserialize("orders", None, ()) is None
    assert deserializer(None) is None


@pytest.mark.parametrize(
    ("serializer", "value", "shown"),
    [
        (ShortSerializer, 32768, "an int from -32768 to 32767, not 32768"),
        (ShortSerializer, -32769, "not -32769"),
        (IntegerSerializer, 2**31, "from -2147483648 to 2147483647, not 2147483648"),
        (IntegerSerializer, 10**4000, "not an int of 13288 bits"),
        (LongSerializer, 2**63, "to 9223372036854775807, not 9223372036854775808"),
        (LongSerializer, 1.0, "not 1.0"),
        (LongSerializer, "1", "not a str"),
        (LongSerializer, True, "not a bool"),
        (FloatSerializer, 1e39, r"from -3.402\S+ to 3.402\S+, not 1e\+39"),
        (FloatSerializer, "1", "not a str"),
        (FloatSerializer, False, "not a bool"),
        (DoubleSerializer, 10**400, "not an int of 1329 bits"),
        (DoubleSerializer, b"1", "not a bytes"),
        (StringSerializer, b"abc", "takes a str, not a bytes"),
        (StringSerializer, "\ud800", "utf-8.*surrogates not allowed at position 0"),
        (UUIDSerializer, "12345678-90ab-cdef-1234-567890abcdef", "uuid.UUID, not a str"),
        (BytesSerializer, "abc", "bytes-like object, not a str"),
    ],
)
def test_what_does_not_fit_is_told(serializer: Any, value: Any, shown: str) -> None:
    with pytest.raises(SerializationError, match=shown) as raised:
        serializer().serialize("orders", value, [])
    text = str(raised.value)
    assert "'orders'" in text
    assert len(text) < 200


@pytest.mark.parametrize(
    ("kind", "data", "shown"),
    [
        ("Short", b"1", "ShortDeserializer takes 2 bytes, not 1"),
        ("Integer", b"", "takes 4 bytes, not 0"),
        ("Long", b"123456789", "takes 8 bytes, not 9"),
        ("Float", b"12345", "takes 4 bytes, not 5"),
        ("Double", b"1", "takes 8 bytes, not 1"),
        ("String", b"\xff", "1 bytes are not text in utf-8"),
        ("UUID", b"\xff", "not text"),
        ("UUID", b"1234", "4 bytes are not the text of a UUID"),
    ],
)
def test_bytes_that_no_serializer_made(kind: str, data: bytes, shown: str) -> None:
    with pytest.raises(SerializationError, match=shown):
        pair(kind)[1].deserialize("orders", data, ())


def test_other_encodings() -> None:
    assert StringSerializer("latin-1").serialize("orders", "ü", []) == b"\xfc"
    assert StringDeserializer("latin-1").deserialize("orders", b"\xfc") == "ü"
    with pytest.raises(SerializationError, match="latin-1"):
        StringSerializer("latin-1").serialize("orders", "€", [])
    for unknown in ("klingon", "base64"):
        with pytest.raises(ConfigError, match=unknown):
            StringSerializer(unknown)
        with pytest.raises(ConfigError, match=unknown):
            StringDeserializer(unknown)


def test_bytes_like_objects_pass() -> None:
    for data in (bytearray(b"abc"), memoryview(b"abc")):
        made = BytesSerializer().serialize("orders", data, [])
        assert type(made) is bytes
        assert made == b"abc"
    assert BytesDeserializer().deserialize("orders", b"abc") == b"abc"


def test_deserializers_in_other_clients() -> None:
    context = SerializationContext("orders", MessageField.VALUE, [("trace", b"1")])
    assert LongDeserializer()(struct.pack(">q", 7), context) == 7
    assert UUIDDeserializer()(None, context) is None
    with pytest.raises(SerializationError, match="'orders'"):
        IntegerDeserializer()(b"", context)


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="NoSerializer"):
        serialization.NoSerializer  # noqa: B018
