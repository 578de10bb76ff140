"""All batches that are not acknowledged yet, and the rules by which they fill and leave.

Source: Kafka's ``RecordAccumulator``. Where Kafka looks at every partition to find out what is
ready, each node here has a :class:`Backlog` that knows, so no step costs more with more topics.
Nothing in this room waits: memory that is not there now is the business of the waiting line and of
whoever calls :meth:`RecordAccumulator.admit`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from aioproducer.accumulator.buffer_pool import BufferPool
from aioproducer.accumulator.flush import Flushes, FlushFuture
from aioproducer.accumulator.memory_shares import MemoryShares
from aioproducer.accumulator.partition_queue import NO_LEADER, Backlog, PartitionQueue
from aioproducer.accumulator.producer_batch import ProducerBatch, RecordFuture
from aioproducer.accumulator.splitting import split_batch
from aioproducer.accumulator.topic_queues import StickyChoice, TopicQueues
from aioproducer.accumulator.waiting_line import WaitingLine, WaitingRecord
from aioproducer.cluster.snapshot import TopicInfo
from aioproducer.errors import InvalidPartitionError, ProducerError, RecordTooLargeError
from aioproducer.model import Header
from aioproducer.partitioning import PartitionFunction, murmur2_partition
from aioproducer.records.builder import batch_size_bound


@dataclass(frozen=True, slots=True)
class BatchingRules:
    """The options that decide how records are put together."""

    batch_size: int
    """Bytes."""
    max_request_size: int
    """Bytes."""
    linger: float | None
    """Seconds; None: adaptive."""
    adaptive_linger: float
    """Seconds that a batch grows at most, with adaptive linger, while its broker is busy."""
    delivery_timeout: float
    """Seconds."""
    one_at_a_time: bool = False
    """At most one batch of a partition in flight, to keep order without sequence numbers."""
    in_order: bool = True
    """Retries leave in their first order (they carry sequence numbers)."""
    ignore_keys: bool = False
    """Keyed records stick as keyless ones do."""


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
        self._topics: dict[str, TopicQueues] = {}
        self._awaiting_topic: dict[str, dict[WaitingRecord, None]] = {}
        self._backlogs: dict[int, Backlog] = {}
        self._delayed: list[tuple[float, int, PartitionQueue]] = []
        self._ticket = count()
        self._next_expiry = float("inf")
        self._flushes = Flushes()
        self._shares = MemoryShares(pool, rules.batch_size, self._needs)

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
        if queue.waiting or not self._shares.may_take(queue, size):
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
        self._shares.take(queue, len(buffer), now)
        queue.batches.append(batch)
        self.incomplete[batch] = None
        if deadline < self._next_expiry:
            self._next_expiry = deadline
        self._enlist(queue, now)
        self._wake()
        return batch

    def want_room(self) -> None:
        """Somebody began to wait for room: what lingers has to leave."""
        if not self.room_wanted:
            self.room_wanted = True
            self._wake()

    def update_crowded(self, now: float) -> None:
        """Find out whether there is room; to be called when memory was taken or has come back."""
        self.crowded = self.closing or self.line.crowded or self._shares.crowded(now)

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
            self._shares.wait(queue)
        self._wake()

    def next_stalled(self) -> tuple[PartitionQueue, int] | None:
        """The partition to be given memory next, and how many bytes it needs."""
        return self._shares.next_waiting()

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
            self._shares.wait(queue)  # the one it was meant for is gone, and this is larger
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
            self._shares.wait(queue)
        return True

    def give_up(self, queue: PartitionQueue) -> None:
        """``queue`` got no memory this time; it stays in line if records still wait."""
        if self._first_waiting(queue) is not None:
            self._shares.wait(queue)

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
        if queue.backlog is not None:
            queue.backlog.discard(queue)
        self._shares.move(queue, leader, now)
        if leader != NO_LEADER:
            queue.delayed_until = now
        self._enlist(queue, now)

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

    # --- batches go out --------------------------------------------------------------------

    def _enlist(self, queue: PartitionQueue, now: float) -> None:
        """List ``queue`` in its leader's backlog if its first batch may leave."""
        if queue.backlog is not None or not queue.batches:
            if queue.backlog is not None and len(queue.batches) > 1:
                queue.backlog.full = True
            return
        if queue.delayed_until > now:
            return
        if queue.on_wire and self._must_wait(queue):
            return
        backlog = self._backlogs.get(queue.leader)
        if backlog is None:
            backlog = self._backlogs[queue.leader] = Backlog()
        backlog.add(queue)

    def _must_wait(self, queue: PartitionQueue) -> bool:
        head = queue.batches[0]
        if self.rules.one_at_a_time or head.alone or any(batch.alone for batch in queue.on_wire):
            return True
        if not self.rules.in_order:
            return False
        # A broker without state of the producer takes any first sequence number. So nothing
        # follows the first batch of an identity before it is acknowledged, nor one that is still
        # on its way to another broker.
        if queue.leader != NO_LEADER and (
            not queue.acknowledged or any(batch.node != queue.leader for batch in queue.on_wire)
        ):
            return True
        # Nothing follows a batch that may be there already: brokers know the last five of a
        # partition, and it must stay among them until its fate is sure.
        return any(
            batch.uncertain or (head.order >= 0 and batch.order < head.order)
            for batch in queue.on_wire
        )

    def ready(self, node: int, now: float, *, idle: bool) -> float | None:
        """When the batches for ``node`` may leave, at the latest ``now``; None: there are none.

        ``idle``: nothing is in flight to the node.
        """
        backlog = self._backlogs.get(node)
        if backlog is None or not backlog.partitions:
            return None
        linger = self.rules.linger
        if linger is None:
            linger = 0.0 if idle else self.rules.adaptive_linger
        if backlog.full or self.closing or self._flushes or self.exhausted or self.room_wanted:
            return now
        return max(now, backlog.oldest + linger)

    def nodes(self) -> Collection[int]:
        """The nodes for which batches wait."""
        return [node for node, backlog in self._backlogs.items() if backlog.partitions]

    def topics_without_leader(self) -> set[str]:
        """The topics with a batch that has nowhere to go."""
        backlog = self._backlogs.get(NO_LEADER)
        if backlog is None:
            return set()
        return {queue.topic_partition.topic for queue in backlog.partitions}

    def drain(self, node: int, max_size: int, now: float) -> list[ProducerBatch]:
        """Take one batch of each partition in turn, ``max_size`` bytes in all (or one batch).

        The partitions that were left out, or have more batches, are the first and the last of the
        next turn.
        """
        backlog = self._backlogs[node]
        drained: list[ProducerBatch] = []
        backlog.full = False
        backlog.oldest = float("inf")
        size = 0
        for _ in range(len(backlog.partitions)):
            queue = next(iter(backlog.partitions))
            batch = queue.batches[0]
            if drained and size + batch.size > max_size:
                backlog.full = True
                break
            backlog.pop()
            queue.batches.popleft()
            if queue.open is batch:
                queue.close_batch()
            if batch.order < 0:
                batch.order = queue.next_order
                queue.next_order += 1
            queue.on_wire.append(batch)
            batch.drained = now
            batch.node = node
            size += batch.size
            drained.append(batch)
            self._enlist(queue, now)
        return drained

    def release_delayed(self, now: float) -> float | None:
        """List the partitions whose backoff is over; when the next one's is."""
        while self._delayed:
            due, _, queue = self._delayed[0]
            if due > now:
                return due
            heapq.heappop(self._delayed)
            self._enlist(queue, now)
        return None

    # --- outcomes --------------------------------------------------------------------------

    def queue_for(self, batch: ProducerBatch) -> PartitionQueue:
        """The queue that ``batch`` belongs to."""
        topic, partition = batch.topic_partition
        return self._topics[topic].queue(partition)

    def leader_of(self, batch: ProducerBatch) -> int | None:
        """The node that leads its partition; None: nobody does."""
        leader = self.queue_for(batch).leader
        return None if leader == NO_LEADER else leader

    def is_first_in_line(self, batch: ProducerBatch) -> bool:
        """Whether no earlier batch of its partition still waits for its outcome."""
        queue = self.queue_for(batch)
        earlier = [*queue.on_wire, *queue.batches] if queue.batches else queue.on_wire
        return not any(0 <= other.order < batch.order for other in earlier)

    def is_on_wire(self, batch: ProducerBatch) -> bool:
        """Whether ``batch`` was drained and has neither an outcome nor come back."""
        return batch in self.queue_for(batch).on_wire

    def anything_on_wire(self) -> bool:
        """Whether any batch is."""
        return any(map(self.is_on_wire, self.incomplete))

    def retry(self, batch: ProducerBatch, not_before: float, now: float) -> None:
        """Queue a batch again after a failed attempt, to leave no earlier than ``not_before``."""
        batch.attempts += 1
        self.put_back(batch, not_before, now)

    def put_back(self, batch: ProducerBatch, not_before: float, now: float) -> None:
        """Queue a drained batch again in its place."""
        queue = self.queue_for(batch)
        self._queue_again(queue, batch, [batch])
        queue.delayed_until = max(queue.delayed_until, not_before)
        if queue.delayed_until > now:
            heapq.heappush(self._delayed, (queue.delayed_until, next(self._ticket), queue))
        self._enlist(queue, now)

    def split(self, batch: ProducerBatch, now: float) -> int:
        """Queue a drained batch of several records again as smaller ones; how many these are.

        Source: ``RecordAccumulator.splitAndReenqueue``.
        """
        queue, full = self.queue_for(batch), self.rules.batch_size
        halves = batch.is_part or batch.size <= full
        size = max(batch.builder.max_record_size, batch.size // 2) if halves else full
        del self.incomplete[batch]
        parts = split_batch(batch, size)
        for part in parts:
            self.incomplete[part] = None
            self._flushes.moved(batch, part)
        self._flushes.done(batch)
        self._queue_again(queue, batch, parts)
        self._enlist(queue, now)
        return len(parts)

    def _queue_again(
        self, queue: PartitionQueue, drained: ProducerBatch, batches: Iterable[ProducerBatch]
    ) -> None:
        queue.on_wire.remove(drained)
        if queue.backlog is not None:
            queue.backlog.discard(queue)
        for batch in batches:
            queue.put_back(batch)

    @property
    def exhausted(self) -> bool:
        """Whether a record waits for memory."""
        return self._shares.exhausted

    def begin_identity(self) -> None:
        """Sequence numbers begin anew: no partition has acknowledged one of them."""
        for queues in self._topics.values():
            for queue in queues.partitions:
                queue.acknowledged = False

    def complete(self, batch: ProducerBatch, now: float) -> bytearray | None:
        """Forget a batch that has its outcome; its buffer, to be given back to the pool."""
        queue = self.queue_for(batch)
        if batch.delivered and not batch.alone:  # else its numbers are of an earlier identity
            queue.acknowledged = True
        if batch in queue.on_wire:
            queue.on_wire.remove(batch)
        elif batch in queue.batches:
            if queue.backlog is not None:
                queue.backlog.discard(queue)
            queue.batches.remove(batch)
            if queue.open is batch:
                queue.close_batch()
        del self.incomplete[batch]
        self._flushes.done(batch)
        self._enlist(queue, now)
        buffer = batch.release()
        if buffer is not None:
            self._shares.give_back(queue, len(buffer), now)
        return buffer

    def expired(self, now: float) -> list[ProducerBatch]:
        """The batches whose ``delivery_timeout_ms`` is over, sent or not."""
        if now < self._next_expiry:
            return []
        late = [batch for batch in self.incomplete if batch.deadline <= now]
        rest = (batch.deadline for batch in self.incomplete if batch.deadline > now)
        self._next_expiry = min(rest, default=float("inf"))
        return late

    def next_deadline(self, now: float) -> float | None:
        """When the clock alone changes something: a batch or a waiting record times out, say."""
        moments = (
            self.line.next_deadline(),
            self._next_expiry if self.incomplete else None,
            self._shares.next_change(now),
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
