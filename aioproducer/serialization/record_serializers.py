"""The serializers of a producer's keys and values."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from aioproducer.model import Header, Headers
from aioproducer.serialization.headers import checked_headers
from aioproducer.serialization.plain import plain_bytes
from aioproducer.serialization.serializer import FieldSerializer


class RecordSerializers:
    """Makes the bytes of keys and values; None: bytes-like objects and text pass as they are.

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
