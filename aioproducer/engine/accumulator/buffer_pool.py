"""The memory of the batches: a hard limit, reused buffers, and a quota for each node.

Source: Kafka's ``BufferPool``, in which threads wait. No caller waits in this one: a record without
memory becomes a pending record, and the sender's rounds give returned memory to pending records.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from aioproducer.foundation import tuning

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
                buffer = bytearray(size)
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
        """Hand out no more buffers."""
        self._closed = True

    def _take(self, size: int) -> None:
        while self._unpooled < size:
            dropped = next(kept for kept in reversed(self._kept.values()) if kept).pop()
            self._kept_bytes -= len(dropped)
            self._unpooled += len(dropped)
        self._unpooled -= size
