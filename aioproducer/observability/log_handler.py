"""A handler for the standard library's logging that sends log records to a topic.

:class:`JsonFormatter` formats log records as JSON objects, one line each.
"""

from __future__ import annotations

import json
import logging
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, Unpack

from aioproducer import producer, sync
from aioproducer.config import ProducerConfig, ProducerOptions, hide_secrets
from aioproducer.engine.client.arguments import check_timeout, checked_topic
from aioproducer.engine.client.environment import SYSTEM
from aioproducer.errors import ConfigError
from aioproducer.foundation import logs
from aioproducer.foundation.runtime import forks
from aioproducer.model import Headers
from aioproducer.observability.log_delivery import (
    DropPolicy,
    LogEntry,
    LogQueue,
    LogSender,
    LoopSender,
    Quiet,
    ThreadSender,
    is_quiet,
)

__all__ = ["JsonFormatter", "KafkaHandler"]

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: time, level, logger, message, and the fields of ``extra``.

    A value that JSON does not have becomes its text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The JSON object of ``record``."""
        created = datetime.fromtimestamp(record.created, UTC)
        told: dict[str, Any] = {
            "timestamp": created.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            "thread": record.threadName,
        }
        for name, value in vars(record).items():
            if name not in _STANDARD:
                told.setdefault(name, value)
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            told["exception"] = record.exc_text
        if record.stack_info:
            told["stack"] = self.formatStack(record.stack_info)
        try:
            return _json(told)
        except _NOT_JSON:
            return _json({name: _legal(value) for name, value in told.items()})


_NOT_JSON: Final = (TypeError, ValueError, RecursionError)
"""The errors of keys of other types, NaN, and cycles."""


def _json(value: object) -> str:
    return json.dumps(value, default=str, ensure_ascii=False, allow_nan=False)


def _legal(value: object) -> object:
    """``value``, or its text if JSON does not have it."""
    try:
        _json(value)
    except _NOT_JSON:
        return str(value)
    return value


KeyOf: TypeAlias = Callable[[logging.LogRecord], str | bytes | None]
HeadersOf: TypeAlias = Callable[[logging.LogRecord], Headers | None]

_OURS: Final = "aioproducer"
"""The logger whose records are never sent: each record sent could make another one."""

_CLIENT_ID: Final = "log-handler"


class KafkaHandler(logging.Handler):
    """Sends log records to ``topic``, from any thread, inside and outside of event loops.

    ::

        logging.getLogger().addHandler(KafkaHandler("logs", bootstrap_servers="localhost:9092"))

    ``emit()`` formats the record, puts it into a bounded queue, and never waits. A record is
    dropped if the queue is full, or if the producer can't deliver it. :attr:`dropped` counts these
    records, and at most once a minute a line goes to standard error. Records of this library are
    never sent, nor are those that other libraries emit in its tasks and threads.

    Args:
        topic: the topic.
        producer: an :class:`aioproducer.sync.Producer`, or an :class:`aioproducer.Producer` if the
            handler is created on its event loop. You close it. None: the handler creates its own
            producer from the other keywords, which are options of
            :class:`aioproducer.ProducerConfig`, and closes it.
        key: the name of an attribute of log records whose value is the key, such as ``name``; or
            a function of the log record; None: no key.
        headers: the headers of each record, or a function of the log record.
        capacity: the maximum number of records in the queue.
        drop: which record to drop when the queue is full: the ``newest`` or the ``oldest``.
        flush_timeout: the maximum number of seconds that ``flush()``, ``close()`` and the
            interpreter's exit wait until all records are delivered.

    The formatter produces the value: a str is sent as UTF-8, any other object goes to the
    producer's ``value_serializer``. The default formatter is :class:`JsonFormatter`.

    Raises:
        ConfigError: an option is wrong, or both ``producer`` and producer options are given.
        InvalidTopicError: brokers do not accept this topic name.
    """

    def __init__(
        self,
        topic: str,
        producer: producer.Producer | sync.Producer | None = None,
        *,
        key: str | KeyOf | None = None,
        headers: Mapping[str, str | bytes | None] | HeadersOf | None = None,
        capacity: int = 10_000,
        drop: DropPolicy = "newest",
        flush_timeout: float = 5.0,
        level: int | str = logging.NOTSET,
        **options: Unpack[ProducerOptions],
    ) -> None:
        hide_secrets(options)
        self.level = logging.NOTSET  # a traceback with an error of the options shows it
        _check(producer, options, key, headers, capacity, drop, flush_timeout)
        self.topic = checked_topic(topic)
        self._config = None
        if producer is None:
            options.setdefault("client_id", _CLIENT_ID)
            self._config = ProducerConfig(**options)
        super().__init__(level)  # logging flushes it from now on
        self.flush_timeout = flush_timeout
        self._capacity = capacity
        self._drop: DropPolicy = drop
        self._key = key
        self._headers = _fixed(headers)
        self.formatter = JsonFormatter()
        self._producer = producer
        self._closed = False
        self._begin()
        _LIVING.add(self)

    def _begin(self) -> None:
        """Make the queue and the sender of this process."""
        self._queue = LogQueue(self.topic, self._capacity, self._drop, SYSTEM.clock)
        self._sender: LogSender
        if isinstance(self._producer, producer.Producer):
            self._sender = LoopSender(self.topic, self._queue, self._producer)
        else:
            self._sender = ThreadSender(
                self.topic, self._queue, self._producer, self._config, self.close
            )

    @property
    def dropped(self) -> int:
        """The number of log records that were dropped, or that could not be delivered."""
        return self._queue.dropped

    # --- records ---------------------------------------------------------------------------

    def handle(self, record: logging.LogRecord) -> bool:
        """Pass ``record`` to :meth:`emit`, unless this library caused it.

        Such records do not even wait for the handler's lock: ``close()`` may hold it while it waits
        for the threads that emit them.
        """
        if _is_ours(record.name) or is_quiet() or logs.current() is not None:
            return False
        return bool(super().handle(record))

    def emit(self, record: logging.LogRecord) -> None:
        """Put ``record`` into the queue, or drop it."""
        with Quiet():
            try:
                entry = self._entry(record)
            except Exception:
                self.handleError(record)
                return
            if self._queue.put(entry):
                self._sender.wake()

    def _entry(self, record: logging.LogRecord) -> LogEntry:
        value: Any = self.format(record)
        if isinstance(value, str):
            value = value.encode("utf-8", "backslashreplace")
        key = self._key
        if isinstance(key, str):
            found = getattr(record, key, None)
            named = found if found is None or isinstance(found, bytes) else str(found)
        else:
            named = None if key is None else key(record)
        headers = self._headers(record) if callable(self._headers) else self._headers
        return LogEntry(value, named, headers, int(record.created * 1000))

    # --- the end ---------------------------------------------------------------------------

    def flush(self) -> None:
        """Wait until all records are delivered, for at most ``flush_timeout`` seconds.

        On the thread of an :class:`aioproducer.Producer` this does not wait, because that thread
        must send the records.
        """
        if self._sender.may_wait:
            self._queue.flush(self.flush_timeout)

    def close(self) -> None:
        """Deliver the queued records, within ``flush_timeout``, and stop. A second call does
        nothing."""
        if self._closed:
            return
        self._closed = True
        began = SYSTEM.clock()
        self._queue.close()
        left = 0.0  # after Ctrl-C
        try:
            self.flush()
            left = max(self.flush_timeout - (SYSTEM.clock() - began), 0.0)
        finally:
            self._sender.close(left)
            self._queue.tell_rest()
            super().close()

    def begin_after_fork(self) -> None:
        """Start again in a forked process: the parent sends the records in its own queue."""
        if self._closed:
            return
        if isinstance(self._producer, producer.Producer):
            self._queue = LogQueue(self.topic, self._capacity, self._drop, SYSTEM.clock)
            self._sender = _NoSender(self._queue)
        else:
            self._begin()


class _NoSender:
    """In place of an event loop that stayed in the parent process."""

    may_wait = False

    def __init__(self, queue: LogQueue) -> None:
        self._queue = queue

    def wake(self) -> None:
        self._queue.take(1)
        self._queue.settled(ConfigError("the producer was made in another process; make one here"))

    def close(self, timeout: float) -> None:
        """Nothing was begun."""


def _check(
    producer: object,
    options: Mapping[str, object],
    key: object,
    headers: object,
    capacity: object,
    drop: object,
    flush_timeout: object,
) -> None:
    """Raise ConfigError for an argument that would fail with each log record, or at the end."""
    if producer is not None and options:
        raise ConfigError(
            f"a producer and options of another one were given: {', '.join(sorted(options))}"
        )
    if producer is not None and not callable(getattr(producer, "send", None)):
        raise ConfigError(f"producer={producer!r} is not a producer")
    if type(capacity) is not int or capacity < 1:
        raise ConfigError(f"capacity={capacity!r}: the queue needs room for one record or more")
    if drop not in ("newest", "oldest"):
        raise ConfigError(f"drop={drop!r} is neither 'newest' nor 'oldest'")
    if flush_timeout is None:
        raise ConfigError("flush_timeout is a number of seconds from 0, not None")
    check_timeout(flush_timeout)
    if not (key is None or isinstance(key, str) or callable(key)):
        raise ConfigError(f"key={key!r} is neither the name of an attribute nor a function")
    if not (headers is None or callable(headers) or _are_headers(headers)):
        raise ConfigError(
            f"headers={headers!r} is neither a mapping of str to str, bytes or None, nor a function"
        )


def _are_headers(headers: object) -> bool:
    return isinstance(headers, Mapping) and all(
        isinstance(name, str) and (value is None or isinstance(value, str | bytes))
        for name, value in headers.items()
    )


def _is_ours(name: str) -> bool:
    return name == _OURS or name.startswith(f"{_OURS}.")


def _fixed(
    headers: Mapping[str, str | bytes | None] | HeadersOf | None,
) -> Headers | HeadersOf | None:
    if headers is None or callable(headers):
        return headers
    return [
        (name, value.encode() if isinstance(value, str) else value)
        for name, value in headers.items()
    ]


_LIVING: Final[weakref.WeakSet[KafkaHandler]] = weakref.WeakSet()


def _begin_after_fork() -> None:
    for handler in list(_LIVING):
        handler.begin_after_fork()


forks.in_child(_begin_after_fork)
