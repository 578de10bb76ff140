"""The headers of a record: pairs of a text, and bytes or None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioproducer.errors import SerializationError
from aioproducer.model import Header, Headers
from aioproducer.serialization.plain import bytes_of, utf8


class SharedHeaders(tuple[Header, ...]):
    """Headers of many records, already checked; :func:`checked_headers` lets them pass."""

    context: tuple[Header, ...] = ()
    """The headers that carry a trace context: records with their own headers get only these."""


def shared_headers(headers: Headers, topic: str) -> SharedHeaders | None:
    """The headers of all records of one call, checked once; None: there are none."""
    return SharedHeaders(checked_headers(headers, topic)) or None


def checked_headers(headers: Headers, topic: str) -> tuple[Header, ...]:
    """Headers as pairs: keys are text, values bytes or None. ``str`` values become UTF-8."""
    if type(headers) is SharedHeaders:
        return headers
    try:
        pairs = headers.items() if isinstance(headers, Mapping) else map(_pair, headers)
        return tuple(_checked_header(name, value, topic) for name, value in pairs)
    except (TypeError, ValueError) as error:
        if isinstance(error, SerializationError):
            raise
        raise SerializationError(
            f"the headers of a record for topic {topic!r} must be a mapping, as in "
            "{'trace': b'1'}, or (key, value) pairs, as in [('trace', b'1')]"
        ) from error


def _pair(pair: Any) -> Any:
    """``pair``, or a tuple that is none for a text or a mapping: two letters would be a pair."""
    return () if isinstance(pair, str | Mapping) else pair


def _checked_header(name: Any, value: Any, topic: str) -> Header:
    if not isinstance(name, str):
        raise SerializationError(
            f"a header key for topic {topic!r} is of type {type(name).__name__}, not str"
        )
    if not name.isascii():
        utf8(name, "a header key", topic)
    if value is None or type(value) is bytes:
        return name, value
    if isinstance(value, str):
        return name, utf8(value, f"the value of header {name!r}", topic)
    return name, bytes_of(
        value,
        f"the value of header {name!r} for topic {topic!r} is of type {type(value).__name__}; "
        "it must be bytes, str or None",
    )
