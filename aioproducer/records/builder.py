"""The record half of a batch: records are written one after another into a buffer.

This is the hot path of the project. A record is, in Kafka's words (``DefaultRecord``)::

    length varint | attributes 0 | timestamp delta varint | offset delta varint
    | key length varint | key | value length varint | value | headers count varint | headers

Records that follow each other often have one *shape*: the same millisecond, the same sizes, no
headers. From the second of them on, all that the shape fixes is computed once, also how many of
them fit; each is then one ``Struct.pack_into``.

``_speedups/builder.pyx`` has the same builder for C, and :mod:`acceleration` chooses. What is here
is the reference: the other agrees with it byte for byte and error for error.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, TypeAlias

from aioproducer.model import Header
from aioproducer.records.bulk_tokens import BulkToken
from aioproducer.records.columns import Columns
from aioproducer.records.varint import TABLE_SIZE, VARINTS, encode_varint, varint

BATCH_OVERHEAD: Final = 61
"""Bytes of a batch before its first record."""

MAX_RECORD_OVERHEAD: Final = 21
"""Bytes that a record takes at most beside its key, value and headers."""

_NULL_LENGTH: Final = encode_varint(-1)
_OFFSETS_OF_ONE_BYTE: Final = 64
_OFFSETS_OF_TWO_BYTES: Final = 8192
_TIMESTAMPS_END: Final = 2**63


Run: TypeAlias = tuple[int, int, int, int]
"""Consecutive records with one timestamp and one size of key and of value: the index of the first
(the run goes on to the next run's first), the timestamp in ms, the sizes (-1 for None)."""


def header_bytes(headers: Sequence[Header]) -> bytes:
    """The headers of a record as they stand behind its value, their count first."""
    parts = [varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (varint(len(encoded)), encoded)
        parts += (_NULL_LENGTH,) if value is None else (varint(len(value)), value)
    return b"".join(parts)


def batch_size_bound(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """An upper bound of the bytes of a batch with this one record.

    Source: ``AbstractRecords.estimateSizeInBytesUpperBound``.
    """
    size = BATCH_OVERHEAD + MAX_RECORD_OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    if headers:
        size += len(header_bytes(headers))
    return size


def check_fields(timestamp_ms: object, key: object, value: object) -> None:
    """Refuse fields that no record can hold. Raises TypeError and OverflowError."""
    for field in (key, value):
        if field is not None and not isinstance(field, bytes | bytearray):
            raise TypeError(f"a key or value is bytes or None, not {type(field).__name__}")
    if not isinstance(timestamp_ms, int):
        raise TypeError(f"a timestamp is an int, not {type(timestamp_ms).__name__}")
    if not 0 <= timestamp_ms < _TIMESTAMPS_END:
        raise OverflowError(f"a timestamp is from 0 to 2**63 - 1 ms, not {timestamp_ms}")


@lru_cache(maxsize=4096)
def _packer(*sizes: int) -> Any:
    """Packs parts of these sizes and a zero byte, the count of no headers."""
    return Struct("".join(f"{size}s" for size in sizes) + "x").pack_into


class RecordsBuilder:
    """Writes records into ``buffer`` behind the room for the batch header, up to ``limit`` bytes.

    The buffer stays the caller's: it is neither grown nor replaced.
    """

    __slots__ = (
        "_after_key",
        "_before_key",
        "_head",
        "_last_shape",
        "_pack",
        "_shape_key_size",
        "_shape_record_size",
        "_shape_timestamp_ms",
        "_shape_until",
        "_shape_value_size",
        "base_timestamp_ms",
        "buffer",
        "count",
        "limit",
        "max_record_size",
        "owner",
        "position",
        "runs",
        "tokens",
    )

    def __init__(self, buffer: bytearray, limit: int) -> None:
        self.buffer = buffer
        self.limit = limit
        self.position = BATCH_OVERHEAD
        self.count = 0
        self.tokens: list[Any] = []
        """Tokens of the caller, one for each record: the records' futures."""
        self.runs: list[Run] = []
        self.owner: Any = None
        """Any object of the caller: the partition's queue."""
        self.base_timestamp_ms = -1
        self.max_record_size = 0
        self._last_shape: tuple[int, int, int] | None = None
        self._shape_until = 0
        """The number of records up to which one of the shape fits, with an offset of its width, as
        long as no other record comes in between."""
        self._shape_timestamp_ms = self._shape_key_size = self._shape_value_size = -1
        self._shape_record_size = 0
        self._head = b""
        self._before_key = self._after_key = b""
        self._pack: Any = None

    @property
    def records(self) -> memoryview:
        """The records written so far; without the batch header."""
        return memoryview(self.buffer)[BATCH_OVERHEAD : self.position]

    @property
    def max_timestamp_ms(self) -> int:
        """The latest timestamp among the records, in ms."""
        return max(run[1] for run in self.runs)

    def close(self) -> None:
        """Take no more records."""
        self.limit = self._shape_until = 0

    def _append_value(self, token: Any, timestamp_ms: int, value: bytes) -> int:
        count = self.count
        if (
            count < self._shape_until
            and len(value) == self._shape_value_size
            and timestamp_ms == self._shape_timestamp_ms
            and self._shape_key_size < 0
        ):
            position = self.position
            size = self._shape_record_size
            try:
                self._pack(
                    self.buffer, position, self._head, VARINTS[count], self._before_key, value
                )
            except struct.error:
                return self._append_other(token, timestamp_ms, None, value, ())
            self.position = position + size
            self.count = count + 1
            self.tokens.append(token)
            return size
        return self._append_other(token, timestamp_ms, None, value, ())

    def append(
        self,
        token: Any,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
    ) -> int:
        """Write one record; returns its size in bytes, or 0 if it does not fit any more.

        Raises TypeError and OverflowError (see :func:`check_fields`), and what wrong headers raise;
        nothing was appended then.
        """
        if key is None and value is not None and not headers:
            return self._append_value(token, timestamp_ms, value)
        count = self.count
        if (
            count < self._shape_until
            and key is not None
            and value is not None
            and len(key) == self._shape_key_size
            and len(value) == self._shape_value_size
            and timestamp_ms == self._shape_timestamp_ms
            and not headers
        ):
            position = self.position
            size = self._shape_record_size
            try:
                self._pack(
                    self.buffer,
                    position,
                    self._head,
                    VARINTS[count],
                    self._before_key,
                    key,
                    self._after_key,
                    value,
                )
            except struct.error:
                return self._append_other(token, timestamp_ms, key, value, headers)
            self.position = position + size
            self.count = count + 1
            self.tokens.append(token)
            return size
        return self._append_other(token, timestamp_ms, key, value, headers)

    def append_values(
        self, token: Any, timestamp_ms: int, values: Sequence[Any], start: int = 0
    ) -> int:
        """Write ``values[start:]`` as records without key and headers, each with the same token.

        It ends at the first that is not exactly ``bytes``, or does not fit any more, and returns
        the number written until then. Raises as :meth:`append` does for ``timestamp_ms``.
        """
        check_fields(timestamp_ms, None, None)
        before = self.count
        for value in values[start:]:
            if type(value) is not bytes or not self._append_value(token, timestamp_ms, value):
                break
        return self.count - before

    def append_rows(
        self, span: BulkToken, timestamp_ms: int, columns: Columns, base: int, stop: int
    ) -> int:
        """Write rows as records, each with the token ``span``, from its first place to ``stop``.

        The row at a place has that number, or the number that ``span.rows`` has there, less
        ``base``. A row without a timestamp has ``timestamp_ms``. It ends at the first that has a
        wrong timestamp, or does not fit any more, and returns the number written until then.
        Raises as :meth:`append` does for ``timestamp_ms``, and SerializationError where columns
        contradict themselves.
        """
        check_fields(timestamp_ms, None, None)
        before = self.count
        for place in range(span.first, stop):
            row = (place if span.rows is None else span.rows[place]) - base
            own = None if columns.timestamps is None else columns.timestamps[row]
            key = None if columns.keys is None else columns.keys[row]
            value = columns.values[row]
            at = timestamp_ms if own is None else own
            if at < 0 or not self.append(span, at, key, value):
                break
        return self.count - before

    def _append_other(
        self,
        token: Any,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> int:
        """Write a record that has no shape yet, and prepare for more like it."""
        if (
            type(timestamp_ms) is not int
            or not 0 <= timestamp_ms < _TIMESTAMPS_END
            or (value is not None and type(value) is not bytes)
            or (key is not None and type(key) is not bytes)
        ):
            check_fields(timestamp_ms, key, value)
        tail = header_bytes(headers) if headers else b"\0"
        count = self.count
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        base = self.base_timestamp_ms if count else timestamp_ms
        delta = b"\0\0" if timestamp_ms == base else b"\0" + varint(timestamp_ms - base)
        offset = VARINTS[count] if count < TABLE_SIZE else encode_varint(count)
        key_length = VARINTS[key_size] if 0 <= key_size < TABLE_SIZE else encode_varint(key_size)
        value_length = (
            VARINTS[value_size] if 0 <= value_size < TABLE_SIZE else encode_varint(value_size)
        )
        body = b"".join((delta, offset, key_length, key or b"", value_length, value or b"", tail))
        length = varint(len(body))
        size = len(length) + len(body)
        end = self.position + size
        if end > self.limit or end > len(self.buffer):
            return 0
        self.buffer[self.position : end] = length + body
        self.position = end
        self.count = count + 1
        self.base_timestamp_ms = base
        self.tokens.append(token)
        if size > self.max_record_size:
            self.max_record_size = size
        self._shape_until = 0
        shape = (timestamp_ms, key_size, value_size)
        if shape != self._last_shape:
            self._last_shape = shape
            self.runs.append((count, timestamp_ms, key_size, value_size))
        elif value is not None and not headers and count < TABLE_SIZE:
            self._take_shape(shape, length + delta, len(offset), key_length, value_length)
        return size

    def _take_shape(
        self,
        shape: tuple[int, int, int],
        head: bytes,
        offset_size: int,
        key_length: bytes,
        value_length: bytes,
    ) -> None:
        """Prepare for more records of this shape, which two records in a row had."""
        timestamp_ms, key_size, value_size = shape
        if key_size < 0:
            self._before_key = key_length + value_length
            sizes: tuple[int, ...] = (len(head), offset_size, len(self._before_key), value_size)
        else:
            self._before_key, self._after_key = key_length, value_length
            sizes = (
                len(head),
                offset_size,
                len(key_length),
                key_size,
                len(value_length),
                value_size,
            )
        self._head = head
        self._pack = _packer(*sizes)
        self._shape_record_size = size = sum(sizes) + 1
        self._shape_timestamp_ms = timestamp_ms
        self._shape_key_size = key_size
        self._shape_value_size = value_size
        fitting = self.count + (min(self.limit, len(self.buffer)) - self.position) // size
        width_ends = _OFFSETS_OF_ONE_BYTE if offset_size == 1 else _OFFSETS_OF_TWO_BYTES
        self._shape_until = min(fitting, width_ends)
