"""Records before they are in a batch: serialized records, and pending ones.

A record waits if its serializer is not prepared, if its topic is unknown, or if there is no memory
for it. Pending records are kept in the order of their ``send()`` calls, so the oldest is the first
to expire.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice, takewhile
from typing import NamedTuple, Protocol

from aioproducer.engine.accumulator.buffer_pool import BufferPool, NodeKey, NodeQuota
from aioproducer.engine.observer import ObservedFuture, tell_partition
from aioproducer.errors import BufferExhaustedError, RecordCancelledError
from aioproducer.foundation.logs import counted
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
    ) -> None:
        self.topic = topic
        self.partition = partition
        """None: the partition follows from the key, or is the sticky one."""
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
        "node",
        "on_cancel",
        "record",
        "sent",
        "serialize",
        "settled",
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
        self.node: NodeKey = None
        """The leader of its partition, whose quota it uses."""
        self.serialize: Callable[[], SerializedRecord] | None = None
        """Makes the record's bytes; it raises NotPreparedError while its serializer is not
        prepared. None: ``record`` has the bytes."""
        self.settled = False
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
            token.set_exception(error)
            token.exception()

    def take_back(self) -> None:
        """Fail the cancelled record, for its observers."""
        self.fail(cancelled_by_caller(self.topic))


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

    def add(self, record: PendingRecord) -> None:
        """Put ``record`` at the end of its topic's queue."""
        self._queues.setdefault(record.topic, OrderedDict())[record] = None

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


class PendingRecords:
    """All pending records: ``capacity`` bytes of them, and the bytes borrowed from ``pool``.

    The leaders of their partitions share the capacity; records without a node use the part that is
    guaranteed to no node. Pending records may borrow while that leaves ``keep`` spare bytes in the
    pool, so there is always memory to serve them. A record larger than the whole capacity may
    wait if it is the only one, because otherwise it could never be sent.
    """

    def __init__(self, capacity: int, pool: BufferPool, keep: int) -> None:
        self.capacity = capacity
        self.quota = NodeQuota(capacity, guarantees=pool.quota.guarantees)
        """Bytes by the node that leads the record's partition."""
        self._pool = pool
        self._keep = keep
        self._borrowed = 0
        self._records: OrderedDict[PendingRecord, None] = OrderedDict()
        self.awaiting_metadata = TopicQueues()
        """The records that wait for the metadata of their topic."""
        self.unserialized = TopicQueues()
        """The records that wait for the serializers to be prepared for their topic."""

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[PendingRecord]:
        return iter(self._records)

    @property
    def bytes(self) -> int:
        """Bytes of all records."""
        return self.quota.used

    @property
    def free(self) -> int:
        """Unused bytes of the capacity."""
        return max(0, self.capacity - self.bytes)

    def is_half_full(self, node: NodeKey) -> bool:
        """True if ``node`` uses half of its share of the capacity; borrowed bytes do not count."""
        own = self.quota.room(node) - self._borrowed
        return self.quota.used_by.get(node, 0) > own

    def add(self, record: PendingRecord, node: NodeKey, *, over_capacity: bool = False) -> None:
        """Put ``record`` at the end.

        ``over_capacity``: never refuse the record, because its caller waits for room before the
        next one.

        Raises:
            BufferExhaustedError: there is no room for more pending records.
        """
        quota = self.quota
        if not quota.allows(node, record.size):
            lacking = record.size - min(quota.room(node), quota.free)
            if self._pool.spare - lacking >= self._keep:
                self._pool.lend(lacking)
                self._borrowed += lacking
                quota.grow(lacking)
            elif self._records and not over_capacity:
                raise BufferExhaustedError(
                    f"buffer_memory is used up: a record for topic {record.topic!r} is refused, "
                    f"because of {counted(len(self._records), 'pending record')} "
                    f"({self.bytes} bytes), {quota.used_by.get(node, 0)} bytes of them for the "
                    "same broker. Use `await producer.drain()` between sends, or raise "
                    "buffer_memory"
                )
        self._records[record] = None
        record.node = node
        quota.take(node, record.size)

    def move(self, record: PendingRecord, node: NodeKey) -> None:
        """Count ``record`` for another node, if it is still pending."""
        if record.settled:
            return
        self.quota.take(record.node, -record.size)
        record.node = node
        self.quota.take(node, record.size)

    def await_topic(self, record: PendingRecord) -> None:
        """Note that ``record`` waits for the metadata of its topic."""
        record.awaits_metadata = True
        self.awaiting_metadata.add(record)

    def topic_known(self, topic: str) -> list[PendingRecord]:
        """Remove and return the records that waited for the metadata of ``topic``."""
        known = self.awaiting_metadata.take(topic)
        for record in known:
            record.awaits_metadata = False
        return known

    def serialized(self, record: PendingRecord, value: SerializedRecord, size: int) -> None:
        """Note that ``record`` has its bytes, and counts for ``size`` bytes from now on."""
        self.unserialized.remove(record)
        record.serialize = None
        record.record = value
        self.quota.take(record.node, size - record.size)
        record.size = size

    def remove(self, record: PendingRecord) -> None:
        """Take ``record`` out; doing so twice does nothing."""
        if not record.settled:
            record.settled = True
            del self._records[record]
            self.quota.take(record.node, -record.size)
            surplus = min(self._borrowed, self.quota.spare)
            if surplus > 0:
                self._pool.take_back(surplus)
                self._borrowed -= surplus
                self.quota.grow(-surplus)
            self.awaiting_metadata.remove(record)
            self.unserialized.remove(record)

    def expired(self, now: float, most: int | None = None) -> list[PendingRecord]:
        """The records whose deadline has passed, or the first ``most`` of them."""
        if not self._records:
            return []
        first = islice(self._records, most)
        return list(takewhile(lambda record: record.deadline <= now, first))

    def next_deadline(self) -> float | None:
        """The deadline of the oldest record; None: no record is pending."""
        for record in self._records:
            return record.deadline
        return None
