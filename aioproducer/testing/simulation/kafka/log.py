"""The log of a partition: batches by offset, and the epochs of the leaders that wrote them.

Sources: Kafka's ``UnifiedLog`` and ``LeaderEpochFileCache``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from aioproducer.testing.simulation.kafka.batch import Batch, StoredRecord

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEnd(NamedTuple):
    """An epoch and the offset after its last record; ``UNDEFINED_…``: the log can't tell."""

    epoch: int = UNDEFINED_EPOCH
    offset: int = UNDEFINED_OFFSET


class TimestampAndOffset(NamedTuple):
    """A record, as ListOffsets names it."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class PartitionLog:
    """Batches one after another; :attr:`start_offset` moves on when records are deleted."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.start_offset = 0
        self.end_offset = 0
        """The offset of the next record."""
        self._epochs: list[tuple[int, int]] = []
        """Epochs and their first offsets, both growing."""

    # --- writing ---------------------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        """Take a batch that has its offset and epoch."""
        self.batches.append(batch)
        self.end_offset = batch.next_offset

    def begin_epoch(self, epoch: int) -> None:
        """A leader with ``epoch`` writes from here on. Source: ``LeaderEpochFileCache.assign``."""
        while self._epochs and self._epochs[-1][1] >= self.end_offset:
            self._epochs.pop()
        self._epochs.append((epoch, self.end_offset))

    def truncate(self, offset: int) -> None:
        """Drop the batches that hold ``offset`` or later ones: no log has a part of a batch."""
        while self.batches and self.batches[-1].next_offset > offset:
            self.end_offset = self.batches.pop().base_offset
        self.start_offset = min(self.start_offset, self.end_offset)
        while self._epochs and self._epochs[-1][1] >= self.end_offset:
            self._epochs.pop()

    def delete_before(self, offset: int) -> None:
        """Records before ``offset`` are gone. Source: ``maybeIncrementLogStartOffset``."""
        self.start_offset = max(self.start_offset, offset)
        while self.batches and self.batches[0].next_offset <= self.start_offset:
            self.batches.pop(0)
        before = [each for each in self._epochs if each[1] <= self.start_offset]
        if before:
            later = self._epochs[len(before) :]
            self._epochs = [(before[-1][0], self.start_offset), *later]

    # --- reading ---------------------------------------------------------------------------

    def batches_from(self, offset: int, before: int) -> Iterator[Batch]:
        """The batches that hold ``offset`` or later ones, and nothing from ``before`` on."""
        first = bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)
        for place in range(first, len(self.batches)):
            batch = self.batches[place]
            if batch.next_offset > before:
                return
            yield batch

    def records(self) -> list[StoredRecord]:
        """The records, without markers, each with the end of its transaction."""
        ended: dict[int, bool] = {}
        known: list[tuple[Batch, bool | None]] = []
        for batch in reversed(self.batches):
            if batch.control:
                ended[batch.producer_id] = batch.commits
            else:
                known.append((batch, ended.get(batch.producer_id) if batch.transactional else True))
        return [
            record
            for batch, visible in reversed(known)
            for record in batch.records(visible)
            if record.offset >= self.start_offset
        ]

    # --- epochs and timestamps -------------------------------------------------------------

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Source: ``LeaderEpochFileCache.endOffsetFor``."""
        if epoch == UNDEFINED_EPOCH or not self._epochs:
            return EpochEnd()
        if epoch == self._epochs[-1][0]:
            return EpochEnd(epoch, self.end_offset)
        place = bisect_right(self._epochs, epoch, key=lambda each: each[0])
        if place == len(self._epochs):
            return EpochEnd()
        floor = epoch if place == 0 else self._epochs[place - 1][0]
        return EpochEnd(floor, self._epochs[place][1])

    def epoch_at(self, offset: int) -> int:
        """The epoch of the leader that wrote ``offset``."""
        place = bisect_right(self._epochs, offset, key=lambda each: each[1])
        return self._epochs[place - 1][0] if place else UNDEFINED_EPOCH

    def first_since(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """The first record with such a timestamp or a later one."""
        for batch in self.batches:
            if batch.max_timestamp_ms >= timestamp_ms:
                for offset, found in _timestamps(batch):
                    if found >= timestamp_ms and offset >= self.start_offset:
                        return TimestampAndOffset(found, offset, batch.leader_epoch)
        return None

    def with_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record that has the greatest timestamp of all."""
        if not self.batches:
            return None
        newest = max(self.batches, key=lambda batch: batch.max_timestamp_ms)
        for offset, found in _timestamps(newest):
            if found == newest.max_timestamp_ms:
                return TimestampAndOffset(found, offset, newest.leader_epoch)
        return None


def _timestamps(batch: Batch) -> Sequence[tuple[int, int]]:
    """Offsets and timestamps of the records, a marker included."""
    if batch.control:
        return [(batch.base_offset, batch.max_timestamp_ms)]
    return [(record.offset, record.timestamp_ms) for record in batch.records(None)]
