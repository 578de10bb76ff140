"""The callers of ``drain()`` that wait for memory, and the choice of the next ones to go on.

``send()`` does not wait: a record without memory becomes a pending record, and the sender's rounds
serve pending records first. A caller of ``drain()`` waits for the node of the record sent last, and
for the nodes where its own records had to wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from aioproducer.engine.accumulator.buffer_pool import BufferPool, NodeKey
from aioproducer.engine.accumulator.memory_quota import MemoryQuota, Pressure
from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.records.acceleration import RouteCache
from aioproducer.errors import ProducerError, anew
from aioproducer.foundation import tuning


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
