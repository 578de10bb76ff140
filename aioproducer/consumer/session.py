"""The session of a member: as long as the coordinator answers, the partitions are the member's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aioproducer.consumer.metrics import ConsumerStats
from aioproducer.foundation.logs import RoomLogger
from aioproducer.foundation.wording import duration

if TYPE_CHECKING:
    from aioproducer.consumer.member import Partitions

logger = RoomLogger(__name__)


class Session:
    """Has ``partitions`` hand out nothing while the session may be over. Times are seconds."""

    def __init__(
        self,
        partitions: Partitions,
        timeout: float,
        clock: Callable[[], float],
        group_id: str,
        stats: ConsumerStats,
    ) -> None:
        self.silent = False
        """True while the session may be over."""
        self.last_heartbeat: float | None = None
        """The clock's time of the coordinator's last answer; None: the member is not in the group.
        """
        self._partitions = partitions
        self._timeout = timeout
        self._clock = clock
        self._group_id = group_id
        self._stats = stats

    def alive(self, asked: float | None = None) -> None:
        """The coordinator has answered: the member is in the group.

        ``asked``: the clock's time of the heartbeat, if it was one.
        """
        self.last_heartbeat = now = self._clock()
        if asked is not None:
            self._stats.at(now).heartbeats.add(now - asked)
        if self.silent:
            self.silent = False
            self._partitions.end_of_silence()

    def unanswered(self) -> None:
        """The coordinator has not answered, or not as it should."""
        last = self.last_heartbeat
        if self.silent or last is None or self._clock() - last < self._timeout:
            return
        self.silent = True
        logger.warning(
            "Group %r: the coordinator has not answered for %s (session_timeout_ms): the group may "
            "go on without this member, which hands out nothing until there is an answer",
            self._group_id,
            duration(self._timeout),
        )
        self._partitions.silence()

    def over(self) -> None:
        """The group continues without the member."""
        self.last_heartbeat = None
        self.silent = False
        self._stats.at(self._clock()).losses += 1
