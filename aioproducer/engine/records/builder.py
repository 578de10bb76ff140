"""A batch in a buffer: records are written one after another, and at last the header before them.

When a batch leaves, the sender's ``Compressor`` has compressed the records, if they are to be.
Then :func:`frame_batch` chooses the attributes and calls :meth:`RecordsBuilder.framed`: the header
with the numbers of the producer, and the CRC over the rest. Source: KIP-98, Kafka's
``DefaultRecordBatch``.

This is the hot path of the project. A record is, in Kafka's words (``DefaultRecord``)::

    length varint | attributes 0 | timestamp delta varint | offset delta varint
    | key length varint | key | value length varint | value | headers count varint | headers

``_speedups.pyx`` is the compiled form of the builder, and :mod:`acceleration` chooses
between the two. The class here is the reference, written to be read: the compiled form agrees with
it byte for byte and error for error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from aioproducer.engine.records.batch_header import (
    BATCH_OVERHEAD,
    BEFORE_CHECKSUM,
    CHECKED,
    LENGTH_COUNTS_FROM,
    MAGIC,
    TRANSACTIONAL,
    crc32c,
)
from aioproducer.engine.records.compression import Compression
from aioproducer.errors import SerializationError
from aioproducer.foundation.varint import encode_varint, varint
from aioproducer.model import Header

if TYPE_CHECKING:
    from aioproducer.engine.records.bulk_tokens import BulkToken
    from aioproducer.engine.records.columns import Columns


SMALL_BATCH: Final = 4096
"""Bytes: a smaller batch is copied, because a view costs more."""

MAX_RECORD_OVERHEAD: Final = 21
"""The most bytes that a record takes in addition to its key, value and headers."""

_NULL_LENGTH: Final = encode_varint(-1)
TIMESTAMPS_END: Final = 2**63


Run: TypeAlias = tuple[int, int, int, int]
"""Consecutive records with one timestamp and one size of key and of value: the index of the first
record (the next run's first one ends the run), the timestamp in ms, the sizes (-1 for None)."""


Mark: TypeAlias = tuple[int, int]
"""The index of a record, and the wall clock's nanoseconds when it was sent. The records up to the
next mark were sent at that time or less than ``MARK_GRANULE_NS`` later."""

MARK_GRANULE_NS: Final = 50_000


def sent_times(marks: Sequence[Mark], count: int) -> list[int]:
    """The nanoseconds at which each of ``count`` records was sent, by the marks of their batch."""
    times = [0] * count
    for index, (first, sent_ns) in enumerate(marks):
        end = marks[index + 1][0] if index + 1 < len(marks) else count
        times[first:end] = [sent_ns] * (end - first)
    return times


def header_bytes(headers: Sequence[Header]) -> bytes:
    """The headers of a record as they follow its value, their count first."""
    parts = [varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (varint(len(encoded)), encoded)
        parts += (_NULL_LENGTH,) if value is None else (varint(len(value)), value)
    return b"".join(parts)


def new_buffer(size: int) -> bytearray:
    """A buffer of ``size`` bytes for a builder, with any content."""
    return bytearray(size)


def batch_size_bound(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """An upper bound for the bytes of a batch of only this record.

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
    if not 0 <= timestamp_ms < TIMESTAMPS_END:
        raise OverflowError(f"a timestamp is from 0 to 2**63 - 1 ms, not {timestamp_ms}")


class AppendedRecord(NamedTuple):
    """A record of a builder, by its place."""

    offset: int
    """The number of records before it."""
    size: int
    """Its bytes."""
    timestamp: int
    """Milliseconds since the epoch."""

    @property
    def crc(self) -> None:
        """Always None: a batch has one checksum, a record none."""


class RecordsBuilder:
    """Writes records into ``buffer`` after the room for the batch header, up to ``limit`` bytes.

    The buffer stays the caller's: it is neither grown nor replaced.
    """

    __slots__ = (
        "_last_shape",
        "_latest_timestamp_ms",
        "base_timestamp_ms",
        "buffer",
        "count",
        "limit",
        "marks",
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
        """Those of records with a token of their own, and of the first record."""
        self.owner: Any = None
        """Any object of the caller: the :class:`Partition`."""
        self.base_timestamp_ms = self._latest_timestamp_ms = -1
        self.max_record_size = 0
        self.marks: list[Mark] = []
        """The times of ``send()``, in the order of the calls of :meth:`mark`."""
        self._last_shape: tuple[int, int, int] | None = None
        """The timestamp and the sizes that make a run."""

    @property
    def records(self) -> memoryview:
        """The records written so far; without the batch header."""
        return memoryview(self.buffer)[BATCH_OVERHEAD : self.position]

    @property
    def max_timestamp_ms(self) -> int:
        """The latest timestamp among the records, in ms."""
        if not self.count:
            raise ValueError("there are no records")
        return self._latest_timestamp_ms

    def mark(self, sent_ns: int) -> None:
        """Note the time of the ``send()`` of the next records, unless it is about the last one.

        :meth:`append` does so for its record.
        """
        if not self.marks or not 0 <= sent_ns - self.marks[-1][1] < MARK_GRANULE_NS:
            self.marks.append((self.count, sent_ns))

    def framed(
        self,
        attributes: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        compressed: bytes | None = None,
    ) -> bytes | bytearray | memoryview:
        """The whole batch, with ``compressed`` in place of its records if they are compressed.

        A large batch that is not compressed is a view of the buffer; any other is a copy.
        """
        whole, end = self.buffer, self.position
        if compressed is not None:
            whole = bytearray(BATCH_OVERHEAD) + compressed
            end = len(whole)
        header = attributes, self.count - 1, self.base_timestamp_ms, self.max_timestamp_ms
        numbers = producer_id, producer_epoch, base_sequence, self.count
        CHECKED.pack_into(whole, BEFORE_CHECKSUM.size, *header, *numbers)
        length = end - LENGTH_COUNTS_FROM
        if end < SMALL_BATCH:
            checked = bytes(whole[BEFORE_CHECKSUM.size : end])
            return BEFORE_CHECKSUM.pack(0, length, -1, MAGIC, crc32c(checked)) + checked
        view = memoryview(whole)[:end]
        checksum = crc32c(view[BEFORE_CHECKSUM.size :])
        BEFORE_CHECKSUM.pack_into(whole, 0, 0, length, -1, MAGIC, checksum)
        return view if compressed is None else whole

    def close(self) -> None:
        """Take no more records."""
        self.limit = 0

    def release(self) -> None:
        """Drop the buffer, the tokens, and all but the first run and mark; take no more records."""
        self.limit = 0
        self.buffer = bytearray()
        self.tokens = []
        self.runs, self.marks = self.runs[:1], self.marks[:1]

    def append(
        self,
        token: Any,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        sent_ns: int = -1,
        *,
        described: bool = True,
    ) -> int:
        """Write one record; returns its size in bytes, or 0 if it does not fit.

        ``sent_ns``: the time of its ``send()``; -1: :meth:`mark` has noted it. ``described``: its
        timestamp and sizes are part of its result. Raises TypeError and OverflowError (see
        :func:`check_fields`), and the errors of invalid headers; a call that raises appends
        nothing.
        """
        check_fields(timestamp_ms, key, value)
        tail = header_bytes(headers) if headers else b"\0"  # first: it may run code of the caller
        if sent_ns >= 0:
            self.mark(sent_ns)
        count = self.count
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        base = self.base_timestamp_ms if count else timestamp_ms
        body = b"".join(
            (
                b"\0",
                varint(timestamp_ms - base),
                varint(count),
                varint(key_size),
                key or b"",
                varint(value_size),
                value or b"",
                tail,
            )
        )
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
        self._latest_timestamp_ms = max(self._latest_timestamp_ms, timestamp_ms)
        shape = (timestamp_ms, key_size, value_size)
        if (described or not count) and shape != self._last_shape:
            self._last_shape = shape
            self.runs.append((count, timestamp_ms, key_size, value_size))
        return size

    def append_described(
        self,
        now_ns: int,
        timestamp_ms: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
    ) -> AppendedRecord | None:
        """Do :meth:`append` without a token; None: the record does not fit.

        ``timestamp_ms`` None: that of ``now_ns``, nanoseconds since the epoch.
        """
        if timestamp_ms is None:
            timestamp_ms = now_ns // 1_000_000
        elif type(timestamp_ms) is bool:
            raise TypeError("a timestamp is an int, not a bool")
        size = self.append(None, timestamp_ms, key, value, headers)
        return AppendedRecord(self.count - 1, size, timestamp_ms) if size else None

    def copy_records(self, other: RecordsBuilder, tokens: list[Any]) -> None:
        """Copy all records of ``other`` into this empty builder, and take no more.

        ``tokens``: one for each record. Raises ValueError if this builder has records or too small
        a buffer, or if ``tokens`` are of another number.
        """
        if self.count or len(self.buffer) < other.position or len(tokens) != other.count:
            raise ValueError("records are copied into an empty builder that has room for them")
        self.buffer[BATCH_OVERHEAD : other.position] = other.records
        self.position = other.position
        self.count = other.count
        self.base_timestamp_ms = other.base_timestamp_ms
        self._latest_timestamp_ms = other._latest_timestamp_ms
        self.max_record_size = other.max_record_size
        self.tokens = tokens
        self.runs = list(other.runs)
        self.close()

    def append_values(
        self,
        token: Any,
        timestamp_ms: int,
        values: Sequence[Any],
        start: int = 0,
        headers: Sequence[Header] = (),
    ) -> int:
        """Write ``values[start:]`` as records without key, each with the same token and headers.

        The call ends at the first value that is not exactly ``bytes``, or does not fit, and returns
        the number of values written. Raises as :meth:`append` does for ``timestamp_ms``.
        """
        check_fields(timestamp_ms, None, None)
        before = self.count
        for value in values[start:]:
            if type(value) is not bytes:
                break
            if not self.append(token, timestamp_ms, None, value, headers, described=False):
                break
        return self.count - before

    def append_rows(
        self,
        token: BulkToken,
        timestamp_ms: int,
        columns: Columns,
        base: int,
        stop: int,
        headers: Sequence[Header] = (),
    ) -> int:
        """Write rows as records, each with ``token``, from its first place to ``stop - 1``.

        The row at a place has the number of the place, or the number that ``token.rows`` has there,
        less ``base``. A row without a timestamp gets ``timestamp_ms``. ``headers`` are of all rows,
        if the columns have none. The call ends at the first row that has a wrong timestamp or wrong
        headers, or does not fit, and returns the number of rows written. Raises as :meth:`append`
        does for ``timestamp_ms``, and SerializationError for columns that contradict themselves.
        """
        check_fields(timestamp_ms, None, None)
        before = self.count
        for place in range(token.first, stop):
            row = (place if token.rows is None else token.rows[place]) - base
            own = None if columns.timestamps is None else columns.timestamps[row]
            key = None if columns.keys is None else columns.keys[row]
            value = columns.values[row]
            at = timestamp_ms if own is None else own
            if columns.headers is not None:
                try:
                    headers = columns.headers[row] or ()
                except SerializationError:
                    break
            if at < 0 or any(name is None for name, _ in headers):
                break
            if not self.append(token, at, key, value, headers, described=False):
                break
        return self.count - before


_MAX_SEQUENCE: Final = 2**31 - 1

Buffer: TypeAlias = bytes | bytearray | memoryview


class ProducerState(NamedTuple):
    """The producer and sequence number of a batch, for the broker to find duplicates and gaps."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool = False


NO_PRODUCER_STATE: Final = ProducerState(-1, -1, -1)
"""A batch without a number: it has none yet, or its producer is not idempotent."""


def next_sequence(sequence: int, count: int) -> int:
    """The number after ``count`` records; wraps to 0 after 2^31 - 1.

    Source: ``DefaultRecordBatch.incrementSequence``.
    """
    return (sequence + count) % (_MAX_SEQUENCE + 1)


def compress_records(builder: RecordsBuilder, compression: Compression | None) -> bytes | None:
    """The records' compressed bytes; None: the batch is not compressed.

    The attributes of a batch name its compression, so a payload that grows under compression is
    sent compressed all the same. The Java client does this as well.
    """
    return None if compression is None else compression.compress(builder.records)


def frame_batch(
    builder: RecordsBuilder,
    state: ProducerState,
    compression: Compression | None,
    compressed: bytes | None,
) -> Buffer:
    """The whole batch; see :meth:`RecordsBuilder.framed`."""
    producer_id, epoch, sequence, transactional = state
    attributes = TRANSACTIONAL if transactional else 0
    if compression is not None and compressed is not None:
        attributes |= compression.id
    return builder.framed(attributes, producer_id, epoch, sequence, compressed)
