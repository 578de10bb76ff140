"""From keys, values and headers to the bytes of a record.

In their order: bytes-like objects and text, which need no serializer; the checks of headers; the
protocol of users' serializers, and the serializer of a producer's keys or values; the two of them
together. Source: Kafka's ``Serializer``, whose ``serialize(topic, headers, data)`` may add headers
(KIP-336).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter, signature
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from aioproducer.errors import ConfigError, ProducerError, SerializationError
from aioproducer.model import Header, Headers

_JSON: Final = ", such as aioproducer.serialization.JsonSerializer()"
_PAIR: Final = "; a record with a key is a ProducerRecord(topic, value, key=key)"


def plain_bytes(data: Any, topic: str, field: str) -> bytes | None:
    """The bytes of a key or value without a serializer.

    Bytes-like objects pass, ``str`` becomes UTF-8, None stays None. Any other type raises
    :class:`SerializationError`. ``field``: ``"key"`` or ``"value"``, for messages.
    """
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, str):
        return text_bytes(data, f"a {field}", topic)
    pair = _PAIR if isinstance(data, tuple) else ""
    return bytes_of(
        data,
        f"a {field} of type {type(data).__name__} for topic {topic!r} can't be sent as it is: pass "
        f"bytes or str, or give the producer a {field}_serializer{pair or _JSON}",
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


def text_bytes(text: str, what: str, topic: str) -> bytes:
    """``text`` as UTF-8; a lone surrogate raises SerializationError, which names ``what``."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        reason = f"{what} for topic {topic!r} is not valid text: {error}"
        raise SerializationError(reason) from error


class SharedHeaders(tuple[Header, ...]):
    """Headers of many records, already checked; :func:`checked_headers` lets them pass."""

    context_for: Callable[[Headers | None], Sequence[Header]] | None = None
    """The headers that carry a trace context, for a record with its own headers: it gets only
    these. None: there is no context."""


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
        text_bytes(name, "a header key", topic)
    if value is None or type(value) is bytes:
        return name, value
    if isinstance(value, str):
        return name, text_bytes(value, f"the value of header {name!r}", topic)
    return name, bytes_of(
        value,
        f"the value of header {name!r} for topic {topic!r} is of type {type(value).__name__}; "
        "it must be bytes, str or None",
    )


T_contra = TypeVar("T_contra", contravariant=True)

Field: TypeAlias = Literal["key", "value"]
"""The part of a record that a serializer produces."""

RecordHeaders: TypeAlias = list[Header]
"""The headers of one record, as pairs of ``str`` and bytes or None. A serializer can append
more."""


@runtime_checkable
class Serializer(Protocol[T_contra]):
    """An object that converts keys or values to bytes.

    It can have three more methods, which a producer finds by name:

    - ``async def prepare(self, topic: str) -> None`` fetches what :meth:`serialize` needs for
      ``topic``. The producer awaits this before it serializes the first record of a topic;
      meanwhile records wait in order, up to ``max_block_ms``, with deep copies of their keys and
      values. After an :class:`OSError`, a
      :class:`TimeoutError` or an error with a true attribute ``retriable``, the producer calls it
      again after a backoff. Any other error fails the waiting records; a later record makes the
      producer call it again, but not before ``retry_backoff_ms``. If :meth:`serialize` raises
      :class:`~aioproducer.errors.NotPreparedError`, the record waits and the call is repeated.
    - ``def for_field(self, field: "key" | "value") -> Serializer`` returns the serializer for keys
      or for values. A producer calls this once, in its constructor.
    - ``def close(self) -> None``, or ``async def close(self) -> None``, is called when the producer
      is closed, if you passed a class. If you pass an instance, you close it.

    ``serialize(topic, data)``, without headers, also works. The blocking producer calls it in the
    threads that call ``send()``, maybe in several at once, while its own thread awaits
    ``prepare()``.
    """

    def serialize(self, topic: str, data: T_contra, headers: RecordHeaders) -> bytes | None:
        """Return the bytes of ``data``, which is never None. None is Kafka's null.

        ``headers``: the record's headers; you can read them and append to them.
        """


SerializeFunction: TypeAlias = Callable[[Any], bytes | None]
"""A plain function such as ``lambda value: json.dumps(value).encode()``."""

_Serialize: TypeAlias = Callable[[str, Any, Any], Any]


_FORMS_OF_JSON: Final = (
    ". aioproducer.serialization.JsonSerializer() writes dates, times, UUIDs, Decimals, enums and "
    "dataclasses, too; its default= converts other objects"
)
_ENCODED: Final = ": encode the text, as in lambda data: json.dumps(data).encode()"


class FieldSerializer:
    """The serializer of a producer's keys or values, in whichever form the user gave it.

    Raises:
        ConfigError: it is not a serializer.
    """

    def __init__(self, given: Any, field: Field) -> None:
        for_field = getattr(given, "for_field", None)
        self.given = given if for_field is None else for_field(field)
        self.field = field
        if not callable(getattr(self.given, "serialize", self.given)):
            raise ConfigError(
                f"{field}_serializer: {type(self.given).__name__!r} object is not callable and has"
                " no serialize() method; for a class such as bytes give a function:"
                f" {field}_serializer=lambda {field}: bytes({field})"
            )
        self.prepare: Callable[[str], Awaitable[None]] | None
        self.prepare = getattr(self.given, "prepare", None)
        """Fetches what a topic needs; None: there is nothing to fetch."""
        self._serialize, self.sees_headers = with_three_arguments(self.given, "serialize")

    def serialize(self, topic: str, data: Any, headers: RecordHeaders) -> bytes | None:
        """The bytes of ``data``; None stays None.

        Raises:
            SerializationError: the serializer failed, or returned neither bytes nor None.
            NotPreparedError: ``prepare()`` must be called again.
        """
        if data is None:
            return None
        try:
            made = self._serialize(topic, data, headers)
        except ProducerError:
            raise
        except Exception as error:
            raise SerializationError(
                f"the {self.field}_serializer failed on a {type(data).__name__} for topic "
                f"{topic!r}: {type(error).__name__}: {error}"
                f"{_FORMS_OF_JSON if 'JSON serializable' in str(error) else ''}"
            ) from error
        if made is None or type(made) is bytes:
            return made
        return bytes_of(
            made,
            f"the {self.field}_serializer returned {type(made).__name__} for topic {topic!r}; "
            f"it must return bytes or None{_ENCODED if isinstance(made, str) else ''}",
        )


def may_succeed_later(error: BaseException) -> bool:
    """True if a ``prepare()`` that raised ``error`` is called again; see :class:`Serializer`."""
    return isinstance(error, OSError | TimeoutError) or bool(getattr(error, "retriable", False))


def with_three_arguments(given: Any, name: str) -> tuple[_Serialize, bool]:
    """A call with topic, data and headers; and whether the method ``name`` sees the headers."""
    method = getattr(given, name, None)
    if method is None:
        return (lambda _topic, data, _headers: given(data)), False
    parameters: Mapping[str, Parameter] = {}
    with suppress(TypeError, ValueError):  # compiled code without a signature
        parameters = signature(method).parameters
    kinds = [each.kind for each in parameters.values()]
    headers = parameters.get("headers")
    if headers is not None:
        if headers.kind is Parameter.KEYWORD_ONLY:
            return (lambda topic, data, headers: method(topic, data, headers=headers)), True
        if list(parameters).index("headers") == 1:  # as Java and kafka-python order them
            return (lambda topic, data, headers: method(topic, headers, data)), True
        return method, True
    required = [
        each
        for each in parameters.values()
        if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        and each.default is Parameter.empty
    ]
    if len(required) > 2 or Parameter.VAR_POSITIONAL in kinds:
        return method, True
    return (lambda topic, data, _headers: method(topic, data)), False


class RecordSerializers:
    """Makes the bytes of keys and values; None: bytes-like objects and ``str`` pass unchanged.

    The key is serialized before the value, as in Java.
    """

    def __init__(
        self, key: FieldSerializer | None = None, value: FieldSerializer | None = None
    ) -> None:
        self.key = key
        self.value = value
        self._given = [each for each in (key, value) if each is not None]
        self._see_headers = any(each.sees_headers for each in self._given)
        self.need_preparation = any(each.prepare is not None for each in self._given)
        """True if a topic's records wait until :meth:`prepare` was called for it."""

    def __bool__(self) -> bool:
        return bool(self._given)

    def serialized(
        self, topic: str, key: Any, value: Any, headers: Headers | None
    ) -> tuple[bytes | None, bytes | None, Sequence[Header]]:
        """The key, the value and the headers as a batch takes them.

        Raises:
            SerializationError: one of them can't be turned into bytes.
            NotPreparedError: :meth:`prepare` must be called first, or again.
        """
        pairs: Sequence[Header] = () if headers is None else checked_headers(headers, topic)
        if not self._given:
            if key is not None and type(key) is not bytes:
                key = plain_bytes(key, topic, "key")
            if value is not None and type(value) is not bytes:
                value = plain_bytes(value, topic, "value")
            return key, value, pairs
        seen = list(pairs) if self._see_headers else []
        key = _made(self.key, topic, key, seen, "key")
        value = _made(self.value, topic, value, seen, "value")
        if self._see_headers and seen:
            pairs = checked_headers(seen, topic)
        elif self._see_headers:
            pairs = ()
        return key, value, pairs

    def converted(
        self, topic: str, key: Any, value: Any, headers: Headers | None
    ) -> tuple[Any, Any, Sequence[Header]]:
        """Convert what needs no serializer, so that a caller may change its own objects.

        Raises :class:`SerializationError` as :meth:`serialized` does.
        """
        if self.key is None:
            key = plain_bytes(key, topic, "key")
        if self.value is None:
            value = plain_bytes(value, topic, "value")
        return key, value, () if headers is None else checked_headers(headers, topic)

    async def prepare(self, topic: str) -> None:
        """Fetch what ``topic`` needs; raises the error of the serializer that can't."""
        for each in self._given:
            if each.prepare is not None:
                preparing = each.prepare(topic)
                if isinstance(preparing, Awaitable):  # a plain method has done its work already
                    await preparing


def _made(
    serializer: FieldSerializer | None, topic: str, data: Any, headers: list[Header], field: str
) -> bytes | None:
    if serializer is None:
        return plain_bytes(data, topic, field)
    return serializer.serialize(topic, data, headers)
