"""The records of each partition that an application has, and those that are done. No I/O.

The position is the offset of the next record to hand out. Returned records are unacknowledged
until the application asks for more, or a handler returns. The offset to commit is that of the first
unacknowledged record, so a commit never passes a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Iterator
from math import inf
from typing import Final

from aioproducer.consumer.assigned_partition import AssignedPartition, Work
from aioproducer.model import ConsumerRecord, OffsetAndMetadata, TopicPartition
from aioproducer.reader.partition import NO_EPOCH, Cursor, PartitionState

_AT_ONCE: Final = 1_000
"""Partitions that are looked at in one step. Each takes some microseconds."""


class Progress:
    """The partitions that a member reads."""

    def __init__(self, cursor: Cursor) -> None:
        self._is_awaited = False
        """True: somebody waits until the application is done with something more."""
        self._told = asyncio.Event()
        self.partitions: dict[TopicPartition, AssignedPartition] = {}
        self.record: ConsumerRecord | None = None
        """The record that a loop over records works on."""
        self._uncommitted: set[TopicPartition] = set()
        """Partitions that went to other members before their records were committed."""
        self.batch_of: object = None
        """The loop that has got the last batch."""
        self._batch: list[tuple[Work, int]] = []
        """The first offsets of what a loop over batches works on."""
        self._late: ConsumerRecord | None = None
        """A loop's record of a partition that is this member's no longer."""
        self._left: list[Work] = []
        """What the application still works on, of partitions that went or were moved."""
        self._seen: tuple[ConsumerRecord | None, float] = None, 0.0
        """The record of a loop that was looked at last, and when it was first seen."""
        self._cursor = cursor
        self.singly: object = None
        """The loop whose records the application acknowledges one by one."""
        self.unacknowledged = 0
        """The number of its records that are not acknowledged."""
        self.transacts = False
        """True: the end of a transaction acknowledges the batch of the loop."""

    async def more(self) -> None:
        """Wait until the application is done with something more, or asks for records."""
        self._told.clear()
        self._is_awaited = True
        await self._told.wait()

    def tell(self) -> None:
        """Wake those who wait."""
        if self._is_awaited:
            self._is_awaited = False
            self._told.set()

    # --- the partitions ----------------------------------------------------------------------

    def add(self, partition: AssignedPartition) -> None:
        """Begin with a partition."""
        self.partitions[partition.where] = partition
        self._uncommitted.discard(partition.where)  # its records come again, here

    def release(self, where: TopicPartition) -> None:
        """End with a partition; what the application still does for it has no effect."""
        partition = self.partitions[where]
        got = min(self._behind_records(where), partition.state.taken)
        if partition.work.offsets or partition.work.waiting or partition.done < got:
            self._uncommitted.add(where)
        if (record := self.record) is not None and record.topic_partition == where:
            self.record, self._late = None, record
            self._uncommitted.add(where)
        self._leave(partition.work)
        del self.partitions[where]
        self.tell()

    # --- handing out -------------------------------------------------------------------------

    def acknowledge(self, work: Work, offset: int) -> None:
        """The application is done with the record at ``offset``."""
        work.finish(offset)
        self.tell()

    def leave(self, work: Work, offset: int) -> None:
        """The application has given the record at ``offset`` up: it stays unacknowledged."""
        work.leave(offset)
        self.tell()

    def began_batch(
        self, loop: object, firsts: Iterable[tuple[TopicPartition, int]], now: float
    ) -> None:
        """``loop`` works on records from these offsets on."""
        self.batch_of = loop
        for where, offset in firsts:
            work = self.partitions[where].work
            work.begin(offset, now)
            self._batch.append((work, offset))

    def begin_singly(self, record: ConsumerRecord, now: float) -> None:
        """The application works on ``record`` until :meth:`acknowledge_singly`."""
        self.partitions[record.topic_partition].work.begin(record.offset, now)
        self.unacknowledged += 1

    def acknowledge_singly(self, where: TopicPartition, offset: int) -> None:
        """The application is done with a record; no effect if its partition went or was moved."""
        work = self.work_of(where)
        if work is not None and offset in work.offsets:
            self.unacknowledged -= 1
            self.acknowledge(work, offset)

    def finish(self) -> None:
        """The loop is done with its record, or its batch."""
        self.record = self._late = None
        for work, offset in self._batch:
            work.finish(offset)
        self._batch.clear()
        self.tell()

    def sought(self, where: TopicPartition) -> None:
        """The application has moved the position: nothing before it is in work any more."""
        self._renew(where)
        self.tell()
        if (record := self.record) is not None and record.topic_partition == where:
            self.record = None

    def rewind(self) -> dict[TopicPartition, int]:
        """Forget that anything is unacknowledged; returns where to begin again."""
        found = {}
        for where in self.partitions:
            offset = self._offset(where)
            if offset != self.position(where):
                found[where] = offset
        for where in found:
            self._renew(where)
        self.finish()
        return found

    def _renew(self, where: TopicPartition) -> None:
        """Restart a partition: what is in work of it counts no longer."""
        partition = self.partitions[where]
        self._leave(partition.work)
        partition.work = Work(where)

    def _leave(self, work: Work) -> None:
        if self.singly is not None:  # nobody has to acknowledge what has no effect
            self.unacknowledged -= work.running
            work.running = 0
            work.offsets.clear()
        if work.running:
            self._left.append(work)

    # --- what is where -----------------------------------------------------------------------

    def position(self, where: TopicPartition) -> int:
        """The offset of the next record to hand out, as far as the log behind it was fetched."""
        return self._place(where)[0]

    def _place(self, where: TopicPartition) -> tuple[int, int]:
        return self.partitions[where].state.place_after(self._behind_records(where))

    def _behind_records(self, where: TopicPartition) -> int:
        at = self._cursor.position
        if at is not None and at[0] == where:
            return at[1]
        return self.partitions[where].state.position

    def works_on(self, partitions: Iterable[TopicPartition]) -> bool:
        """True while the application works on a record of one of ``partitions``."""
        record = self.record
        return any(
            partition.work.running or (record is not None and record.topic_partition == where)
            for where in partitions
            if (partition := self.partitions.get(where)) is not None
        )

    @property
    def loop_works(self) -> bool:
        """True while a loop works on something that is still this member's."""
        return self.record is not None or any(self.counts(work) for work, _ in self._batch)

    def work_of(self, where: TopicPartition) -> Work | None:
        """The application's work on a partition; None: it is not read."""
        partition = self.partitions.get(where)
        return None if partition is None else partition.work

    def counts(self, work: Work | None) -> bool:
        """True if ``work`` is that of a partition of this member that was not moved since."""
        return work is not None and self.work_of(work.where) is work

    @property
    def in_transaction(self) -> bool:
        """True while a loop works on what only the end of its transaction acknowledges."""
        return self.transacts and any(self.counts(work) for work, _ in self._batch)

    @property
    def is_idle(self) -> bool:
        """True if the application works on nothing, nor on what it has lost."""
        return not (self.record or self._late or any(each.running for each in self._all()))

    def _all(self) -> Iterator[Work]:
        """What the application works on, also of partitions that went or were moved."""
        self._left = [each for each in self._left if each.running]
        for partition in self.partitions.values():
            yield partition.work
        yield from self._left

    def oldest(self, now: float) -> tuple[TopicPartition, int, float] | None:
        """The oldest unacknowledged record, and the time at which the application got it.

        For a loop's record that is the time of the first call that has seen it.
        """
        found = [
            (began, work.where, offset)
            for work in self._all()
            for offset, began in work.offsets.items()
            if began != inf
        ]
        record = self.record or self._late
        if record is not self._seen[0]:
            self._seen = record, now
        if record is not None:
            found.append((self._seen[1], record.topic_partition, record.offset))
        if not found:
            return None
        began, where, offset = min(found)
        return where, offset, began

    # --- commits -----------------------------------------------------------------------------

    def states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """The states of those of ``partitions`` that are this member's.

        A partition that went and came back has another one.
        """
        return {
            where: partition.state
            for where in partitions
            if (partition := self.partitions.get(where)) is not None
        }

    def take_uncommitted(self) -> frozenset[TopicPartition]:
        """The partitions that went to other members before their records were committed, once."""
        found = frozenset(self._uncommitted)
        self._uncommitted.clear()
        return found

    def to_commit(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The first unacknowledged offset of each partition, where it was not committed yet."""
        found = {}
        for where in partitions:
            partition = self.partitions.get(where)
            if partition is None:
                continue
            offset = self._offset(where)
            if offset != partition.committed:
                place, epoch = self._place(where)
                if offset < place:
                    epoch = partition.state.position_epoch
                found[where] = _at(offset, epoch)
        return found

    def moved(self) -> Generator[None, None, dict[TopicPartition, OffsetAndMetadata]]:
        """The position of each partition that is behind what was committed, found in steps.

        Everything before it counts as done, also what the application works on.
        """
        found: dict[TopicPartition, tuple[Work, OffsetAndMetadata]] = {}
        listed = [(partition, partition.work) for partition in self.partitions.values()]
        for number, (partition, work) in enumerate(listed, start=1):
            if not number % _AT_ONCE:
                yield
            if self.counts(work):
                offset, epoch = self._place(work.where)
                if offset != partition.done:
                    found[work.where] = work, _at(offset, epoch)
        return {where: offset for where, (work, offset) in found.items() if self.counts(work)}

    def committed(self, where: TopicPartition, offset: int) -> None:
        """The group has taken ``offset``."""
        if (partition := self.partitions.get(where)) is not None:
            partition.committed = offset

    def _offset(self, where: TopicPartition) -> int:
        """The offset to commit: of the first record that the application is not done with.

        So records that are handled out of order hold it back, and so do those that wait for a
        handler; without either it is the position.
        """
        work = self.partitions[where].work
        if work.offsets:
            return next(iter(work.offsets))
        if work.waiting:
            return work.waiting[0].offset
        record = self.record
        if record is not None and record.topic_partition == where:
            return record.offset
        return self.position(where)


def _at(offset: int, epoch: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, leader_epoch=None if epoch == NO_EPOCH else epoch)
