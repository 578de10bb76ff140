"""Records on their way from threads to an event loop: bounded, in order, and fair to each thread.

:class:`InboxWriter` is the part of a blocking producer's ``send()`` that runs in the caller's
thread.

The loop takes all records at once. Records that one thread sent without another's between them make
a *chunk*. Records of all threads keep the order of their arrival, with one exception: if a thread
has to wait for room in the batches, its chunks *stall*, and the chunks of other threads overtake
them.

There is no lock (:mod:`aioproducer.foundation.runtime.threads`). A record enters by one ``+=`` of
a list, and the loop's thread takes the whole list by putting an empty one in its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from queue import Empty, SimpleQueue
from threading import Thread, current_thread
from time import monotonic
from typing import Any, Final, NoReturn, Protocol, TypeAlias

from aioproducer.engine.core.arguments import NO_VALUE, given_record
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.sending import TakenRecord, utf8
from aioproducer.engine.records import acceleration
from aioproducer.engine.records.acceleration import hide
from aioproducer.engine.records.builder import header_bytes
from aioproducer.engine.records.routes import ENTRY
from aioproducer.serialization.serializer import SharedHeaders, shared_headers
from aioproducer.sync.record_future import RecordFuture
from aioproducer.sync.record_outcome import Outcomes

Entry: TypeAlias = tuple[Any, Any, Any, Any, Any, Any, Any, Any]
"""A future, the fields of its record, and the wall clock's nanoseconds of its ``send()``."""
EntryOfThread: TypeAlias = tuple[Any, Any, Any, Any, Any, Any, Any, Any, int, Thread]
"""An entry, the bytes of its record, and the thread that sent it."""

_SIZE: Final = 8
_THREAD: Final = 9
"""The places after an entry's fields: the bytes of a record, and the thread that sent it."""


class Chunk:
    """Records that one thread sent one after the other."""

    __slots__ = ("entries", "passed", "thread")

    def __init__(self, thread: Thread, entries: list[Any]) -> None:
        self.thread = thread
        self.entries = entries
        """The records with their futures, each in the next places: see :data:`ENTRY`."""
        self.passed = 0
        """The number of records that the loop has passed on."""

    def __len__(self) -> int:
        return len(self.entries) // ENTRY

    @property
    def size(self) -> int:
        """Bytes of all records, passed on or not."""
        return sum(self.entries[_SIZE::ENTRY])

    def entry(self, place: int) -> Entry:
        """A future and its record."""
        first = place * ENTRY
        entry: Entry = tuple(self.entries[first : first + _SIZE])
        return entry


class _Answer(Protocol):
    """A future of the loop."""

    def done(self) -> bool: ...
    def set_result(self, result: None, /) -> None: ...
    def set_exception(self, error: Exception, /) -> None: ...
    def exception(self) -> BaseException | None: ...


class Marker:
    """Resolves ``future`` when all earlier records have left, stalled or not."""

    def __init__(self, future: _Answer) -> None:
        self._future = future
        self._missing = 1

    def stall(self) -> None:
        """Count one more queue in which earlier records are left."""
        self._missing += 1

    def reached(self) -> None:
        """Count one queue that all earlier records have left."""
        self._missing -= 1
        if not self._missing and not self._future.done():
            self._future.set_result(None)

    def fail(self, error: Exception) -> None:
        """Fail the future: the marker will not be reached any more."""
        if not self._future.done():
            self._future.set_exception(error)
            self._future.exception()  # nobody has to look at it


class _Stall:
    """The chunks of a thread that wait, and the bytes that count for them."""

    __slots__ = ("fresh", "items", "size")

    def __init__(self, fresh: int) -> None:
        self.items: deque[Chunk | Marker] = deque()
        self.size = 0
        """Bytes of the chunks."""
        self.fresh = fresh
        """Bytes of records that the thread has entered since the last take; at first too many."""


class Inbox:
    """Holds records of up to ``capacity`` bytes, and as many stalled ones; one may be larger.

    Each thread may use as much of the room for stalled records as the others leave free, so there
    is always room for one more thread.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.takes = 0
        """The number of takes. A record that enters after a take waits for the next one."""
        self.entries: list[Any] = _unseen_list()
        """The records in the order of their arrival; a marker is in the place of a thread. Make an
        entry first, and add it without a call between: else the loop may have taken the list."""
        self._fresh = 0
        """Bytes of the records. A record that enters during a take may not count."""
        self._stalled: dict[Thread, _Stall] = {}
        self._stalled_total = 0
        self._waiting: dict[SimpleQueue[None], tuple[Thread, int]] = {}
        """Threads that wait for room, and the bytes that they wait for."""
        self._closed = False

    # --- in any thread -----------------------------------------------------------------------

    def fits(self, thread: Thread, size: int) -> bool:
        """True if ``thread`` may put a record of ``size`` bytes here."""
        if self._stalled and (stall := self._stalled.get(thread)) is not None:
            room = self.capacity - self._stalled_total - stall.size - 2 * stall.fresh
            return size <= room or not stall.size + stall.fresh
        if self._fresh + size <= self.capacity:
            return True
        # No slice: in Python 3.11, finalizers run as a slice allocates its list. If another thread
        # enters records meanwhile, the slice reads freed memory.
        return thread not in islice(self.entries, _THREAD, None, ENTRY)

    def wait(self, thread: Thread, size: int, timeout: float | None) -> bool:
        """Wait until a record of ``size`` bytes fits; False: it never did. The loop must be awake.

        A thread wakes only when there is room for it: others would take the interpreter from the
        loop.
        """
        deadline = None if timeout is None else monotonic() + timeout
        left = timeout
        told: SimpleQueue[None] = SimpleQueue()
        self._waiting[told] = thread, size
        try:
            while not (self._closed or self.fits(thread, size)):
                told.get(timeout=left)
                left = None if deadline is None else max(0.0, deadline - monotonic())
        except Empty:
            return self._closed or self.fits(thread, size)
        finally:
            del self._waiting[told]
        return True

    def put(self, entry: EntryOfThread) -> bool:
        """Put a record at the end; False: it does not fit."""
        size: int
        size, thread = entry[_SIZE], entry[_THREAD]
        if (self._stalled or self._fresh + size > self.capacity) and not self.fits(thread, size):
            return False
        self._fresh += size
        if self._stalled and (stall := self._stalled.get(thread)) is not None:
            stall.fresh += size
        self.entries += entry
        return True

    # --- in the event loop's thread ----------------------------------------------------------

    def mark(self, marker: Marker) -> None:
        """Put ``marker`` at the end."""
        entry = (*(None,) * _THREAD, marker)
        self.entries += entry

    def close(self) -> None:
        """Wake all threads that wait, and let none wait any more."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting:
            for told, (thread, size) in self._waiting.copy().items():
                if self._closed or self.fits(thread, size):
                    told.put(None)

    def take(self) -> deque[Chunk | Marker]:
        """Take all chunks of threads that did not stall, and all markers."""
        self.takes += 1
        self._fresh = 0
        for stall in self._stalled.values():
            stall.fresh = 0
        taken = self._take_entries()
        self._wake()
        return deque(_chunks(taken))

    def _take_entries(self) -> list[Any]:
        """All entries."""
        fresh = _unseen_list()
        taken, self.entries = self.entries, fresh  # no call between
        return taken

    def stalled(self, thread: Thread) -> Sequence[Chunk | Marker]:
        """The chunks of ``thread`` that have to wait."""
        stall = self._stalled.get(thread)
        return () if stall is None else stall.items

    def stall(self, thread: Thread) -> None:
        """Let chunks of ``thread`` wait until :meth:`resume` has given all of them back."""
        if thread not in self._stalled:
            self._stalled[thread] = _Stall(self._fresh)

    def keep(self, item: Chunk | Marker) -> bool:
        """Keep a taken item that has to wait; False: the item need not wait."""
        if not self._stalled:
            return False
        if isinstance(item, Marker):
            for stall in self._stalled.values():
                item.stall()
                stall.items.append(item)
            return False
        of_thread = self._stalled.get(item.thread)
        if of_thread is None:
            return False
        of_thread.items.append(item)
        of_thread.size += item.size
        self._stalled_total += item.size
        return True

    def resume(self, thread: Thread) -> Iterator[Chunk | Marker]:
        """The stalled items, one after the other; after the last, ``thread`` stalls no more.

        An item stays here until the next one is asked for. There are none if :meth:`take_rest` has
        taken them.
        """
        stall = self._stalled.get(thread)
        if stall is None:
            return
        while stall.items:
            yield stall.items[0]
            item = stall.items.popleft()
            if isinstance(item, Chunk):
                stall.size -= item.size
                self._stalled_total -= item.size
                self._wake()
        del self._stalled[thread]
        self._wake()

    def take_rest(self) -> deque[Chunk | Marker]:
        """Take everything, stalled or not."""
        rest: deque[Chunk | Marker] = deque()
        for stall in self._stalled.values():
            rest.extend(stall.items)
        self._stalled.clear()
        self._stalled_total = 0
        rest.extend(self.take())
        return rest


def _unseen_list() -> list[Any]:
    """A list that the collector does not visit: that would cost more than all the records do."""
    unseen: list[Any] = []
    hide(unseen)
    return unseen


def _chunks(entries: list[Any]) -> Iterator[Chunk | Marker]:
    """The records of each thread, as long as no other thread's are between them; the markers."""
    senders = entries[_THREAD::ENTRY]
    if senders and not isinstance(senders[0], Marker) and senders.count(senders[0]) == len(senders):
        yield Chunk(senders[0], entries)
        return
    first = 0
    for sender, places in groupby(senders):
        if isinstance(sender, Marker):
            yield sender
            first += ENTRY
            continue
        last = first + ENTRY * sum(1 for _ in places)
        yield Chunk(sender, entries[first:last])
        first = last


this_thread = acceleration.speedups.this_thread if acceleration.ACCELERATED else current_thread
"""``threading.current_thread()``; compiled, a call costs a third."""
_BOOKKEEPING: Final = 512  # bytes that a record in the inbox takes in addition to its content


class InboxOwner(Protocol):
    """The event loop's thread, as :class:`InboxWriter` needs it."""

    def wake(self) -> None:
        """Let the pump look into the inbox."""

    def wait_for_room(self, thread: Thread, size: int, timeout: float | None) -> None:
        """Wait until a record of ``size`` bytes fits. Raises BufferExhaustedError."""

    def refuse(self) -> NoReturn:
        """Raise the reason for which the producer takes no records."""


class InboxWriter:
    """The way of records into ``inbox``, while it is open. Any thread may use it.

    The caller's thread makes bytes of everything that can change later.
    """

    def __init__(
        self, inbox: Inbox, owner: InboxOwner, outcomes: Outcomes, core: ProducerCore
    ) -> None:
        self.is_open = False
        self._inbox = inbox
        self._owner = owner
        self._outcomes = outcomes
        self._core = core
        self._takes_all: bool = bool(core.hooks.interceptors) or bool(core.hooks.serializers)
        """True: hooks see every record in the caller's thread."""
        self._wall_clock_ns = core.wall_clock_ns
        self._max_block = core.config.max_block_ms / 1000
        """Seconds that ``send()`` blocks, as in ``KafkaProducer.doSend()``: ``delivery_timeout_ms``
        bounds only the time after it."""
        self._woken: int = -1
        """The takes of the inbox before the last call of the pump."""

    def send(
        self, topic: Any, value: Any, key: Any, partition: Any, headers: Any, timestamp_ms: Any
    ) -> RecordFuture:
        """Put a record into the inbox; see :meth:`aioproducer.sync.Producer.send`."""
        future: RecordFuture = self._outcomes.future(RecordFuture)
        if value is NO_VALUE or type(topic) is not str:
            topic, value, key, partition, headers, timestamp_ms = given_record(
                topic, value, key, partition, headers, timestamp_ms
            )
        sent_ns = self._wall_clock_ns()
        self.enter(
            future, topic, value, key, partition, headers, timestamp_ms, sent_ns, self._max_block
        )
        return future

    def enter(
        self,
        future: Any,
        topic: Any,
        value: Any,
        key: Any,
        partition: Any,
        headers: Any,
        timestamp_ms: Any,
        sent_ns: int,
        timeout: float | None,
    ) -> None:
        """Put a record into the inbox, waiting ``timeout`` seconds for room there; None: for ever.

        Raises :class:`BufferExhaustedError`, or the error of a producer that takes no records.
        """
        if not self.is_open:
            self._owner.refuse()
        if not self._takes_all:
            if type(value) is str:
                value = utf8(value)
            if type(key) is str:
                key = utf8(key)
        if (
            self._takes_all
            or (value is not None and type(value) is not bytes)
            or (key is not None and type(key) is not bytes)
        ):
            fields = topic, value, key, partition, headers, timestamp_ms
            self._enter_taken(future, fields, None, sent_ns, timeout)
            return
        if headers is not None:
            try:
                headers = shared_headers(headers, topic)
            except Exception as error:
                fields = topic, value, key, partition, None, timestamp_ms
                self._enter_taken(future, fields, error, sent_ns, timeout)
                return
        size: int = _BOOKKEEPING
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        if headers is not None:
            size += len(header_bytes(headers))
        entry = (
            future, topic, value, key, partition, headers, timestamp_ms, sent_ns, size,
            this_thread(),
        )  # fmt: skip
        self._put(entry, timeout)

    def _enter_taken(
        self,
        future: Any,
        fields: Any,
        error: Exception | None,
        sent_ns: int,
        timeout: float | None,
    ) -> None:
        """Do :meth:`enter` for a record of objects that may change, or that hooks see.

        ``error``: of a record that can't be sent. The producer's thread sets it.
        """
        pipeline = self._core.pipeline
        taken = TakenRecord(fields)
        try:
            if error is not None:
                raise error
            pipeline.take(taken)
        except Exception as raised:
            taken.fail(raised)
        topic, value, key, partition, headers, timestamp_ms = taken.fields
        headers = SharedHeaders(headers) if headers else None
        if taken.error is not None or taken.is_unserialized or taken.original is not None:
            value = taken
        entry = (
            future, topic, value, key, partition, headers, timestamp_ms, sent_ns,
            _BOOKKEEPING + taken.size, this_thread(),
        )  # fmt: skip
        try:
            self._put(entry, timeout)
        except BaseException as raised:
            pipeline.refused(taken, raised)
            raise

    def _put(self, entry: EntryOfThread, timeout: float | None) -> None:
        """Put an entry into the inbox, waiting for room there."""
        inbox: Inbox = self._inbox
        while not inbox.put(entry):
            self._wake()
            self._owner.wait_for_room(entry[_THREAD], entry[_SIZE], timeout)
            if not self.is_open:
                self._owner.refuse()
        if inbox.takes != self._woken:
            self._wake()
        if not self.is_open and entry[0].cancel():  # the end may have missed it
            self._owner.refuse()

    def _wake(self) -> None:
        takes: int = self._inbox.takes
        self._owner.wake()
        self._woken = takes  # afterwards: an interrupt may come between
