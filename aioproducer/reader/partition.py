"""One partition of a reader: its position, its batches, and the one that is read now. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count
from operator import length_hint
from typing import Final, NamedTuple
from uuid import UUID

from aioproducer.engine.records.decoder import RecordBatch
from aioproducer.engine.records.encoded_batch import EncodedBatch, batches_in
from aioproducer.errors import CorruptRecordsError, MissingExtraError, ProducerError
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader.requests import AbortedTransaction, FetchedPartition, FetchSession

NO_EPOCH = -1
NO_POSITION = -1
BATCH_OBJECTS: Final = 600
"""Bytes of the objects of a batch that is read ahead, as measured."""
_NUMBERS: Final = count(1)


class Item(NamedTuple):
    """The next thing in a partition."""

    next_offset: int
    """The position after it."""
    batch: EncodedBatch | None = None
    """None: no records up to ``next_offset`` are for the reader, or there is an error."""
    error: ProducerError | None = None
    epoch: int = NO_EPOCH
    """The leader epoch of the last batch before ``next_offset``, if it is known."""

    @property
    def memory(self) -> int:
        """The bytes of the batch, and about those of the objects around it."""
        return 0 if self.batch is None else self.batch.size + BATCH_OBJECTS


class AbortedTransactions:
    """The filter of ``read_committed``, at one place of a response, which is read in order.

    ``index``: the aborted transactions that the response names. A transaction is open from its
    first offset on to the abort marker of its producer. Source: Kafka's ``CompletedFetch``.
    """

    def __init__(self, index: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(index, key=lambda each: each.first_offset))
        self._open: set[int] = set()

    def hides(self, batch: EncodedBatch) -> bool:
        """True if the records of ``batch`` belong to an aborted transaction."""
        while self._coming and self._coming[0].first_offset <= batch.last_offset:
            self._open.add(self._coming.popleft().producer_id)
        if batch.is_control:
            if batch.control_type == "abort":
                self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._open


class PartitionState:
    """A partition that is read. Times are the clock's seconds.

    ``position``: :data:`NO_POSITION` if nothing but its error is to be read. ``end``: the offset
    before which reading ends; None: reading goes on.
    """

    def __init__(self, where: TopicPartition, position: int, end: int | None) -> None:
        self.where = where
        self.number = next(_NUMBERS)
        """Distinguishes it from others of the same partition."""
        self.changes: dict[TopicPartition, None] = {}
        """Gets the partition whenever it may have to be fetched in another way."""
        self.unread: dict[TopicPartition, PartitionState] = {}
        """Gets the partition whenever it may no longer be read up to its end."""
        self._session: FetchSession | None = None
        self.position = position
        """The offset of the next record for the application."""
        self.end = end
        self.fetch_offset = position
        """The offset of the next record to fetch."""
        self.read_epoch = NO_EPOCH
        """The leader epoch of the last batch that was fetched."""
        self.position_epoch = NO_EPOCH
        """The leader epoch of the last batch before the position; the application may have a part
        of it."""
        self.leader_epoch = NO_EPOCH
        """The epoch of the leader whose log is known to contain what was fetched."""
        self.high_watermark: int | None = None
        """The end of the records that are committed to all in-sync replicas, when last fetched."""
        self.last_stable_offset: int | None = None
        """The end of the records whose transactions have ended, when last fetched."""
        self.in_log = True
        """False: the log lacked the position at the start or seek. The leader is asked for it, even
        if the end of reading is before it."""
        self.buffered = 0
        """Bytes of memory of the batches that were read ahead."""
        self.from_beginning = False
        """True until a first record comes, if reading began at the beginning of the log."""
        self.paused = False
        """True: nothing is fetched, and nothing is handed out."""
        self.failures = 0
        """Failed requests in a row."""
        self.served_id: UUID | None = None
        """The topic's id by which the partition was fetched last; None: by none yet."""
        self.not_before = 0.0
        """The end of the backoff."""
        self.seeks = 0
        """The number of times that the position was moved by something else than reading."""
        self.restarts = 0
        """How often fetching restarted at another place."""
        self._items: deque[Item] = deque()
        self.taken = 0
        """The offset after the last batch that was taken; the position may be in it."""

    def __repr__(self) -> str:
        return f"<PartitionState of {self.where} at offset {self.position}>"

    def _changed(self) -> None:
        self.changes[self.where] = None

    @property
    def read_to(self) -> int:
        """The offset after the records that the application has or can read."""
        return max(self.position, self.taken)

    def place_after(self, offset: int) -> tuple[int, int]:
        """The position of an application that has the records before ``offset``, and the leader
        epoch of the batch before it.

        It is behind what was fetched and is not for the application: markers, aborted records.
        """
        if offset >= self.read_to and self._items:
            item = self._items[0]
            if item.batch is None and item.error is None:
                end = item.next_offset if self.end is None else min(item.next_offset, self.end)
                return max(offset, end), item.epoch
        return offset, self.position_epoch

    @property
    def is_done(self) -> bool:
        """True if the application has everything before the end."""
        return self.end is not None and self.position >= self.end and self.in_log

    @property
    def wants_records(self) -> bool:
        """True if there may be more to fetch."""
        ended = self.end is not None and self.fetch_offset >= self.end and self.in_log
        return not (ended or self.paused or self._failed)

    @property
    def _failed(self) -> bool:
        return bool(self._items) and self._items[-1].error is not None

    @property
    def has_items(self) -> bool:
        """True if something was read ahead."""
        return bool(self._items)

    @property
    def next_is_error(self) -> bool:
        """True if the next item is an error."""
        return bool(self._items) and self._items[0].error is not None

    @property
    def answered_ns(self) -> int | None:
        """When the ends of the log were told last, in nanoseconds since the epoch.

        A broker with a session (KIP-227) only names the partitions whose ends have moved.
        """
        if self._session is None or self.high_watermark is None:
            return None
        return self._session.answered_ns

    def count_in(self, session: FetchSession | None) -> None:
        """Count the bytes that are read ahead in ``session`` from now on."""
        if session is not self._session:
            if self._session is not None:
                self._session.buffered -= self.buffered
            if session is not None:
                session.buffered += self.buffered
            self._session = session

    def _buffer(self, size: int) -> None:
        self.buffered += size
        if self._session is not None:
            self._session.buffered += size

    def moved_to(self, leader_epoch: int) -> bool:
        """Note the leader's epoch; True if the log has to be validated first (KIP-320)."""
        if leader_epoch == self.leader_epoch or self.read_epoch == NO_EPOCH:
            self.leader_epoch = leader_epoch
            return False
        return leader_epoch > self.leader_epoch

    def validated(self, leader_epoch: int) -> None:
        """The log of the leader with ``leader_epoch`` has what was fetched."""
        self.leader_epoch = leader_epoch
        self._changed()

    def leave_cluster(self) -> None:
        """Another cluster has the partition: the epochs of the former one mean nothing there."""
        self.leader_epoch = self.read_epoch = self.position_epoch = NO_EPOCH
        self._changed()

    def failed(self, not_before: float) -> None:
        """A request failed: the next one waits until ``not_before``."""
        self.failures += 1
        self.not_before = not_before
        self._changed()

    def succeeded(self) -> None:
        """A request was answered: the next failure is the first one again."""
        self.failures = 0
        self.not_before = 0.0

    def taking(
        self, fetched: FetchedPartition, *, committed_only: bool, check_crcs: bool
    ) -> Iterator[None]:
        """Add the batches of a response, one in each step.

        A corrupt one is an error after those before it. The steps do not continue after a restart.
        """
        self.in_log = True
        self.see_ends(fetched)
        aborted = AbortedTransactions(fetched.aborted if committed_only else ())
        try:
            for batch in batches_in(fetched.records, self.where, check_crcs=check_crcs):
                self._take_batch(batch, aborted, committed_only=committed_only)
                yield
        except (CorruptRecordsError, MissingExtraError) as error:
            self.fail(error)
        self._changed()

    def see_ends(self, fetched: FetchedPartition) -> None:
        """Note the ends of the log as of a response, wherever it was fetched from."""
        self.high_watermark = fetched.high_watermark
        self.last_stable_offset = fetched.last_stable_offset

    def found_nothing(self) -> None:
        """A response of a session left the partition out: the log has nothing to fetch."""
        self.in_log = True
        self.succeeded()
        self._changed()

    def _take_batch(
        self, batch: EncodedBatch, aborted: AbortedTransactions, *, committed_only: bool
    ) -> None:
        hidden = committed_only and aborted.hides(batch)
        if batch.next_offset <= self.fetch_offset:
            return
        skipped = hidden or batch.is_control or not batch.record_count
        if self.end is not None and batch.base_offset >= self.end:
            skipped = True
        self.fetch_offset = batch.next_offset
        self.read_epoch = batch.partition_leader_epoch
        self.from_beginning = False
        if skipped:
            self._skip(batch.next_offset, self.read_epoch)
            return
        item = Item(batch.next_offset, batch, epoch=self.read_epoch)
        self._items.append(item)
        self._buffer(item.memory)

    def _skip(self, next_offset: int, epoch: int = NO_EPOCH) -> None:
        """Nothing before ``next_offset`` is for the application; one item says so."""
        if self._items and self._items[-1].batch is None and self._items[-1].error is None:
            self._items.pop()
        self._items.append(Item(next_offset, epoch=epoch))

    def fail(self, error: ProducerError) -> None:
        """Give ``error`` to the application, after the batches that were read ahead."""
        if self._failed:
            return
        self._items.append(Item(self.fetch_offset, None, error))
        self._changed()

    def pop(self) -> Item:
        """The next item. After an error, fetching restarts at the position; without a position the
        error stays."""
        item = self._items.popleft()
        if item.error is not None:
            self.restart(self.position)
            if self.position == NO_POSITION:
                self.fail(item.error)
            return item
        self.position_epoch = item.epoch
        if item.batch is not None:
            self._buffer(-item.memory)
            self.taken = item.next_offset
        return item

    def put_back(self, item: Item) -> None:
        """Hand out ``item`` again, of which the application has the part before the position."""
        self._items.appendleft(item)
        self._buffer(item.memory)
        self.taken = self.position

    def advance(self, position: int) -> None:
        """The application has the records before ``position``, of those before the end."""
        self.position = (
            position if self.end is None else min(position, max(self.end, self.position))
        )

    def restart(self, offset: int) -> None:
        """Drop what was read ahead, and fetch from ``offset`` on."""
        self._items.clear()
        self._buffer(-self.buffered)
        self.fetch_offset = offset
        self.taken = min(self.taken, offset)
        self.restarts += 1
        self.succeeded()
        self._changed()

    def keep(self, limit: int) -> None:
        """Drop what was read ahead beyond ``limit`` bytes; it is fetched again."""
        if self.buffered <= limit:
            return
        kept: list[Item] = []
        size = 0
        for item in self._items:
            size += item.memory
            if size > limit or item.error is not None:
                break
            kept.append(item)
        self._begin_behind(kept, kept[-1].next_offset if kept else self.read_to)

    def _begin_behind(self, kept: Iterable[Item], offset: int) -> None:
        """Restart fetching at ``offset``, after the items that are kept."""
        self.restart(offset)
        for item in kept:
            self._items.append(item)
            self._buffer(item.memory)

    def seek(self, offset: int, *, in_log: bool = True) -> None:
        """Read from ``offset`` on, whatever was read before; see :attr:`in_log`."""
        self.position = offset
        self.unread[self.where] = self
        self.in_log = in_log
        self.seeks += 1
        self.read_epoch = self.position_epoch = NO_EPOCH
        self.from_beginning = False
        self.restart(offset)

    def skip_to(self, offset: int) -> None:
        """The log has no records between those that were fetched and ``offset``."""
        self.fetch_offset = offset
        self.in_log = True
        self.read_epoch = NO_EPOCH
        self.succeeded()
        self._skip(offset)
        self._changed()

    def truncate(self, offset: int, epoch: int) -> None:
        """The log has other records from ``offset`` on than those that were read ahead."""
        self._begin_behind([*self._kept_before(offset)], offset)
        self.read_epoch = epoch

    def _kept_before(self, offset: int) -> Iterator[Item]:
        for item in self._items:
            if item.error is not None:
                return
            if item.next_offset > offset:
                if item.batch is None:
                    yield Item(offset)
                return
            yield item


class Cursor:
    """The place in the batch that an application reads record by record, or in none."""

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

    def is_of(self, state: PartitionState | None) -> bool:
        """True if the batch is one of ``state``, whose position was not moved meanwhile."""
        return state is not None and self._state is state and state.seeks == self._seeks

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
