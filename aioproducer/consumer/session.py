"""The session of a member: as long as the coordinator answers, the partitions are the member's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from aioproducer.consumer.metrics import ConsumerStats
from aioproducer.foundation.logs import RoomLogger, duration

if TYPE_CHECKING:
    from aioproducer.consumer.member import Partitions

logger = RoomLogger(__name__)


class Session:
    """Has ``partitions`` hand out nothing while the session may be over. Times are seconds.

    ``real_clock`` goes on while the process is stopped or the machine suspended, as the
    coordinator's does.
    """

    def __init__(
        self,
        partitions: Partitions,
        timeout: float,
        clock: Callable[[], float],
        real_clock: Callable[[], float],
        group_id: str,
        stats: ConsumerStats,
    ) -> None:
        self.timeout = timeout
        self.silent = False
        """True while the session may be over."""
        self.ends = inf
        """The real clock's time from which on it may be over; infinite outside of the group."""
        self.last_heartbeat: float | None = None
        """The clock's time of the coordinator's last answer; None: the member is not in the group.
        """
        self.clock = clock
        self.real_clock = real_clock
        self._answered = asyncio.Event()
        self._partitions = partitions
        self._group_id = group_id
        self._stats = stats

    def joined(self, asked: float) -> None:
        """The answer to what was sent at ``asked``, a time of the real clock, says that the member
        is in the group."""
        self.last_heartbeat = self.clock()
        self.ends = asked + self.timeout
        if self.silent and self.real_clock() < self.ends:
            self.silent = False
            self._answered.set()
            self._partitions.end_of_silence()

    def alive(self, asked: float) -> None:
        """The coordinator has answered the heartbeat that was sent at ``asked``, a time of the real
        clock. An answer that has waited while the process was stopped proves nothing."""
        self.joined(asked)
        self._stats.at(self.clock()).heartbeats.add(self.real_clock() - asked)

    @property
    def may_be_over(self) -> bool:
        """True while the session may be over, also if nothing has looked since it ended."""
        return self.silent or self.real_clock() >= self.ends

    def look(self) -> None:
        """Hand out nothing from now on if the session may be over."""
        if self.real_clock() < self.ends:
            return
        if not self.silent:
            self.silent = True
            self._warn()
        self._partitions.silence()  # those as well that were assigned meanwhile

    def _warn(self) -> None:
        last = self.last_heartbeat
        if last is not None and self.clock() - last < self.timeout:
            reason = "this process or machine was stopped, or the event loop was blocked,"
        else:
            reason = "the coordinator has not answered"
        logger.warning(
            "Group %r: %s for %s (session_timeout_ms): the group may go on without this member, "
            "which hands out nothing until there is an answer",
            self._group_id,
            reason,
            duration(self.timeout),
        )

    async def answer(self) -> None:
        """Wait while the session may be over, or until :meth:`wake` is called."""
        self.look()
        if self.silent:
            self._answered.clear()
            await self._answered.wait()

    def wake(self) -> None:
        """Wake the waiters for an answer: they may have nothing to wait for."""
        self._answered.set()

    def over(self) -> None:
        """The group continues without the member."""
        self.last_heartbeat = None
        self.ends = inf
        self.silent = False
        self._answered.set()
        self._stats.at(self.clock()).losses += 1
