"""Records before they are in a batch: serialized records, and pending ones.

A record waits if its serializer is not prepared, if its topic is unknown, or if there is no memory
for it: see :class:`PendingQueue`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import NamedTuple, Protocol

from aioproducer.engine.observer import ObservedFuture, tell_partition
from aioproducer.engine.records.acceleration import fail_record
from aioproducer.errors import RecordCancelledError
from aioproducer.model import BigInt, Header, RecordMetadata


class RecordFuture(Protocol):
    """The part of ``send()``'s future that a batch uses."""

    def done(self) -> bool:
        """True if the record has an outcome, or its caller cancelled it."""

    def set_result(self, metadata: RecordMetadata, /) -> None:
        """The record is in the log."""

    def set_exception(self, error: BaseException, /) -> None:
        """The record failed."""

    def exception(self) -> BaseException | None:
        """Read the error, so that asyncio does not complain about an ignored one."""


class CancellableFuture(Protocol):
    """The part of a caller's future that says whether the caller gave up."""

    def cancelled(self) -> bool:
        """True if the caller has cancelled it."""


class SerializedRecord:
    """A checked and serialized record, with the future of its caller."""

    __slots__ = (
        "by_partitioner",
        "headers",
        "key",
        "partition",
        "sent_ns",
        "timestamp_ms",
        "token",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int | None,
        timestamp_ms: BigInt,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        token: RecordFuture,
        *,
        sent_ns: int = 0,
        by_partitioner: bool = False,
    ) -> None:
        self.topic = topic
        self.partition = partition
        """None: the partition follows from the key, or is the sticky one."""
        self.by_partitioner = by_partitioner
        """True: the partitioner chooses the partition once it can, and again if that is gone."""
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers
        self.token = token
        """The future that gets the outcome, or its stand-in."""
        self.sent_ns = sent_ns
        """The wall clock's nanoseconds at the ``send()``."""


class Unserialized(NamedTuple):
    """The bytes that a record will have."""

    size: int
    """An estimate of them."""
    serialize: Callable[[], SerializedRecord]
    """Makes them. Raises NotPreparedError while the serializer is not prepared."""


class PendingRecord:
    """A record that waits for its serializer, for metadata or for memory."""

    __slots__ = (
        "awaits_metadata",
        "caller",
        "deadline",
        "generation",
        "is_done",
        "node",
        "on_cancel",
        "record",
        "sent",
        "serialize",
        "size",
    )

    def __init__(self, record: SerializedRecord, size: int, sent: float, deadline: float) -> None:
        self.record = record
        token = record.token
        self.caller = token.caller if isinstance(token, ObservedFuture) else token
        """The future that the caller may cancel; the token of an observed record is another one."""
        self.size = size
        """Its bytes in the quota: an upper bound for a batch of only this record."""
        self.sent = sent
        """The time of the ``send()`` call, in the clock's seconds."""
        self.deadline = deadline
        """The time when the record expires, in the clock's seconds."""
        self.awaits_metadata = False
        """True while its topic or partition is unknown."""
        self.generation = 0
        """The generation of flushes that wait for it; see :class:`Flushes`."""
        self.node: Hashable = None
        """The leader of its partition, whose quota it uses."""
        self.serialize: Callable[[], SerializedRecord] | None = None
        """Makes the record's bytes; it raises NotPreparedError while its serializer is not
        prepared. None: ``record`` has the bytes."""
        self.is_done = False
        """True once the record was appended, failed or cancelled."""
        self.on_cancel: Callable[[PendingRecord], None] | None = None
        """Called with the record once its caller has cancelled it, if the record is a callback of
        the caller's future."""

    def __call__(self, caller: CancellableFuture) -> None:
        """The callback of the caller's future. So thousands of records need no further objects."""
        if self.on_cancel is not None and caller.cancelled():
            self.on_cancel(self)

    @property
    def topic(self) -> str:
        """The topic."""
        return self.record.topic

    @property
    def partition(self) -> int | None:
        """The partition, if the caller or the partitioner has chosen it."""
        return self.record.partition

    @property
    def cancelled(self) -> bool:
        """True if the caller has cancelled the record."""
        return self.caller.done()

    def fail(self, error: Exception) -> None:
        """Fail the record's future, unless it has an outcome."""
        token = self.record.token
        if not token.done():
            tell_partition(token, self.record.partition)
            fail_record(token, error)


def cancelled_by_caller(topic: str) -> RecordCancelledError:
    """The error of a record that its caller took back."""
    return RecordCancelledError(
        f"topic {topic!r}: the caller cancelled the record before it was in a batch"
    )


class TopicQueues:
    """Records by topic, each topic's in the order in which they came."""

    def __init__(self) -> None:
        # Of a plain dict whose first entries were removed, the first one takes long to find.
        self._queues: dict[str, OrderedDict[PendingRecord, None]] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._queues

    def add(self, record: PendingRecord) -> None:
        """Put ``record`` at the end of its topic's queue."""
        queue = self._queues.get(record.topic)
        if queue is None:
            queue = self._queues[record.topic] = OrderedDict()
        queue[record] = None

    def remove(self, record: PendingRecord) -> None:
        """Take ``record`` out, if it is here."""
        queue = self._queues.get(record.topic)
        if queue is not None:
            queue.pop(record, None)
            if not queue:
                del self._queues[record.topic]

    @property
    def topics(self) -> Collection[str]:
        """The topics with records."""
        return self._queues.keys()

    def of(self, topic: str) -> list[PendingRecord]:
        """The records of ``topic``."""
        return list(self._queues.get(topic, ()))

    def first(self, topic: str) -> PendingRecord | None:
        """The first record of ``topic``."""
        return next(iter(self._queues.get(topic, ())), None)

    def take(self, topic: str) -> list[PendingRecord]:
        """Remove and return the records of ``topic``."""
        return list(self._queues.pop(topic, ()))
