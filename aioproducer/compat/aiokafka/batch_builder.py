"""Batches that callers fill themselves."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from aioproducer.errors import RecordTooLargeError, SerializationError
from aioproducer.model import Header
from aioproducer.records.acceleration import RecordsBuilder
from aioproducer.records.builder import BATCH_OVERHEAD, batch_size_bound
from aioproducer.serialization.headers import checked_headers

_SENT_LATER: Final = "of send_batch()"


class AppendedRecord(NamedTuple):
    """A record in a batch."""

    offset: int
    """Its place in the batch, from 0."""
    size: int
    """Its bytes."""
    timestamp: int
    """Milliseconds since the epoch."""

    @property
    def crc(self) -> None:
        """Always None: a batch has one checksum, a record none."""


class BatchBuilder:
    """Collects records for one ``send_batch()``, up to ``max_batch_size`` bytes."""

    def __init__(
        self,
        batch_size: int,
        key_serializer: Callable[[Any], Any] | None = None,
        value_serializer: Callable[[Any], Any] | None = None,
    ) -> None:
        self._batch_size = batch_size
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._sizes = RecordsBuilder(bytearray(batch_size), batch_size)
        self._records: list[tuple[Any, Any, Sequence[Header], int]] = []
        self._size = BATCH_OVERHEAD
        self._largest = 0
        self._closed = False

    def append(
        self, *, timestamp: float | None, key: Any, value: Any, headers: Sequence[Header] = ()
    ) -> AppendedRecord | None:
        """Add a record; None: the batch is full or closed.

        ``timestamp``: milliseconds since the epoch, whose fraction is cut off; None for now. A
        batch takes one record that is larger than its size.
        """
        if self._closed:
            return None
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        check_bytes(key, value)
        key, value = _bytes_of(key), _bytes_of(value)
        headers = checked_headers(headers or (), _SENT_LATER)
        if timestamp is None:
            timestamp = time.time_ns() // 1_000_000
        else:
            timestamp = _checked_timestamp(timestamp)
        size = self._sizes.append(None, timestamp, key, value, headers)
        if not size:
            if self._records:
                self.close()
                return None
            size = self._enlarged(timestamp, key, value, headers)
        self._records.append((key, value, headers, timestamp))
        self._size += size
        self._largest = max(self._largest, batch_size_bound(key, value, headers))
        return AppendedRecord(len(self._records) - 1, size, timestamp)

    def _enlarged(self, timestamp: int, key: Any, value: Any, headers: Sequence[Header]) -> int:
        """Take a first record that is larger than the batch; the next one finds it full."""
        room = batch_size_bound(key, value, headers)
        self._sizes = RecordsBuilder(bytearray(room), room)
        size = self._sizes.append(None, timestamp, key, value, headers)
        self._sizes.close()
        return size

    def close(self) -> None:
        """Take no more records."""
        self._closed = True

    def closed(self) -> bool:
        """True if the batch takes no more records."""
        return self._closed

    def size(self) -> int:
        """The bytes of the batch, before compression."""
        return self._size

    def record_count(self) -> int:
        """The number of records."""
        return len(self._records)

    def check_records(self, most: int) -> None:
        """Raise RecordTooLargeError if a record is larger than ``most`` bytes."""
        if self._largest > most:
            raise RecordTooLargeError(
                f"the batch has a record of up to {self._largest} bytes, and max_request_size is "
                f"{most}: raise it (and the topic's max.message.bytes), or send smaller records"
            )

    def records(self) -> Sequence[tuple[Any, Any, Sequence[Header], int]]:
        """Key, value, headers and timestamp of each record."""
        return self._records


def check_bytes(key: Any, value: Any) -> None:
    """Raise SerializationError, a TypeError, unless both are bytes-like or None."""
    for name, field in (("key", key), ("value", value)):
        if field is not None and not isinstance(field, bytes | bytearray | memoryview):
            raise SerializationError(
                f"Not supported type for {name}: {type(field)}. It is bytes, or {name}_serializer "
                "makes bytes of it"
            )


def whole(milliseconds: Any) -> Any:
    """A timestamp without its fraction, as aiokafka sends it; others are for the core to refuse."""
    if type(milliseconds) is float and math.isfinite(milliseconds):
        return int(milliseconds)
    return milliseconds


def _checked_timestamp(given: Any) -> int:
    timestamp = whole(given)
    if type(timestamp) is not int or not 0 <= timestamp < 2**63:
        raise SerializationError(f"timestamp is in milliseconds since the epoch, not {given!r}")
    return timestamp


def _bytes_of(field: Any) -> Any:
    """The field as it is now: the caller may change it later."""
    return field if field is None or type(field) is bytes else bytes(field)
