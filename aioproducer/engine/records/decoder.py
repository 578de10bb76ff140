"""From the bytes of a batch to its records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, overload

from aioproducer.engine.records.acceleration import ParsedRecords
from aioproducer.engine.records.arrow import to_arrow
from aioproducer.engine.records.encoded_batch import EncodedBatch, UnpackedTooLargeError
from aioproducer.engine.records.field_reader import MalformedRecordError
from aioproducer.errors import CorruptRecordsError
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import counted
from aioproducer.model import ConsumerRecord, TopicPartition

_MOST_BYTES: Final = 2**31 - 1
"""Kafka's own bound: the length of a batch has 31 bits."""


class RecordBatch(Sequence[ConsumerRecord]):
    """The records of one batch, in the order of their offsets.

    Accessing a record creates a new object every time.
    """

    __slots__ = ("_encoded", "_records", "unpacked_size")

    def __init__(self, encoded: EncodedBatch, records: ParsedRecords, unpacked_size: int) -> None:
        self._encoded = encoded
        self._records = records
        self.unpacked_size: int = unpacked_size
        """The uncompressed size of all records of the batch, in bytes."""

    @property
    def topic(self) -> str:
        """The topic of all records."""
        return self._encoded.where.topic

    @property
    def partition(self) -> int:
        """The partition of all records."""
        return self._encoded.where.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the records were read from."""
        return self._encoded.where

    @property
    def first_offset(self) -> int:
        """The offset of the first record; without records, :attr:`next_offset`."""
        return self._records[0].offset if len(self._records) else self.next_offset

    @property
    def next_offset(self) -> int:
        """The offset where reading continues; the log cleaner may have removed records before
        it."""
        return self._encoded.next_offset

    @property
    def leader_epoch(self) -> int | None:
        """The epoch of the leader that wrote the records; None: the batch does not contain it."""
        return self._encoded.leader_epoch

    @property
    def timestamp_type(self) -> str:
        """``CreateTime``: the producer's time; ``LogAppendTime``: the broker's."""
        return self._encoded.timestamp_type

    @property
    def size(self) -> int:
        """The size in bytes, as sent by the broker: compressed, with the batch's header."""
        return self._encoded.size

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[ConsumerRecord]: ...
    def __getitem__(self, index: int | slice) -> ConsumerRecord | list[ConsumerRecord]:
        if isinstance(index, slice):
            return [self._records[place] for place in range(*index.indices(len(self._records)))]
        return self._records[index]

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return iter(self._records)

    def __repr__(self) -> str:
        return (
            f"<RecordBatch of {self.topic_partition}: {counted(len(self), 'record')} from offset "
            f"{self.first_offset}, before offset {self.next_offset}>"
        )

    def to_arrow(self) -> Any:
        """Return the records as a ``pyarrow.RecordBatch``, which ``send_many()`` accepts.

        The columns are ``key`` and ``value`` (binary), ``headers`` (a list of keys and values),
        ``timestamp`` (milliseconds, UTC; null if the record has none), ``partition`` and
        ``offset``; the topic is in the metadata of the schema. Raises MissingExtraError without
        pyarrow.
        """
        return records_to_arrow([self])


def decode(
    batch: EncodedBatch, *, from_offset: int = 0, until_offset: int | None = None, limit: int
) -> RecordBatch:
    """The records of ``batch`` from ``from_offset`` on, and before ``until_offset`` if it is given.

    Everything is checked here, so the records can be taken without an error afterwards. Raises
    CorruptRecordsError, also if the records decompress to more than ``limit`` bytes.
    """
    data = batch.decompressed(min(limit, _MOST_BYTES)) if batch.record_count else b""
    try:
        return RecordBatch(batch, ParsedRecords(batch, data, from_offset, until_offset), len(data))
    except MalformedRecordError as error:
        raise batch.corrupt(error) from error


def decode_at_once(
    batch: EncodedBatch, *, from_offset: int, until_offset: int | None, limit: int
) -> RecordBatch | None:
    """:func:`decode`, or None: it would take too long for the thread of an event loop.

    A few compressed bytes may take long, so their records are decompressed up to a limit first.
    """
    most = tuning.DECODED_AT_ONCE
    if batch.size > (tuning.COMPRESSED_AT_ONCE if batch.compression_id else most):
        return None
    try:
        return decode(
            batch, from_offset=from_offset, until_offset=until_offset, limit=min(limit, most)
        )
    except CorruptRecordsError as error:
        if isinstance(error.__cause__, UnpackedTooLargeError):
            return None
        raise


def records_to_arrow(batches: Sequence[RecordBatch]) -> Any:
    """The records of batches of one topic as one ``pyarrow.RecordBatch``, with the same columns.

    See :meth:`RecordBatch.to_arrow`. Raises OverflowError if a column would have 2 GiB.
    """
    topic = batches[0].topic if batches else ""
    return to_arrow(topic, [batch._records for batch in batches])
