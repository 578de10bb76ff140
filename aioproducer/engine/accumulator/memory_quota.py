"""The memory of batches and pending records: a hard limit, a quota for each node, and grants.

Each leader has a quota (:class:`NodeQuota`) of the pool, of the pending records and of the futures.
So a broker that returns no memory only stops the records for its own partitions.

The futures of small records take more memory than the records. They are not in the pool, but there
is no room for more records once the futures of full batches take half as much memory as the pool,
and the memory that neither batches nor pending records need. So all of them together take at most
one and a half times as much as ``buffer_memory``. The futures of delivered records that get their
results in later turns of the event loop are not counted. Each turn sets at least a sixteenth of
them (see :class:`LateResults`).

Source: Kafka's ``BufferPool``, in which threads wait. No caller waits in this one: a record without
memory becomes a pending record, and the sender's rounds give returned memory to the partitions of
pending records (:meth:`MemoryQuota.grant`). :mod:`aioproducer.engine.accumulator.waiting` has those
who wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from enum import IntEnum
from itertools import count
from typing import Final, NamedTuple, TypeAlias

from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.accumulator.pending_records import PendingRecord
from aioproducer.engine.records.acceleration import new_buffer
from aioproducer.foundation import tuning

FUTURE_BYTES: Final = 150
"""The approximate bytes of a future, with its places in lists."""

NodeKey: TypeAlias = Hashable
"""A node's id, or a value that stands for records without a node."""


class NodeQuota:
    """Shares ``total`` units among nodes, so that no node can stop the others.

    Half of the units are guaranteed in equal parts to the nodes that have joined. Any node may use
    the other half, first come, first served. Nodes that return nothing hold their own parts and at
    most the free half; the other nodes keep their parts. A single node may use all units.
    """

    __slots__ = (
        "_committed",
        "_members",
        "free_for_all",
        "guarantees",
        "part",
        "total",
        "used",
        "used_by",
    )

    def __init__(self, total: int, *, guarantees: bool = True) -> None:
        self.total = total
        self.guarantees = guarantees
        self.used = 0
        """Units that all nodes use."""
        self.part = 0
        """Units that each member is guaranteed."""
        self.used_by: dict[NodeKey, int] = {}
        """Units that a node uses, for each node that uses any."""
        self.free_for_all: int = total - total // tuning.GUARANTEED_PART if guarantees else total
        """The number of units that any node may take, as long as no more are used."""
        self._members: set[NodeKey] = set()
        self._committed = 0
        """Units in use, and units that are kept for members."""

    def join(self, node: NodeKey) -> None:
        """Guarantee a part to ``node``."""
        self._members.add(node)
        self._divide()

    def leave(self, node: NodeKey) -> None:
        """Withdraw the part of ``node``."""
        self._members.discard(node)
        self._divide()

    def _divide(self) -> None:
        guaranteed = self.total - self.free_for_all
        self.part = guaranteed // len(self._members) if self._members else 0
        kept = sum(max(0, self.part - self.used_by.get(node, 0)) for node in self._members)
        self._committed = self.used + kept

    def take(self, node: NodeKey, units: int) -> None:
        """``node`` uses ``units`` more (fewer, if negative)."""
        used = self.used_by
        before: int = used.get(node, 0)
        after: int = before + units
        if after:
            used[node] = after
        elif before:
            del used[node]
        self.used += units
        if node in self._members:
            part: int = self.part
            units = (after if after > part else part) - (before if before > part else part)
        self._committed += units

    def grow(self, units: int) -> None:
        """Add ``units`` to the free half (remove some, if negative)."""
        self.total += units
        self.free_for_all += units

    @property
    def free(self) -> int:
        """Unused units; negative if more are used than there are."""
        return self.total - self.used

    @property
    def spare(self) -> int:
        """Units that any node may take; negative if a guarantee can't be kept at present."""
        return self.total - self._committed

    def room(self, node: NodeKey) -> int:
        """Units that ``node`` may still take."""
        kept: int = self.part - self.used_by.get(node, 0) if node in self._members else 0
        return max(kept, 0) + max(self.spare, 0)

    def allows(self, node: NodeKey, units: int) -> bool:
        """True if ``node`` may take ``units``.

        A node that uses no units may take all free ones: otherwise no node could ever take more
        units than its limit.
        """
        if self.used + units <= self.free_for_all:
            return True
        if units > self.free:
            return False
        return units <= self.room(node) or node not in self.used_by


class BufferPool:
    """Hands out buffers, ``total`` bytes at once.

    Returned buffers of ``poolable_size`` bytes, and of ``doublings`` of that size, are kept for the
    next batch; others are dropped.
    """

    def __init__(self, total: int, poolable_size: int, doublings: int = 0) -> None:
        self.total = total
        self.poolable_size = poolable_size
        self.quota = NodeQuota(
            total, guarantees=total >= tuning.GUARANTEES_FROM_BATCHES * poolable_size
        )
        """Bytes by the node that leads the batch's partition."""
        self._unpooled = total
        self._kept: dict[int, list[bytearray]] = {
            poolable_size << doubling: [] for doubling in range(doublings + 1)
        }
        """Unused buffers by their size, the smallest size first."""
        self._kept_bytes = 0
        self._closed = False

    @property
    def available(self) -> int:
        """Free bytes."""
        return self._unpooled + self._kept_bytes

    @property
    def spare(self) -> int:
        """Bytes of :attr:`available` that are kept for no node."""
        return min(self.available, self.quota.spare)

    def room(self, node: NodeKey) -> int:
        """Bytes that ``node`` may still have; at most 0 if there are none."""
        return min(self.available, self.quota.room(node))

    def try_allocate(self, size: int, node: NodeKey) -> bytearray | None:
        """A buffer of ``size`` bytes for ``node``; None if it is used, or kept for other nodes."""
        quota: NodeQuota = self.quota
        if (
            self._closed
            or self._unpooled + self._kept_bytes < size
            or (quota.used + size > quota.free_for_all and not quota.allows(node, size))
        ):
            return None
        if kept := self._kept.get(size):
            buffer = kept.pop()
            self._kept_bytes -= size
        else:
            self._take(size)
            try:
                buffer = new_buffer(size)
            except MemoryError:
                self._unpooled += size
                raise
        quota.take(node, size)
        return buffer

    def deallocate(self, buffer: bytearray, node: NodeKey) -> None:
        """Take ``buffer`` of ``node`` back."""
        size: int = len(buffer)
        kept = self._kept.get(size)
        if kept is None:
            self._unpooled += size
        else:
            kept.append(buffer)
            self._kept_bytes += size
        self.quota.take(node, -size)

    def move(self, size: int, node: NodeKey, to: NodeKey) -> None:
        """Count ``size`` bytes that ``node`` had for node ``to``."""
        self.quota.take(node, -size)
        self.quota.take(to, size)

    def lend(self, size: int) -> None:
        """Count ``size`` of the :attr:`spare` bytes as used outside the pool, for a while."""
        self._take(size)
        self.quota.grow(-size)

    def take_back(self, size: int) -> None:
        """Free ``size`` bytes that :meth:`lend` had counted as used."""
        self._unpooled += size
        self.quota.grow(size)

    def close(self) -> None:
        """Hand out no more buffers, and keep none."""
        self._closed = True
        self._unpooled += self._kept_bytes
        self._kept_bytes = 0
        self._kept.clear()

    def _take(self, size: int) -> None:
        while self._unpooled < size:
            dropped = next(kept for kept in reversed(self._kept.values()) if kept).pop()
            self._kept_bytes -= len(dropped)
            self._unpooled += len(dropped)
        self._unpooled -= size


class PendingMemory:
    """The memory of pending records: ``capacity`` bytes, and the bytes borrowed from ``pool``.

    The leaders of their partitions share the capacity; records without a node use the part that is
    guaranteed to no node. Pending records may borrow while that leaves ``keep`` spare bytes in the
    pool, so there is always memory to serve them.
    """

    def __init__(self, capacity: int, pool: BufferPool, keep: int) -> None:
        self.capacity = capacity
        self.quota = NodeQuota(capacity, guarantees=pool.quota.guarantees)
        """Bytes by the node that leads the record's partition."""
        self._pool = pool
        self._keep = keep
        self._borrowed = 0

    @property
    def free(self) -> int:
        """Unused bytes of the capacity."""
        return max(0, self.capacity - self.quota.used)

    def is_half_full(self, node: NodeKey) -> bool:
        """True if ``node`` uses half of its share of the capacity; borrowed bytes do not count."""
        own = self.quota.room(node) - self._borrowed
        return self.quota.used_by.get(node, 0) > own

    def make_room(self, node: NodeKey, size: int) -> bool:
        """Borrow what ``node`` lacks for ``size`` bytes; False: there is no room for them."""
        quota = self.quota
        if quota.allows(node, size):
            return True
        lacking = size - min(quota.room(node), quota.free)
        if self._pool.spare - lacking < self._keep:
            return False
        self._pool.lend(lacking)
        self._borrowed += lacking
        quota.grow(lacking)
        return True

    def take(self, record: PendingRecord, node: NodeKey) -> None:
        """Count a new ``record`` for ``node``, whether it has room or not."""
        record.node = node
        self.quota.take(node, record.size)

    def move(self, record: PendingRecord, node: NodeKey) -> None:
        """Count ``record`` for another node, if it is still pending."""
        if record.is_done:
            return
        self.quota.take(record.node, -record.size)
        record.node = node
        self.quota.take(node, record.size)

    def resize(self, record: PendingRecord, size: int) -> None:
        """``record`` counts for ``size`` bytes from now on."""
        self.quota.take(record.node, size - record.size)
        record.size = size

    def release(self, record: PendingRecord) -> None:
        """Count ``record`` no more; the pool gets the borrowed bytes back that nobody needs."""
        self.quota.take(record.node, -record.size)
        surplus = min(self._borrowed, self.quota.spare)
        if surplus > 0:
            self._pool.take_back(surplus)
            self._borrowed -= surplus
            self.quota.grow(-surplus)


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
        pending: PendingMemory,
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

    def is_awaited(self, node: NodeKey, now: float) -> bool:
        """True if callers or pending records wait for memory that batches for ``node`` may return.

        A stuck node returns nothing, so a wait for it says nothing about other nodes.
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
    def is_ample(self) -> bool:
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
        if self.is_ample:
            return Pressure.NONE
        if self._pending.is_half_full(node):
            return Pressure.CRITICAL
        if self._futures_room(node) <= 0:
            many = self.futures.used_by.get(node, 0) > 2 * self.futures.total
            return Pressure.CRITICAL if many else Pressure.FULL
        if node in self._waiting or self._pool.room(node) < self.fair_size(self._batch_size):
            return Pressure.FULL
        return Pressure.NONE
