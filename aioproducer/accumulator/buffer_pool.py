"""The memory of the batches: a hard limit, reused buffers, and a fair queue of those who wait.

Source: Kafka's ``BufferPool``. Its lock with one condition per waiter is here an asyncio lock with
one :class:`asyncio.Condition` per waiter: whoever returns memory wakes the first waiter only, and
that one wakes the next if there is more than it needs.
"""

from __future__ import annotations

import asyncio
from collections import deque

from aioproducer.errors import BufferExhaustedError, ProducerClosedError, RecordTooLargeError


class BufferPool:
    """Hands out buffers of ``poolable_size`` bytes, or larger ones, up to ``total`` bytes at once.

    Returned buffers of ``poolable_size`` are kept for the next batch; others are dropped.
    """

    def __init__(self, total: int, poolable_size: int) -> None:
        self.total = total
        self.poolable_size = poolable_size
        self._unpooled = total
        self._free: list[bytearray] = []
        self._lock = asyncio.Lock()
        self._waiters: deque[asyncio.Condition] = deque()
        self._closed = False

    @property
    def available(self) -> int:
        """Bytes that may be handed out."""
        return self._unpooled + len(self._free) * self.poolable_size

    @property
    def waiting(self) -> int:
        """How many wait in :meth:`allocate`."""
        return len(self._waiters)

    def try_allocate(self, size: int) -> bytearray | None:
        """A buffer of ``size`` bytes, or None while others wait or the memory is not there."""
        if self._waiters or self._closed or self.available < size:
            return None
        if size == self.poolable_size and self._free:
            return self._free.pop()
        self._take(size)
        try:
            return bytearray(size)
        except MemoryError:
            self._unpooled += size
            raise

    async def allocate(self, size: int, timeout: float) -> bytearray:
        """Wait for a buffer of ``size`` bytes, first come first served.

        The first in the queue gathers memory as it comes back, so a large buffer is not starved by
        small ones.

        Raises :class:`RecordTooLargeError` if ``size`` is more than the pool will ever have,
        :class:`BufferExhaustedError` after ``timeout`` seconds, and :class:`ProducerClosedError`
        when the pool is closed. Whatever ends the wait, what was gathered goes back.
        """
        if size > self.total:
            raise RecordTooLargeError(
                f"a batch of {size} bytes does not fit into the {self.total} bytes that batches "
                "may use: raise buffer_memory, or send smaller records"
            )
        if (buffer := self.try_allocate(size)) is not None:
            return buffer
        try:
            async with asyncio.timeout(timeout), self._lock:
                return await self._gather(size)
        except TimeoutError:
            raise BufferExhaustedError(
                f"no {size} bytes of buffer memory became free within {timeout:.3f} s: "
                "await producer.drain() between sends, or raise buffer_memory or max_block_ms"
            ) from None

    async def _gather(self, size: int) -> bytearray:
        turn = asyncio.Condition(self._lock)
        self._waiters.append(turn)
        gathered = 0
        try:
            while gathered < size:
                await turn.wait_for(lambda: self._closed or self._is_first(turn))
                if self._closed:
                    raise ProducerClosedError("the producer was closed while waiting for memory")
                if not gathered and size == self.poolable_size and self._free:
                    return self._free.pop()
                part = min(size - gathered, self.available)
                self._take(part)
                gathered += part
            buffer = bytearray(size)
            gathered = 0
            return buffer
        finally:
            self._unpooled += gathered
            self._waiters.remove(turn)
            self._wake_first()

    def _is_first(self, turn: asyncio.Condition) -> bool:
        return self._waiters[0] is turn and self.available > 0

    async def deallocate(self, buffer: bytearray) -> None:
        """Take ``buffer`` back and wake the first who waits."""
        if len(buffer) == self.poolable_size:
            self._free.append(buffer)
        else:
            self._unpooled += len(buffer)
        if self._waiters:
            async with self._lock:
                self._wake_first()

    def lend(self, size: int) -> None:
        """Count ``size`` of the :attr:`available` bytes as used by somebody else, for a while."""
        self._take(size)

    def take_back(self, size: int) -> None:
        """What was lent is free again. It wakes nobody: batches that come back do."""
        self._unpooled += size

    async def close(self) -> None:
        """Hand out nothing any more; every waiter gets an error."""
        self._closed = True
        async with self._lock:
            for turn in self._waiters:
                turn.notify()

    def _take(self, size: int) -> None:
        while self._unpooled < size:
            self._free.pop()
            self._unpooled += self.poolable_size
        self._unpooled -= size

    def _wake_first(self) -> None:
        if self._waiters and self.available > 0:
            self._waiters[0].notify()
