"""The arguments of calls: their types, and the errors of wrong ones, as confluent-kafka's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aioproducer.model import Header

__all__ = [
    "as_bytes",
    "batch_arguments",
    "deadline_seconds",
    "header_pairs",
    "name",
    "timestamp_ms",
    "whole",
]

_PAIRS: Final = "Headers are expected to be a list of (key, value) tuples"
_INT_MAX: Final = 2**31 - 1
_LONG_LIMIT: Final = 2**63


def as_bytes(field: Any) -> bytes:
    """A key or value as bytes; a text becomes UTF-8. Raises TypeError, or UnicodeEncodeError."""
    if isinstance(field, str):
        return field.encode()
    if isinstance(field, bytes):
        return bytes(field)
    if isinstance(field, bytearray | memoryview):
        raise TypeError(f"expected a read-only bytes-like object, not {type(field).__name__}")
    raise TypeError(f"a bytes-like object is required, not {type(field).__name__!r}")


def name(topic: Any) -> str:
    """The name of a topic."""
    if not isinstance(topic, str):
        raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
    if "\0" in topic:
        raise ValueError("embedded null character")
    return str(topic)


def whole(number: Any) -> int:
    """An integer of 32 bits. Raises TypeError, or OverflowError."""
    if not hasattr(type(number), "__index__"):
        raise TypeError(f"{type(number).__name__!r} object cannot be interpreted as an integer")
    taken = int(number)
    if not -_INT_MAX <= taken <= _INT_MAX:
        raise OverflowError(f"signed integer is {'greater' if taken > 0 else 'less'} than possible")
    return taken


def timestamp_ms(number: Any) -> int | None:
    """Milliseconds since the epoch; None: now. Raises TypeError, or OverflowError."""
    if not hasattr(type(number), "__index__"):
        raise TypeError(f"{type(number).__name__!r} object cannot be interpreted as an integer")
    taken = int(number)
    if not -_LONG_LIMIT <= taken < _LONG_LIMIT:
        raise OverflowError("int too big to convert")
    return taken if taken > 0 else None


def deadline_seconds(timeout: Any) -> float | None:
    """Seconds of a timeout; None: without limit, which is asked for by a negative number."""
    if not (hasattr(type(timeout), "__float__") or hasattr(type(timeout), "__index__")):
        raise TypeError(f"must be real number, not {type(timeout).__name__}")
    taken = float(timeout)
    return None if taken < 0 else taken


def header_pairs(headers: Any) -> list[Header] | None:
    """Headers as pairs; None: there are none. Raises TypeError, or UnicodeEncodeError."""
    if headers is None:
        return None
    if isinstance(headers, Mapping):
        pairs = list(headers.items())
    elif isinstance(headers, list):
        pairs = headers
    else:
        raise TypeError(
            "expected headers to be dict or list of (key, value) tuples, "
            f"not {type(headers).__name__}"
        )
    return [_pair(each) for each in pairs] or None


def _pair(pair: Any) -> Header:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(_PAIRS)
    key, value = pair
    if isinstance(key, bytes):
        key = key.decode()
    if not isinstance(key, str):
        raise TypeError(f"expected header key to be a str, not {type(key).__name__}")
    key.encode()  # raises the error of a text that no record can have
    if isinstance(value, str):
        value = value.encode()
    if value is not None and not isinstance(value, bytes):
        raise TypeError(
            "expected header value to be None, binary, or unicode string, "
            f"not {type(value).__name__}"
        )
    return key, value


def batch_arguments(index: int, message: Any, partition: int, callback: Any) -> dict[str, Any]:
    """The arguments of ``produce()`` for one dict of ``produce_batch()``."""
    if not isinstance(message, dict):
        raise TypeError(f"Message at index {index} must be a dict")
    for field in ("value", "key"):
        if not isinstance(message.get(field), str | bytes | None):
            raise TypeError(f"Message {field} at index {index} must be bytes or str")
    named = message.get("partition")
    if named is not None and not isinstance(named, int):
        raise TypeError(f"Message partition at index {index} must be int")
    if message.get("timestamp") is not None:
        raise NotImplementedError("Message timestamps are not currently supported in batch mode")
    given = message.get("callback")
    return {
        "value": message.get("value"),
        "key": message.get("key"),
        "partition": partition if named is None else named,
        "headers": header_pairs(message.get("headers")),
        "callback": callback if given is None else given,
    }
