"""Which partition gets the pool's memory next, and that no broker gets all of it.

A broker that is down returns nothing before ``delivery_timeout_ms``. So the last eighth of the pool
is for nodes that hold less than half of it: they go on, whatever becomes of the others.

The futures of small records take more memory than the records. They are not the pool's, but once
those of full batches take half as much as the pool, there is no room for more records either;
unless they are a stuck broker's, and then once they take as much as the pool.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

from aioproducer.accumulator.buffer_pool import BufferPool
from aioproducer.accumulator.partition_queue import PartitionQueue

STUCK_AFTER: Final = 1.0
"""Seconds without returning memory, after which a node is not waited for by others."""

FUTURE_BYTES: Final = 150
"""What a future takes, with its places in lists; about."""

_RESERVED_PART: Final = 8
_FEWEST_BATCHES: Final = 16
"""A pool of fewer batches has nothing to spare for a reserve."""

_FEW_PARTITIONS: Final = 16
"""For no more than so many, batches are not made smaller."""

_REMEMBERED: Final = 10.0
"""Seconds after which partitions that hold memory no more begin to be forgotten."""


@dataclass(slots=True)
class _Share:
    held: int
    returned: float
    """When memory came back last, or the first was taken, in the clock's seconds."""
    futures: int = 0
    """In full batches."""


class MemoryShares:
    """Who holds how much of ``pool``, by node; and the partitions whose records wait for it.

    ``needed`` says how many bytes a partition waits for; None: for none any more.
    """

    def __init__(
        self, pool: BufferPool, batch_size: int, needed: Callable[[PartitionQueue], int | None]
    ) -> None:
        self._pool = pool
        self._batch_size = batch_size
        self._needed = needed
        spare = pool.total >= _FEWEST_BATCHES * batch_size
        self._reserve = pool.total // _RESERVED_PART if spare else 0
        self._shares: dict[int, _Share] = {}
        self.futures = 0
        """Those of the records in full batches."""
        self._most_futures = pool.total // (2 * FUTURE_BYTES)
        self._holders = 0
        """Partitions that hold memory."""
        self._most_holders = 0
        """How many did so at the same time, lately."""
        self._recounted = 0.0
        self._waiting: list[tuple[int, int, PartitionQueue]] = []
        self._parked: list[tuple[int, int, PartitionQueue]] = []
        """Those of nodes that hold much, until there is more than the reserve."""
        self._ticket = count()

    # --- who holds what --------------------------------------------------------------------

    def take(self, queue: PartitionQueue, size: int, now: float) -> None:
        """``queue`` got ``size`` bytes."""
        self._holders += not queue.held
        self._count_holders(now)
        queue.held += size
        self._share(queue.leader, now).held += size

    def promise(self, queue: PartitionQueue, futures: int) -> None:
        """So many records in a full batch of ``queue`` have a future of their own."""
        self.futures += futures
        queue.futures += futures
        self._shares[queue.leader].futures += futures

    def keep_promise(self, queue: PartitionQueue, futures: int) -> None:
        """These have their fate; to be called before the memory of the batch is given back."""
        self.promise(queue, -futures)

    def give_back(self, queue: PartitionQueue, size: int, now: float) -> None:
        """``size`` bytes of ``queue`` go back to the pool."""
        queue.held -= size
        self._holders -= not queue.held
        self._remove(queue.leader, size, now)

    def move(self, queue: PartitionQueue, leader: int, now: float) -> None:
        """``queue`` has another leader."""
        if queue.held:
            self._shares[queue.leader].futures -= queue.futures
            self._remove(queue.leader, queue.held, now)
            share = self._share(leader, now)
            share.held += queue.held
            share.futures += queue.futures
        queue.leader = leader
        while self._parked:
            heapq.heappush(self._waiting, self._parked.pop())

    def _share(self, node: int, now: float) -> _Share:
        share = self._shares.get(node)
        if share is None:
            share = self._shares[node] = _Share(0, now)
        return share

    def _remove(self, node: int, size: int, now: float) -> None:
        share = self._shares[node]
        share.held -= size
        share.returned = now
        if not share.held:
            del self._shares[node]

    def _holds_little(self, node: int, size: int) -> bool:
        share = self._shares.get(node)
        return not self._reserve or share is None or (share.held + size) * 2 <= self._pool.total

    def _is_spare(self, size: int) -> bool:
        return self._pool.available - size >= self._reserve

    def fair(self, size: int) -> int:
        """How much of ``size`` bytes a batch gets, so that each partition can have one.

        Where full batches of all the partitions that lately had one at the same time would take
        more than half of the pool, they are smaller: else the first would have all of it, each for
        a few records.
        """
        if self._most_holders <= _FEW_PARTITIONS:
            return size
        return min(size, self._pool.total // (2 * self._most_holders))

    def _count_holders(self, now: float) -> None:
        if self._holders > self._most_holders:
            self._most_holders, self._recounted = self._holders, now
        elif now - self._recounted > _REMEMBERED:
            self._most_holders = max(self._holders, self._most_holders // 2)
            self._recounted = now

    # --- who gets some ---------------------------------------------------------------------

    def may_take(self, queue: PartitionQueue, size: int) -> bool:
        """Whether ``size`` bytes for ``queue``, if they are there, are not kept for others."""
        return self._holds_little(queue.leader, size) or (not self._parked and self._is_spare(size))

    def wait(self, queue: PartitionQueue) -> None:
        """``queue`` is to be given memory; among all, the one that holds least comes first."""
        heapq.heappush(self._waiting, (queue.held, next(self._ticket), queue))

    def next_waiting(self) -> tuple[PartitionQueue, int] | None:
        """The partition to be given memory next, and how many bytes it needs."""
        parked = self._first(self._parked)
        if parked is not None and self._is_spare(parked[1]):
            heapq.heappop(self._parked)
            return parked
        while (first := self._first(self._waiting)) is not None:
            entry = heapq.heappop(self._waiting)
            if self.may_take(*first):
                return first
            heapq.heappush(self._parked, entry)
        return None

    def _first(
        self, heap: list[tuple[int, int, PartitionQueue]]
    ) -> tuple[PartitionQueue, int] | None:
        while heap:
            queue = heap[0][2]
            needed = self._needed(queue)
            if needed is not None:
                return queue, needed
            heapq.heappop(heap)
        return None

    # --- is there any ----------------------------------------------------------------------

    @property
    def exhausted(self) -> bool:
        """Whether a partition waits."""
        return bool(self._waiting or self._parked) or self._pool.waiting > 0

    def crowded(self, now: float) -> bool:
        """Whether whoever sends next may find no memory: unless that is a stuck broker's fault."""
        if self._waiting or self._pool.waiting or self._pool.available < self._batch_size:
            return True
        if self.futures > 2 * self._most_futures:
            return True
        if not self._promises_much and not self._parked and self._is_spare(self._batch_size):
            return False
        hog = self._hog()
        return hog is None or now - hog.returned < STUCK_AFTER

    def next_change(self, now: float) -> float | None:
        """When a broker that holds much counts as stuck, if it returns nothing before."""
        hog = self._hog() if self._reserve or self._promises_much else None
        moment = None if hog is None else hog.returned + STUCK_AFTER
        return moment if moment is not None and moment > now else None

    @property
    def _promises_much(self) -> bool:
        return self.futures > self._most_futures

    def _hog(self) -> _Share | None:
        if self._promises_much:
            return max(self._shares.values(), key=lambda share: share.futures)
        half = self._pool.total / 2
        return next((share for share in self._shares.values() if share.held > half), None)
