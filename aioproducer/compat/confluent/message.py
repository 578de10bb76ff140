"""confluent-kafka's ``Message``, which is also the future of its record inside the producer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from aioproducer.compat.confluent.errors import KafkaError
from aioproducer.model import RecordMetadata

if TYPE_CHECKING:
    from aioproducer.compat.confluent.outbox import Outbox, Outcome

__all__ = [
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "Message",
    "Record",
]

TIMESTAMP_NOT_AVAILABLE: Final = 0
TIMESTAMP_CREATE_TIME: Final = 1
TIMESTAMP_LOG_APPEND_TIME: Final = 2

_PENDING: Final = "PENDING"
_FINISHED: Final = "FINISHED"
_MILLION: Final = 1_000_000
_NANO: Final = 1_000_000_000


class Message:
    """A record as its delivery report gets it, or one that a test makes.

    All arguments are optional. ``timestamp`` is a pair of a ``TIMESTAMP_`` number and milliseconds
    since the epoch, ``latency`` is in seconds.
    """

    __slots__ = (
        "_epoch",
        "_error",
        "_headers",
        "_key",
        "_latency",
        "_offset",
        "_partition",
        "_timestamp",
        "_topic",
        "_value",
    )

    def __init__(
        self,
        topic: str | None = None,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        error: KafkaError | None = None,
        timestamp: tuple[int, int] | None = None,
        latency: float | None = None,
        partition: int | None = None,
        offset: int | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self._topic = topic
        self._value = value
        self._key = key
        self._headers = headers
        self._error = error
        self._timestamp = timestamp
        self._latency = latency
        self._partition = partition
        self._offset = offset
        self._epoch = leader_epoch

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
        return self._error

    def timestamp(self) -> tuple[int, int]:
        """The kind of the timestamp, a ``TIMESTAMP_`` number, and milliseconds since the epoch."""
        return (TIMESTAMP_NOT_AVAILABLE, 0) if self._timestamp is None else self._timestamp

    def latency(self) -> float | None:
        """Seconds from ``produce()`` to the delivery report."""
        return self._latency

    def leader_epoch(self) -> int | None:
        """The epoch of the leader; None: unknown."""
        return self._epoch

    def delivery_count(self) -> int | None:
        """None: only consumers of share groups have it."""
        return None

    def set_topic(self, topic: str) -> None:
        """Replace the topic."""
        self._topic = topic

    def set_value(self, value: Any) -> None:
        """Replace the value."""
        self._value = value

    def set_key(self, key: Any) -> None:
        """Replace the key."""
        self._key = key

    def set_headers(self, headers: Any) -> None:
        """Replace the headers."""
        self._headers = headers

    def set_error(self, error: KafkaError | None) -> None:
        """Replace the error."""
        self._error = error

    def __len__(self) -> int:
        return 0 if self._value is None else len(self._value)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return all(getattr(self, each)() == getattr(other, each)() for each in _FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, tuple(getattr(self, each)() for each in _FIELDS)


_FIELDS: Final = (
    "topic",
    "value",
    "key",
    "headers",
    "error",
    "timestamp",
    "latency",
    "partition",
    "offset",
    "leader_epoch",
)


class Record(Message):
    """A record from ``produce()`` to its delivery report.

    The batch resolves it as a future. The event loop's thread alone does so; from then on the
    threads that call ``poll()`` read it.
    """

    __slots__ = ("_asked", "_event", "_outbox", "_result", "_sent_ns", "_state", "callback", "size")

    def __init__(
        self,
        outbox: Outbox,
        callback: Any,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        size: int,
        sent_ns: int,
    ) -> None:
        self._outbox = outbox
        self.callback = callback
        """Called with the error and the record; None: nobody is."""
        self._topic = topic
        self._value = value
        self._key = key
        self._asked = partition
        self.size = size
        """Bytes of key and value."""
        self._sent_ns = sent_ns
        self._state = _PENDING

    # --- the future of a batch -----------------------------------------------------------------

    def done(self) -> bool:
        """True if the record has its outcome."""
        return self._state == _FINISHED

    def cancelled(self) -> bool:
        """False: ``purge()`` fails records, and cancels none."""
        return False

    def cancel(self) -> bool:
        """False: ``purge()`` fails records, and cancels none."""
        return False

    def add_done_callback(self, callback: object, *, context: object = None) -> None:
        """Do nothing: it can't be cancelled."""

    def set_running_or_notify_cancel(self) -> bool:
        """True: the record is on its way."""
        return True

    def set_result(self, metadata: RecordMetadata) -> None:
        """The record is in the log."""
        self.set_results([self], [metadata])

    def set_exception(self, error: BaseException) -> None:
        """The record has failed."""
        self._state = _FINISHED
        self._outbox.failed(self, error)

    def exception(self) -> None:
        """Nothing: the outbox has the error."""

    @staticmethod
    def set_results(
        records: Sequence[Record],
        results: Sequence[RecordMetadata],
        is_log_append_time: bool = False,
        *_: object,
    ) -> None:
        """Hand the records of a batch to the threads that poll."""
        kind = TIMESTAMP_LOG_APPEND_TIME if is_log_append_time else TIMESTAMP_CREATE_TIME
        records[0]._outbox.delivered(records, results, kind)

    # --- the delivery report -------------------------------------------------------------------

    def report(self, event: Outcome, error: KafkaError | None, result: Any) -> None:
        """Take the outcome, just before the callback gets the record."""
        self._event = event
        self._error = error
        self._result = result
        self._headers = None

    def partition(self) -> int:
        """The number of the partition; -1: it failed before one was chosen."""
        return self._asked if self._result is None else int(self._result[1])

    def offset(self) -> int | None:
        """The offset of the record in its partition; None: it failed, or ``acks`` is 0."""
        if self._result is None or self._result[2] < 0:
            return None
        return int(self._result[2])

    def timestamp(self) -> tuple[int, int]:
        """The kind of the timestamp, a ``TIMESTAMP_`` number, and milliseconds since the epoch."""
        if self._result is None:
            return TIMESTAMP_CREATE_TIME, self._sent_ns // _MILLION
        return self._event.kind, int(self._result[3])

    def latency(self) -> float | None:
        """Seconds from ``produce()`` to the outcome."""
        return max(0.0, (self._event.time_ns - self._sent_ns) / _NANO)

    def leader_epoch(self) -> None:
        """None: no response tells it."""
