"""The batches that were fetched and not taken yet: whose turn is next, and what there is room for.

No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from aioproducer.errors import ProducerError
from aioproducer.errors.client import anew
from aioproducer.model import TopicPartition
from aioproducer.reader.partition import Item, PartitionState

Choice: TypeAlias = Callable[[TopicPartition], bool]
"""True for the partitions that a read wants."""


class ReadAhead:
    """Hands out the batches of ``partitions`` in turn.

    ``limit``: bytes of all partitions. ``arrived`` is called when there is something to take, and
    ``freed`` when there is room for a good deal more.
    """

    def __init__(
        self,
        partitions: Iterable[PartitionState],
        limit: int,
        arrived: Callable[[], None],
        freed: Callable[[], None],
    ) -> None:
        self._partitions: dict[TopicPartition, PartitionState] = {}
        self.partitions: Mapping[TopicPartition, PartitionState] = MappingProxyType(
            self._partitions
        )
        self._limit = limit
        self._share = limit
        """Bytes for the partitions of one leader."""
        self._arrived = arrived
        self._freed = freed
        self._ready: dict[TopicPartition, PartitionState] = {}
        """The partitions with items, in the order of their turns."""
        self._kept: dict[TopicPartition, PartitionState] = {}
        """The paused partitions of which something is kept."""
        self._unread: dict[TopicPartition, PartitionState] = {}
        """The partitions that were not seen to be read up to their end."""
        self._taken = 0
        """Bytes that were taken since ``freed`` was called last."""
        self.changes: dict[TopicPartition, None] = {}
        """The partitions that came, went, or may have to be fetched in another way. A fetcher takes
        them out."""
        for state in partitions:
            self.add(state)

    # --- the partitions ----------------------------------------------------------------------

    def add(self, state: PartitionState) -> None:
        """Hand out the batches of one more partition."""
        self._partitions[state.where] = state
        self._unread[state.where] = state
        state.changes, state.unread = self.changes, self._unread
        self.changes[state.where] = None

    def release(self, where: TopicPartition) -> None:
        """Drop a partition, and what was read ahead of it."""
        state = self._partitions.pop(where)
        self._ready.pop(where, None)
        self._kept.pop(where, None)
        self._unread.pop(where, None)
        state.unread = {}
        state.restart(state.position)  # a response that is on its way is ignored
        state.count_in(None)
        self._freed()

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of partitions; each keeps its part of half of the room at most."""
        for where in partitions:
            state = self._partitions[where]
            state.paused = True
            self.changes[where] = None
            self._ready.pop(where, None)
            if state.has_items:
                self.announce(state)
        self._freed()

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume paused partitions."""
        for where in partitions:
            state = self._partitions[where]
            state.paused = False
            self.changes[where] = None
            self._kept.pop(where, None)
            self.announce(state)
        self._freed()

    # --- the room ----------------------------------------------------------------------------

    def share(self, sources: int) -> None:
        """Give each of so many brokers an equal part of the room that paused partitions leave."""
        kept = sum(state.buffered for state in self._kept.values())
        self._share = max((self._limit - kept) // max(sources, 1), 1)

    def room_beside(self, buffered: int) -> int:
        """The bytes that may be fetched from a broker with ``buffered`` ones; 0 while half is not
        free."""
        return self._share - buffered if buffered <= self._share // 2 else 0

    @property
    def is_done(self) -> bool:
        """True if every partition is read up to its end; False if there is none."""
        while self._unread:
            where, state = next(iter(self._unread.items()))
            if not state.is_done:
                return False
            del self._unread[where]
        return bool(self._partitions)

    @property
    def has_some(self) -> bool:
        """True if there is something to take."""
        return bool(self._ready)

    def announce(self, state: PartitionState) -> None:
        """``state`` may have got something to take, or have come to its end."""
        if self._partitions.get(state.where) is not state:
            return
        if state.paused:
            state.keep(self._limit // 2 // len(self._partitions))
            if state.buffered:
                self._kept[state.where] = state
            return
        if state.has_items:
            self._ready.setdefault(state.where, state)
        if state.has_items or state.is_done:
            self._arrived()

    def fail(self, state: PartitionState, error: ProducerError) -> None:
        """Give the application ``error`` after what was read ahead of ``state``."""
        state.fail(error)
        self.announce(state)

    def has(self, choice: Choice) -> bool:
        """True if there is something to take of the partitions that ``choice`` is true for."""
        return any(map(choice, self._ready))

    def _next(self, choice: Choice | None) -> PartitionState | None:
        """The partition whose turn is next."""
        chosen = self._ready if choice is None else filter(choice, self._ready)
        where = next(iter(chosen), None)
        return None if where is None else self._ready[where]

    def take(self, choice: Choice | None = None) -> tuple[PartitionState, Item] | None:
        """The next batch, if there is one. Raises the error that is next."""
        while (state := self._next(choice)) is not None:
            item = self._pop(state)
            if item is None:
                continue
            if item.error is not None:
                error = anew(item.error)
                error.topic, error.partition = state.where
                raise error
            if item.batch is not None:
                return state, item
        return None

    def take_of(
        self, topic: str | None, choice: Choice | None = None
    ) -> tuple[PartitionState, Item] | None:
        """The next batch, if it is of ``topic``; None: of any. An error stays for :meth:`take`."""
        while (state := self._next(choice)) is not None:
            if topic not in (None, state.where.topic) or state.next_is_error:
                return None
            item = self._pop(state)
            if item is not None and item.batch is not None:
                return state, item
        return None

    def _pop(self, state: PartitionState) -> Item | None:
        """The next item of ``state``, which waits for its next turn then; None: it has none."""
        del self._ready[state.where]
        if not state.has_items:
            return None
        item = state.pop()
        if state.has_items:
            self._ready[state.where] = state
        if item.batch is None and item.error is None:
            state.advance(item.next_offset)
        self._taken += item.memory
        if self._taken >= self._share // 4 or not state.has_items:
            self._taken = 0
            self._freed()
        return item
