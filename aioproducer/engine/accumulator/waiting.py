"""The queues of pending records and of callers of ``drain()``, and who gets returned memory.

``send()`` does not wait: a record without memory becomes a pending record. A caller of ``drain()``
waits for the node of the record sent last, and for the nodes where its own records had to wait
(:meth:`MemoryWaiters.room_for`). Each round of the sender calls :meth:`MemoryWaiters.serve`, which
gives returned memory to pending records first, and then lets callers go on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from aioproducer.engine.accumulator.batch_queue import BatchQueue
from aioproducer.engine.accumulator.memory_quota import (
    BufferPool,
    Grant,
    MemoryQuota,
    NodeKey,
    PendingMemory,
    Pressure,
)
from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.accumulator.pending_records import (
    PendingRecord,
    TopicQueues,
    cancelled_by_caller,
)
from aioproducer.engine.accumulator.producer_batch import (
    AccumulatorSettings,
    BatchSizes,
    ProducerBatch,
)
from aioproducer.engine.accumulator.results import Flushes
from aioproducer.engine.records.acceleration import RecordsBuilder, Routes
from aioproducer.errors import BufferExhaustedError, NotPreparedError, ProducerError
from aioproducer.errors.client import anew
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import counted

PendingFailed: TypeAlias = Callable[[ProducerError, Sequence[PendingRecord]], None]


class PendingQueue:
    """The records that wait for their serializer, for metadata or for memory.

    They are in the order of their ``send()`` calls, so the oldest is the first to expire.
    ``on_failed`` is called with an error, and the records that failed with it; records that their
    callers have cancelled are not among them.
    """

    def __init__(
        self,
        settings: AccumulatorSettings,
        sizes: BatchSizes,
        memory: PendingMemory,
        batches: BatchQueue,
        memory_quota: MemoryQuota,
        flushes: Flushes,
        wake: Callable[[], None],
        on_failed: PendingFailed | None,
    ) -> None:
        self.awaiting_metadata = TopicQueues()
        """The records that wait for the metadata of their topic."""
        self.unserialized = TopicQueues()
        """The records that wait for the serializers to be prepared for their topic."""
        self.preparation_errors: dict[str, BaseException] = {}
        """By topic, the last error of a serializer that can't be prepared at present."""
        self.waited: list[float] = []
        self.waited_for_memory: list[float] = []
        """See :meth:`take_waits`."""
        self.refused: list[tuple[str, int, ProducerError]] = []
        """See :meth:`take_refused`."""
        self.fails_at_refused_logins = True
        """False: records wait for metadata until they expire, even if every broker refuses the
        login."""
        self._records: OrderedDict[PendingRecord, None] = OrderedDict()
        self._one_record_each: bool = settings.batch_size <= 1
        self._sizes = sizes
        self._memory = memory
        self._batches = batches
        self._memory_quota = memory_quota
        self._flushes = flushes
        self._wake = wake
        self._on_failed = on_failed

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[PendingRecord]:
        return iter(self._records)

    @property
    def size(self) -> int:
        """The bytes that they count for."""
        return self._memory.quota.used

    @property
    def oldest(self) -> PendingRecord | None:
        """The record that was sent first; None: none is pending. Any thread may ask."""
        return next(iter(self._records), None)

    def expired(self, now: float, most: int | None = None) -> list[PendingRecord]:
        """The records whose deadline has passed, or the first ``most`` of them."""
        if not self._records:
            return []
        first = islice(self._records, most)
        return list(takewhile(lambda record: record.deadline <= now, first))

    def topic_known(self, topic: str) -> list[PendingRecord]:
        """Remove and return the records that waited for the metadata of ``topic``."""
        known = self.awaiting_metadata.take(topic)
        for record in known:
            record.awaits_metadata = False
        return known

    # --- records without bytes ---------------------------------------------------------------

    def serialize(self, topic: str, most: int) -> Iterator[PendingRecord]:
        """Serialize the first ``most`` records of ``topic`` that wait for it; yields each one.

        The iterator ends before the first record whose serializer is not prepared. A record that
        can't be serialized, or is too large, fails.
        """
        for _ in range(most):
            record = self.unserialized.first(topic)
            if record is None or record.serialize is None:
                return
            if record.cancelled:
                self.withdraw(record)
                continue
            try:
                value = record.serialize()
                size = self._sizes.checked(value)
            except NotPreparedError:
                return
            except ProducerError as error:
                self.refuse([record], error)
            else:
                self.unserialized.remove(record)
                record.serialize, record.record = None, value
                self._memory.resize(record, size)
                yield record

    # --- records begin to wait ---------------------------------------------------------------

    def add(
        self,
        record: PendingRecord,
        partition: Partition | None,
        now: float,
        *,
        over_capacity: bool = False,
    ) -> None:
        """Let a new ``record`` wait as :meth:`let_wait` does, if there is room for it.

        A record larger than the whole capacity may wait if it is the only one, because otherwise it
        could never be sent. ``over_capacity``: never refuse the record, because its caller waits
        for room before the next one.

        Raises:
            BufferExhaustedError: there is no room for more pending records.
        """
        node = None if partition is None else partition.leader
        room = self._memory.make_room(node, record.size)
        if not (room or over_capacity) and self._records:
            quota = self._memory.quota
            raise BufferExhaustedError(
                f"buffer_memory is used up: a record for topic {record.topic!r} is refused, "
                f"because of {counted(len(self._records), 'pending record')} "
                f"({quota.used} bytes), {quota.used_by.get(node, 0)} bytes of them for the "
                "same broker. Use `await producer.drain()` between sends, or raise "
                "buffer_memory"
            )
        self._records[record] = None
        self._memory.take(record, node)
        self._flushes.began(record)
        self.let_wait(record, partition, now)

    def let_wait(self, record: PendingRecord, partition: Partition | None, now: float) -> None:
        """Let ``record`` wait for its bytes, for memory, or until its partition is known."""
        if record.serialize is not None:
            self.unserialized.add(record)
            return
        if partition is None:
            record.awaits_metadata = True
            self.awaiting_metadata.add(record)
            return
        self._memory.move(record, partition.leader)
        if partition.enqueue(record):
            self._memory_quota.wait(partition, now)
        self._wake()

    # --- their wait ends ---------------------------------------------------------------------

    def withdraw(self, record: PendingRecord) -> None:
        """Take back a record that its caller has cancelled, if it is still pending.

        One in a batch is sent all the same, and its result is dropped. Records of other threads
        that were cancelled before the event loop took them are left out (``sync/pump.py``).
        """
        if not record.is_done:
            record.fail(cancelled_by_caller(record.topic))  # for its observers
            self._remove(record)
            self._wake()  # others may have its memory

    def withdraw_cancelled(self) -> None:
        """Take back all pending records that their callers have cancelled."""
        for record in [each for each in self._records if each.cancelled]:
            self.withdraw(record)

    def admit(self, now: float) -> None:
        """Put pending records into batches while there is memory."""
        if self._memory_quota.has_waiting:
            while (grant := self._memory_quota.grant(now)) is not None:
                if self._fill(grant, now):
                    self.waited_for_memory.append(grant.waited)

    def _fill(self, grant: Grant, now: float) -> bool:
        """Begin a batch with records that waited for it; False: no record fits into it."""
        partition: Partition = grant.partition
        record: PendingRecord | None = self._first_pending(partition)
        if record is None or record.size > len(grant.buffer):
            self._memory_quota.release(partition, grant.buffer)
            if record is not None:  # the memory was meant for a smaller one, which is gone
                self._memory_quota.wait(partition, now)
            return False
        batch: ProducerBatch = self._batches.open(
            partition, grant.buffer, partition.growth, now, record.sent
        )
        self._wake()
        while record is not None and batch.append(record.record):
            if self._one_record_each:
                partition.close_batch()
            partition.pop_pending()
            self.joined(record, batch, now)
            record = self._first_pending(partition)
        if record is not None:
            self._batches.filled(batch)
            partition.close_batch()
            self._memory_quota.wait(partition, now)
        return True

    def needs(self, partition: Partition) -> int | None:
        """The bytes that the records of ``partition`` wait for; None: no record is pending."""
        record = self._first_pending(partition)
        if record is None:
            return None
        return self._batches.next_size(partition, record.topic, partition.growth, record.size)

    def _first_pending(self, partition: Partition) -> PendingRecord | None:
        """The oldest record that still waits for memory of ``partition``."""
        record: PendingRecord | None
        while (record := partition.first_pending) is not None:
            if record.cancelled:
                self.withdraw(record)
            if not record.is_done:
                return record
            partition.pop_pending()
        return None

    def joined(self, record: PendingRecord, batch: ProducerBatch, now: float) -> None:
        """Remove ``record``, which has joined ``batch``."""
        self.waited.append(now - record.sent)
        self._flushes.moved(record, batch)
        self._remove(record)

    def take_waits(self) -> tuple[list[float], list[float]]:
        """The seconds that partitions waited for memory, and records for a batch, if their waits
        have ended since the last call."""
        waits = self.waited_for_memory, self.waited
        self.waited_for_memory, self.waited = [], []
        return waits

    def _remove(self, record: PendingRecord) -> None:
        """Take out ``record``, which is pending until now."""
        record.is_done = True
        del self._records[record]
        self._memory.release(record)
        self.awaiting_metadata.remove(record)
        self.unserialized.remove(record)
        self._flushes.done(record)

    def refuse(self, records: Sequence[PendingRecord], error: ProducerError) -> None:
        """Fail ``records`` of a topic that no batch can take; :meth:`take_refused` reports them."""
        if failed := self.fail(records, error):
            self.refused.append((records[0].topic, failed, error))
            self._wake()

    def take_refused(self) -> list[tuple[str, int, ProducerError]]:
        """The topics, numbers and errors of the records refused since the last call."""
        refused, self.refused = self.refused, []
        return refused

    def fail(self, records: Iterable[PendingRecord], error: ProducerError) -> int:
        """Fail the records that are still pending with ``error``; returns their number."""
        failed = 0
        wanted: list[PendingRecord] = []
        for record in records:
            if record.is_done:
                continue
            if not record.cancelled:
                wanted.append(record)
            record.fail(error)
            self._remove(record)
            failed += 1
        if failed and self._on_failed is not None:
            self._on_failed(error, wanted)
        return failed


class _Caller(NamedTuple):
    """A caller of ``drain()``, and the partition of a record.

    ``own``: the record is the caller's own, and is pending. ``patient``: see
    :meth:`MemoryWaiters.room_for`.
    """

    partition: Partition | None
    own: bool
    patient: bool


class _Line:
    """Callers that wait for memory of one node, in order."""

    def __init__(self) -> None:
        self.waiting: dict[Any, _Caller] = {}
        self.judged: tuple[object, ...] = ()
        """The node's state when all callers were examined last."""

    def go_on(self, most: int) -> None:
        """Let the first ``most`` callers go on."""
        while self.waiting and most:
            room = next(iter(self.waiting))
            del self.waiting[room]
            if not room.done():
                room.set_result(None)
                most -= 1


class MemoryWaiters:
    """Back pressure: callers wait for futures, which ``make_future`` makes.

    ``wake`` asks for a round of the sender.
    """

    def __init__(
        self,
        pending: PendingQueue,
        memory_quota: MemoryQuota,
        pool: BufferPool,
        routes: Routes,
        make_future: Callable[[], Any],
        wake: Callable[[], None],
    ) -> None:
        self.is_full = False
        """True if some node has no memory for more records: see :meth:`last_has_room`."""
        self.stalled: WeakKeyDictionary[object, dict[Partition | None, None]]
        self.stalled = WeakKeyDictionary()
        """The partitions where a caller's records had to wait since its last ``drain()``."""
        self._pending = pending
        self._memory_quota = memory_quota
        self._pool = pool
        self._routes = routes
        self._make_future = make_future
        self._wake = wake
        self._last_pending: Partition | None = None
        """The partition where the record sent last has to wait, if its topic is known."""
        self._full_nodes: set[NodeKey] = set()
        """The nodes that had no memory at the last check."""
        self.lines: dict[NodeKey, _Line] = {}
        """The callers that wait, by node."""
        self._stopped = False
        self._closed: ProducerError | None = None

    # --- room --------------------------------------------------------------------------------

    def must_wait(self) -> bool:
        """True if a caller may have to wait now, which :meth:`room_for` decides."""
        return bool(self.stalled) or not self.last_has_room()

    def last_has_room(self) -> bool:
        """True if there is room for more records like the one that was sent last."""
        last = self._routes.last
        return last is not None and not self._stopped and last.owner.leader not in self._full_nodes

    def memory_used(self, node: NodeKey) -> None:
        """A record has used memory of ``node``: find out whether any is left."""
        if node not in self._full_nodes and self._memory_quota.pressure(node):
            self._full_nodes.add(node)
            self.is_full = True

    def update(self) -> None:
        """Find out which nodes have memory again; to be called when memory has come back."""
        if self._full_nodes:
            quota = self._memory_quota
            self._full_nodes = {node for node in self._full_nodes if quota.pressure(node)}
            self.is_full = self._stopped or bool(self._full_nodes)

    def stop(self) -> None:
        """No more records will come: there is no room."""
        self._stopped = self.is_full = True

    # --- records and callers that wait -------------------------------------------------------

    def record_joined(self, builder: RecordsBuilder) -> None:
        """The record sent last is in a new batch with ``builder``."""
        self._routes.last = builder
        self.memory_used(builder.owner.leader)

    def record_waits(self, partition: Partition | None) -> None:
        """The record sent last waits for memory of ``partition`` (None: for metadata)."""
        self._routes.last = None
        self._last_pending = partition

    def caller_stalls(self, caller: object) -> None:
        """The record sent last waits; ``caller``, a task or a thread, sent it."""
        self.stalled.setdefault(caller, {})[self._last_pending] = None

    def room_for(self, caller: object, now: float, *, patient: bool = False) -> Any:
        """A future for when ``caller`` may send more; None: now.

        A caller waits for the nodes where its own records had to wait since its last call, and for
        the node of the record sent last. For a stuck node (no delivery for ``STUCK_AFTER``) a
        caller waits only on behalf of its own records, and only while the node's pressure is
        :attr:`Pressure.CRITICAL`. A ``patient`` caller does so at lower pressure as well.
        """
        if self._closed is not None:
            raise anew(self._closed)
        stalled = {} if caller is None else self.stalled.pop(caller, {})
        last = self._routes.last
        sent_last = self._last_pending if last is None else last.owner
        if (
            sent_last not in stalled
            and (room := self._wait_at(_Caller(sent_last, False, patient), now)) is not None
        ):
            self._keep(caller, stalled)
            return room
        while stalled:
            partition, _ = stalled.popitem()
            if (room := self._wait_at(_Caller(partition, True, patient), now)) is not None:
                self._keep(caller, stalled)
                return room
        return None

    def _keep(self, caller: object, stalled: dict[Partition | None, None]) -> None:
        if stalled:
            self.stalled[caller] = stalled

    def _wait_at(self, caller: _Caller, now: float) -> Any:
        node = None if caller.partition is None else caller.partition.leader
        if not _must_wait(caller, *self._judge(node, now)):
            return None
        room = self._make_future()
        room.add_done_callback(lambda room: self._forget(node, room))
        self.lines.setdefault(node, _Line()).waiting[room] = caller
        self._memory_quota.await_node(node)
        self._wake()
        return room

    def _judge(self, node: NodeKey, now: float) -> tuple[bool, Pressure]:
        """True if ``node`` is stuck, and the pressure on its memory."""
        return self._memory_quota.is_stuck(node, now), self._memory_quota.pressure(node)

    def _forget(self, node: NodeKey, room: Any) -> None:
        line = self.lines.get(node)
        if line is not None:
            line.waiting.pop(room, None)
            if not line.waiting:
                del self.lines[node]
                self._memory_quota.await_no_more(node)

    # --- the sender's rounds -----------------------------------------------------------------

    def serve(self, now: float) -> float | None:
        """Give returned memory out. Returns the time of the next check by the clock.

        Pending records come first. Of a node's partitions that have some, the one that had the
        least memory when it began to wait is the next (:meth:`MemoryQuota.grant`). The memory that
        is left lets callers of ``drain()`` go on: of each node, those that came first go first.
        """
        self._pending.admit(now)
        self.update()
        if self._stopped or not self.lines:
            return None
        for node, line in list(self.lines.items()):
            self._serve(node, line, now)
        moments = [
            self._memory_quota.silent_since(node) + tuning.STUCK_AFTER for node in self.lines
        ]
        return min((moment for moment in moments if moment > now), default=None)

    def _serve(self, node: NodeKey, line: _Line, now: float) -> None:
        """Let as many callers go on as there are free batches; the others go on in later rounds."""
        stuck, pressure = self._judge(node, now)
        judged = (stuck, pressure, self._memory_quota.moves)
        if not pressure:
            line.go_on(max(1, self._pool.room(node) // max(self._pool.poolable_size, 1)))
            self._wake()
        elif judged != line.judged:
            line.judged = judged
            for room, caller in list(line.waiting.items()):
                moved = caller.partition is not None and caller.partition.leader != node
                waits = not moved and _must_wait(caller, stuck, pressure)
                if not waits and not room.done():
                    room.set_result(None)

    def close(self, error: ProducerError) -> None:
        """Fail all waiting callers with ``error``: no memory is given out any more."""
        self._closed = error
        self._pool.close()
        for line in list(self.lines.values()):
            for room in list(line.waiting):
                if not room.done():
                    room.set_exception(anew(error))


def _must_wait(caller: _Caller, stuck: bool, pressure: Pressure) -> bool:
    if pressure is Pressure.NONE:
        return False
    if not stuck:
        return True
    return caller.own and (caller.patient or pressure is Pressure.CRITICAL)
