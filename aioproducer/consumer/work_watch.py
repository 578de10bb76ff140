"""The watch over what an application works on: one that is stuck must not hold its group up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aioproducer.consumer.group_protocol import GroupProtocol
from aioproducer.consumer.progress import Progress
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import ModuleLogger, duration
from aioproducer.model import TopicPartition
from aioproducer.reader.record_source import RecordSource

logger = ModuleLogger(__name__)

_LOOKS: Final = 20
"""How often the watch looks within the longest time."""
_WARNING: Final = 0.75
"""The part of the longest time after which a line is in the log."""


class WorkWatch:
    """Has the member leave its group when its application is stuck.

    ``longest``: ``max_poll_interval_ms`` in seconds. It limits two times:

    - from when the application gets a record until the record is acknowledged;
    - while the application has no record, but records wait and nobody asks for them.

    Another member then reads the records, after a static member when its session has ended
    (:attr:`Member.leaves_for_good`). The member joins again once the application is done with its
    records and asks for more: its join waits for that in :meth:`Assignment.settled`. Java measures
    the time between two calls of ``poll()``.
    """

    def __init__(
        self,
        source: RecordSource,
        progress: Progress,
        protocol: GroupProtocol,
        longest: float,
        clock: Callable[[], float],
        group_id: str,
    ) -> None:
        self._source = source
        self._progress = progress
        self._protocol = protocol
        self._longest = longest
        self._clock = clock
        self._group_id = group_id
        self._warned: tuple[TopicPartition, int, float] | None = None
        """The record of the last warning, and when it was handed out: it may come again."""
        self._handed_out = 0, 0.0
        """The number of records that the application had got, and when that was first seen."""
        self._unread = clock()
        """The clock's time from which on records have waited while nobody worked on any."""

    def last_read(self, now: float) -> float:
        """When the application asked last, or was first seen to have got a record."""
        if (handed_out := self._source.handed_out) != self._handed_out[0]:
            self._handed_out = handed_out, now
        return max(self._source.last_asked, self._handed_out[1])

    async def run(self) -> None:
        """Look until the task is cancelled."""
        while True:
            await asyncio.sleep(self._longest / _LOOKS)
            now = self._clock()
            oldest = self._progress.oldest(now)
            gave_up = self._protocol.member.gave_up
            if gave_up or oldest is not None or not self._source.has_more:
                self._unread = now
            if gave_up:
                continue
            if oldest is None:
                if now - max(self._unread, self.last_read(now)) >= self._longest:
                    await self._give_up("nobody has read from this consumer, and records wait, for")
                continue
            where, offset, began = oldest
            age = now - began
            if age >= self._longest:
                await self._give_up(
                    f"the record of {where} at offset {offset} has been in processing for"
                )
            elif age >= self._longest * _WARNING and self._warned != oldest:
                self._warned = oldest
                logger.warning(
                    "Group %r: the record of %s at offset %d has been in processing for %s: after "
                    "%s (max_poll_interval_ms) this member leaves the group%s",
                    self._group_id,
                    where,
                    offset,
                    duration(round(age)),
                    duration(self._longest),
                    self._protocol.member.kept,
                )

    async def _give_up(self, what: str) -> None:
        reason = f"{what} longer than {duration(self._longest)} (max_poll_interval_ms)"
        try:
            await self._protocol.member.give_up(reason)
        except ProducerError as error:
            logger.debug("Leaving group %r: %s", self._group_id, error, error=error)
