"""The serializer of one field: every form that users give, and every outcome."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer.errors import ConfigError, NotPreparedError, SerializationError
from aioproducer.serialization import Field, FieldSerializer, RecordHeaders, Serializer


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
    with pytest.raises(ConfigError, match=rf"^value_serializer: a {type(made).__name__} is no c"):
        FieldSerializer(made, "value")


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
