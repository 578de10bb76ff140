from __future__ import annotations

import collections
import types
from array import array
from typing import Any

import pytest

from aioproducer.errors import SerializationError
from aioproducer.serialization import Serializer, checked_headers, serialize


class Upper:
    def serialize(self, topic: str, data: Any) -> bytes | None:
        return f"{topic}:{data}".upper().encode()


class CallableAndSerializer(Upper):
    def __call__(self, data: Any) -> bytes:
        raise AssertionError("serialize() knows the topic, so it is preferred")


def check_type(value: bytes | None, expected: bytes | None) -> None:
    assert value == expected
    assert value is None or type(value) is bytes, "the batch builder relies on bytes"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, None),
        (b"", b""),
        (b"abc", b"abc"),
        (bytearray(b"abc"), b"abc"),
        (memoryview(b"abcdef")[::2], b"ace"),
        (memoryview(b"abcd").cast("H"), b"abcd"),
        ("", b""),
        ("grün €", "grün €".encode()),
        (type("Sub", (bytes,), {})(b"abc"), b"abc"),
        (type("Sub", (str,), {})("abc"), b"abc"),
    ],
)
def test_what_passes_without_a_serializer(data: Any, expected: bytes | None) -> None:
    check_type(serialize(data, None, "orders", "value"), expected)


def test_any_buffer_is_bytes_like() -> None:
    assert serialize(array("B", b"abc"), None, "orders", "value") == b"abc"


def test_a_released_buffer_is_a_serialization_error() -> None:
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(SerializationError, match="released"):
        serialize(view, None, "orders", "value")
    with pytest.raises(SerializationError, match="released"):
        checked_headers([("a", view)], "orders")  # type: ignore[list-item]


def test_bytes_are_not_copied() -> None:
    data = b"x" * 100
    assert serialize(data, None, "orders", "value") is data
    assert serialize(data, lambda value: value, "orders", "value") is data


def test_a_buffer_that_is_changed_after_the_call_does_not_change_the_record() -> None:
    buffer = bytearray(b"abc")
    value = serialize(buffer, None, "orders", "value")
    buffer[:] = b"xyz"
    assert value == b"abc"


@pytest.mark.parametrize("data", [0, 1.5, True, {}, [], object(), ("a",), Upper])
@pytest.mark.parametrize("what", ["key", "value"])
def test_anything_else_needs_a_serializer(data: Any, what: str) -> None:
    with pytest.raises(SerializationError) as caught:
        serialize(data, None, "orders", what)
    message = str(caught.value)
    for part in (type(data).__name__, "'orders'", f"{what}_serializer", f"a {what} "):
        assert part in message


def test_text_that_is_no_unicode_is_a_serialization_error() -> None:
    with pytest.raises(SerializationError, match=r"value.*'orders'"):
        serialize("\ud800", None, "orders", "value")


@pytest.mark.parametrize(
    ("serializer", "data", "expected"),
    [
        (Upper(), "abc", b"ORDERS:ABC"),
        (Upper(), b"abc", b"ORDERS:B'ABC'"),
        (CallableAndSerializer(), 1, b"ORDERS:1"),
        (lambda data: str(data).encode(), 17, b"17"),
        (lambda data: bytearray(data), b"abc", b"abc"),
        (lambda data: memoryview(data), b"abc", b"abc"),
        (lambda data: None, "abc", None),
        (lambda data: b"", "abc", b""),
        (str.encode, "abc", b"abc"),
    ],
)
def test_what_serializers_return(serializer: Any, data: Any, expected: bytes | None) -> None:
    check_type(serialize(data, serializer, "orders", "value"), expected)


def test_a_serializer_never_sees_none() -> None:
    def explode(data: Any) -> bytes:
        raise AssertionError("null is null")

    assert serialize(None, explode, "orders", "value") is None


@pytest.mark.parametrize("returned", ["text", 1, [b"abc"], object()])
def test_a_serializer_must_return_bytes(returned: Any) -> None:
    with pytest.raises(SerializationError) as caught:
        serialize(b"abc", lambda data: returned, "orders", "key")
    assert f"key_serializer returned {type(returned).__name__}" in str(caught.value)


@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("no schema"), StopIteration()])
def test_a_serializer_that_raises_is_the_cause(error: Exception) -> None:
    def explode(data: Any) -> bytes:
        raise error

    with pytest.raises(SerializationError) as caught:
        serialize({"a": 1}, explode, "orders", "value")
    assert caught.value.__cause__ is error
    for part in ("value_serializer", "dict", "'orders'", type(error).__name__, str(error)):
        assert part in str(caught.value)


def test_what_stops_the_program_is_no_serialization_error() -> None:
    def interrupt(data: Any) -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        serialize(1, interrupt, "orders", "value")


def test_the_protocol_tells_serializers_from_functions() -> None:
    assert isinstance(Upper(), Serializer)
    assert not isinstance(str.encode, Serializer)


# --- headers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, ()),
        ([], ()),
        ({"trace": b"1", "none": None, "": b""}, (("trace", b"1"), ("none", None), ("", b""))),
        ([("a", b"1"), ("a", b"2"), ("a", None)], (("a", b"1"), ("a", b"2"), ("a", None))),
        ((["a", bytearray(b"1")],), (("a", b"1"),)),
        ([("a", memoryview(b"abcd")[1:3])], (("a", b"bc"),)),
        (types.MappingProxyType({"a": b"1"}), (("a", b"1"),)),
        (collections.OrderedDict(a=b"1", b=b"2"), (("a", b"1"), ("b", b"2"))),
    ],
)
def test_headers(headers: Any, expected: tuple[tuple[str, bytes | None], ...]) -> None:
    pairs = checked_headers(headers, "orders")
    assert pairs == expected
    assert type(pairs) is tuple
    for pair in pairs:
        assert type(pair) is tuple
        assert pair[1] is None or type(pair[1]) is bytes


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"a": "text"}, "'a'.*str.*bytes or None"),
        ({"a": 1}, "'a'.*int.*bytes or None"),
        ({b"a": b"1"}, "bytes, not str"),
        ([(None, b"1")], "NoneType, not str"),
        ([("a", b"1", b"2")], r"mapping or \(key, value\) pairs"),
        ([("a",)], r"mapping or \(key, value\) pairs"),
        ([b"ab"], "header key|pairs"),
        ("abc", r"mapping or \(key, value\) pairs"),
        (5, r"mapping or \(key, value\) pairs"),
        ([5], r"mapping or \(key, value\) pairs"),
    ],
)
def test_headers_that_are_none(headers: Any, said: str) -> None:
    with pytest.raises(SerializationError, match=said) as caught:
        checked_headers(headers, "orders")
    assert "'orders'" in str(caught.value)


def test_a_header_key_that_is_no_unicode() -> None:
    with pytest.raises(SerializationError):
        checked_headers({"\ud800": b""}, "orders")
