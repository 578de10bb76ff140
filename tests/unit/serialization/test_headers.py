"""Headers are pairs of a text, and bytes or None."""

from __future__ import annotations

import collections
import types
from typing import Any

import pytest

from aioproducer.errors import SerializationError
from aioproducer.serialization import checked_headers


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, ()),
        ([], ()),
        ({"trace": b"1", "none": None, "": b""}, (("trace", b"1"), ("none", None), ("", b""))),
        ([("a", b"1"), ("a", b"2"), ("a", None)], (("a", b"1"), ("a", b"2"), ("a", None))),
        ((["a", bytearray(b"1")],), (("a", b"1"),)),
        ({"a": "té"}, (("a", "té".encode()),)),
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
        ({"a": "\ud800"}, "the value of header 'a'.* is no valid text"),
        ({"a": 1}, "'a'.*int.*bytes, str or None"),
        ({b"a": b"1"}, "bytes, not str"),
        ([(None, b"1")], "NoneType, not str"),
        ([("a", b"1", b"2")], r"mapping, .* or \(key, value\) pairs"),
        ([("a",)], r"mapping, .* or \(key, value\) pairs"),
        ([b"ab"], "header key|pairs"),
        ("abc", r"mapping, .* or \(key, value\) pairs"),
        (["ab", "cd"], r"mapping, .* or \(key, value\) pairs"),
        ([{"key": "a", "value": b"1"}], r"mapping, .* as in \[\('trace', b'1'\)\]"),
        (5, r"mapping, .* or \(key, value\) pairs"),
        ([5], r"mapping, .* or \(key, value\) pairs"),
    ],
)
def test_headers_that_are_none(headers: Any, said: str) -> None:
    with pytest.raises(SerializationError, match=said) as caught:
        checked_headers(headers, "orders")
    assert "'orders'" in str(caught.value)


def test_a_header_key_that_is_no_unicode() -> None:
    with pytest.raises(SerializationError):
        checked_headers({"\ud800": b""}, "orders")


def test_a_released_buffer_is_a_serialization_error() -> None:
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(SerializationError, match="released"):
        checked_headers([("a", view)], "orders")  # type: ignore[list-item]
