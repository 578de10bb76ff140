"""The part of a blocking producer's ``send()`` that runs in the caller's thread.

There is no lock: see :mod:`aioproducer.foundation.runtime.threads`.
"""

from __future__ import annotations

from threading import Thread, current_thread
from typing import Any, Final, NoReturn, Protocol

from aioproducer.engine.core.arguments import NO_VALUE, given_record
from aioproducer.engine.core.fast_path import utf8
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.send_pipeline import TakenRecord
from aioproducer.engine.records import acceleration
from aioproducer.serialization import SharedHeaders, shared_headers
from aioproducer.sync.inbox import EntryOfThread, Inbox
from aioproducer.sync.record_future import RecordFuture
from aioproducer.sync.record_outcome import Outcomes

this_thread = acceleration.speedups.this_thread if acceleration.ACCELERATED else current_thread
"""``threading.current_thread()``; compiled, a call costs a third."""
_BOOKKEEPING: Final = 512  # bytes that a record in the inbox takes in addition to its key and value
_SIZE: Final = 8
_THREAD: Final = 9


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
        if taken.error is not None or taken.waits or taken.original is not None:
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
