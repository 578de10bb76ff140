"""Numbers in Java's format: big endian, in two, four or eight bytes.

Source: ``org.apache.kafka.common.serialization``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from aioproducer.errors import SerializationError
from aioproducer.model import Header
from aioproducer.serialization.deserializer import Deserializer
from aioproducer.serialization.serializer import RecordHeaders

__all__ = [
    "DoubleDeserializer",
    "DoubleSerializer",
    "FloatDeserializer",
    "FloatSerializer",
    "IntegerDeserializer",
    "IntegerSerializer",
    "LongDeserializer",
    "LongSerializer",
    "ShortDeserializer",
    "ShortSerializer",
]

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
