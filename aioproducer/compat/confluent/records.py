"""What every record costs: ``produce()``, its outcome, and ``poll()``, which calls its callback.

The event loop appends events, and any thread that calls ``poll()`` or ``flush()`` serves them, the
oldest first. There is no lock: see :mod:`aioproducer.foundation.runtime.threads`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import get_ident, main_thread
from time import monotonic, time_ns
from typing import Any, Final, TypeAlias
from zlib import crc32

from aioproducer.compat.confluent.arguments import (
    as_bytes,
    deadline_seconds,
    header_pairs,
    name,
    timestamp_ms,
    whole,
)
from aioproducer.compat.confluent.errors import KafkaError, record_error
from aioproducer.compat.confluent.waiting import event_came
from aioproducer.engine.records.acceleration import RecordResults, hide, show
from aioproducer.engine.records.entry_token import EntryToken
from aioproducer.model import Header, RecordMetadata
from aioproducer.sync.inbox import Inbox

__all__ = [
    "EVERY_THREAD",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "DeliveryCallback",
    "Message",
    "Outbox",
    "Outcome",
    "RecordCalls",
    "delivered_message",
]

TIMESTAMP_NOT_AVAILABLE: Final = 0
"""There is no timestamp."""
TIMESTAMP_CREATE_TIME: Final = 1
"""The timestamp is that of ``produce()``."""
TIMESTAMP_LOG_APPEND_TIME: Final = 2
"""The timestamp is that of the broker."""

EVERY_THREAD: Final = main_thread()
"""The sender of all records: no thread is treated apart from the others."""

DeliveryCallback: TypeAlias = Callable[[KafkaError | None, "Message"], object]
"""``(error or None, message) -> ignored``."""

_PENDING: Final = "PENDING"
_FINISHED: Final = "FINISHED"
_MILLION: Final = 1_000_000
_NANO: Final = 1_000_000_000
_SHORT_MIN: Final = -(2**15)
_SHORT_MAX: Final = 2**15 - 1
_CLOSED: Final = "Producer has been closed"
_FULL: Final = "Local: Queue full"


class Message(EntryToken):
    """A record in a delivery report, or one that a test creates.

    All arguments are optional. ``timestamp`` is a pair of a ``TIMESTAMP_`` number and milliseconds
    since the epoch, ``latency`` is in seconds.

    Inside the producer it is the future of its record: the batch resolves it, only in the event
    loop's thread. From then on the threads that call ``poll()`` read it.
    """

    __slots__ = (
        "_callback",
        "_count",
        "_epoch",
        "_error",
        "_headers",
        "_key",
        "_kind",
        "_latency",
        "_offset",
        "_outbox",
        "_partition",
        "_sent_ns",
        "_size",
        "_time",
        "_topic",
        "_value",
    )

    _callback: DeliveryCallback | None
    _latency: float | None
    _offset: int | None
    _outbox: Outbox
    _partition: int | None
    _sent_ns: int
    _size: int

    def __init__(
        self,
        topic: str | None = None,
        partition: int = -1,
        offset: int = -1001,
        key: Any = None,
        value: Any = None,
        headers: Any = None,
        error: Any = None,
        timestamp: tuple[int, int] | None = None,
        latency: float = -1.0,
        leader_epoch: int = -1,
        delivery_count: int = -1,
    ) -> None:
        if not _SHORT_MIN <= delivery_count <= _SHORT_MAX:
            raise OverflowError("delivery_count must fit into 16 bits")
        self._topic = topic
        self._value = value
        self._key = key
        self._headers = headers
        self._error = error
        self._kind, self._time = (TIMESTAMP_NOT_AVAILABLE, 0) if timestamp is None else timestamp
        self._latency = latency if latency >= 0 else None
        self._partition = partition if partition >= 0 else None
        self._offset = offset if offset >= 0 else None
        self._epoch = leader_epoch if leader_epoch >= 0 else None
        self._count = delivery_count if delivery_count > 0 else None

    def topic(self) -> str | None:
        """The name of the topic."""
        return self._topic

    def partition(self) -> int | None:
        """The number of the partition."""
        return self._partition

    def offset(self) -> int | None:
        """The offset of the record in its partition."""
        return self._offset

    def key(self) -> Any:
        """The key."""
        return self._key

    def value(self) -> Any:
        """The value."""
        return self._value

    def headers(self) -> Any:
        """The headers; None in a delivery report, as with librdkafka."""
        return self._headers

    def error(self) -> KafkaError | None:
        """The error of the record; None: it was delivered."""
        error: KafkaError | None = self._error
        return error

    def timestamp(self) -> tuple[int, int]:
        """The kind of the timestamp, a ``TIMESTAMP_`` number, and milliseconds since the epoch."""
        return self._kind, self._time

    def latency(self) -> float | None:
        """Seconds from ``produce()`` to the delivery report."""
        return self._latency

    def leader_epoch(self) -> int | None:
        """The epoch of the leader; None: unknown."""
        return self._epoch

    def delivery_count(self) -> int | None:
        """How often a share group has received this record; None for other records."""
        return self._count

    def set_topic(self, topic: str) -> None:
        """Replace the topic."""
        self._topic = topic

    def set_value(self, value: Any) -> None:
        """Replace the value."""
        show(self)
        self._value = value

    def set_key(self, key: Any) -> None:
        """Replace the key."""
        show(self)
        self._key = key

    def set_headers(self, headers: Any) -> None:
        """Replace the headers."""
        show(self)
        self._headers = headers

    def set_error(self, error: KafkaError | None) -> None:
        """Replace the error."""
        show(self)
        self._error = error

    def __len__(self) -> int:
        return 0 if self._value is None else len(self._value)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return bool(self.__reduce__()[1] == other.__reduce__()[1])

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, (
            self._topic,
            -1 if self._partition is None else self._partition,
            -1001 if self._offset is None else self._offset,
            self._key,
            self._value,
            self._headers,
            self._error,
            (self._kind, self._time),
            -1.0 if self._latency is None else self._latency,
            -1 if self._epoch is None else self._epoch,
            -1 if self._count is None else self._count,
        )

    def done(self) -> bool:
        """True if the record has its outcome."""
        return bool(self._state == _FINISHED)

    def cancelled(self) -> bool:
        """False: ``purge()`` fails records, and cancels none."""
        return False

    def set_running_or_notify_cancel(self) -> bool:
        """True: the record is being sent."""
        return True

    def add_done_callback(self, callback: object, *, context: object = None) -> None:
        """Do nothing: it can't be cancelled."""

    def _partition_told(self, partition: int) -> None:
        """The record of this partition fails: see ``observer.tell_partition``."""
        self._partition = partition

    def set_result(self, metadata: RecordMetadata) -> None:
        self._outbox.delivered([self], RecordResults.of(metadata), TIMESTAMP_CREATE_TIME)

    def set_exception(self, error: BaseException) -> None:
        """The record has failed."""
        self._state = _FINISHED
        self._outbox.failed(self, error)

    def exception(self) -> None:
        """None: the outbox has the error."""

    @staticmethod
    def set_results(
        messages: Sequence[Message],
        results: RecordResults,
        is_log_append_time: bool = False,
        *_: object,
    ) -> None:
        """Hand the records of a batch to the threads that poll."""
        kind = TIMESTAMP_LOG_APPEND_TIME if is_log_append_time else TIMESTAMP_CREATE_TIME
        messages[0]._outbox.delivered(messages, results, kind)


def delivered_message(
    fields: tuple[str, bytes | None, bytes | None],
    result: RecordMetadata,
    kind: int,
    sent_ns: int,
    now_ns: int,
) -> Message:
    """The message of a record that is in the log: topic, value and key, and its outcome.

    ``kind``: a ``TIMESTAMP_`` number. ``sent_ns``, ``now_ns``: nanoseconds of the wall clock.
    """
    message = Message.__new__(Message)
    message._topic, message._value, message._key = fields
    message._headers = message._error = message._epoch = message._count = None
    message._partition, message._time = result[1], result[3]
    message._offset = result[2] if result[2] >= 0 else None
    message._kind = kind
    message._latency = (now_ns - sent_ns) / _NANO
    return message


class Outcome:
    """The outcome of records of one batch, or of records that have failed together."""

    __slots__ = ("_error", "_messages", "_next", "_outbox", "_results", "kind", "time_ns")

    def __init__(
        self,
        outbox: Outbox,
        messages: Sequence[Message],
        results: RecordResults | None,
        error: KafkaError | None,
        kind: int,
    ) -> None:
        self._outbox = outbox
        self._messages = messages
        self._results: RecordResults | None = results
        self._error = error
        self._next = 0
        """The place of the record that is served next."""
        self.kind = kind
        """The kind of the timestamps, a ``TIMESTAMP_`` number."""
        self.time_ns: int = time_ns()
        """The wall clock's nanoseconds at the outcome."""

    def serve(self) -> None:
        """Call the callbacks. If one raises, the records after it are served by the next call."""
        outbox: Outbox = self._outbox
        outbox.serving.append(get_ident())
        try:
            self._call(outbox)
        finally:
            outbox.serving.remove(get_ident())

    def _call(self, outbox: Outbox) -> None:
        count: int
        messages, count = self._messages, len(self._messages)
        silent: bool = outbox.only_errors and self._error is None
        while self._next < count:
            message: Message = messages[self._next]
            self._next += 1
            callback = message._callback
            if callback is not None and not silent:
                message._callback = None
                _tell(message, self, self._next - 1)
                try:
                    callback(self._error, message)
                except BaseException:
                    outbox.served += 1
                    outbox.bytes_served += message._size
                    if self._next < count:
                        outbox.events.appendleft(self)
                    raise
            outbox.served += 1  # no call between, here and below
            outbox.bytes_served += message._size


def _tell(message: Message, outcome: Outcome, place: int) -> None:
    """Write the outcome into ``message``, the record ``place`` of those that have it."""
    results: RecordResults | None = outcome._results
    message._error = outcome._error
    message._headers = message._epoch = message._count = None
    message._kind = outcome.kind
    message._latency = (outcome.time_ns - message._sent_ns) / _NANO
    if results is None:
        message._offset, message._time = None, message._sent_ns // _MILLION
    else:
        offset = results.offset(place)
        message._partition, message._time = results.partition, results.timestamp_ms(place)
        message._offset = offset if offset >= 0 else None


class Outbox:
    """Events for the application, and the count of records without a served outcome.

    ``only_errors``: callbacks hear of failed records alone.
    """

    def __init__(self, *, only_errors: bool) -> None:
        self.only_errors = only_errors
        self.events: deque[Any] = deque()
        """What ``poll()`` serves: objects with ``serve()``."""
        self.entered = 0
        """The number of records that ``produce()`` has taken."""
        self.served = 0
        """The number of records whose outcome was served."""
        self.bytes_entered = 0
        self.bytes_served = 0
        self.is_asleep = True
        """True if the event loop has taken all records, and looks again only when it is woken."""
        self.takes_records = False
        """False before the start of the event loop, and from its end on."""
        self.is_closed = False
        """True once no more events come, so nobody waits for them."""
        self.soon: Callable[[Callable[[], object]], object] | None = None
        """Calls something on the event loop soon; None: it does not run yet."""
        self.serving: list[int] = []
        """The threads in which delivery callbacks run."""
        self.waiting: list[SimpleQueue[None]] = []
        """The threads that :func:`event_came` waits in."""
        self._failed: list[Message] = []
        self._reason: BaseException | None = None
        """The error of the failed records that are not an event yet."""

    def __len__(self) -> int:
        return self.entered - self.served

    @property
    def bytes(self) -> int:
        """Bytes of the records without a served outcome."""
        return self.bytes_entered - self.bytes_served

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

    def put(self, event: Any) -> None:
        """Append ``event``, and wake the threads that wait."""
        self.events.append(event)
        if self.waiting:
            for told in list(self.waiting):
                told.put(None)

    def delivered(self, messages: Sequence[Message], results: RecordResults, kind: int) -> None:
        """Append the outcome of records that are in the log."""
        if self._failed:
            self.publish()
        hide(messages)
        self.put(Outcome(self, messages, results, None, kind))

    def failed(self, message: Message, error: BaseException) -> None:
        """Note a failed record; :meth:`publish` makes an event of all with the same error."""
        if self._reason is not error and self._failed:
            self.publish()
        if not self._failed and self.soon is not None:
            self.soon(self.publish)
        self._reason = error
        self._failed.append(message)

    def publish(self) -> None:
        """Append the outcome of the records that have failed."""
        messages, self._failed = self._failed, []
        reason, self._reason = self._reason, None
        if messages and reason is not None:
            self.put(Outcome(self, messages, None, record_error(reason), TIMESTAMP_CREATE_TIME))


def _enter(
    calls: RecordCalls,
    worker: Any,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    partition: int,
    chosen: int | None,
    pairs: list[Header] | None,
    stamp: int | None,
    callback: DeliveryCallback | None,
    size: int,
) -> None:
    """Put a record into the queue. Raises BufferError if it is full, or why it takes none."""
    outbox: Outbox = calls._outbox
    if outbox.entered - outbox.served >= calls._max_messages or (
        outbox.bytes_entered - outbox.bytes_served + size > calls._max_bytes
    ):
        raise BufferError(_FULL)
    sent_ns = time_ns()
    message: Message = Message.__new__(Message)
    hide(message)  # it leads to objects of the application until its callback was called
    message._outbox = outbox
    message._callback = callback
    message._size = size
    message._sent_ns = sent_ns
    message._state = _PENDING
    if callback is not None:
        message._topic, message._value, message._key = topic, value, key
        message._partition = partition if chosen is None else chosen
    entry = (
        message, topic, value, key, chosen, pairs, stamp, sent_ns, partition, EVERY_THREAD,
    )  # fmt: skip
    intake: Inbox = calls._intake
    if not outbox.takes_records:
        calls._refuse(worker)
    outbox.entered += 1  # no call between: the end takes the record, or it is refused
    outbox.bytes_entered += size
    intake.entries += entry
    if outbox.is_asleep:
        outbox.is_asleep = False
        worker.wake()


class RecordCalls:
    """The calls of a producer that each record takes; :class:`Producer` has the others.

    The attributes are the producer's, and it sets them. Without a worker it is closed.
    """

    _by_crc: bool
    _choose: Any
    _chooses_keyless: bool
    _intake: Inbox
    _max_bytes: int
    _max_messages: int
    _max_size: int
    _on_delivery: Any
    _outbox: Outbox
    _topics: dict[str, Any]
    _transactions: Any
    _worker: Any

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: DeliveryCallback | None = None,
        on_delivery: DeliveryCallback | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Put a record into the queue.

        Args:
            topic: the name of the topic.
            value: bytes, or a text that becomes UTF-8.
            key: the same.
            partition: the number; -1: by the key, or any.
            callback: called by ``poll()`` or ``flush()`` with an error or None, and the record as
                a :class:`Message`. ``on_delivery`` is another name for it.
            timestamp: milliseconds since the epoch; 0: now.
            headers: a dict, or a list of pairs, of a name and bytes, text or None.

        Raises:
            BufferError: the queue is full; call :meth:`poll`, and try again.
            KafkaException: the record is too large (``MSG_SIZE_TOO_LARGE``), the topic lacks the
                partition (``_UNKNOWN_PARTITION``), or no transaction is open (``_STATE``).
            TypeError: an argument is of a wrong type.
            RuntimeError: the producer is closed.
        """
        size = 0
        if value is not None:
            if type(value) is not bytes:
                value = as_bytes(value)
            size = len(value)
        if key is not None:
            if type(key) is not bytes:
                key = as_bytes(key)
            size += len(key)
        if type(topic) is not str or type(partition) is not int:
            topic, partition = name(topic), whole(partition)
        pairs = None if headers is None else header_pairs(headers)
        stamp = None if type(timestamp) is int and timestamp == 0 else timestamp_ms(timestamp)
        worker = self._worker  # another thread may close the producer meanwhile
        if worker is None:
            raise RuntimeError(_CLOSED)
        chosen = None
        if partition != -1 or size > self._max_size or self._transactions is not None:
            chosen = self._checked(topic, partition, size)
        if chosen is None and (self._chooses_keyless if key is None else key or not self._by_crc):
            chosen = self._partition_of(topic, key)
        if callback is None:
            callback = self._on_delivery if on_delivery is None else on_delivery
        _enter(self, worker, topic, value, key, partition, chosen, pairs, stamp, callback, size)

    def _partition_of(self, topic: str, key: bytes | None) -> Any:
        """The partition by the key, if the topic is known."""
        builders = self._topics.get(topic)
        count = 0 if builders is None else len(builders.partitions)
        if count and key is not None and self._by_crc:
            return crc32(key) % count
        return self._choose(key, count)

    def poll(self, timeout: float = -1.0) -> int:
        """Call the callbacks whose events have come; returns the number of events.

        One event may be the outcome of many records.

        Args:
            timeout: seconds to wait for the first event; negative: without limit.

        Raises:
            RuntimeError: the producer is closed.
            Exception: what a callback raises. The next call goes on with the callback after it.
        """
        if self._worker is None:
            raise RuntimeError(_CLOSED)
        outbox = self._outbox
        if not outbox.events:
            if type(timeout) is int and timeout == 0:
                return 0
            left = deadline_seconds(timeout)
            self._check_caller()
            if not event_came(outbox, None if left is None else monotonic() + left):
                return 0
        return int(outbox.serve())

    def _checked(self, topic: str, partition: int, size: int) -> int | None:
        raise NotImplementedError

    def _refuse(self, worker: Any) -> None:
        raise NotImplementedError

    def _check_caller(self) -> None:
        raise NotImplementedError
