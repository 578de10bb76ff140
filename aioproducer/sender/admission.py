"""Gives memory to those who wait for it: first the records in line, then callers of ``drain()``.

``send()`` does not wait, so a record without memory waits here; one coroutine asks the pool on
behalf of all of them, which costs nothing per record.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from aioproducer.accumulator.record_accumulator import RecordAccumulator
from aioproducer.errors import BufferExhaustedError, ProducerClosedError, ProducerError, anew
from aioproducer.metrics import ProducerMetrics
from aioproducer.sender.wakeup import Wakeup


class Admission:
    """Runs beside the sender. ``max_block``: the longest that one record is waited for."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        metrics: ProducerMetrics,
        clock: Callable[[], float],
        max_block: float,
    ) -> None:
        self._accumulator = accumulator
        self._metrics = metrics
        self._clock = clock
        self._max_block = max_block
        self._wakeup = Wakeup(clock)
        self._drains: deque[asyncio.Future[None]] = deque()
        self._closed: ProducerError | None = None

    def wake(self) -> None:
        """Something happened: if anybody waits, look whether there is room now."""
        if self._drains or self._accumulator.shares.exhausted:
            self._wakeup.wake()

    async def drain(self) -> None:
        """Wait for room, behind those who asked before. Source: ``StreamWriter.drain``."""
        if self._closed is not None:
            raise anew(self._closed)
        turn = asyncio.get_running_loop().create_future()
        self._drains.append(turn)
        self._accumulator.want_room()
        self._wakeup.wake()
        await turn

    async def run(self) -> None:
        """Serve whoever waits, until cancelled."""
        while True:
            stalled = self._accumulator.shares.next_waiting()
            if stalled is None:
                await self._serve_drains()
                continue
            queue, size = stalled
            began = self._clock()
            try:
                buffer = await self._accumulator.pool.allocate(size, self._max_block)
            except BufferExhaustedError:
                self._accumulator.give_up(queue)
                continue
            except ProducerClosedError:
                return
            except asyncio.CancelledError:
                self._accumulator.give_up(queue)
                raise
            now = self._clock()
            self._metrics.buffer_waited(now - began, now)
            if not self._accumulator.admit(queue, buffer, now):
                await self._accumulator.pool.deallocate(buffer)

    async def _serve_drains(self) -> None:
        """Let as many go on as there are free batches; the rest after they have sent."""
        pool = self._accumulator.pool
        self._accumulator.update_crowded(self._clock())
        if self._drains and not self._accumulator.crowded:
            for _ in range(max(1, pool.available // max(pool.poolable_size, 1))):
                if not self._drains:
                    break
                turn = self._drains.popleft()
                if not turn.done():
                    turn.set_result(None)
            self._accumulator.room_wanted = bool(self._drains)
            await asyncio.sleep(0)
            return
        await self._wakeup.wait(None)

    def close(self, error: ProducerError) -> None:
        """Nobody will get room any more: whoever waits for it gets ``error``."""
        self._closed = error
        while self._drains:
            turn = self._drains.popleft()
            if not turn.done():
                turn.set_exception(error)
