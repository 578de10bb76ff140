"""The memory of the batches: a hard limit, reused buffers, and a quota for each node.

Source: Kafka's ``BufferPool``. Kafka's threads wait in it. Here nobody waits in the pool: a record
without memory stands in line, and the sender gives the line what has come back.
"""

from __future__ import annotations

from typing import Final

from aioproducer.accumulator.node_quota import NodeKey, NodeQuota

_FEWEST_BATCHES: Final = 8
"""A pool of fewer batches guarantees nothing: the parts would be too small for a batch."""


class BufferPool:
    """Hands out buffers of ``poolable_size`` bytes, or other sizes, up to ``total`` bytes at once.

    Returned buffers of ``poolable_size`` are kept for the next batch; others are dropped.
    """

    def __init__(self, total: int, poolable_size: int) -> None:
        self.total = total
        self.poolable_size = poolable_size
        self.quota = NodeQuota(total, guarantees=total >= _FEWEST_BATCHES * poolable_size)
        """Bytes by the node that leads the batch's partition."""
        self._unpooled = total
        self._free: list[bytearray] = []
        self._closed = False

    @property
    def available(self) -> int:
        """Bytes that may be handed out."""
        return self._unpooled + len(self._free) * self.poolable_size

    @property
    def spare(self) -> int:
        """Bytes of :attr:`available` that are kept for no node."""
        return min(self.available, self.quota.spare)

    def room(self, node: NodeKey) -> int:
        """Bytes that ``node`` may still have; at most 0 if there are none."""
        return min(self.available, self.quota.room(node))

    def try_allocate(self, size: int, node: NodeKey) -> bytearray | None:
        """A buffer of ``size`` bytes for ``node``; None if it is not there, or kept for others."""
        if self._closed or self.available < size or not self.quota.allows(node, size):
            return None
        if size == self.poolable_size and self._free:
            buffer = self._free.pop()
        else:
            self._take(size)
            try:
                buffer = bytearray(size)
            except MemoryError:
                self._unpooled += size
                raise
        self.quota.take(node, size)
        return buffer

    def deallocate(self, buffer: bytearray, node: NodeKey) -> None:
        """Take ``buffer`` of ``node`` back."""
        if len(buffer) == self.poolable_size:
            self._free.append(buffer)
        else:
            self._unpooled += len(buffer)
        self.quota.take(node, -len(buffer))

    def move(self, size: int, node: NodeKey, to: NodeKey) -> None:
        """Count ``size`` bytes that ``node`` had for node ``to``."""
        self.quota.take(node, -size)
        self.quota.take(to, size)

    def lend(self, size: int) -> None:
        """Count ``size`` of the :attr:`spare` bytes as used by somebody else, for a while."""
        self._take(size)
        self.quota.grow(-size)

    def take_back(self, size: int) -> None:
        """Free ``size`` bytes that :meth:`lend` had counted as used."""
        self._unpooled += size
        self.quota.grow(size)

    def close(self) -> None:
        """Hand out nothing any more."""
        self._closed = True

    def _take(self, size: int) -> None:
        while self._unpooled < size:
            self._free.pop()
            self._unpooled += self.poolable_size
        self._unpooled -= size
