"""Log records on their way to a producer: bounded, counted, and dropped when there is no room."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from aioproducer.foundation.logs import counted
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
