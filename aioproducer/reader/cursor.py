"""The batch that an application reads record by record. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint

from aioproducer.engine.records.decoder import RecordBatch
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader.partition import Item, PartitionState


class Cursor:
    """A place in a batch, or in none."""

    __slots__ = ("_item", "_opened", "_seeks", "_state", "last", "records", "size")

    def __init__(self) -> None:
        self._opened = 0
        """The number of records of all batches so far, without those that were not handed out."""
        self.records: Iterator[ConsumerRecord] = iter(())
        """The rest of the records."""
        self.last: ConsumerRecord | None = None
        """The last record that the application got of them."""
        self.size = 0
        """The bytes of the batch in memory, without the objects of records."""
        self._state: PartitionState | None = None
        self._item: Item | None = None
        self._seeks = 0

    def open(self, state: PartitionState, item: Item, batch: RecordBatch) -> None:
        """Begin to read ``batch``."""
        self._state, self._item, self._seeks = state, item, state.seeks
        self.records = iter(batch)
        self.last = None
        self.size = batch.unpacked_size
        self._opened += len(batch)

    def finish(self) -> None:
        """The application has all records of the batch."""
        self._drop_if_moved()
        if self._state is not None and self._item is not None:
            self._state.advance(self._item.next_offset)
        self._leave()

    def interrupt(self) -> tuple[PartitionState, Item] | None:
        """Leave the batch; returns its partition, whose position is that of the next record."""
        self._drop_if_moved()
        state, item = self._state, self._item
        has_more = self.advance()
        self._leave()
        return (state, item) if has_more and state is not None and item is not None else None

    def advance(self) -> bool:
        """Move the partition's position after the last record; True if the batch has more."""
        if (at := self.position) is not None and self._state is not None:
            self._state.advance(at[1])
        return length_hint(self.records) > 0

    def put_back(self, where: TopicPartition) -> None:
        """Leave the batch if it is one of ``where``; the rest of it comes later."""
        if self.where == where and (rest := self.interrupt()) is not None:
            state, item = rest
            state.put_back(item)

    def leave(self, where: TopicPartition) -> None:
        """Leave the batch if it is one of ``where``."""
        if self._state is not None and self._state.where == where:
            self._leave()

    def _drop_if_moved(self) -> None:
        """Leave the batch if the position was reset to another place meanwhile."""
        if self._state is not None and self._state.seeks != self._seeks:
            self._leave()

    def _leave(self) -> None:
        self._opened -= length_hint(self.records)
        self._state = self._item = self.last = None
        self.records = iter(())

    @property
    def handed_out(self) -> int:
        """The number of records that the application has got one by one."""
        return self._opened - length_hint(self.records)

    @property
    def where(self) -> TopicPartition | None:
        """The partition of the batch."""
        return None if self._state is None else self._state.where

    @property
    def position(self) -> tuple[TopicPartition, int] | None:
        """The partition and the offset after the last record, if there is one.

        After the last record of the batch it is the offset after the batch: the log cleaner may
        have removed records at its end.
        """
        state, item = self._state, self._item
        if state is None or item is None or self.last is None or state.seeks != self._seeks:
            return None
        has_more = length_hint(self.records) > 0
        return state.where, self.last.offset + 1 if has_more else item.next_offset
