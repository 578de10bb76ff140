"""A watchdog over a sender: whenever it sleeps, nothing is left that it could do."""

from __future__ import annotations

from typing import Any

from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.engine.sender.sender import Sender


class WatchedWakeup(Wakeup):
    """A :class:`Wakeup` that lets every part of ``sender`` have a step before the sender sleeps.

    If that does anything, a part has forgotten to say that it is due.
    """

    sender: Sender | None = None

    async def wait(self, deadline: float | None, late_at: float | None = None) -> float:
        sender = self.sender
        if sender is not None and not self._awake and (deadline is None or deadline > self._now):
            before, dues = _state(sender), [part.due for part in sender._parts]
            for part in sender._parts:
                part.step(self._now)
            sender._serve_memory(self._now)
            sender._completer.close_gaps(self._now)
            sender._batch_sender.step(self._now)
            after = _state(sender)
            assert after == before, f"the sender went to sleep with work left: {before} -> {after}"
            for part, due in zip(sender._parts, dues, strict=True):
                assert part.due >= min(due, self._now), f"{part} is due at {part.due}, not {due}"
        return await super().wait(deadline, late_at)


def _state(sender: Sender) -> dict[str, Any]:
    """The parts of a sender's state that its work changes."""
    accumulator, client = sender._accumulator, sender._client
    return {
        "requests in flight": client.total_in_flight,
        "completed requests": len(client.completed),
        "batches": len(accumulator.batches),
        "pending records": len(accumulator.pending),
        "late results": len(accumulator.late_results.waiting),
        "waiting callers": sum(len(line.waiting) for line in accumulator.waiters.lines.values()),
        "idle parts": [part.idle for part in sender._parts],
        "awake": sender._wakeup._awake,
    }
