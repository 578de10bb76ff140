"""The protocol of users' serializers, and the serializer of a producer's keys or values.

Source: Kafka's ``Serializer``, whose ``serialize(topic, headers, data)`` may add headers (KIP-336).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from inspect import Parameter, signature
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from aioproducer.errors import ConfigError, ProducerError, SerializationError
from aioproducer.model import Header
from aioproducer.serialization.plain import bytes_of

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

_Serialize: TypeAlias = Callable[[str, Any, RecordHeaders], Any]


_ENCODED: Final = ": encode the text, as in lambda data: json.dumps(data).encode()"


class FieldSerializer:
    """The serializer of a producer's keys or values, in whichever form the user gave it.

    Raises:
        ConfigError: it is no serializer.
    """

    def __init__(self, given: Any, field: Field) -> None:
        for_field = getattr(given, "for_field", None)
        self.given = given if for_field is None else for_field(field)
        self.field = field
        if not callable(getattr(self.given, "serialize", self.given)):
            raise ConfigError(
                f"{field}_serializer: a {type(self.given).__name__} is no callable and has no"
                " serialize() method; for a class such as bytes give a function:"
                f" {field}_serializer=lambda {field}: bytes({field})"
            )
        self.prepare: Callable[[str], Awaitable[None]] | None
        self.prepare = getattr(self.given, "prepare", None)
        """Fetches what a topic needs; None: there is nothing to fetch."""
        self._serialize, self.sees_headers = _with_three_arguments(self.given)

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


def _with_three_arguments(given: Any) -> tuple[_Serialize, bool]:
    """A call with topic, data and headers; and whether the serializer sees the headers."""
    method = getattr(given, "serialize", None)
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
