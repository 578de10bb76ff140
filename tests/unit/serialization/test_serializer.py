"""The serializer of one field, of keys and values, of headers, and values that need none."""

from __future__ import annotations

import collections
import types
from array import array
from typing import Any

import pytest

from aioproducer.errors import ConfigError, NotPreparedError, SerializationError
from aioproducer.serialization import Field, RecordHeaders, Serializer
from aioproducer.serialization.serializer import (
    FieldSerializer,
    RecordSerializers,
    checked_headers,
    plain_bytes,
)


class Upper:
    def serialize(self, topic: str, data: Any, headers: RecordHeaders) -> bytes | None:
        return f"{topic}:{data}".upper().encode()


class CallableAndSerializer(Upper):
    def __call__(self, data: Any) -> bytes:
        raise AssertionError("serialize() knows the topic, so it is preferred")


def check_type(value: bytes | None, expected: bytes | None) -> None:
    assert value == expected
    assert value is None or type(value) is bytes, "the batch builder relies on bytes"


def serialized(serializer: Any, data: Any, field: Field = "value") -> bytes | None:
    return FieldSerializer(serializer, field).serialize("orders", data, [])


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
    check_type(serialized(serializer, data), expected)


@pytest.mark.parametrize("made", [b"", {}, 0, object(), type("Odd", (), {"serialize": 3})()])
def test_what_is_no_serializer_is_refused(made: Any) -> None:
    """Such as an object of the class ``bytes``, which takes the place of a function."""
    with pytest.raises(
        ConfigError, match=rf"^value_serializer: '{type(made).__name__}' object is not c"
    ):
        FieldSerializer(made, "value")


def test_a_value_that_needs_a_serializer_names_that_of_json() -> None:
    with pytest.raises(SerializationError) as caught:
        plain_bytes({"dish": "espresso"}, "orders", "value")
    assert "give the producer a value_serializer, such as aioproducer.serialization.JsonS" in str(
        caught.value
    )


def test_a_serializer_never_sees_none() -> None:
    def explode(data: Any) -> bytes:
        raise AssertionError("null is null")

    assert serialized(explode, None) is None


@pytest.mark.parametrize("returned", ["text", 1, [b"abc"], object()])
def test_a_serializer_must_return_bytes(returned: Any) -> None:
    with pytest.raises(SerializationError) as caught:
        serialized(lambda data: returned, b"abc", "key")
    assert f"key_serializer returned {type(returned).__name__}" in str(caught.value)


@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("no schema"), StopIteration()])
def test_a_serializer_that_raises_is_the_cause(error: Exception) -> None:
    def explode(data: Any) -> bytes:
        raise error

    with pytest.raises(SerializationError) as caught:
        serialized(explode, {"a": 1})
    assert caught.value.__cause__ is error
    for part in ("value_serializer", "dict", "'orders'", type(error).__name__, str(error)):
        assert part in str(caught.value)


def test_what_stops_the_program_is_no_serialization_error() -> None:
    def interrupt(data: Any) -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        serialized(interrupt, 1)


def test_the_protocol_tells_serializers_from_functions() -> None:
    assert isinstance(Upper(), Serializer)
    assert not isinstance(str.encode, Serializer)


class TwoArguments:
    def serialize(self, topic: str, data: Any) -> bytes:
        return f"{topic} {data}".encode()


class OneMoreOption(TwoArguments):
    def serialize(self, topic: str, data: Any, strict: bool = False) -> bytes:
        assert strict is False
        return super().serialize(topic, data)


class Headers:
    """Each of its subclasses takes the headers in another way."""

    def stamp(self, topic: str, data: Any, headers: RecordHeaders) -> bytes:
        headers.append(("made-by", type(self).__name__.encode()))
        return f"{topic} {data}".encode()


class ThirdArgument(Headers):
    def serialize(self, topic: str, data: Any, headers: RecordHeaders) -> bytes:
        return self.stamp(topic, data, headers)


class OtherName(Headers):
    def serialize(self, topic: str, data: Any, pairs: RecordHeaders, /) -> bytes:
        return self.stamp(topic, data, pairs)


class JavaOrder(Headers):
    def serialize(self, topic: str, headers: RecordHeaders, data: Any) -> bytes:
        return self.stamp(topic, data, headers)


class ByKeyword(Headers):
    def serialize(self, topic: str, data: Any, *, headers: RecordHeaders) -> bytes:
        return self.stamp(topic, data, headers)


class AnyArguments(Headers):
    def serialize(self, *arguments: Any) -> bytes:
        return self.stamp(*arguments)


@pytest.mark.parametrize("made", [TwoArguments(), OneMoreOption()])
def test_two_arguments_go_on_working(made: Any) -> None:
    serializer = FieldSerializer(made, "value")
    assert not serializer.sees_headers
    assert serializer.serialize("orders", 1, []) == b"orders 1"


@pytest.mark.parametrize(
    "made", [ThirdArgument(), OtherName(), JavaOrder(), ByKeyword(), AnyArguments()]
)
def test_a_serializer_sees_the_headers_and_adds_to_them(made: Any) -> None:
    serializer = FieldSerializer(made, "value")
    headers: RecordHeaders = [("trace", b"1")]
    assert serializer.sees_headers
    assert serializer.serialize("orders", 1, headers) == b"orders 1"
    assert headers == [("trace", b"1"), ("made-by", type(made).__name__.encode())]


@pytest.mark.parametrize("error", [NotPreparedError("no schema"), ConfigError("wrong")])
def test_our_own_errors_pass_as_they_are(error: Exception) -> None:
    def explode(data: Any) -> bytes:
        raise error

    with pytest.raises(type(error)) as caught:
        serialized(explode, 1)
    assert caught.value is error


def test_a_serializer_may_make_one_for_each_field() -> None:
    class Both(TwoArguments):
        def __init__(self, field: str = "") -> None:
            self.field = field

        def for_field(self, field: Field) -> Both:
            return Both(field)

        def serialize(self, topic: str, data: Any) -> bytes:
            return self.field.encode()

    both = Both()
    assert serialized(both, 1, "key") == b"key"
    assert serialized(both, 1, "value") == b"value"
    assert both.field == ""


def test_preparation_is_found_by_its_name() -> None:
    class Prepared(TwoArguments):
        async def prepare(self, topic: str) -> None:
            """Nothing is needed."""

    assert FieldSerializer(Prepared(), "key").prepare is not None
    assert FieldSerializer(TwoArguments(), "key").prepare is None


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
        ({"a": "\ud800"}, "the value of header 'a'.* is not valid text"),
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


def test_a_released_buffer_as_a_header_is_a_serialization_error() -> None:
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(SerializationError, match="released"):
        checked_headers([("a", view)], "orders")  # type: ignore[list-item]


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
    with pytest.raises(SerializationError, match=r"a value_serializer, such as "):
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
