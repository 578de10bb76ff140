"""Bytes, unchanged, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aioproducer.model import Header
from aioproducer.serialization.deserializer import Deserializer
from aioproducer.serialization.plain import bytes_of
from aioproducer.serialization.serializer import RecordHeaders

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["BytesDeserializer", "BytesSerializer"]


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
