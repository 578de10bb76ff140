"""Batches that callers fill themselves, and send as a whole, or else record by record."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Any, Final

from aioproducer.compat.aiokafka.results import BatchToken, RecordFuture
from aioproducer.engine.accumulator import AccumulatorSettings
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.records.acceleration import RecordsBuilder, batch_size_bound
from aioproducer.engine.records.builder import AppendedRecord
from aioproducer.engine.records.field_reader import read_records
from aioproducer.errors import SerializationError
from aioproducer.model import Header
from aioproducer.serialization.serializer import checked_headers

_SENT_LATER: Final = "of send_batch()"
_FIRST_BUFFER: Final = 16_384
"""The bytes of a batch's first buffer, which doubles when it is full."""
_MOST_OVERHEAD: Final = batch_size_bound(None, None, ())
"""The bytes by which the :func:`batch_size_bound` of a record exceeds its size, at most."""


class BatchBuilder:
    """Collects records for one ``send_batch()``, up to ``max_batch_size`` bytes.

    The records are encoded as they are appended, so that they are sent together.
    """

    def __init__(
        self,
        batch_size: int,
        key_serializer: Callable[[Any], Any] | None = None,
        value_serializer: Callable[[Any], Any] | None = None,
    ) -> None:
        self._batch_size = batch_size
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._serializes = not (key_serializer is None and value_serializer is None)
        self._closed = False
        self._hold(RecordsBuilder(bytearray(min(batch_size, _FIRST_BUFFER)), batch_size))

    def _hold(self, encoded: RecordsBuilder) -> None:
        self._encoded = encoded
        self._append = encoded.append_described
        self._append_bytes: Callable[..., AppendedRecord | None] = (
            _nothing if self._serializes else self._append
        )

    def append(
        self, *, timestamp: float | None, key: Any, value: Any, headers: Sequence[Header] = ()
    ) -> AppendedRecord | None:
        """Add a record; None: the batch is full or closed.

        ``timestamp``: milliseconds since the epoch, whose fraction is cut off; None for now. A
        batch takes one record that is larger than its size.
        """
        if not headers:
            try:
                made = self._append_bytes(time_ns(), timestamp, key, value)
            except (TypeError, OverflowError):
                made = None  # to be checked
            if made is not None:
                return made
        return self._append_checked(timestamp, key, value, headers)

    def _append_checked(
        self, timestamp: float | None, key: Any, value: Any, headers: Sequence[Header]
    ) -> AppendedRecord | None:
        if self._closed:
            return None
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        check_bytes(key, value)
        key, value = bytes_of(key), bytes_of(value)
        headers = checked_headers(headers or (), _SENT_LATER)
        at = None if timestamp is None else _checked_timestamp(timestamp)
        now_ns = time_ns()
        made = self._append(now_ns, at, key, value, headers)
        room = batch_size_bound(key, value, headers)
        while made is None and self._grow(room):
            made = self._append(now_ns, at, key, value, headers)
        if made is None:
            self.close()
        elif self._encoded.position > self._batch_size:
            self._encoded.close()
        return made

    def _grow(self, room: int) -> bool:
        """Make the buffer larger, in which a record of ``room`` bytes at most finds no place.

        The buffer only gets larger than the batch for a first record; the next one finds it full.
        """
        encoded, size = self._encoded, len(self._encoded.buffer)
        if size < self._batch_size:
            more = min(max(2 * size, encoded.position + room), self._batch_size) - size
            encoded.buffer.extend(bytes(more))
            return True
        if encoded.count or size >= room:
            return False
        self._hold(RecordsBuilder(bytearray(room), room))
        return True

    def close(self) -> None:
        """Take no more records."""
        self._closed = True
        self._encoded.close()

    def closed(self) -> bool:
        """True if the batch takes no more records."""
        return self._closed

    def size(self) -> int:
        """The bytes of the batch, before compression."""
        return self._encoded.position

    def record_count(self) -> int:
        """The number of records."""
        return self._encoded.count

    @property
    def encoded(self) -> RecordsBuilder:
        """The records, encoded; a view."""
        return self._encoded


def _nothing(*_: object) -> None:
    """Append nothing: the serializers come first."""


def check_bytes(key: Any, value: Any) -> None:
    """Raise SerializationError, a TypeError, unless both are bytes-like or None."""
    for name, field in (("key", key), ("value", value)):
        if field is not None and not isinstance(field, bytes | bytearray | memoryview):
            raise SerializationError(
                f"Not supported type for {name}: {type(field)}. Pass bytes, or set "
                f"{name}_serializer"
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


def bytes_of(field: Any) -> Any:
    """The field as it is now: the caller may change it later."""
    return field if field is None or type(field) is bytes else bytes(field)


def check_records(topic: str, encoded: RecordsBuilder, settings: AccumulatorSettings) -> None:
    """Raise RecordTooLargeError if ``send()`` would refuse one of the records."""
    if encoded.max_record_size + _MOST_OVERHEAD <= settings.largest_batch:
        return
    records = read_records(encoded)
    sizes = (batch_size_bound(key, value, headers) for _, key, value, headers in records)
    needed = max(sizes, default=0)
    if needed > settings.largest_batch:
        raise settings.too_large(topic, needed)


def send_encoded(
    core: ProducerCore, topic: str, partition: int, encoded: RecordsBuilder, future: RecordFuture
) -> None:
    """Send the records of ``encoded``, in order; ``future`` gets the outcome of all.

    They are one batch of the core, unless records of the partition wait for memory or metadata, or
    there is too little memory for all of them at once.
    """
    token = BatchToken(future, encoded.count)
    sent_ns = core.wall_clock_ns()
    if not core.hooks:
        engine = core.engine
        accumulator, now = engine.accumulator, engine.clock()
        if engine.transactions is not None:
            engine.transactions.check_open()
        if accumulator.append_encoded(topic, partition, encoded, token.all(), sent_ns, now):
            return
    for timestamp_ms, key, value, headers in read_records(encoded):
        fields = (topic, value, key, partition, headers or None, timestamp_ms)
        core.pipeline.put(fields, token, over_capacity=True, sent_ns=sent_ns)
