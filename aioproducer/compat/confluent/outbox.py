"""Events on their way from the event loop to the threads that poll.

The loop appends events, and any thread that calls ``poll()`` or ``flush()`` serves them, the oldest
first. There is no lock: see :mod:`aioproducer.foundation.runtime.locks`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from operator import length_hint
from queue import Empty, SimpleQueue
from time import monotonic, time_ns
from typing import Any, Final, Protocol

from aioproducer.compat.confluent.errors import KafkaError, record_error
from aioproducer.compat.confluent.message import TIMESTAMP_CREATE_TIME, Record
from aioproducer.model import RecordMetadata

__all__ = ["Call", "Outbox", "Outcome"]

_SLICE: Final = 0.2
"""Seconds after which a thread that waits looks around, if nobody wakes it."""


class _Event(Protocol):
    def serve(self) -> object:
        """Call the application."""


class Outcome:
    """The outcome of records of one batch, or of records that have failed together."""

    __slots__ = ("_error", "_outbox", "_records", "_results", "kind", "time_ns")

    def __init__(
        self,
        outbox: Outbox,
        records: Sequence[Record],
        results: Sequence[RecordMetadata | None],
        error: KafkaError | None,
        kind: int,
    ) -> None:
        self._outbox = outbox
        self._records = iter(records)
        self._results = iter(results)
        self._error = error
        self.kind = kind
        """The kind of the timestamps, a ``TIMESTAMP_`` number."""
        self.time_ns = time_ns()
        """The wall clock's nanoseconds at the outcome."""

    def serve(self) -> None:
        """Call the callbacks. If one raises, the records after it are served by the next call."""
        outbox, error = self._outbox, self._error
        silent = error is None and outbox.only_errors
        for record, result in zip(self._records, self._results, strict=False):
            callback = record.callback
            if callback is not None and not silent:
                record.report(self, error, result)
                try:
                    callback(error, record)
                except BaseException:
                    outbox.leave(record)
                    if length_hint(self._records):
                        outbox.events.appendleft(self)
                    raise
            outbox.served += 1  # no call between, here and below
            outbox.bytes_served += record.size


class Call:
    """A callback of the configuration with its argument."""

    __slots__ = ("_argument", "_callback")

    def __init__(self, callback: Callable[[Any], object], argument: Any) -> None:
        self._callback = callback
        self._argument = argument

    def serve(self) -> object:
        """Call it; the answer matters only to a callback that is asynchronous."""
        return self._callback(self._argument)


class Outbox:
    """Events for the application, and the count of records without a served outcome.

    ``only_errors``: callbacks hear of failed records alone.
    """

    def __init__(self, *, only_errors: bool) -> None:
        self.only_errors = only_errors
        self.events: deque[_Event] = deque()
        self.entered = 0
        """The number of records that ``produce()`` has taken."""
        self.served = 0
        """The number of records whose outcome was served."""
        self.bytes_entered = 0
        self.bytes_served = 0
        self.soon: Callable[[Callable[[], object]], object] | None = None
        """Calls something on the event loop soon; None: it does not run yet."""
        self._waiting: list[SimpleQueue[None]] = []
        self._failed: list[Record] = []
        self._reason: BaseException | None = None
        """The error of the failed records that are not an event yet."""

    # --- in any thread -----------------------------------------------------------------------

    def __len__(self) -> int:
        return self.entered - self.served

    @property
    def bytes(self) -> int:
        """Bytes of the records without a served outcome."""
        return self.bytes_entered - self.bytes_served

    def leave(self, record: Record) -> None:
        """Count a record whose outcome was served."""
        self.served += 1
        self.bytes_served += record.size

    def serve(self) -> int:
        """Serve the events that are here; returns their number."""
        served, events = 0, self.events
        while events:
            try:
                event = events.popleft()
            except IndexError:  # another thread took it
                break
            served += 1
            event.serve()
        return served

    def wait(self, deadline: float | None, *, until_empty: bool = False) -> bool:
        """Wait for an event until ``deadline`` of the monotonic clock; False: there is none.

        ``until_empty``: another thread that serves the last record also ends the wait.
        """
        told: SimpleQueue[None] = SimpleQueue()
        self._waiting.append(told)
        try:
            while not self.events and not (until_empty and not len(self)):
                left = _SLICE if deadline is None else min(_SLICE, deadline - monotonic())
                if left <= 0:
                    return False
                try:
                    told.get(timeout=left)
                except Empty:
                    continue
        finally:
            self._waiting.remove(told)
        return True

    # --- in the event loop's thread ------------------------------------------------------------

    def put(self, event: _Event) -> None:
        """Append ``event``, and wake the threads that wait."""
        self.events.append(event)
        if self._waiting:
            for told in self._waiting.copy():
                told.put(None)

    def delivered(
        self, records: Sequence[Record], results: Sequence[RecordMetadata], kind: int
    ) -> None:
        """Append the outcome of records that are in the log."""
        if self._failed:
            self.publish()
        self.put(Outcome(self, records, results, None, kind))

    def failed(self, record: Record, error: BaseException) -> None:
        """Note a failed record; :meth:`publish` makes an event of all with the same error."""
        if self._reason is not error and self._failed:
            self.publish()
        if not self._failed and self.soon is not None:
            self.soon(self.publish)
        self._reason = error
        self._failed.append(record)

    def publish(self) -> None:
        """Append the outcome of the records that have failed."""
        records, self._failed = self._failed, []
        reason, self._reason = self._reason, None
        if records and reason is not None:
            error = record_error(reason)
            nothing = [None] * len(records)
            self.put(Outcome(self, records, nothing, error, TIMESTAMP_CREATE_TIME))
