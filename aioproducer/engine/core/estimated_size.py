"""An estimate of the memory that an object takes, before a serializer has made bytes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice
from sys import getsizeof
from types import FunctionType, ModuleType
from typing import Any, Final

__all__ = ["estimated_size"]

_MOST_PARTS: Final = 1_000
_UNKNOWN: Final = 512
_WITHOUT_PARTS: Final = (str, bytes, bytearray, int, float, type, FunctionType, ModuleType)


def estimated_size(data: Any) -> int:
    """Bytes that ``data`` and its parts may take; at most a thousand parts are looked at."""
    if data is None:
        return 0
    size, parts = 0, [data]
    for _ in range(_MOST_PARTS):
        if not parts:
            break
        part = parts.pop()
        size += getsizeof(part, _UNKNOWN)
        if not isinstance(part, _WITHOUT_PARTS):
            size += _encoded_size(part)
            parts.extend(islice(_parts_of(part), _MOST_PARTS))
    return size


def _encoded_size(data: Any) -> int:
    """The bytes that a message of Protocol Buffers has outside of Python's objects."""
    measure: Callable[[], object] | None = getattr(type(data), "ByteSize", None)
    size = None if measure is None else data.ByteSize()
    return size if isinstance(size, int) else 0


def _parts_of(data: Any) -> Iterable[Any]:
    """The objects that ``data`` holds, as far as they can be seen."""
    if isinstance(data, dict):
        return data.values()
    if isinstance(data, list | tuple | set | frozenset):
        return data
    kind = type(data)
    slots = getattr(kind, "__struct_fields__", None)  # of msgspec
    if slots is None:
        slots = chain.from_iterable(_slots_of(each) for each in kind.__mro__)
    named = (getattr(data, name, None) for name in slots)
    return chain(getattr(data, "__dict__", {}).values(), named)


def _slots_of(kind: type) -> Iterable[str]:
    slots = kind.__dict__.get("__slots__", ())
    return [each for each in ((slots,) if isinstance(slots, str) else slots) if each != "__dict__"]
