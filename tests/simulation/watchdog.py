"""What no promise to users says, but each of them needs: no work sleeps, and no turn takes long."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from tests.support.simulated_world import make_all_due

if TYPE_CHECKING:
    from tests.simulation.life import Life

WORTH_A_LOOK: Final = 0.05
"""Seconds: a shorter sleep holds nobody up."""
_ANY_BROKER: Final = frozenset({3, 10, 17, 18, 22, 36})
"""The APIs of requests to any broker, and of the beginning of a connection. Which broker gets them
is drawn in each round, so a round more may find another one."""
_CONNECTING: Final = "aioproducer-connection", "Task-"
MOST_ROUNDS: Final = 30
"""Iterations of the loop that a look may take."""


class Turns:
    """Counts what happens in one iteration of the event loop, and keeps the most."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self.most_delivered = 0
        """The most records that got a result in one iteration."""
        self.total_delivered = 0
        self.total_written = 0
        """The bytes of requests that no other broker could have got."""
        self._turn = -1
        self._delivered = 0

    def delivered(self) -> None:
        """A record is delivered."""
        if self._turn != self._life.loop.turns:
            self._turn, self._delivered = self._life.loop.turns, 0
        self.total_delivered += 1
        self._delivered += 1
        self.most_delivered = max(self.most_delivered, self._delivered)

    def written(self, size: int, api: int) -> None:
        """Bytes were written to a connection."""
        if api not in _ANY_BROKER:
            self.total_written += size


class Watchdog:
    """Looks, whenever the loop would sleep, whether a round of a sender would get something done.

    If it would, somebody has forgotten to ask for that round.
    """

    def __init__(self, life: Life) -> None:
        self._life = life
        self.looks = 0

    def look(self, next_event: float) -> None:
        """The loop would sleep until ``next_event``."""
        life = self._life
        if next_event - life.loop.time() < WORTH_A_LOOK:
            return
        before, now = self._progress(), life.loop.time()
        for application in life.applications.values():
            make_all_due(application.producer)
        self.looks += 1
        life.loop.settle(MOST_ROUNDS)
        after = self._progress()
        if after != before and life.loop.time() == now:  # else the process was stopped meanwhile
            life.journal.broken(
                "no_work_sleeps",
                f"at {life.world.now:.3f} s the loop would sleep for "
                f"{next_event - life.loop.time():.3f} s, and a round of the sender gets done: "
                f"{_difference(before, after)}",
            )

    def _progress(self) -> Counter[str]:
        life = self._life
        return Counter(
            {
                "bytes": life.turns.total_written,
                "deliveries": life.turns.total_delivered,
                "calls": sum(1 for call in life.journal.calls if call.ended),
                **Counter(name for name in map(_named, life.loop.tasks) if name),
            }
        )


def _named(task: asyncio.Task[Any]) -> str | None:
    """The name of a task that is there.

    Which broker is connected to is drawn in each round, so a round more may open a connection.
    """
    name = task.get_name()
    return None if task.done() or name.startswith(_CONNECTING) else name


def _difference(before: Counter[str], after: Counter[str]) -> str:
    return ", ".join(
        f"{after[k] - before[k]:+} {k}" for k in before | after if after[k] != before[k]
    )
