"""The session of a member: as long as the coordinator answers, the partitions are the member's.

:class:`SessionTimes` has its times: those of heartbeats, of rebalances, and of the session itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from aioproducer.consumer.metrics import ConsumerStats
from aioproducer.consumer.options import ConsumerOptions
from aioproducer.foundation.logs import ModuleLogger, duration

if TYPE_CHECKING:
    from aioproducer.consumer.member import Partitions

logger = ModuleLogger(__name__)


_SESSION_OF_BROKERS_MS: Final = 45_000
"""The default of the brokers' ``group.consumer.session.timeout.ms`` (KIP-848). No answer has it."""
_SHORTEST_INTERVAL_MS: Final = 100.0
"""Milliseconds between heartbeats, whatever the coordinator says."""


class SessionTimes(NamedTuple):
    """The times of a session, by the options of its member; without a unit in the name, seconds."""

    session_ms: int
    """The coordinator waits so long for a heartbeat."""
    heartbeat_ms: int
    """From one heartbeat to the next, unless the coordinator says it."""
    work_ms: int
    """``max_poll_interval_ms``: an application may work so long."""
    rebalance_ms: int
    """A rebalance waits so long for the member: the same time, except with aiokafka's
    ``rebalance_timeout_ms``."""

    @classmethod
    def of(cls, options: ConsumerOptions, *, classic: bool = True) -> SessionTimes:
        """The times of a member of either protocol; in that of KIP-848 the brokers decide."""
        session = options.session_timeout_ms
        return cls(
            session if classic else min(session, _SESSION_OF_BROKERS_MS),
            options.heartbeat_interval_ms,
            options.max_poll_interval_ms,
            options.max_poll_interval_ms,
        )

    @property
    def session(self) -> float:
        """The session ends so long after the last heartbeat that was answered."""
        return self.session_ms / 1000

    @property
    def longest_work(self) -> float:
        """A record may be in work for so long, and records may wait so long for a read."""
        return self.work_ms / 1000

    @property
    def heartbeat_timeout(self) -> float:
        """A heartbeat waits so long for its answer: a third of the session, so two more fit in."""
        return self.session / 3

    @property
    def longest_revocation(self) -> float:
        """A revocation waits so long for the records in work.

        A heartbeat reports a rebalance that the coordinator has already begun.
        """
        longest = self.longest_work
        return longest - min(2 * self.heartbeat_interval() + 1, longest / 2)

    def heartbeat_interval(self, told_ms: float | None = None) -> float:
        """From one heartbeat to the next; ``told_ms``: as the coordinator says (KIP-848)."""
        if told_ms is None:
            return self.heartbeat_ms / 1000
        return max(min(told_ms, self.session_ms / 3), _SHORTEST_INTERVAL_MS) / 1000


class Session:
    """Has ``partitions`` hand out nothing while the session may be over. Times are seconds.

    ``real_clock`` goes on while the process is stopped or the machine suspended, as the
    coordinator's does.
    """

    def __init__(
        self,
        partitions: Partitions,
        times: SessionTimes,
        clock: Callable[[], float],
        real_clock: Callable[[], float],
        group_id: str,
        stats: ConsumerStats,
    ) -> None:
        self.times = times
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
        self.ends = asked + self.times.session
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
        if last is not None and self.clock() - last < self.times.session:
            reason = "this process or machine was stopped, or the event loop was blocked,"
        else:
            reason = "the coordinator has not answered"
        logger.warning(
            "Group %r: %s for %s (session_timeout_ms): the group may continue without this member, "
            "which returns no records until the coordinator answers",
            self._group_id,
            reason,
            duration(self.times.session),
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
