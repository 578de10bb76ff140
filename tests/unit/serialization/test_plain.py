"""Bytes-like objects and text pass without a serializer."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from aioproducer.errors import SerializationError
from aioproducer.serialization import plain_bytes


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
    check_type(plain_bytes(data, "orders", "value"), expected)


def test_a_pair_of_key_and_value_is_told_of_records() -> None:
    with pytest.raises(SerializationError, match=r"tuple.*ProducerRecord\(topic, value, key=key\)"):
        plain_bytes((b"key", b"value"), "orders", "value")
    with pytest.raises(SerializationError, match=r"a value_serializer$"):
        plain_bytes({"key": "value"}, "orders", "value")


def test_any_buffer_is_bytes_like() -> None:
    assert plain_bytes(array("B", b"abc"), "orders", "value") == b"abc"


def test_a_released_buffer_is_a_serialization_error() -> None:
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(SerializationError, match="released"):
        plain_bytes(view, "orders", "value")


def test_bytes_are_not_copied() -> None:
    data = b"x" * 100
    assert plain_bytes(data, "orders", "value") is data


def test_a_buffer_that_is_changed_after_the_call_does_not_change_the_record() -> None:
    buffer = bytearray(b"abc")
    value = plain_bytes(buffer, "orders", "value")
    buffer[:] = b"xyz"
    assert value == b"abc"


@pytest.mark.parametrize("data", [0, 1.5, True, {}, [], object(), ("a",), pytest])
@pytest.mark.parametrize("what", ["key", "value"])
def test_anything_else_needs_a_serializer(data: Any, what: str) -> None:
    with pytest.raises(SerializationError) as caught:
        plain_bytes(data, "orders", what)
    message = str(caught.value)
    for part in (type(data).__name__, "'orders'", f"{what}_serializer", f"a {what} "):
        assert part in message


def test_text_that_is_no_unicode_is_a_serialization_error() -> None:
    with pytest.raises(SerializationError, match=r"value.*'orders'"):
        plain_bytes("\ud800", "orders", "value")
