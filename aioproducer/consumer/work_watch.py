"""The watch over records in work: a member that is stuck with one must not hold its group up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aioproducer.consumer.member import Member
from aioproducer.consumer.progress import Progress
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import RoomLogger, duration
from aioproducer.model import TopicPartition

logger = RoomLogger(__name__)

_LOOKS: Final = 20
"""How often the watch looks within the longest time."""
_WARNING: Final = 0.75
"""The part of the longest time after which a line is in the log."""


class WorkWatch:
    """Has the member leave its group when a record is in work for ``longest`` seconds.

    The group gives the record to another member then. Source: Kafka's ``max.poll.interval.ms``,
    meant as the age of the oldest unacknowledged record.
    """

    def __init__(
        self,
        progress: Progress,
        member: Member,
        longest: float,
        clock: Callable[[], float],
        group_id: str,
    ) -> None:
        self._progress = progress
        self._member = member
        self._longest = longest
        self._clock = clock
        self._group_id = group_id
        self._warned: tuple[TopicPartition, int, float] | None = None
        """The record of the last warning, and when it was handed out: it may come again."""

    async def run(self) -> None:
        """Look until the task is cancelled."""
        while True:
            await asyncio.sleep(self._longest / _LOOKS)
            now = self._clock()
            oldest = self._progress.oldest(now)
            if oldest is None or self._member.gave_up:
                continue
            where, offset, began = oldest
            age = now - began
            if age >= self._longest:
                await self._give_up(where, offset)
            elif age >= self._longest * _WARNING and self._warned != oldest:
                self._warned = oldest
                logger.warning(
                    "Group %r: the record of %s at offset %d has been in processing for %s: after "
                    "%s (max_poll_interval_ms) this member leaves the group",
                    self._group_id,
                    where,
                    offset,
                    duration(round(age)),
                    duration(self._longest),
                )

    async def _give_up(self, where: TopicPartition, offset: int) -> None:
        reason = (
            f"the record of {where} at offset {offset} has been in processing for longer than "
            f"{duration(self._longest)} (max_poll_interval_ms)"
        )
        try:
            await self._member.give_up(reason)
        except ProducerError as error:
            logger.debug("Leaving group %r: %s", self._group_id, error, error=error)
