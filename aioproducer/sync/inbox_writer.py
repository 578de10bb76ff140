# cython: language_level=3, annotation_typing=False, binding=False, nonecheck=True
"""The part of a blocking producer's ``send()`` that runs in the caller's thread.

There is no lock: see :mod:`aioproducer.foundation.runtime.locks`.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread, current_thread
from typing import Any, Final, NoReturn, Protocol

from aioproducer.engine.core.arguments import NO_VALUE, given_record
from aioproducer.engine.records import acceleration
from aioproducer.sync.inbox import Inbox
from aioproducer.sync.record_future import RecordFuture
from aioproducer.sync.record_outcome import Outcomes

this_thread = acceleration.speedups.this_thread if acceleration.ACCELERATED else current_thread
"""``threading.current_thread()``; compiled, a call costs a third."""
_BOOKKEEPING: Final = 512  # bytes that a record in the inbox takes in addition to its key and value


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

    ``wall_clock_ns``: nanoseconds since the epoch. ``max_block``: seconds that :meth:`send` waits
    for room.
    """

    def __init__(
        self,
        inbox: Inbox,
        owner: InboxOwner,
        outcomes: Outcomes,
        wall_clock_ns: Callable[[], int],
        max_block: float,
    ) -> None:
        self.is_open = False
        self._inbox = inbox
        self._owner = owner
        self._outcomes = outcomes
        self._wall_clock_ns = wall_clock_ns
        self._max_block = max_block
        self._woken = -1
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
        size = _BOOKKEEPING
        if isinstance(value, (bytes, bytearray, str)):
            size += len(value)
        if isinstance(key, (bytes, bytearray, str)):
            size += len(key)
        thread, inbox = this_thread(), self._inbox
        entry = (
            future, topic, value, key, partition, headers, timestamp_ms, sent_ns, size, thread,
        )  # fmt: skip
        if not self.is_open:
            self._owner.refuse()
        while not inbox.put(entry):
            self._wake()
            self._owner.wait_for_room(thread, size, timeout)
            if not self.is_open:
                self._owner.refuse()
        if inbox.takes != self._woken:
            self._wake()
        if not self.is_open and future.cancel():  # the end may have missed it
            self._owner.refuse()

    def _wake(self) -> None:
        takes = self._inbox.takes
        self._owner.wake()
        self._woken = takes  # afterwards: an interrupt may come between
