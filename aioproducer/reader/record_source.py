"""Records and batches of a fetcher's partitions, for whoever hands them to an application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeAlias, TypeVar

from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.records.decoder import RecordBatch, decode, decode_at_once, records_to_arrow
from aioproducer.errors import (
    ConfigError,
    CorruptRecordsError,
    IllegalStateError,
    MissingExtraError,
)
from aioproducer.foundation import tuning
from aioproducer.foundation.runtime.threads import ThreadForEach
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader.fetcher import Fetcher
from aioproducer.reader.partition import Cursor, Item, PartitionState
from aioproducer.reader.read_ahead import Choice

if TYPE_CHECKING:
    from aioproducer.serialization.primitives import (
        DeserializationErrorCallback,
        RecordDeserializers,
    )

_MOST_ARROW_BYTES: Final = 64 * 1024 * 1024
"""Uncompressed bytes from which on a batch of Arrow takes no more."""
_HELD: Final = 0.01
"""Seconds after which they have several: a heartbeat needs some for its timer, its request, its
answer and the tasks between them."""
_TURNS: Final = 12
_T = TypeVar("_T")
_THREADS: Final = ThreadForEach("aioproducer-decode")
_Outcome: TypeAlias = RecordBatch | CorruptRecordsError | MissingExtraError


DESERIALIZERS: Final = ("key_deserializer", "value_deserializer", "on_deserialization_error")
"""The keywords of a Reader and a Consumer for objects."""


def deserializers_of(
    key: Any, value: Any, on_error: DeserializationErrorCallback | None
) -> RecordDeserializers | None:
    """What makes the objects of records; None: they have bytes."""
    if key is None and value is None:
        if on_error is not None:
            raise ConfigError(
                "on_deserialization_error has no effect without a key_deserializer or a "
                "value_deserializer: set one, or leave it out"
            )
        return None
    from aioproducer.serialization.primitives import RecordDeserializers

    return RecordDeserializers(key, value, on_error)


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
        self.on_ask: Callable[[], None] = lambda: None
        """Called when the application begins to wait for a batch."""
        self.has_open: Callable[[], bool] = lambda: False
        """True if cursors of :meth:`next_cursor` have records."""
        self.unpacking: TopicPartition | None = None
        """The partition whose batch is unpacked in a thread: the batches after it come later."""
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
        found = await self._next_decoded()
        if found is None:
            return False
        self.cursor.open(*found)
        return True

    def open_batch_now(self) -> bool:
        """Put the cursor on a batch that is there; False: none is, or it is large, or an error."""
        self.cursor.finish()
        found = self._decoded_now(None)
        if found is None:
            return False
        self.cursor.open(*found)
        return True

    def return_to(self, where: TopicPartition, offset: int) -> None:
        """Hand out the record at ``offset`` again, whatever the application has behind it."""
        self.cursor.leave(where)
        self.fetcher.seek(where, offset)

    async def next_batch(self) -> RecordBatch | None:
        """The next batch with records for the application; None: there is none."""
        found = await self._next_with_records()
        if found is None:
            return None
        state, item, batch = found
        state.advance(item.next_offset)
        return batch

    async def next_cursor(self, choice: Choice | None = None) -> Cursor | None:
        """The next batch with records, with a cursor for it alone; None: there is none.

        The partition has to be paused until the cursor is at the end of its batch, or put back; or
        ``choice`` is false for it so long.
        """
        found = await self._next_with_records(choice)
        if found is None:
            return None
        cursor = Cursor()
        cursor.open(*found)
        return cursor

    def cursor_now(self, choice: Choice) -> Cursor | None:
        """The same for a batch that is there; None: none is, or it is large, or an error."""
        while (found := self._decoded_now(None, choice)) is not None:
            state, item, batch = found
            if len(batch):
                self._in_batches += len(batch)
                cursor = Cursor()
                cursor.open(*found)
                return cursor
            state.advance(item.next_offset)
        return None

    def put_back(self, cursor: Cursor) -> None:
        """Hand out the rest of a cursor's batch later."""
        self._in_batches -= length_hint(cursor.records)
        if (rest := cursor.interrupt()) is not None:
            self._put_back(*rest)

    async def _next_with_records(
        self, choice: Choice | None = None
    ) -> tuple[PartitionState, Item, RecordBatch] | None:
        if (rest := self.cursor.interrupt()) is not None:  # records of it were read one by one
            self._put_back(*rest)
        while (found := await self._next_decoded(choice)) is not None:
            state, item, batch = found
            if len(batch):
                self._in_batches += len(batch)
                return found
            state.advance(item.next_offset)
        return None

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

    def _decoded_now(
        self, topic: str | None, choice: Choice | None = None
    ) -> tuple[PartitionState, Item, RecordBatch] | None:
        found = self.fetcher.read_ahead.take_of(topic, choice)
        if found is None:
            return None
        state, item = found
        outcome = self._decode(decode_at_once, item, state.position, state.end)
        if isinstance(outcome, RecordBatch):
            return state, item, outcome
        self._put_back(state, item)
        return None

    async def _next_decoded(
        self, choice: Choice | None = None
    ) -> tuple[PartitionState, Item, RecordBatch] | None:
        """Wait for a batch, and decode it: a large one beside the event loop."""
        if self._reading:
            raise IllegalStateError(f"another task reads from this {self._name}; only one can")
        self._client.check_usable()
        self._reading = True
        self.on_ask()
        try:
            await self.pause()
            while (found := await self.fetcher.next_item(choice)) is not None:
                state, item = found
                outcome = self._decode(decode_at_once, item, state.position, state.end)
                if outcome is None:
                    outcome = await self._decode_beside(state, item)
                if isinstance(outcome, RecordBatch):
                    return state, item, outcome
                if outcome is not None:
                    self.fetcher.fetch_again(state)
                    outcome.topic, outcome.partition = state.where
                    raise outcome
            return None
        finally:
            self._reading = False
            self._asked = self._client.clock()

    def finish(self) -> None:
        """Hand out nothing any more."""
        if self.cursor.where is not None:
            self.cursor.put_back(self.cursor.where)
        self.fetcher.finish()

    @property
    def is_asked(self) -> bool:
        """True while the application waits for a batch."""
        return self._reading

    @property
    def has_more(self) -> bool:
        """True if the application would get something at once."""
        in_cursor = bool(length_hint(self.cursor.records))
        return in_cursor or self.has_open() or self.fetcher.read_ahead.has_some

    def ask(self) -> None:
        """The application asks for what a cursor of :meth:`next_cursor` has."""
        self._asked = self._client.clock()

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

    async def _decode_beside(self, state: PartitionState, item: Item) -> _Outcome | None:
        """None: the partition was moved, paused or released meanwhile."""
        seeks, outcome, is_next = state.seeks, None, False
        self.unpacking = state.where
        try:
            outcome = await asyncio.get_running_loop().run_in_executor(
                _THREADS, self._decode, decode, item, state.position, state.end
            )
        finally:
            self.unpacking = None
            if self.fetcher.partitions.get(state.where) is state and state.seeks == seeks:
                is_next = not (outcome is None or state.paused or self.fetcher.is_finished)
                if not is_next:
                    self._put_back(state, item)
        return outcome if is_next else None

    def _decode(
        self,
        by: Callable[..., RecordBatch | None],
        item: Item,
        from_offset: int,
        until_offset: int | None,
    ) -> _Outcome | None:
        try:
            return by(
                item.batch,
                from_offset=from_offset,
                until_offset=until_offset,
                limit=self._limit,
            )
        except (CorruptRecordsError, MissingExtraError) as error:
            return error

    def _put_back(self, state: PartitionState, item: Item) -> None:
        """Hand out later what was taken."""
        state.put_back(item)
        self.fetcher.read_ahead.announce(state)

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


class Steps(Generic[_T]):
    """The results of ``step``, up to None. A step that is cancelled or fails does not end them."""

    __slots__ = ("_step",)

    def __init__(self, step: Callable[[], Awaitable[_T | None]]) -> None:
        self._step = step

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _T:
        result = await self._step()
        if result is None:
            raise StopAsyncIteration
        return result


class Records:
    """The records of the batch under ``cursor``, and then of those that ``next_batch`` opens.

    A step that is cancelled or fails does not end them.
    """

    __slots__ = ("_cursor", "_next_batch")

    def __init__(self, cursor: Cursor, next_batch: Callable[[], Awaitable[bool]]) -> None:
        self._cursor = cursor
        self._next_batch = next_batch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        cursor = self._cursor
        while True:
            for record in cursor.records:
                cursor.last = record
                return record
            if not await self._next_batch():
                raise StopAsyncIteration
