"""Serialization: from keys, values and headers to the bytes of a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from aioproducer.errors import SerializationError
from aioproducer.model import Header, Headers


@runtime_checkable
class Serializer(Protocol):
    """An object that turns keys or values into bytes, knowing their topic."""

    def serialize(self, topic: str, data: Any) -> bytes | None:
        """The bytes of ``data``; None is Kafka's null."""


SerializeFunction: TypeAlias = Callable[[Any], bytes | None]
"""A plain function such as ``lambda value: json.dumps(value).encode()``."""


def serialize(
    data: Any, serializer: Serializer | SerializeFunction | None, topic: str, what: str
) -> bytes | None:
    """The bytes of a key or value.

    Without ``serializer`` bytes-like objects pass, ``str`` becomes UTF-8, and any other type raises
    :class:`SerializationError`. A serializer gets every object but None. ``what``: ``"key"`` or
    ``"value"``, for messages.
    """
    if data is None:
        return None
    if serializer is not None:
        data = _apply(serializer, data, topic, what)
        if data is None or type(data) is bytes:
            return data
        return _bytes_of(
            data,
            f"the {what}_serializer returned {type(data).__name__} for topic {topic!r}; "
            "it must return bytes or None",
        )
    if isinstance(data, str):
        return _encoded(data, f"a {what}", topic)
    return _bytes_of(
        data,
        f"a {what} of type {type(data).__name__} for topic {topic!r} can't be sent as it is: pass "
        f"bytes or str, or give the producer a {what}_serializer",
    )


def _bytes_of(data: Any, otherwise: str) -> bytes:
    """The bytes of a bytes-like object; others raise SerializationError with ``otherwise``."""
    if isinstance(data, bytes):
        return bytes(data)
    try:
        return memoryview(data).tobytes()
    except TypeError:
        raise SerializationError(otherwise) from None
    except ValueError as error:
        raise SerializationError(f"{otherwise} ({error})") from error


def _encoded(text: str, what: str, topic: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise SerializationError(f"{what} for topic {topic!r} is no valid text: {error}") from error


def _apply(serializer: Serializer | SerializeFunction, data: Any, topic: str, what: str) -> Any:
    try:
        if isinstance(serializer, Serializer):
            return serializer.serialize(topic, data)
        return serializer(data)
    except Exception as error:
        raise SerializationError(
            f"the {what}_serializer failed on a {type(data).__name__} for topic {topic!r}: "
            f"{type(error).__name__}: {error}"
        ) from error


class SharedHeaders(tuple[Header, ...]):
    """Headers of many records, already checked; :func:`checked_headers` lets them pass."""

    context: tuple[Header, ...] = ()
    """Those of them that carry the context of a trace: records with headers of their own get these
    alone."""


def shared_headers(headers: Headers, topic: str) -> SharedHeaders | None:
    """The headers of all records of one call, checked once; None: there are none."""
    return SharedHeaders(checked_headers(headers, topic)) or None


def checked_headers(headers: Headers, topic: str) -> tuple[Header, ...]:
    """Headers as pairs: keys are text, values bytes or None."""
    if type(headers) is SharedHeaders:
        return headers
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return tuple(_checked_header(name, value, topic) for name, value in pairs)
    except (TypeError, ValueError) as error:
        if isinstance(error, SerializationError):
            raise
        raise SerializationError(
            f"the headers of a record for topic {topic!r} must be a mapping or (key, value) pairs"
        ) from error


def _checked_header(name: Any, value: Any, topic: str) -> Header:
    if not isinstance(name, str):
        raise SerializationError(
            f"a header key for topic {topic!r} is of type {type(name).__name__}, not str"
        )
    if not name.isascii():
        _encoded(name, "a header key", topic)
    if value is None or type(value) is bytes:
        return name, value
    return name, _bytes_of(
        value,
        f"the value of header {name!r} for topic {topic!r} is of type {type(value).__name__}; "
        "it must be bytes or None",
    )
