"""Bytes-like objects and text: they need no serializer."""

from __future__ import annotations

from typing import Any, Final

from aioproducer.errors import SerializationError

_PAIR: Final = "; a record with a key is a ProducerRecord(topic, value, key=key)"


def plain_bytes(data: Any, topic: str, field: str) -> bytes | None:
    """The bytes of a key or value without a serializer.

    Bytes-like objects pass, ``str`` becomes UTF-8, None stays None. Any other type raises
    :class:`SerializationError`. ``field``: ``"key"`` or ``"value"``, for messages.
    """
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, str):
        return utf8(data, f"a {field}", topic)
    pair = _PAIR if isinstance(data, tuple) else ""
    return bytes_of(
        data,
        f"a {field} of type {type(data).__name__} for topic {topic!r} can't be sent as it is: pass "
        f"bytes or str, or give the producer a {field}_serializer{pair}",
    )


def bytes_of(data: Any, otherwise: str) -> bytes:
    """The bytes of a bytes-like object; others raise SerializationError with ``otherwise``."""
    if isinstance(data, bytes):
        return bytes(data)
    try:
        return memoryview(data).tobytes()
    except TypeError:
        raise SerializationError(otherwise) from None
    except ValueError as error:
        raise SerializationError(f"{otherwise} ({error})") from error


def utf8(text: str, what: str, topic: str) -> bytes:
    """``text`` as UTF-8; a lone surrogate raises SerializationError, which names ``what``."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise SerializationError(f"{what} for topic {topic!r} is no valid text: {error}") from error
