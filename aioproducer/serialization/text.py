"""Text and UUIDs in the format of Java's serializers.

Source: ``org.apache.kafka.common.serialization``.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.model import Header
from aioproducer.serialization.deserializer import Deserializer
from aioproducer.serialization.serializer import RecordHeaders

__all__ = ["StringDeserializer", "StringSerializer", "UUIDDeserializer", "UUIDSerializer"]


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
                f"a text can't be written in {self.encoding} (topic {topic!r}): {error.reason} at "
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
        raise ConfigError(f"encoding={encoding!r}: Python has no such encoding of text") from None
    return encoding


def _text(data: bytes, encoding: str, topic: str) -> str:
    try:
        return bytes(data).decode(encoding)
    except UnicodeDecodeError as error:
        raise SerializationError(
            f"{len(data)} bytes are no text in {encoding} (topic {topic!r}): {error.reason} at "
            f"position {error.start}"
        ) from None
