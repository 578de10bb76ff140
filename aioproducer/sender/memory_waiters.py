"""Memory goes to the records in line first, then to the callers of ``drain()``.

``send()`` does not wait, so a record without memory stands in line, and the sender's rounds serve
it. A caller of ``drain()`` waits for the node of the record that was sent last, and for no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from aioproducer.accumulator.memory_quota import STUCK_AFTER, Pressure
from aioproducer.accumulator.node_quota import NodeKey
from aioproducer.accumulator.partition import Partition
from aioproducer.accumulator.record_accumulator import RecordAccumulator
from aioproducer.errors import ProducerError, anew
from aioproducer.metrics import ProducerMetrics

Turn = asyncio.Future[None]


class _Caller(NamedTuple):
    """A caller of ``drain()``, and the queue of a record.

    ``own``: the record is the caller's own, and stands in line. ``patient``: see
    :meth:`MemoryWaiters.turn`.
    """

    queue: Partition | None
    own: bool
    patient: bool


class _Turns:
    """Callers that wait for room at one node, in order."""

    def __init__(self) -> None:
        self.waiting: dict[Turn, _Caller] = {}
        self.judged: tuple[object, ...] = ()
        """The node's state when all callers were looked at last."""

    def go_on(self, most: int) -> None:
        """Let the first ``most`` go on."""
        while self.waiting and most:
            turn = next(iter(self.waiting))
            del self.waiting[turn]
            if not turn.done():
                turn.set_result(None)
                most -= 1


class MemoryWaiters:
    """Serves records and callers that wait for memory, in the sender's rounds."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        metrics: ProducerMetrics,
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._accumulator = accumulator
        self._memory_quota = accumulator.memory_quota
        self._metrics = metrics
        self._wake = wake
        self._clock = clock
        self._turns: dict[NodeKey, _Turns] = {}
        self._stalled = accumulator.stalled
        self._closed: ProducerError | None = None

    def stands_in_line(self, caller: object) -> None:
        """The record sent last stands in line; ``caller``, a task or a thread, sent it."""
        if caller is not None:
            queues = self._stalled.setdefault(caller, {})
            queues[self._accumulator.last_waiting] = None

    # --- callers of drain() ------------------------------------------------------------------

    async def drain(self, caller: object) -> None:
        """Wait for room, behind the callers that asked before. Source: ``StreamWriter.drain``."""
        waited, stalled = False, caller in self._stalled
        while (turn := self.turn(caller)) is not None:
            waited = True
            await turn
            if caller not in self._stalled:
                return
        if stalled and not waited:
            await asyncio.sleep(0)  # a caller whose records are refused must not hold the loop

    def turn(self, caller: object, *, patient: bool = False) -> Turn | None:
        """A future for when ``caller`` may send more; None: now.

        A caller waits for the nodes where its records had to stand in line since it asked last, and
        for that of the record sent last. A node that has delivered nothing for :data:`STUCK_AFTER`
        is waited for by the former alone, and by them only while its line is crowded, unless they
        are ``patient``.
        """
        if self._closed is not None:
            raise anew(self._closed)
        stalled = {} if caller is None else self._stalled.pop(caller, {})
        last = self._accumulator.routes.last
        sent_last = self._accumulator.last_waiting if last is None else last.owner
        if (
            sent_last not in stalled
            and (turn := self._turn_at(_Caller(sent_last, False, patient))) is not None
        ):
            self._keep(caller, stalled)
            return turn
        while stalled:
            queue, _ = stalled.popitem()
            if (turn := self._turn_at(_Caller(queue, True, patient))) is not None:
                self._keep(caller, stalled)
                return turn
        return None

    def _keep(self, caller: object, stalled: dict[Partition | None, None]) -> None:
        if stalled:
            self._stalled[caller] = stalled

    def _turn_at(self, caller: _Caller) -> Turn | None:
        node = None if caller.queue is None else caller.queue.leader
        if not _must_wait(caller, *self._judge(node, self._clock())):
            return None
        turn = asyncio.get_running_loop().create_future()
        turn.add_done_callback(lambda turn: self._forget(node, turn))
        self._turns.setdefault(node, _Turns()).waiting[turn] = caller
        self._memory_quota.wanted.add(node)
        self._wake()
        return turn

    def _judge(self, node: NodeKey, now: float) -> tuple[bool, Pressure]:
        """True if ``node`` is stuck, and the pressure on its memory."""
        return self._memory_quota.is_stuck(node, now), self._memory_quota.pressure(node)

    def _forget(self, node: NodeKey, turn: Turn) -> None:
        turns = self._turns.get(node)
        if turns is not None:
            turns.waiting.pop(turn, None)
            if not turns.waiting:
                del self._turns[node]
                self._memory_quota.wanted.discard(node)

    # --- the sender's rounds -----------------------------------------------------------------

    def serve(self, now: float) -> float | None:
        """Give away the memory that is free. Returns when to look again by the clock alone."""
        for waited in self._accumulator.admit(now):
            self._metrics.buffer_waited(waited, now)
        self._accumulator.update_crowded()
        if self._accumulator.closing:
            return None
        for node, turns in list(self._turns.items()):
            self._serve(node, turns, now)
        moments = [self._memory_quota.silent_since(node) + STUCK_AFTER for node in self._turns]
        return min((moment for moment in moments if moment > now), default=None)

    def _serve(self, node: NodeKey, turns: _Turns, now: float) -> None:
        """Let as many callers go on as there are free batches; the others go on in later rounds."""
        stuck, pressure = self._judge(node, now)
        judged = (stuck, pressure, self._memory_quota.moves)
        pool = self._accumulator.pool
        if not pressure:
            turns.go_on(max(1, pool.room(node) // max(pool.poolable_size, 1)))
            self._wake()
        elif judged != turns.judged:
            turns.judged = judged
            for turn, caller in list(turns.waiting.items()):
                moved = caller.queue is not None and caller.queue.leader != node
                waits = not moved and _must_wait(caller, stuck, pressure)
                if not waits and not turn.done():
                    turn.set_result(None)

    def close(self, error: ProducerError) -> None:
        """Nobody gets room any more: callers that wait for it get ``error``."""
        self._closed = error
        for turns in list(self._turns.values()):
            for turn in list(turns.waiting):
                if not turn.done():
                    turn.set_exception(anew(error))


def _must_wait(caller: _Caller, stuck: bool, pressure: Pressure) -> bool:
    if pressure is Pressure.NONE:
        return False
    if not stuck:
        return True
    return caller.own and (caller.patient or pressure is Pressure.CROWDED)
