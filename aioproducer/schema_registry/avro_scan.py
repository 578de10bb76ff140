"""A look at Avro data before fastavro reads them: their nesting, empty items, decimals.

fastavro calls itself for each level and crashes the process when the stack ends, and it believes
any number of items. The scan skips over the data and refuses what would do harm. Most schemas need
no scan: they can't be nested, and each item of an array takes at least a byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioproducer.errors import SerializationError
from aioproducer.schema_registry.avro_schema import (
    RECORDS,
    AvroSchema,
    Node,
    is_silent,
    kind_of,
    resolved,
    smallest_size,
)

_DEEPEST: Final = 400  # types within types: a record in a union in an array counts for three
_SHALLOW: Final = 200  # bytes, each of which is two levels at most
_MOST_EMPTY_ITEMS: Final = 100_000
_LONGEST_DECIMAL: Final = 1024  # bytes; Python's time for a decimal is the square of its length
_QUICK_DECIMALS: Final = 16_384  # bytes of data, whose decimals take milliseconds at most


def may_do_harm(schema: AvroSchema, *, skips: bool) -> bool:
    """True if data of ``schema`` are to be looked at by :func:`refuse_harm`."""
    harm = schema.empty_items or schema.recursive or schema.decimals
    return harm or (skips and schema.silent_items)


def refuse_harm(schema: AvroSchema, payload: bytes, *, skips: bool) -> None:
    """Raise SerializationError if ``payload`` would crash its reader, or cost it without bound.

    ``skips``: there is a reader's schema, so fields may be skipped.
    """
    size = len(payload)
    if (
        schema.empty_items
        or (schema.recursive and size > _SHALLOW)
        or (schema.decimals and size > _QUICK_DECIMALS)
        or (skips and schema.silent_items)
    ):
        _Scan(payload, schema.named).skip(schema.parsed, 0)


class _Scan:
    def __init__(self, payload: bytes, named: Mapping[str, Node]) -> None:
        self._payload = payload
        self._named = named
        self._position = 0
        self._empty_items = 0

    def skip(self, node: Node, depth: int) -> None:
        """Go to the end of a value."""
        if depth > _DEEPEST:
            raise SerializationError(f"the data is nested more than {_DEEPEST // 2} levels deep")
        node = resolved(node, self._named)
        kind = kind_of(node)
        if kind in RECORDS:
            for field in node["fields"]:
                self.skip(field["type"], depth + 1)
        elif kind == "union":
            branch = self._number()
            if not 0 <= branch < len(node):
                raise SerializationError(f"branch {branch} of a union of {len(node)} types")
            self.skip(node[branch], depth + 1)
        elif kind == "array":
            self._skip_items(node["items"], depth + 1)
        elif kind == "map":
            while count := self._count():
                for _ in range(count):
                    self._forward(self._number())
                    self.skip(node["values"], depth + 1)
        elif kind in ("string", "bytes"):
            length = self._number()
            if length > _LONGEST_DECIMAL and _is_decimal(node):
                raise SerializationError(f"a decimal of {length} bytes")
            self._forward(length)
        elif kind in ("int", "long", "enum"):
            self._number()
        else:
            self._forward(1 if kind == "boolean" else smallest_size(node, self._named))

    def _skip_items(self, items: Node, depth: int) -> None:
        silent = is_silent(items, self._named)
        size = smallest_size(items, self._named)
        while count := self._count():
            if size == 0:
                self._empty_items += count
                if self._empty_items > _MOST_EMPTY_ITEMS:
                    raise SerializationError(
                        f"more than {_MOST_EMPTY_ITEMS} array items of no bytes"
                    )
            if silent:
                self._forward(count * size)
                continue
            for _ in range(count):
                self.skip(items, depth)

    def _count(self) -> int:
        """The number of items of a block, whose size in bytes follows a negative number."""
        count = self._number()
        if count < 0:
            self._number()
            count = -count
        if count >= 1 << 63:
            raise SerializationError(f"a block of {count} items")
        return count

    def _forward(self, size: int) -> None:
        if size < 0 or self._position + size > len(self._payload):
            raise SerializationError(
                f"{size} bytes at byte {self._position} of {len(self._payload)}"
            )
        self._position += size

    def _number(self) -> int:
        payload, value = self._payload, 0
        for shift in range(0, 70, 7):
            if self._position >= len(payload):
                raise SerializationError(f"the data ends within a number, at byte {len(payload)}")
            byte = payload[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise SerializationError(f"a number of more than 10 bytes, at byte {self._position}")


def _is_decimal(node: Node) -> bool:
    return isinstance(node, dict) and node.get("logicalType") == "decimal"
