"""Records on their way from threads to an event loop: bounded, in order, and fair to each thread.

Records that one thread sends without another's between them make a *chunk*, and the loop takes all
chunks at once. Records of all threads keep the order of their arrival, with one exception: if a
thread has to wait for room in the batches, its chunks *stall*, and the chunks of other threads
overtake them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from threading import Condition, Lock, Thread
from typing import Any, Final, TypeAlias

from aioproducer.records.route_cache import ENTRY

Entry: TypeAlias = tuple[Any, Any, Any, Any, Any, Any, Any, Any]
"""A future, the fields of its record, and the wall clock's nanoseconds of its ``send()``."""

_CHUNKS: Final = 16
"""A thread reserves one part of this many of the room, ahead of its records."""


class Chunk:
    """Records that one thread sent one after the other."""

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
        """Give up the room that is left; returns its bytes."""
        spare, self.room = self.room, 0
        self.size -= spare
        return spare


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
        self.last: Chunk | None = None
        """The chunk at the end, which its thread may still fill."""
        self._fresh_total = self._stalled_total = 0
        self._items: deque[Chunk | Marker] = deque()
        self._fresh: dict[Thread, int] = {}
        """Bytes by thread, of chunks that were not taken yet."""
        self._stalled: dict[Thread, deque[Chunk | Marker]] = {}
        self._stalled_bytes: dict[Thread, int] = {}
        self._waiting: dict[Thread, tuple[int, Condition]] = {}
        """Threads that wait for room, and the bytes that they wait for."""
        self._closed = False

    @property
    def empty(self) -> bool:
        """True if there is nothing to take."""
        return not self._items

    @property
    def held(self) -> int:
        """Bytes of all chunks, stalled or not."""
        return self._fresh_total + self._stalled_total

    def fits(self, thread: Thread, size: int) -> bool:
        """True if ``thread`` may put a record of ``size`` bytes here; the last chunk is trimmed."""
        self._trim()
        own = self._fresh.get(thread, 0) + self._stalled_bytes.get(thread, 0)
        return not own or size <= self._free(thread)

    def _free(self, thread: Thread) -> int:
        """Bytes that ``thread`` may reserve."""
        if thread in self._stalled:
            fresh = self._fresh.get(thread, 0)
            return self.capacity - self._stalled_total - self._stalled_bytes[thread] - 2 * fresh
        return self.capacity - self._fresh_total

    def _trim(self) -> None:
        """Take back the room that the last chunk has left."""
        if self.last is not None and self.last.room:
            spare = self.last.trim()
            self._fresh[self.last.thread] -= spare
            self._fresh_total -= spare

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
            self._end_chunk()
            self._wake()

    def put(self, thread: Thread, entry: Entry, size: int) -> None:
        """Put a record of ``size`` bytes, which fits, into a chunk at the end."""
        self._trim()
        chunk = self.last
        if chunk is None or chunk.thread is not thread:
            self.last = None
            chunk = Chunk(thread)
            self._items.append(chunk)  # first: Ctrl-C may end the call anywhere
            self.last = chunk
        reserved = max(size, min(self.capacity // _CHUNKS, self._free(thread) // 2))
        self._fresh[thread] = self._fresh.get(thread, 0) + reserved
        self._fresh_total += reserved
        chunk.reserve(reserved)
        chunk.room -= size
        chunk.entries += entry

    def mark(self, marker: Marker) -> None:
        """Put ``marker`` at the end."""
        self._end_chunk()
        self._items.append(marker)

    def _end_chunk(self) -> None:
        """Let no thread go on with its chunk."""
        self._trim()
        self.last = None

    def take(self) -> deque[Chunk | Marker]:
        """Take all chunks of threads that did not stall, and all markers."""
        with self.lock:
            self._end_chunk()
            items, self._items = self._items, deque()
            self._fresh_total = 0
            self._fresh = {}
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
            self._stalled_bytes[item.thread] += item.size
            self._stalled_total += item.size
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
