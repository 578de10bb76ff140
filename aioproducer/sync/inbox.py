"""Records on their way from threads to an event loop: bounded, in order, and fair to each thread.

Each thread fills a *chunk*, and the loop takes all chunks at once. The records of a thread keep
their order. If a thread has to wait for room in the batches, its chunks *stall*, and the chunks of
other threads overtake them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from threading import Condition, Lock, Thread
from typing import Any, Final, TypeAlias

from aioproducer.records.route_cache import ENTRY

Entry: TypeAlias = tuple[Any, Any, Any, Any, Any, Any, Any]
"""A future, and the fields of its record."""

_CHUNKS: Final = 16
"""The parts of the room that threads reserve at once, ahead of their records."""


class Chunk:
    """Records of one thread, in their order."""

    __slots__ = ("entries", "passed", "room", "size", "thread")

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.entries: list[Any] = []
        """The records with their futures, each in the next places: see :data:`ENTRY`."""
        self.size = 0
        """Bytes of the records, with :attr:`room`."""
        self.room = 0
        """Bytes that are reserved for further records."""
        self.passed = 0
        """The number of records that the loop has passed on."""

    def __len__(self) -> int:
        return len(self.entries) // ENTRY

    def entry(self, place: int) -> Entry:
        """A future and its record."""
        token, *fields = self.entries[place * ENTRY : (place + 1) * ENTRY]
        return (token, *fields)

    def reserve(self, size: int) -> None:
        """Make room for ``size`` more bytes."""
        self.size += size
        self.room += size

    def trim(self) -> int:
        """Give up the room that is left; returns the bytes of the records."""
        self.size -= self.room
        self.room = 0
        return self.size


class Marker:
    """Resolves ``future`` when all earlier records have left, stalled or not."""

    def __init__(self, future: Future[None]) -> None:
        self.future = future
        self._missing = 1

    def stall(self) -> None:
        """Count one more queue in which earlier records are left."""
        self._missing += 1

    def reached(self) -> None:
        """Count one queue that all earlier records have left."""
        self._missing -= 1
        if not self._missing and self.future.set_running_or_notify_cancel():
            self.future.set_result(None)

    def fail(self, error: Exception) -> None:
        """Fail the future: the marker will not be reached any more."""
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class Inbox:
    """Holds records of up to ``capacity`` bytes, and as many stalled ones; one may be larger.

    Each thread may use as much of the room for stalled records as the others leave free, so there
    is always room for one more thread. :attr:`lock` guards the whole inbox.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.lock = Lock()
        self.filling: dict[Thread, Chunk] = {}
        """The chunk of each thread that was not taken yet."""
        self._fresh_total = self._stalled_total = 0
        self._items: deque[Chunk | Marker] = deque()
        self._stalled: dict[Thread, deque[Chunk | Marker]] = {}
        self._stalled_bytes: dict[Thread, int] = {}
        self._waiting: dict[Thread, tuple[int, Condition]] = {}
        """Threads that wait for room, and the bytes that they wait for."""
        self._closed = False

    @property
    def held(self) -> int:
        """Bytes of all chunks, stalled or not."""
        return self._fresh_total + self._stalled_total

    def fits(self, thread: Thread, size: int) -> bool:
        """True if ``thread`` may put a record of ``size`` bytes here."""
        chunk = self.filling.get(thread)
        if chunk is None:
            return not self._stalled_bytes.get(thread) or size <= self._free(thread, 0)
        return size <= chunk.room or size - chunk.room <= self._free(thread, chunk.size)

    def _free(self, thread: Thread, fresh: int) -> int:
        """Bytes that ``thread`` may reserve, in addition to ``fresh``."""
        if thread in self._stalled:
            own = fresh + self._stalled_bytes[thread]
            return self.capacity - self._stalled_total - fresh - own
        return self.capacity - self._fresh_total

    def wait(self, thread: Thread, size: int, timeout: float | None) -> bool:
        """Wait until a record of ``size`` bytes fits, with the lock held; False: it never did.

        A thread wakes only when there is room for it: others would take the interpreter from the
        loop.
        """
        condition = Condition(self.lock)
        self._waiting[thread] = size, condition
        try:
            return condition.wait_for(lambda: self._closed or self.fits(thread, size), timeout)
        finally:
            del self._waiting[thread]

    def _wake(self) -> None:
        for thread, (size, condition) in self._waiting.items():
            if self._closed or self.fits(thread, size):
                condition.notify()

    def close(self) -> None:
        """Wake all threads that wait, and let none wait any more, or go on with its chunk."""
        with self.lock:
            self._closed = True
            self.filling.clear()
            self._wake()

    def put(self, thread: Thread, entry: Entry, size: int) -> bool:
        """Put a record of ``size`` bytes, which fits, into a chunk; True: the inbox was empty."""
        chunk = self.filling.get(thread)
        first = False
        if chunk is None:
            chunk = self.filling[thread] = Chunk(thread)
            first = self.mark(chunk)
        lacking = size - chunk.room
        if lacking > 0:
            ahead = min(self.capacity // _CHUNKS, self._free(thread, chunk.size))
            reserved = max(lacking, ahead)
            chunk.reserve(reserved)
            self._fresh_total += reserved
        chunk.room -= size
        chunk.entries += entry
        return first

    def mark(self, item: Chunk | Marker) -> bool:
        """Put ``item`` at the end; True: the inbox was empty."""
        self._items.append(item)
        return len(self._items) == 1

    def take(self) -> deque[Chunk | Marker]:
        """Take all chunks of threads that did not stall, and all markers."""
        with self.lock:
            items, self._items = self._items, deque()
            self._fresh_total = 0
            self.filling.clear()
            self._wake()
        return items

    def stalled(self, thread: Thread) -> Sequence[Chunk | Marker]:
        """The chunks of ``thread`` that have to wait."""
        return self._stalled.get(thread, ())

    # --- in the event loop's thread ----------------------------------------------------------

    def stall(self, thread: Thread) -> None:
        """Let chunks of ``thread`` wait until :meth:`resume` has given all of them back."""
        with self.lock:
            if thread not in self._stalled:
                self._stalled[thread] = deque()
                self._stalled_bytes[thread] = 0

    def keep(self, item: Chunk | Marker) -> bool:
        """Keep a taken item that has to wait; False: the item need not wait."""
        if not self._stalled:
            return False
        if isinstance(item, Marker):
            for items in self._stalled.values():
                item.stall()
                items.append(item)
            return False
        items = self._stalled.get(item.thread)  # type: ignore[assignment]
        if items is None:
            return False
        items.append(item)
        with self.lock:
            size = item.trim()
            self._stalled_bytes[item.thread] += size
            self._stalled_total += size
        return True

    def resume(self, thread: Thread) -> Iterator[Chunk | Marker]:
        """The stalled items, one after the other; after the last, ``thread`` stalls no more.

        An item stays here until the next one is asked for.
        """
        items = self._stalled[thread]
        while items:
            yield items[0]
            item = items.popleft()
            if isinstance(item, Chunk):
                with self.lock:
                    self._stalled_bytes[thread] -= item.size
                    self._stalled_total -= item.size
                    self._wake()
        with self.lock:
            del self._stalled[thread], self._stalled_bytes[thread]
            self._wake()

    def take_rest(self) -> deque[Chunk | Marker]:
        """Take everything, stalled or not."""
        rest: deque[Chunk | Marker] = deque()
        for items in self._stalled.values():
            rest.extend(items)
        with self.lock:
            self._stalled.clear()
            self._stalled_bytes.clear()
            self._stalled_total = 0
        rest.extend(self.take())
        return rest
