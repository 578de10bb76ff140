"""Records and batches of a fetcher's partitions, for whoever hands them to an application."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.records.decoder import RecordBatch, decode, records_to_arrow
from aioproducer.errors import CorruptRecordsError, IllegalStateError, MissingExtraError
from aioproducer.foundation import tuning
from aioproducer.model import TopicPartition
from aioproducer.reader.cursor import Cursor
from aioproducer.reader.fetcher import Fetcher
from aioproducer.reader.iteration import Records
from aioproducer.reader.partition import Item, PartitionState

_MOST_ARROW_BYTES: Final = 64 * 1024 * 1024
"""Uncompressed bytes from which on a batch of Arrow takes no more."""
_HELD: Final = 0.01
"""Seconds after which they have several: a heartbeat needs some for its timer, its request, its
answer and the tasks between them."""
_TURNS: Final = 12


class RecordSource:
    """Hands out what ``fetcher`` has read ahead. ``limit``: ``max_batch_bytes``.

    ``name``: the class that the application holds, for errors.
    """

    def __init__(self, client: ClusterClient, fetcher: Fetcher, limit: int, name: str) -> None:
        self.fetcher = fetcher
        self.cursor = Cursor()
        self._client = client
        self._limit = limit
        self._name = name
        self._reading = False
        self.turn_began = 0.0
        """The real clock's time of the end of the last pause."""
        self._asked = client.clock()
        """The clock's time of the end of the last wait for a batch."""
        self._in_batches = 0
        """The number of records that were handed out in batches."""

    def records(self) -> Records:
        """The records, one by one."""
        return Records(self.cursor, self.open_next_batch)

    async def open_next_batch(self) -> bool:
        """Put the cursor on the next batch; False: there is none."""
        self.cursor.finish()
        found = await self._next_item()
        if found is None:
            return False
        self.cursor.open(*found, self._decode(*found))
        return True

    def open_batch_now(self) -> bool:
        """Put the cursor on a batch that is there; False: there is none, or an error is next."""
        self.cursor.finish()
        found = self._decoded_now(None)
        if found is None:
            return False
        self.cursor.open(*found)
        return True

    async def next_batch(self) -> RecordBatch | None:
        """The next batch with records for the application; None: there is none."""
        rest = self.cursor.interrupt()  # records of it may have been read one by one
        while True:
            found = rest or await self._next_item()
            if found is None:
                return None
            rest = None
            batch = self._decode(*found)
            found[0].advance(found[1].next_offset)
            if len(batch):
                self._in_batches += len(batch)
                return batch

    async def next_arrow_batch(self, max_rows: int) -> Any:
        """Batches of one topic that are there, up to about ``max_rows``, as Arrow."""
        first = await self.next_batch()
        if first is None:
            return None
        batches, rows, size = [first], len(first), first.unpacked_size
        while rows < max_rows and size < _MOST_ARROW_BYTES:
            more = self._batch_now(first.topic)
            if more is None:
                break
            batches.append(more)
            rows += len(more)
            size += more.unpacked_size
        return records_to_arrow(batches)

    def _batch_now(self, topic: str) -> RecordBatch | None:
        """A batch of ``topic`` that is there. An error is left to the next call that may raise."""
        found = self._decoded_now(topic)
        if found is None:
            return None
        state, item, batch = found
        state.advance(item.next_offset)
        self._in_batches += len(batch)
        return batch

    def _decoded_now(self, topic: str | None) -> tuple[PartitionState, Item, RecordBatch] | None:
        found = self.fetcher.read_ahead.take_of(topic)
        if found is None:
            return None
        try:
            return *found, self._decode(*found)
        except (CorruptRecordsError, MissingExtraError):  # it is fetched again, and raised then
            return None

    async def _next_item(self) -> tuple[PartitionState, Item] | None:
        if self._reading:
            raise IllegalStateError(f"another task reads from this {self._name}: one at a time can")
        self._client.check_usable()
        self._reading = True
        try:
            await self.pause()
            return await self.fetcher.next_item()
        finally:
            self._reading = False
            self._asked = self._client.clock()

    def finish(self) -> None:
        """Hand out nothing any more."""
        if self.cursor.where is not None:
            self.cursor.put_back(self.cursor.where)
        self.fetcher.finish()

    @property
    def last_asked(self) -> float:
        """The clock's time at which the application waited last."""
        return self._client.clock() if self._reading else self._asked

    async def pause(self) -> None:
        """Let other tasks run if they had no turn for long."""
        held = self._client.real_clock() - self.turn_began  # the other one waits for a turn
        if held > tuning.LONGEST_READ_TURN:
            try:
                for _ in range(_TURNS if held > _HELD else 1):
                    await asyncio.sleep(0)
            finally:  # else a step that is cancelled each time would never come to its end
                self.turn_began = self._client.real_clock()

    def _decode(self, state: PartitionState, item: Item) -> RecordBatch:
        assert item.batch is not None
        try:
            return decode(
                item.batch,
                from_offset=state.position,
                until_offset=state.end,
                limit=self._limit,
            )
        except (CorruptRecordsError, MissingExtraError):
            self.fetcher.fetch_again(state)
            raise

    @property
    def handed_out(self) -> int:
        """The number of records that the application has got, again with each repetition."""
        return self._in_batches + self.cursor.handed_out

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offset of each partition's next record."""
        at = self.cursor.position or (None, 0)
        return {
            where: state.place_after(at[1] if at[0] == where else state.position)[0]
            for where, state in self.fetcher.partitions.items()
        }
