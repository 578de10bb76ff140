"""Records on their way from threads to an event loop: bounded, in order, and fair to each thread.

Records of all threads keep the order of their arrival, with one exception: if a thread has to wait
for room, its later records *stall*, and the records of other threads overtake them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from threading import Condition, Lock, Thread
from typing import Any, NamedTuple


class Item(NamedTuple):
    """One record, with the thread it comes from."""

    record: tuple[Any, ...]
    """The arguments of ``put()``, without the future."""
    future: Any
    thread: Thread
    size: int


class Marker:
    """Resolves ``future`` when all earlier items have left, stalled or not."""

    def __init__(self, future: Future[None]) -> None:
        self.future = future
        self._missing = 1

    def stall(self) -> None:
        """Count one more queue in which earlier items are left."""
        self._missing += 1

    def reached(self) -> None:
        """Count one queue that all earlier items have left."""
        self._missing -= 1
        if not self._missing and self.future.set_running_or_notify_cancel():
            self.future.set_result(None)

    def fail(self, error: Exception) -> None:
        """Fail the future: the marker will not be reached any more."""
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class Inbox:
    """Holds items of up to ``capacity`` bytes, and as many stalled ones; one may be larger.

    Each thread may use as much of the room for stalled items as the others leave free, so there is
    always room for one more thread. :attr:`lock` guards the whole inbox.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.lock = Lock()
        self._fresh_total = self._stalled_total = 0
        self._items: deque[Item | Marker] = deque()
        self._fresh: dict[Thread, int] = {}
        """Bytes by thread, of items that were not taken yet."""
        self._stalled: dict[Thread, deque[Item | Marker]] = {}
        self._stalled_bytes: dict[Thread, int] = {}
        self._waiting: dict[Thread, tuple[int, Condition]] = {}
        """Threads that wait for room, and the bytes that they wait for."""
        self._closed = False

    @property
    def held(self) -> int:
        """Bytes of all items, stalled or not."""
        return self._fresh_total + self._stalled_total

    def fits(self, thread: Thread, size: int) -> bool:
        """True if ``thread`` may put a record of ``size`` bytes here."""
        fresh = self._fresh.get(thread, 0)
        if thread in self._stalled:
            own = fresh + self._stalled_bytes[thread]
            return not own or own + size <= self.capacity - self._stalled_total - fresh
        return not fresh or size <= self.capacity - self._fresh_total

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
        """Wake all threads that wait, and let none wait any more."""
        with self.lock:
            self._closed = True
            self._wake()

    def put(self, item: Item | Marker) -> bool:
        """Put ``item`` at the end; True if it is the only one."""
        if isinstance(item, Item):
            self._fresh[item.thread] = self._fresh.get(item.thread, 0) + item.size
            self._fresh_total += item.size
        self._items.append(item)
        return len(self._items) == 1

    def take(self) -> deque[Item | Marker]:
        """Take all items that did not stall."""
        with self.lock:
            items, self._items = self._items, deque()
            self._fresh_total = 0
            self._fresh = {}
            self._wake()
        return items

    def stalled(self, thread: Thread) -> Sequence[Item | Marker]:
        """The items from ``thread`` that have to wait."""
        return self._stalled.get(thread, ())

    # --- in the event loop's thread ----------------------------------------------------------

    def stall(self, thread: Thread) -> None:
        """Let items from ``thread`` wait until :meth:`resume` has given all of them back."""
        with self.lock:
            if thread not in self._stalled:
                self._stalled[thread] = deque()
                self._stalled_bytes[thread] = 0

    def keep(self, item: Item | Marker) -> bool:
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

    def resume(self, thread: Thread) -> Iterator[Item | Marker]:
        """The stalled items, one after the other; after the last, ``thread`` stalls no more."""
        items = self._stalled[thread]
        while items:
            item = items.popleft()
            if isinstance(item, Item):
                with self.lock:
                    self._stalled_bytes[thread] -= item.size
                    self._stalled_total -= item.size
                    self._wake()
            yield item
        with self.lock:
            del self._stalled[thread], self._stalled_bytes[thread]
            self._wake()

    def take_rest(self) -> deque[Item | Marker]:
        """Take everything, stalled or not."""
        rest: deque[Item | Marker] = deque()
        for items in self._stalled.values():
            rest.extend(items)
        with self.lock:
            self._stalled.clear()
            self._stalled_bytes.clear()
            self._stalled_total = 0
        rest.extend(self.take())
        return rest
