"""All batches that are not acknowledged yet, and how records get into them.

Source: Kafka's ``RecordAccumulator``. Nothing in this room waits: memory that is not there now is
the business of the waiting line and of whoever calls :meth:`RecordAccumulator.admit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from aioproducer.accumulator.batching_rules import BatchingRules
from aioproducer.accumulator.buffer_pool import BufferPool
from aioproducer.accumulator.departures import Departures
from aioproducer.accumulator.flush import Flushes, FlushFuture
from aioproducer.accumulator.memory_shares import MemoryShares
from aioproducer.accumulator.partition_queue import NO_LEADER, PartitionQueue
from aioproducer.accumulator.producer_batch import ProducerBatch, RecordFuture
from aioproducer.accumulator.splitting import split_batch
from aioproducer.accumulator.topic_queues import StickyChoice, TopicQueues, Topics
from aioproducer.accumulator.waiting_line import WaitingLine, WaitingRecord
from aioproducer.cluster.snapshot import TopicInfo
from aioproducer.errors import InvalidPartitionError, ProducerError, RecordTooLargeError
from aioproducer.model import Header
from aioproducer.partitioning import PartitionFunction, murmur2_partition
from aioproducer.records.builder import batch_size_bound


class RecordAccumulator:
    """Batches per partition, and the line of records that wait to be in one."""

    def __init__(
        self,
        rules: BatchingRules,
        pool: BufferPool,
        line: WaitingLine,
        sticky: StickyChoice,
        wake: Callable[[], None],
        expansion: Callable[[str], float],
        partitioner: PartitionFunction | None = None,
    ) -> None:
        self.rules = rules
        self.pool = pool
        self.line = line
        self.incomplete: dict[ProducerBatch, None] = {}
        """Every batch without an outcome, the oldest first."""
        self.closing = False
        """See :meth:`close`."""
        self.keyless: dict[str, Callable[..., int]] = {}
        """The ``append_value`` of the batch that a topic's keyless records join: the short way in.
        A batch that is closed takes nothing, so it does no harm here."""
        self.room_wanted = False
        """Somebody waits in ``drain()``; while somebody does, nothing lingers."""
        self.crowded = False
        """There is no room for more records: the time to wait before sending more."""
        self._sticky = sticky
        self._wake = wake
        self._expansion = expansion
        self._partitioner = partitioner
        self._ignore_keys = rules.ignore_keys
        self._one_record_each = rules.batch_size <= 1
        self._topics = Topics()
        self.departures = Departures(
            self._topics, one_at_a_time=rules.one_at_a_time, in_order=rules.in_order
        )
        self._awaiting_topic: dict[str, dict[WaitingRecord, None]] = {}
        self._next_expiry = float("inf")
        self._flushes = Flushes()
        self.shares = MemoryShares(pool, rules.batch_size, self._needs)

    # --- records come in -------------------------------------------------------------------

    def append(
        self,
        topic: str,
        partition: int | None,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        token: RecordFuture,
        now: float,
    ) -> ProducerBatch | None:
        """Put a record into a batch, which is returned; None: not now, it has to stand in line.

        ``token`` gets the record's fate. ``now`` is the clock's time of the ``send()``.
        Raises :class:`InvalidPartitionError` and :class:`RecordTooLargeError`.
        """
        queues = self._topics.get(topic)
        if queues is None:
            return None
        if partition is not None:
            queue = self._explicit(queues, partition)
        elif key is not None and not self._ignore_keys:
            queue = queues.partitions[murmur2_partition(key, len(queues.partitions))]
        else:
            return self._append_keyless(queues, timestamp_ms, key, value, headers, token, now)
        batch = queue.open
        if batch is not None and batch.append(token, timestamp_ms, key, value, headers):
            return batch
        return self._open_batch(queue, timestamp_ms, key, value, headers, token, now)

    def _append_keyless(
        self,
        queues: TopicQueues,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        token: RecordFuture,
        now: float,
    ) -> ProducerBatch | None:
        queue = queues.sticky or self._sticky.choose(queues)
        batch = queue.open
        if batch is None or not batch.append(token, timestamp_ms, key, value, headers):
            queue = self._stick(queues, key, value, headers)
            batch = queue.open
            if batch is None or not batch.append(token, timestamp_ms, key, value, headers):
                batch = self._open_batch(queue, timestamp_ms, key, value, headers, token, now)
            queues.sticky_batch = batch
        if batch is not None:
            self.keyless[queues.topic] = batch.builder.append_value
        return batch

    def _explicit(self, queues: TopicQueues, partition: int) -> PartitionQueue:
        if partition >= len(queues.partitions):
            raise InvalidPartitionError(
                f"topic {queues.topic!r} has the partitions 0 to {len(queues.partitions) - 1}, "
                f"not {partition}"
            )
        return queues.partitions[partition]

    def _stick(
        self,
        queues: TopicQueues,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> PartitionQueue:
        """The partition for a keyless record that begins a batch.

        Only at such a moment may it change, so no batch leaves half full for its sake; it changes
        once ``batch_size`` bytes went to it.
        """
        queues.count_sticky_batch()
        if queues.produced + batch_size_bound(key, value, headers) > self.rules.batch_size:
            queues.sticky = None
        return queues.sticky or self._sticky.choose(queues)

    def choose_partition(self, topic: str, key: bytes | None, value: bytes | None) -> int | None:
        """What the user's partitioner says; None: there is none, or the topic is not known yet.

        Raises :class:`InvalidPartitionError` if it fails or names a partition that does not exist.
        """
        queues = self._topics.get(topic)
        if self._partitioner is None or queues is None:
            return None
        count = len(queues.partitions)
        try:
            chosen = self._partitioner(topic, key, value, queues.as_seen_by_partitioner())
        except Exception as error:
            raise InvalidPartitionError(
                f"the partitioner failed for a record of topic {topic!r}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(chosen, int) or not 0 <= chosen < count:
            raise InvalidPartitionError(
                f"the partitioner returned {chosen!r} for topic {topic!r}, which has the "
                f"partitions 0 to {count - 1}"
            )
        return chosen

    def _open_batch(
        self,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        token: RecordFuture,
        now: float,
    ) -> ProducerBatch | None:
        needed = self.checked_size(queue.topic_partition.topic, key, value, headers)
        size = max(self._limit(queue), needed)
        if queue.waiting or not self.shares.may_take(queue, size):
            return None
        buffer = self.pool.try_allocate(size)
        self.update_crowded(now)
        if buffer is None:
            return None
        batch = self._start(queue, buffer, now, now + self.rules.delivery_timeout)
        batch.append(token, timestamp_ms, key, value, headers)
        if self._one_record_each:
            queue.close_full_batch()
        return batch

    def checked_size(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Sequence[Header]
    ) -> int:
        """An upper bound of the bytes of a batch with this record alone.

        Raises :class:`RecordTooLargeError`.
        """
        needed = batch_size_bound(key, value, headers)
        for limit, option in (
            (self.rules.max_request_size, "max_request_size"),
            (self.pool.total, "the share of buffer_memory that batches may use"),
        ):
            if needed > limit:
                raise RecordTooLargeError(
                    f"a record of {needed} bytes for topic {topic!r} is larger than the "
                    f"{limit} bytes of {option}: raise it (and the topic's max.message.bytes), "
                    "or send smaller records"
                )
        return needed

    def _limit(self, queue: PartitionQueue) -> int:
        """Bytes of records that make a full batch once they are compressed."""
        size = int(self.rules.batch_size * self._expansion(queue.topic_partition.topic))
        return min(size, self.rules.max_request_size, self.pool.total)

    def _start(
        self, queue: PartitionQueue, buffer: bytearray, now: float, deadline: float
    ) -> ProducerBatch:
        queue.close_batch()
        batch = ProducerBatch(queue.topic_partition, buffer, len(buffer), now, deadline)
        queue.open = batch
        self.shares.take(queue, len(buffer), now)
        queue.batches.append(batch)
        self.incomplete[batch] = None
        if deadline < self._next_expiry:
            self._next_expiry = deadline
        self.departures.enlist(queue, now)
        self._wake()
        return batch

    def want_room(self) -> None:
        """Somebody began to wait for room: what lingers has to leave."""
        if not self.room_wanted:
            self.room_wanted = True
            self._wake()

    def update_crowded(self, now: float) -> None:
        """Find out whether there is room; to be called when memory was taken or has come back."""
        self.crowded = self.closing or self.line.crowded or self.shares.crowded(now)

    # --- the waiting line ------------------------------------------------------------------

    def wait_in_line(self, record: WaitingRecord) -> None:
        """Put ``record`` in line. Raises :class:`BufferExhaustedError` if the line is full."""
        self.line.add(record)
        queues = self._topics.get(record.topic)
        if queues is None:
            self._awaiting_topic.setdefault(record.topic, {})[record] = None
        else:
            self._stall(self._queue_of(queues, record), record)
        self.update_crowded(record.sent)

    def withdraw(self, record: WaitingRecord, now: float) -> None:
        """Take a record that its caller has cancelled out of the line, if it is still there."""
        self._drop(record)
        self.update_crowded(now)

    def _drop(self, record: WaitingRecord) -> None:
        if not record.settled:
            _fail(record, ProducerError("its caller cancelled the record before it was in a batch"))
            self._settle(record)

    def _queue_of(self, queues: TopicQueues, record: WaitingRecord) -> PartitionQueue:
        partitions = queues.partitions
        if record.partition is not None:
            return self._explicit(queues, record.partition)
        if record.key is not None and not self._ignore_keys:
            return partitions[murmur2_partition(record.key, len(partitions))]
        queue = queues.sticky or self._sticky.choose(queues)
        queues.produced += batch_size_bound(record.key, record.value, record.headers)
        if queues.produced > self.rules.batch_size:
            queues.sticky = None
        return queue

    def _stall(self, queue: PartitionQueue, record: WaitingRecord) -> None:
        queue.waiting.append(record)
        queue.close_batch()
        if len(queue.waiting) == 1:
            self.shares.wait(queue)
        self._wake()

    def _needs(self, queue: PartitionQueue) -> int | None:
        record = self._first_waiting(queue)
        if record is None:
            return None
        needed = batch_size_bound(record.key, record.value, record.headers)
        return max(self._limit(queue), needed)

    def _first_waiting(self, queue: PartitionQueue) -> WaitingRecord | None:
        while queue.waiting:
            record = queue.waiting[0]
            if record.cancelled:
                self._drop(record)
            if not record.settled:
                return record
            queue.waiting.popleft()
        return None

    def admit(self, queue: PartitionQueue, buffer: bytearray, now: float) -> bool:
        """Fill a new batch in ``buffer`` with the records that wait for ``queue``.

        False: there was none any more that fits, and ``buffer`` was not used.
        """
        record = self._first_waiting(queue)
        if record is None:
            return False
        if batch_size_bound(record.key, record.value, record.headers) > len(buffer):
            self.shares.wait(queue)  # the one it was meant for is gone, and this is larger
            return False
        batch = self._start(queue, buffer, now, record.sent + self.rules.delivery_timeout)
        while record is not None and batch.append(
            record.token, record.timestamp_ms, record.key, record.value, record.headers
        ):
            if self._one_record_each:
                queue.close_full_batch()
            queue.waiting.popleft()
            self._settle(record, batch)
            record = self._first_waiting(queue)
        if record is not None:
            queue.close_batch()
            self.shares.wait(queue)
        return True

    def give_up(self, queue: PartitionQueue) -> None:
        """``queue`` got no memory this time; it stays in line if records still wait."""
        if self._first_waiting(queue) is not None:
            self.shares.wait(queue)

    def _settle(self, record: WaitingRecord, batch: ProducerBatch | None = None) -> None:
        self.line.remove(record)
        awaiting = self._awaiting_topic.get(record.topic)
        if awaiting is not None:
            awaiting.pop(record, None)
            if not awaiting:
                del self._awaiting_topic[record.topic]
        if batch is not None:
            self._flushes.moved(record, batch)
        self._flushes.done(record)

    def fail_waiting(self, records: Iterable[WaitingRecord], error: Exception) -> int:
        """Take ``records`` out of the line with ``error``; how many were still in it."""
        failed = 0
        for record in records:
            if record.settled:
                continue
            _fail(record, error)
            self._settle(record)
            failed += 1
        return failed

    def fail_expired(self, record: WaitingRecord, error: Exception) -> None:
        """Fail a record that the line has let go for its age."""
        _fail(record, error)
        self._settle(record)

    def awaiting(self, topic: str) -> list[WaitingRecord]:
        """The records that wait for the metadata of ``topic``."""
        return list(self._awaiting_topic.get(topic, ()))

    # --- the cluster changes ---------------------------------------------------------------

    def update_topic(self, info: TopicInfo, now: float) -> None:
        """Follow the topic's partitions and leaders; place the records that waited to know them."""
        queues = self._topics.get(info.name)
        if queues is None:
            queues = self._topics[info.name] = TopicQueues(info.name)
        queues.resize(len(info.partitions))
        for queue, partition in zip(queues.partitions, info.partitions, strict=False):
            if queue.leader != partition.leader:
                self._move(queue, partition.leader, now)
        homeless: list[WaitingRecord] = []
        for queue in queues.retired.values():
            queue.close_batch()
            self._move(queue, NO_LEADER, now)
            homeless += queue.waiting
            queue.waiting.clear()
        for record in [*homeless, *self._awaiting_topic.pop(info.name, ())]:
            if not record.settled:
                self._place(queues, record, now)

    def _move(self, queue: PartitionQueue, leader: int, now: float) -> None:
        self.shares.move(queue, leader, now)
        self.departures.redirect(queue, now)

    def _place(self, queues: TopicQueues, record: WaitingRecord, now: float) -> None:
        if record.cancelled:
            self._drop(record)
            return
        try:
            if record.partition is None:
                record.partition = self.choose_partition(record.topic, record.key, record.value)
            batch = self.append(
                record.topic,
                record.partition,
                record.timestamp_ms,
                record.key,
                record.value,
                record.headers,
                record.token,
                now,
            )
            if batch is None:
                self._stall(self._queue_of(queues, record), record)
                return
        except InvalidPartitionError as error:
            self.fail_waiting([record], error)
            return
        deadline = record.sent + self.rules.delivery_timeout
        batch.deadline = min(batch.deadline, deadline)
        self._next_expiry = min(self._next_expiry, deadline)
        self._settle(record, batch)

    def forget_topic(self, topic: str) -> bool:
        """Drop an unused topic; False while it still has records."""
        queues = self._topics.get(topic)
        if topic in self._awaiting_topic or (queues is not None and queues.busy):
            return False
        self._topics.pop(topic, None)
        self.keyless.pop(topic, None)
        return True

    # --- outcomes --------------------------------------------------------------------------

    def split(self, batch: ProducerBatch, now: float) -> int:
        """Queue a drained batch of several records again as smaller ones; how many these are.

        Source: ``RecordAccumulator.splitAndReenqueue``.
        """
        full = self.rules.batch_size
        halves = batch.is_part or batch.size <= full
        size = max(batch.builder.max_record_size, batch.size // 2) if halves else full
        del self.incomplete[batch]
        parts = split_batch(batch, size)
        for part in parts:
            self.incomplete[part] = None
            self._flushes.moved(batch, part)
        self._flushes.done(batch)
        self.departures.replace(batch, parts, now)
        return len(parts)

    def complete(self, batch: ProducerBatch, now: float) -> bytearray | None:
        """Forget a batch that has its outcome; its buffer, to be given back to the pool."""
        self.departures.complete(batch, now)
        del self.incomplete[batch]
        self._flushes.done(batch)
        buffer = batch.release()
        if buffer is not None:
            self.shares.give_back(self._topics.queue_for(batch), len(buffer), now)
        return buffer

    def expired(self, now: float) -> list[ProducerBatch]:
        """The batches whose ``delivery_timeout_ms`` is over, sent or not."""
        if now < self._next_expiry:
            return []
        late = [batch for batch in self.incomplete if batch.deadline <= now]
        rest = (batch.deadline for batch in self.incomplete if batch.deadline > now)
        self._next_expiry = min(rest, default=float("inf"))
        return late

    def linger(self, *, idle: bool) -> float:
        """Seconds that a batch which is not full waits now; ``idle``: its broker has no other."""
        if self.closing or self._flushes or self.shares.exhausted or self.room_wanted:
            return 0.0
        if self.rules.linger is None:
            return 0.0 if idle else self.rules.adaptive_linger
        return self.rules.linger

    def next_deadline(self, now: float) -> float | None:
        """When the clock alone changes something: a batch or a waiting record times out, say."""
        moments = (
            self.line.next_deadline(),
            self._next_expiry if self.incomplete else None,
            self.shares.next_change(now),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def close(self) -> None:
        """No record will come any more: nothing lingers, and there is no room."""
        self.closing = self.crowded = True
        self._wake()

    # --- flush -----------------------------------------------------------------------------

    def flush(self, future: FlushFuture) -> None:
        """Resolve ``future`` once every record that is here now has its fate; nothing lingers."""
        self._flushes.begin(future, [*self.incomplete, *self.line])
        if self._flushes:
            self._wake()

    def fail_flushes(self, error: Exception) -> None:
        """End every flush with ``error``, whatever it still waits for."""
        self._flushes.fail(error)


def _fail(record: WaitingRecord, error: Exception) -> None:
    if not record.token.done():
        record.token.set_exception(error)
        record.token.exception()
