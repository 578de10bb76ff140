"""The ways of log records from their queue into a producer: by a thread, or on an event loop."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from threading import Thread, current_thread, local
from typing import Any, Final, Protocol

from aioproducer import producer, sync
from aioproducer.config import ProducerConfig
from aioproducer.errors import BufferExhaustedError, ProducerError
from aioproducer.foundation.runtime.forks import AtExit
from aioproducer.observability.log_queue import LogEntry, LogQueue

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
