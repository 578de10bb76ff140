"""Bytes, text, UUIDs and numbers in the format of Java's serializers; the base of deserializers.

Numbers are big endian, in two, four or eight bytes. A deserializer is the counterpart of a
serializer, for any consumer. Source: ``org.apache.kafka.common.serialization``.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeAlias
from uuid import UUID

from aioproducer.errors import (
    ConfigError,
    NotPreparedError,
    RecordDeserializationError,
    SchemaRegistryAuthenticationError,
    SerializationError,
)
from aioproducer.model import AnyRecord, ConsumerRecord, Header
from aioproducer.serialization.serializer import (
    Field,
    RecordHeaders,
    bytes_of,
    with_three_arguments,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


class Deserializer(ABC, Generic[T_co]):
    """Converts the bytes of keys or values to objects.

    You can also call it as a function of the bytes. So it works as ``value_deserializer`` in
    aiokafka and kafka-python, and as a deserializer in confluent-kafka, whose context contains
    topic and headers.
    """

    @abstractmethod
    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[Header] = ()
    ) -> T_co | None:
        """Return the object for ``data``; None for Kafka's null.

        Raises:
            SerializationError: ``data`` is not what the serializer produces.
        """

    def __call__(self, data: bytes | None, context: Any = None) -> T_co | None:
        """Call :meth:`deserialize`, with the topic and headers of a ``SerializationContext``."""
        if context is None:
            return self.deserialize("", data)
        headers = context.headers or ()
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return self.deserialize(context.topic, data, tuple(pairs))


DeserializationErrorCallback: TypeAlias = Callable[
    [RecordDeserializationError], Awaitable[None] | None
]
"""A function or coroutine function that is called with the error of a record."""


class _FieldDeserializer:
    """The deserializer of a consumer's keys or values, in whichever form the user gave it.

    Raises:
        ConfigError: it is no deserializer.
    """

    def __init__(self, given: Any, field: Field) -> None:
        if isinstance(given, type) and hasattr(given, "deserialize"):
            given = given()
        if (for_field := getattr(given, "for_field", None)) is not None:
            given = for_field(field)
        self.field = field
        method = getattr(given, "deserialize", given)
        if not callable(method):
            raise ConfigError(
                f"{field}_deserializer: {type(given).__name__!r} object is not callable and has "
                "no deserialize() method"
            )
        self._call, _ = with_three_arguments(given, "deserialize")
        self._now = getattr(given, "decode", None) if iscoroutinefunction(method) else None
        """Needs no network; a schema that is not known is a NotPreparedError."""

    async def deserialize(self, topic: str, data: bytes | None, headers: tuple[Header, ...]) -> Any:
        """The object for ``data``; None stays None. Raises whatever the deserializer raises."""
        if data is None:
            return None
        if self._now is not None:
            with suppress(NotPreparedError):
                return self._now(topic, data, headers)
        found = self._call(topic, data, headers)
        return await found if isawaitable(found) else found


_NOT_THE_RECORD: Final = (ConnectionError, TimeoutError, SchemaRegistryAuthenticationError)
"""The errors of a deserializer that say nothing about the record: a schema registry is away, or
refuses the credentials. Source: ``AvroConverter`` of Kafka Connect."""


class RecordDeserializers:
    """Makes objects of the keys and values of records; None: the bytes stay as they are.

    ``on_error`` is called with the error of a record that has none, which is skipped. The error is
    raised if ``on_error`` is None, or if the record is not to blame (:data:`_NOT_THE_RECORD`). The
    next reads return records of other partitions, and raise the error again until the deserializer
    succeeds or a seek skips the record; ``run()`` ends when the records before it are done.
    """

    def __init__(self, key: Any, value: Any, on_error: DeserializationErrorCallback | None) -> None:
        self._on_error = on_error
        self.at_work = 0
        """The number of records that are not done."""
        self._key = None if key is None else _FieldDeserializer(key, "key")
        self._value = None if value is None else _FieldDeserializer(value, "value")

    async def record(self, record: ConsumerRecord) -> AnyRecord | None:
        """``record`` with objects; None: ``on_error`` has taken it, so it is skipped.

        The key is deserialized before the value, as in Java.

        Raises:
            RecordDeserializationError: a deserializer has failed.
        """
        self.at_work += 1
        try:
            return await self._with_objects(record)
        except RecordDeserializationError as error:
            if self._on_error is None or isinstance(error.__cause__, _NOT_THE_RECORD):
                raise
            called = self._on_error(error)
            if isawaitable(called):
                await called
        finally:
            self.at_work -= 1
        return None

    async def _with_objects(self, record: ConsumerRecord) -> AnyRecord:
        key: Any = record.key
        value: Any = record.value
        for each in (self._key, self._value):
            if each is None:
                continue
            try:
                if each.field == "key":
                    key = await each.deserialize(record.topic, key, record.headers)
                else:
                    value = await each.deserialize(record.topic, value, record.headers)
            except Exception as error:
                raise _failed(each.field, record, error) from error
        return record._replace(key=key, value=value)


def _failed(field: Field, record: ConsumerRecord, error: Exception) -> RecordDeserializationError:
    kind = "" if isinstance(error, SerializationError) else f"{type(error).__name__}: "
    advice = (
        "error.record has the bytes. on_deserialization_error skips such records; in a loop, so "
        "does a seek() to error.next_offset"
    )
    if isinstance(error, _NOT_THE_RECORD):
        advice = "No record is skipped for that: read again"
    return RecordDeserializationError(
        f"the {field}_deserializer failed on {record.topic_partition} at offset {record.offset}: "
        f"{kind}{str(error)[:300]}. {advice}",
        record,
        field,
    )


class BytesSerializer:
    """Bytes-like objects are sent unchanged. Unlike without a serializer, text is refused."""

    def serialize(self, topic: str, data: Buffer, headers: RecordHeaders) -> bytes:
        """The bytes of ``data``. Raises SerializationError if it is not bytes-like."""
        if type(data) is bytes:
            return data
        return bytes_of(
            data,
            f"BytesSerializer takes a bytes-like object, not a {type(data).__name__} "
            f"(topic {topic!r})",
        )


class BytesDeserializer(Deserializer[bytes]):
    """Returns bytes unchanged."""

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[Header] = ()
    ) -> bytes | None:
        """``data`` itself."""
        return data


class StringSerializer:
    """A ``str`` in an encoding.

    Raises:
        ConfigError: Python has no such encoding of text.
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = _known(encoding)

    def serialize(self, topic: str, data: str, headers: RecordHeaders) -> bytes:
        """The bytes of ``data``. Raises SerializationError if the encoding lacks a character."""
        if not isinstance(data, str):
            raise SerializationError(
                f"StringSerializer takes a str, not a {type(data).__name__} (topic {topic!r})"
            )
        try:
            return data.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise SerializationError(
                f"a str can't be encoded in {self.encoding} (topic {topic!r}): {error.reason} at "
                f"position {error.start}"
            ) from None


class StringDeserializer(Deserializer[str]):
    """Bytes in an encoding as a ``str``.

    Raises:
        ConfigError: Python has no such encoding of text.
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = _known(encoding)

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[Header] = ()
    ) -> str | None:
        """Return the text of ``data``. Raises SerializationError if it is not text in the
        encoding."""
        return None if data is None else _text(data, self.encoding, topic)


class UUIDSerializer:
    """A ``UUID`` as its text of 36 characters."""

    def serialize(self, topic: str, data: UUID, headers: RecordHeaders) -> bytes:
        """Return the text of ``data`` in UTF-8. Raises SerializationError if it is not a UUID."""
        if not isinstance(data, UUID):
            raise SerializationError(
                f"UUIDSerializer takes a uuid.UUID, not a {type(data).__name__} (topic {topic!r})"
            )
        return str(data).encode()


class UUIDDeserializer(Deserializer[UUID]):
    """The text of a UUID as a ``UUID``."""

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[Header] = ()
    ) -> UUID | None:
        """Return the UUID of ``data``. Raises SerializationError if the text is not a UUID."""
        if data is None:
            return None
        text = _text(data, "utf-8", topic)
        try:
            return UUID(text)
        except ValueError:
            raise SerializationError(
                f"{len(data)} bytes are not the text of a UUID (topic {topic!r})"
            ) from None


def _known(encoding: str) -> str:
    try:
        "".encode(encoding)
    except LookupError:
        raise ConfigError(f"encoding={encoding!r}: Python has no such text encoding") from None
    return encoding


def _text(data: bytes, encoding: str, topic: str) -> str:
    try:
        return bytes(data).decode(encoding)
    except UnicodeDecodeError as error:
        raise SerializationError(
            f"{len(data)} bytes are not text in {encoding} (topic {topic!r}): {error.reason} at "
            f"position {error.start}"
        ) from None


_SHORT: Final = struct.Struct(">h")
_INTEGER: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_FLOAT: Final = struct.Struct(">f")
_DOUBLE: Final = struct.Struct(">d")
_LARGEST_FLOAT: Final = 3.4028234663852886e38


class _WholeNumberSerializer:
    _format: ClassVar[struct.Struct]
    _pack: ClassVar[Callable[..., bytes]]

    def serialize(self, topic: str, data: int, headers: RecordHeaders) -> bytes:
        """The bytes of ``data``. Raises SerializationError if it does not fit, or is no int."""
        if data is not True and data is not False:
            try:
                return self._pack(data)
            except struct.error:
                pass
        greatest = (1 << (8 * self._format.size - 1)) - 1
        raise SerializationError(
            f"{type(self).__name__} takes an int from {-greatest - 1} to {greatest}, not "
            f"{_shown(data)} (topic {topic!r})"
        )


class ShortSerializer(_WholeNumberSerializer):
    """An int as two bytes."""

    _format = _SHORT
    _pack = _SHORT.pack


class IntegerSerializer(_WholeNumberSerializer):
    """An int as four bytes."""

    _format = _INTEGER
    _pack = _INTEGER.pack


class LongSerializer(_WholeNumberSerializer):
    """An int as eight bytes."""

    _format = _LONG
    _pack = _LONG.pack


class _FractionSerializer:
    _fits: ClassVar[str]
    _pack: ClassVar[Callable[..., bytes]]

    def serialize(self, topic: str, data: float, headers: RecordHeaders) -> bytes:
        """The bytes of ``data``. Raises SerializationError if it does not fit, or is no number."""
        if data is not True and data is not False:
            try:
                return self._pack(data)
            except (struct.error, OverflowError):
                pass
        raise SerializationError(
            f"{type(self).__name__} takes {self._fits}, not {_shown(data)} (topic {topic!r})"
        )


class FloatSerializer(_FractionSerializer):
    """A number as a float of four bytes, with about seven digits."""

    _fits = f"a number from {-_LARGEST_FLOAT} to {_LARGEST_FLOAT}"
    _pack = _FLOAT.pack


class DoubleSerializer(_FractionSerializer):
    """A number as a float of eight bytes, like Python's floats."""

    _fits = "a float, or an int in its range"
    _pack = _DOUBLE.pack


class _WholeNumberDeserializer(Deserializer[int]):
    _format: ClassVar[struct.Struct]

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[Header] = ()
    ) -> int | None:
        """The int of ``data``. Raises SerializationError if ``data`` has another length."""
        return None if data is None else int(_unpacked(self, self._format, topic, data))


class ShortDeserializer(_WholeNumberDeserializer):
    """Two bytes as an int."""

    _format = _SHORT


class IntegerDeserializer(_WholeNumberDeserializer):
    """Four bytes as an int."""

    _format = _INTEGER


class LongDeserializer(_WholeNumberDeserializer):
    """Eight bytes as an int."""

    _format = _LONG


class _FractionDeserializer(Deserializer[float]):
    _format: ClassVar[struct.Struct]

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[Header] = ()
    ) -> float | None:
        """The float of ``data``. Raises SerializationError if ``data`` has another length."""
        return None if data is None else _unpacked(self, self._format, topic, data)


class FloatDeserializer(_FractionDeserializer):
    """Four bytes as a float."""

    _format = _FLOAT


class DoubleDeserializer(_FractionDeserializer):
    """Eight bytes as a float."""

    _format = _DOUBLE


def _unpacked(
    deserializer: Deserializer[Any], layout: struct.Struct, topic: str, data: bytes
) -> float:
    try:
        number: float = layout.unpack(data)[0]
    except struct.error:
        raise SerializationError(
            f"{type(deserializer).__name__} takes {layout.size} bytes, not {len(data)} "
            f"(topic {topic!r})"
        ) from None
    return number


def _shown(data: object) -> str:
    """A number that does not fit, or the type of what is no number."""
    if isinstance(data, bool) or not isinstance(data, int | float):
        return f"a {type(data).__name__}"
    if isinstance(data, int) and data.bit_length() > 1024:
        return f"an int of {data.bit_length()} bits"
    return str(data)
