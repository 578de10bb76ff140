"""confluent-kafka's ``SerializingProducer``, and its simple serializers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from aioproducer.compat.confluent.errors import KafkaError, KafkaException
from aioproducer.compat.confluent.options import configuration, hide_arguments
from aioproducer.compat.confluent.producer import Producer
from aioproducer.compat.confluent.records import DeliveryCallback

__all__ = [
    "DoubleSerializer",
    "IntegerSerializer",
    "KeySerializationError",
    "MessageField",
    "ProduceError",
    "SerializationContext",
    "SerializationError",
    "SerializingProducer",
    "StringSerializer",
    "ValueSerializationError",
]

Serializer: TypeAlias = Callable[[Any, "SerializationContext"], bytes | None]
"""``(object, context) -> bytes``."""


class MessageField:
    """The fields of a record that a serializer may be asked for."""

    NONE: Final = "none"
    KEY: Final = "key"
    VALUE: Final = "value"


class SerializationContext:
    """The record of which a serializer gets a field.

    Args:
        topic: its topic.
        field: one of :class:`MessageField`.
        headers: its headers, as ``produce()`` got them.
    """

    def __init__(self, topic: str, field: str, headers: Any = None) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers


class SerializationError(Exception):
    """A serializer has failed."""


class ProduceError(KafkaException):
    """``produce()`` has failed; ``exception`` is the reason."""

    def __init__(self, kafka_error: KafkaError, exception: Exception | None = None) -> None:
        super().__init__(kafka_error)
        self.exception = exception
        self.kafka_message = None

    @property
    def code(self) -> int:
        """The error's code."""
        return int(self.args[0].code())

    @property
    def name(self) -> str:
        """The name of the code."""
        return str(self.args[0].name())


class KeySerializationError(ProduceError, SerializationError):
    """The key could not be serialized."""

    def __init__(self, exception: Exception | None = None) -> None:
        super().__init__(KafkaError(KafkaError._KEY_SERIALIZATION, str(exception)), exception)


class ValueSerializationError(ProduceError, SerializationError):
    """The value could not be serialized."""

    def __init__(self, exception: Exception | None = None) -> None:
        super().__init__(KafkaError(KafkaError._VALUE_SERIALIZATION, str(exception)), exception)


class SerializingProducer(Producer):
    """A :class:`Producer` whose options ``key.serializer`` and ``value.serializer`` make bytes.

    Each is called with the object and a :class:`SerializationContext`. Confluent's serializers for
    a schema registry fit.
    """

    def __init__(self, *conf: Mapping[str, Any], **options: Any) -> None:
        conf, options = hide_arguments(conf, options)
        given = configuration(conf, options)
        self._key_serializer = _serializer(given, "key.serializer")
        self._value_serializer = _serializer(given, "value.serializer")
        super().__init__(given)

    def produce(  # type: ignore[override]  # confluent-kafka has another order as well
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        partition: int = -1,
        on_delivery: DeliveryCallback | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Serialize a record, and put it into the queue.

        The order of ``key`` and ``value`` is another than that of :meth:`Producer.produce`, as in
        confluent-kafka.

        Raises:
            KeySerializationError, ValueSerializationError: a serializer has failed.
            BufferError, KafkaException, TypeError, RuntimeError: as for :meth:`Producer.produce`.
        """
        if self._worker is None:
            raise RuntimeError("Producer has been closed")
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a str, not {type(topic).__name__}")
        context = SerializationContext(topic, MessageField.KEY, headers)
        if self._key_serializer is not None:
            try:
                key = self._key_serializer(key, context)
            except Exception as error:
                raise KeySerializationError(error) from error
        context.field = MessageField.VALUE
        if self._value_serializer is not None:
            try:
                value = self._value_serializer(value, context)
            except Exception as error:
                raise ValueSerializationError(error) from error
        super().produce(
            topic,
            value,
            key,
            partition,
            on_delivery=on_delivery,
            timestamp=timestamp,
            headers=headers,
        )


def _serializer(given: dict[str, Any], name: str) -> Serializer | None:
    if f"{name}.builder" in given:
        raise KafkaException(
            KafkaError(
                KafkaError._INVALID_ARG,
                f"{name}.builder has no counterpart: build the serializer, and pass it as {name}",
            )
        )
    serializer: Serializer | None = given.pop(name, None)
    if serializer is not None and not callable(serializer):
        raise TypeError(f"{name} requires a callable object")
    return serializer


class StringSerializer:
    """Serializes ``str(obj)`` in a codec, UTF-8 by default; None stays None."""

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """The text's bytes. Raises :class:`SerializationError`."""
        if obj is None:
            return None
        try:
            return str(obj).encode(self.codec)
        except UnicodeError as error:
            raise SerializationError(str(error)) from error


class IntegerSerializer:
    """Serializes an int as 32 bits, big-endian; None stays None."""

    def __call__(self, obj: int | None, ctx: SerializationContext | None = None) -> bytes | None:
        """The 4 bytes. Raises :class:`SerializationError`."""
        return _packed(">i", obj)


class DoubleSerializer:
    """Serializes a float as 64 bits, big-endian; None stays None."""

    def __call__(self, obj: float | None, ctx: SerializationContext | None = None) -> bytes | None:
        """The 8 bytes. Raises :class:`SerializationError`."""
        return _packed(">d", obj)


def _packed(form: str, number: float | None) -> bytes | None:
    if number is None:
        return None
    try:
        return struct.pack(form, number)
    except struct.error as error:
        raise SerializationError(str(error)) from error
