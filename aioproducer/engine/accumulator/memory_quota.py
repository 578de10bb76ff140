"""Who gets memory: quotas of nodes, waiting partitions, stuck nodes, and callers of ``drain()``.

Each leader has a quota (:class:`NodeQuota`) of the pool, of the pending records and of the futures.
So a broker that returns no memory only stops the records for its own partitions.

The futures of small records take more memory than the records. They are not in the pool, but there
is no room for more records once the futures of full batches take half as much memory as the pool,
and the memory that neither batches nor pending records need. So all of them together take at most
one and a half times as much as ``buffer_memory``. The futures of delivered records that get their
results in later turns of the event loop are not counted. Each turn sets at least a sixteenth of
them (see :class:`LateResults`).

``send()`` does not wait: a record without memory becomes a pending record, and the sender's rounds
serve pending records first. A caller of ``drain()`` waits for the node of the record sent last, and
for the nodes where its own records had to wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from enum import IntEnum
from itertools import count
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from aioproducer.engine.accumulator.buffer_pool import BufferPool, NodeKey, NodeQuota
from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.accumulator.pending_records import PendingRecords
from aioproducer.engine.records.acceleration import RouteCache
from aioproducer.errors import ProducerError, anew
from aioproducer.foundation import tuning

FUTURE_BYTES: Final = 150
"""The approximate bytes of a future, with its places in lists."""


class Pressure(IntEnum):
    """The pressure on a node's memory: the urgency for its callers to wait."""

    NONE = 0
    FULL = 1
    """No memory for the next batch, or too many futures: more records have to wait."""
    CRITICAL = 2
    """Half of the node's share of pending records is used, or it alone has twice as many futures as
    there should be in all: records may be refused soon."""


class Grant(NamedTuple):
    """Memory for a partition with pending records."""

    partition: Partition
    buffer: bytearray
    waited: float
    """Seconds."""


class LeaderView(NamedTuple):
    """A broker that leads partitions, as parts outside of the accumulator see it."""

    node: int
    partitions: int
    has_records: bool
    """True if it has records without an outcome."""
    silent_since: float
    """The time of its last delivery, or of its first record after it had none; clock seconds."""


class MemoryQuota:
    """Shares ``pool`` and ``pending`` among nodes, and grants memory to partitions that wait.

    ``needed`` returns the number of bytes that a partition waits for; None: it waits for none.
    """

    def __init__(
        self,
        pool: BufferPool,
        pending: PendingRecords,
        batch_size: int,
        needed: Callable[[Partition], int | None],
    ) -> None:
        self._pool = pool
        self._pending = pending
        self._batch_size = batch_size
        self._needed = needed
        self.futures = NodeQuota(pool.total // (2 * FUTURE_BYTES), guarantees=pool.quota.guarantees)
        """The futures of records in full batches."""
        self._quotas = (pool.quota, pending.quota, self.futures)
        self._led: dict[int, int] = {}
        """The number of partitions that each node leads."""
        self._silent_since: dict[NodeKey, float] = {}
        """The time of each node's last delivery, or of its first record."""
        self._largest: int = pool.total
        """Bytes: no batch is larger than the part of the pool guaranteed to a node."""
        self._holders = 0
        """Partitions that hold memory."""
        self._most_holders = 0
        """The largest number of holders at the same time, lately."""
        self._recounted = 0.0
        self._waiting: dict[NodeKey, list[tuple[int, int, Partition, float]]] = {}
        """Partitions that wait, by node; the partition with the least memory is first."""
        self._collecting: tuple[NodeKey] | None = None
        """The node that waits for more memory than its part; it gets memory that becomes spare."""
        self.moves = 0
        """The number of times that a partition got another leader."""
        self._awaited: set[NodeKey] = set()
        """The nodes for which callers wait in ``drain()``."""
        self._ticket = count()

    # --- leaders and holders -------------------------------------------------------------------

    def moved(self, partition: Partition, before: int | None, now: float) -> None:
        """Note the new leader of ``partition``; ``before``: the old one."""
        leader = partition.leader
        self.moves += 1
        self._join(leader)
        if partition.held or partition.first_pending is not None:
            self.record_came(leader, now)
        self._pool.move(partition.held, before, leader)
        self.futures.take(before, -partition.futures)
        self.futures.take(leader, partition.futures)
        for record in partition.pending or ():
            self._pending.move(record, leader)
        self._leave(before)
        if partition.first_pending is not None:
            self.wait(partition, now)

    def add(self, partitions: Iterable[Partition]) -> None:
        """Add partitions without memory, under their present leaders."""
        for partition in partitions:
            self._join(partition.leader)

    def _join(self, node: int | None) -> None:
        if node is not None:
            if node not in self._led:
                self._led[node] = 0
                for quota in self._quotas:
                    quota.join(node)
                self._limit_batches()
            self._led[node] += 1

    def _leave(self, node: int | None) -> None:
        if node is not None:
            self._led[node] -= 1
            if not self._led[node]:
                del self._led[node]
                for quota in self._quotas:
                    quota.leave(node)
                self._limit_batches()

    def _limit_batches(self) -> None:
        part = self._pool.quota.part
        self._largest = part if len(self._led) > 1 and part else self._pool.total

    def leaders(self) -> list[LeaderView]:
        """The brokers that lead partitions."""
        used = self._pool.quota.used_by, self._pending.quota.used_by
        return [
            LeaderView(node, led, any(node in each for each in used), self.silent_since(node))
            for node, led in tuple(self._led.items())
        ]

    def record_came(self, node: NodeKey, now: float) -> None:
        """Note a record for ``node``: the first one starts the clock of the node's deliveries."""
        if node not in self._pool.quota.used_by and node not in self._pending.quota.used_by:
            self._silent_since[node] = now

    def silent_since(self, node: NodeKey) -> float:
        """The time of the last delivery of ``node``, or of its first record, in clock seconds."""
        return self._silent_since.get(node, float("inf"))

    def is_stuck(self, node: NodeKey, now: float) -> bool:
        """True if ``node`` has had records and delivered none for ``STUCK_AFTER``.

        A node that leads all partitions is never stuck, because all callers need it.
        """
        if len(self._led) == 1 and node in self._led:
            return False
        return now - self.silent_since(node) >= tuning.STUCK_AFTER

    def allocate(
        self, partition: Partition, size: int, now: float, *, granted: bool = False
    ) -> bytearray | None:
        """Memory for a batch of ``partition``; None: no memory, or earlier waiters of its node.

        ``granted``: it is the turn of ``partition`` among the waiters.
        """
        node = partition.leader
        if node in self._waiting and not granted:
            return None
        used_by = self._pool.quota.used_by
        reserved = self._collecting is not None and self._collecting != (node,)
        if reserved and size > self._pool.quota.part - used_by.get(node, 0):
            return None
        if node not in used_by:
            self.record_came(node, now)
        buffer = self._pool.try_allocate(size, node)
        if buffer is not None:
            self._holders += not partition.held
            if self._holders > self._most_holders or now - self._recounted > tuning.REMEMBERED:
                self._count_holders(now)
            partition.hold(size)
        return buffer

    def release(self, partition: Partition, buffer: bytearray) -> None:
        """``buffer`` of ``partition`` goes back to the pool."""
        partition.hold(-len(buffer))
        self._holders -= not partition.held
        self._pool.deallocate(buffer, partition.leader)

    def delivered(self, partition: Partition, now: float) -> None:
        """The leader of ``partition`` has taken a batch."""
        self._silent_since[partition.leader] = now

    def count_futures(self, partition: Partition, futures: int) -> None:
        """Add ``futures`` to the futures of records in full batches of ``partition``."""
        if futures:
            partition.count_futures(futures)
            self.futures.take(partition.leader, futures)

    # --- how large a batch may be ------------------------------------------------------------

    def fair_size(self, size: int, node: NodeKey = None, *, grown: bool = False) -> int:
        """The part of ``size`` bytes that a batch for ``node`` gets.

        A batch that has ``grown`` takes a small part of the node's memory, or the size of the
        smallest batch. The part does not depend on the memory that is left: at the bound, batches
        would be small, and each record would cost more. Full batches for all partitions that lately
        held memory at the same time must fit in half of the pool. Otherwise the first partitions
        would take the whole pool for a few records each. No batch is larger than the part of the
        pool guaranteed to a node.
        """
        if grown:
            quota = self._pool.quota
            used_by = quota.used_by
            memory = max(
                quota.room(node) + used_by.get(node, 0), quota.total // max(len(used_by), 1)
            )
            partitions = -(-self._most_holders // max(len(self._led), 1))
            parts = max(partitions, 1) + tuning.BATCHES_BESIDE
            most = max(memory // parts, self._batch_size)
            while size > most:
                size = max(size // 2, self._batch_size)
        if size > self._largest:
            size = self._largest
        if self._most_holders <= tuning.FEW_PARTITIONS:
            return size
        return min(size, self._pool.total // (2 * self._most_holders))

    def has_room(self, node: NodeKey, size: int) -> bool:
        """True if a batch for ``node`` that may have ``size`` bytes need not wait for memory."""
        if node in self._waiting:
            return False
        return self._pool.room(node) >= self.fair_size(size, node, grown=size > self._batch_size)

    def _count_holders(self, now: float) -> None:
        if self._holders > self._most_holders:
            self._most_holders, self._recounted = self._holders, now
        elif now - self._recounted > tuning.REMEMBERED:
            self._most_holders = max(self._holders, self._most_holders // 2)
            self._recounted = now

    # --- partitions that wait ------------------------------------------------------------------

    def wait(self, partition: Partition, now: float) -> None:
        """Let ``partition`` wait for memory from ``now`` on."""
        heap = self._waiting.setdefault(partition.leader, [])
        heapq.heappush(heap, (partition.held, next(self._ticket), partition, now))

    @property
    def has_waiting(self) -> bool:
        """True if partitions may wait for memory."""
        return bool(self._waiting)

    def grant(self, now: float) -> Grant | None:
        """Memory for the next partition that waits; None: no memory for any of them.

        The partition that had the least memory when it began to wait comes first, and no other of
        its node overtakes it.
        """
        for node in sorted(self._waiting, key=lambda node: self._waiting[node][:1]):
            first = self._first_waiting(node)
            if first is None:
                self._waits_no_more(node)
                continue
            partition, needed, since = first
            buffer = self.allocate(partition, needed, now, granted=True)
            if buffer is None:
                if self._collecting is None and self._exceeds_part(needed):
                    self._collecting = (node,)
                continue
            heapq.heappop(self._waiting[node])
            if not self._waiting[node]:
                self._waits_no_more(node)
            elif self._collecting == (node,):
                self._collecting = None
            return Grant(partition, buffer, now - since)
        return None

    def _exceeds_part(self, needed: int) -> bool:
        return needed > max(self._pool.quota.part, self._batch_size)

    def _waits_no_more(self, node: NodeKey) -> None:
        del self._waiting[node]
        if self._collecting == (node,):
            self._collecting = None

    def _first_waiting(self, node: NodeKey) -> tuple[Partition, int, float] | None:
        heap = self._waiting[node]
        while heap:
            _, _, partition, since = heap[0]
            needed = self._needed(partition) if partition.leader == node else None
            if needed is not None:
                return partition, needed, since
            heapq.heappop(heap)
        return None

    def skips_linger(self, node: NodeKey, now: float) -> bool:
        """True if batches for ``node`` should not linger, because callers wait for memory.

        A wait for a stuck node does not affect the batches of other nodes.
        """
        if not self._waiting and not self._awaited:
            return False
        awaited = {*self._waiting, *self._awaited}
        return node in awaited or any(not self.is_stuck(each, now) for each in awaited)

    def await_node(self, node: NodeKey) -> None:
        """Callers wait for memory of ``node``."""
        self._awaited.add(node)

    def await_no_more(self, node: NodeKey) -> None:
        """No caller waits for memory of ``node`` any more."""
        self._awaited.discard(node)

    # --- room --------------------------------------------------------------------------------

    @property
    def is_low(self) -> bool:
        """True if so little memory is used that there is no :meth:`pressure` on any node."""
        pool, futures = self._pool.quota, self.futures
        return (
            pool.used * 4 < pool.total
            and futures.used * 4 < futures.total
            and not self._pending.quota.used
            and not self._waiting
            and self._batch_size * 4 <= pool.total
        )

    def _futures_room(self, node: NodeKey) -> int:
        """The number of futures that ``node`` may still have; they may take spare memory."""
        futures = self.futures
        room = futures.room(node)
        if room > 0:
            return room
        spare = max(self._pool.spare, 0) + max(self._pending.quota.spare, 0)
        return futures.spare + min(spare, self._pool.total // 2) // FUTURE_BYTES

    def pressure(self, node: NodeKey) -> Pressure:
        """The pressure on the memory of ``node``."""
        if self.is_low:
            return Pressure.NONE
        if self._pending.is_half_full(node):
            return Pressure.CRITICAL
        if self._futures_room(node) <= 0:
            many = self.futures.used_by.get(node, 0) > 2 * self.futures.total
            return Pressure.CRITICAL if many else Pressure.FULL
        if node in self._waiting or self._pool.room(node) < self.fair_size(self._batch_size):
            return Pressure.FULL
        return Pressure.NONE


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
        memory_quota: MemoryQuota,
        pool: BufferPool,
        routes: RouteCache,
        make_future: Callable[[], Any],
        wake: Callable[[], None],
    ) -> None:
        self.is_full = False
        """True if some node has no memory for more records: see :meth:`last_has_room`."""
        self.stalled: WeakKeyDictionary[object, dict[Partition | None, None]]
        self.stalled = WeakKeyDictionary()
        """The partitions where a caller's records had to wait since its last ``drain()``."""
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

    def look_at(self, node: NodeKey) -> None:
        """Find out whether ``node`` has memory left, after a record has used some."""
        if node not in self._full_nodes and self._memory_quota.pressure(node):
            self._full_nodes.add(node)
            self.is_full = True

    def update(self) -> None:
        """Find out which nodes have memory again; to be called when memory has come back."""
        if self._full_nodes:
            pressure = self._memory_quota.pressure
            self._full_nodes = {node for node in self._full_nodes if pressure(node)}
            self.is_full = self._stopped or bool(self._full_nodes)

    def stop(self) -> None:
        """No more records will come: there is no room."""
        self._stopped = self.is_full = True

    # --- records and callers that wait -------------------------------------------------------

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
        """Let callers with memory go on. Returns the time of the next check by the clock."""
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
