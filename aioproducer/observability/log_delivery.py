"""Log records on their way to a producer: a queue, and the senders that empty it.

The queue is bounded, counts, and drops records when there is no room. A sender puts its records
into a producer by a thread, or on an event loop.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import Context
from queue import Empty, SimpleQueue
from threading import Thread, current_thread, local
from time import monotonic
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from aioproducer import producer, sync
from aioproducer.config import ProducerConfig
from aioproducer.errors import BufferExhaustedError, ProducerError
from aioproducer.foundation.logs import counted
from aioproducer.foundation.runtime.forks import AtExit
from aioproducer.model import Headers

DropPolicy: TypeAlias = Literal["newest", "oldest"]

_REPORT_INTERVAL: Final = 60.0
"""Seconds between lines on standard error."""


class LogEntry(NamedTuple):
    """A formatted log record."""

    value: Any
    key: str | bytes | None
    headers: Headers | None
    timestamp_ms: int


class LogQueue:
    """Takes entries from any thread and never blocks; one reader takes them out.

    There is no lock: see :mod:`aioproducer.foundation.runtime.threads`. Signal handlers and
    finalizers log, too. An entry is *outstanding* until it is settled: delivered, failed or
    dropped. Dropped records are counted, and reported on standard error at most once a minute.
    ``topic``: for that line.
    """

    def __init__(
        self, topic: str, capacity: int, drop: DropPolicy, clock: Callable[[], float]
    ) -> None:
        self.dropped = 0
        """Entries that were dropped, or that could not be delivered."""
        self._topic = topic
        self._capacity = capacity
        self._drop = drop
        self._clock = clock
        self._reader_waits = False
        self._news: SimpleQueue[None] = SimpleQueue()
        """Wakes the reader that waits."""
        self._flushing: dict[SimpleQueue[None], None] = {}
        """Wakes those who wait until nothing is outstanding."""
        self._entries: deque[LogEntry] = deque()
        self._outstanding = 0
        self._closed = False
        self._over = False
        """True once the rest was dropped."""
        self._told_dropped = 0
        self._told_at: float | None = None
        self._why = ""
        self._closing = False
        """True while the handler is being closed."""

    def put(self, entry: LogEntry) -> bool:
        """Add ``entry``, or drop one by the policy; True if the reader has to be woken."""
        if self._closed:
            self.lose(1, "the handler is closed")
            return False
        if len(self._entries) >= self._capacity:
            self.lose(1, f"{counted(self._capacity, 'record')} in the queue for the producer")
            if self._drop == "newest":
                return False
            dropped = len(self.take(1))
            self._outstanding -= dropped  # no call between, here and below
        self._outstanding += 1
        is_first = not self._entries
        self._entries.append(entry)
        if self._over:  # the end may have missed it
            self._drop_rest()
            return False
        if self._reader_waits:
            self._news.put(None)
        return is_first

    def take(self, most: int) -> list[LogEntry]:
        """Take up to ``most`` entries, without a wait."""
        taken: list[LogEntry] = []
        with suppress(IndexError):
            while len(taken) < most:
                taken.append(self._entries.popleft())
        return taken

    def wait(self) -> bool:
        """Block until there are entries; False: there are none, and none will come."""
        self._reader_waits = True
        while not self._entries and not self._closed:
            self._news.get()
        self._reader_waits = False
        return bool(self._entries)

    def put_back(self, entries: list[LogEntry]) -> None:
        """Put entries that were taken at the front again."""
        self._entries.extendleft(reversed(entries))

    def settled(self, error: BaseException | None = None) -> None:
        """One entry that was taken was delivered, or failed with ``error``."""
        self._outstanding -= 1
        if error is not None:
            self.lose(1, str(error) or type(error).__name__)
        self._tell_flushing()

    def _tell_flushing(self) -> None:
        if not self._outstanding:
            for each in self._flushing.copy():
                each.put(None)

    def lose(self, count: int, why: str) -> None:
        """Count entries that were not taken in, or not delivered."""
        self.dropped += count
        self._why = why
        now = self._clock()
        if self._closing:  # one line reports the rest
            return
        if self._told_at is None or now - self._told_at >= _REPORT_INTERVAL:
            self._told_at = now
            self._tell()

    def _tell(self) -> None:
        count, self._told_dropped = self.dropped - self._told_dropped, self.dropped
        records = "record was" if count == 1 else "records were"
        line = (
            f"aioproducer: {count} log {records} not sent to topic {self._topic!r}: {self._why}\n"
        )
        stream = sys.stderr
        if stream is not None:
            try:
                stream.write(line)
            except (OSError, ValueError, RuntimeError):  # nobody reads it; closed; reentrant
                return

    def flush(self, timeout: float) -> bool:
        """Wait until no entry is outstanding; False: ``timeout`` seconds were not enough."""
        end = monotonic() + timeout
        told: SimpleQueue[None] = SimpleQueue()
        self._flushing[told] = None
        try:
            while self._outstanding:
                told.get(timeout=max(0.0, end - monotonic()))
        except Empty:
            return not self._outstanding
        finally:
            del self._flushing[told]
        return True

    def close(self) -> None:
        """Take no more entries. The reader still gets those that are here."""
        self._closed = self._closing = True
        self._news.put(None)

    def tell_rest(self) -> None:
        """Drop what is left, and report the count that was not reported yet."""
        self._over = True
        self._drop_rest()
        self._closing = False
        if self.dropped > self._told_dropped:
            self._tell()

    def _drop_rest(self) -> None:
        if left := len(self.take(sys.maxsize)):
            self._outstanding -= left
            self.lose(left, "the handler was closed before they were sent")
            self._tell_flushing()


_AT_ONCE: Final = 500
"""Records after which an event loop may run other tasks."""

_PAUSE: Final = 0.1
"""Seconds until a producer without room is tried again."""

_JOIN: Final = 5.0
"""Seconds for a thread to end."""

OWN_THREADS: Final = "aioproducer-"
"""The prefix of the names of this library's threads."""

_busy = local()


class Quiet:
    """A block in which log records of the present thread are not sent to Kafka."""

    def __enter__(self) -> None:
        self._before = is_quiet()
        _busy.quiet = True

    def __exit__(self, *_: object) -> None:
        _busy.quiet = self._before


def is_quiet() -> bool:
    """True inside of a :class:`Quiet` block, and in threads of this library."""
    return getattr(_busy, "quiet", False) or current_thread().name.startswith(OWN_THREADS)


def _untraced() -> AbstractContextManager[None]:
    """A block in which records are sent without a trace.

    An exporter of traces may log. With a trace for each log record, that would never end.
    """
    utils = sys.modules.get("opentelemetry.instrumentation.utils")
    return nullcontext() if utils is None else utils.suppress_instrumentation()


class LogSender(Protocol):
    """Takes entries out of a queue and sends them."""

    def wake(self) -> None:
        """Entries are in the queue. It never blocks."""

    @property
    def may_wait(self) -> bool:
        """False if the calling thread is the one that has to send."""

    def close(self, timeout: float) -> None:
        """End within about ``timeout`` seconds, when the queue is closed."""


class ThreadSender:
    """Sends in a thread of its own, by a blocking producer.

    ``given``: the user's producer, which stays open; else ``config`` makes one, in each process.
    ``on_exit`` is called at the interpreter's exit.
    """

    def __init__(
        self,
        topic: str,
        queue: LogQueue,
        given: sync.Producer | None,
        config: ProducerConfig | None,
        on_exit: Callable[[], None],
    ) -> None:
        self._topic = topic
        self._queue = queue
        self._given = given
        self._own = None if config is None else sync.Producer(config)
        self._on_exit = on_exit
        self._exit: AtExit | None = None
        self._thread: Thread | None = None

    @property
    def may_wait(self) -> bool:
        return not is_quiet()

    def wake(self) -> None:
        if self._thread is None:
            thread = Thread(target=self._run, name=f"{OWN_THREADS}log-handler", daemon=True)
            try:
                self._exit = self._exit or AtExit(self._on_exit)
                thread.start()
            except RuntimeError:  # the interpreter exits
                return
            self._thread = thread

    def _run(self) -> None:
        sending = self._own or self._given
        assert sending is not None
        failure: BaseException | None = None
        try:
            if self._own is not None:
                self._own.start(close_at_exit=False)
        except (ProducerError, RuntimeError) as error:  # RuntimeError: the interpreter exits
            failure = error
        while self._queue.wait():
            with _untraced():
                for entry in self._queue.take(_AT_ONCE):
                    if failure is None:
                        self._send(sending, entry)
                    else:
                        self._queue.settled(failure)

    def _send(self, sending: sync.Producer, entry: LogEntry) -> None:
        try:
            future = sending.send(
                self._topic,
                entry.value,
                key=entry.key,
                headers=entry.headers,
                timestamp_ms=entry.timestamp_ms,
            )
        except Exception as error:  # also of a user's hook: the other records are sent
            self._queue.settled(error)
        else:
            future.add_done_callback(self._ended)

    def _ended(self, future: Future[Any]) -> None:
        self._queue.settled(None if future.cancelled() else future.exception())

    def close(self, timeout: float) -> None:
        if self._exit is not None:
            self._exit.cancel()
        if self._own is not None:
            self._own.close(timeout)
        if self._thread is not None and self.may_wait:
            self._thread.join(_JOIN)


class LoopSender:
    """Sends on the event loop of the user's producer, which stays open."""

    def __init__(self, topic: str, queue: LogQueue, given: producer.Producer) -> None:
        self._topic = topic
        self._queue = queue
        self._producer = given
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()

    @property
    def may_wait(self) -> bool:
        try:
            return asyncio.get_running_loop() is not self._loop
        except RuntimeError:
            return self._loop.is_running()

    def wake(self) -> None:
        if os.getpid() != self._process:
            self._fail_all("the producer was made in another process (before a fork)")
            return
        try:
            # Not in the context of this caller: the entries of others are sent along.
            self._loop.call_soon_threadsafe(self._send_some, context=Context())
        except RuntimeError:
            self._fail_all("the producer's event loop is closed")

    def _fail_all(self, why: str) -> None:
        while entries := self._queue.take(_AT_ONCE):
            for _ in entries:
                self._queue.settled(ProducerError(why))

    def _send_some(self) -> None:
        with Quiet(), _untraced():
            entries = self._queue.take(_AT_ONCE)
            for place, entry in enumerate(entries):
                try:
                    future = self._producer.send(
                        self._topic,
                        entry.value,
                        key=entry.key,
                        headers=entry.headers,
                        timestamp_ms=entry.timestamp_ms,
                    )
                except BufferExhaustedError:
                    self._queue.put_back(entries[place:])
                    self._loop.call_later(_PAUSE, self._send_some)
                    return
                except Exception as error:  # also of a user's hook: the other records are sent
                    self._queue.settled(error)
                else:
                    future.add_done_callback(self._ended)
            if entries:
                self._loop.call_soon(self._send_some)

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self._queue.settled(None if future.cancelled() else future.exception())

    def close(self, timeout: float) -> None:
        """Nothing is left to end: the producer is the user's."""
