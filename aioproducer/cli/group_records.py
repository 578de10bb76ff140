"""The records of a member of a group, which commits what ``aioproducer tail`` has shown."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final, Self

from aioproducer.consumer import Consumer
from aioproducer.consumer.options import CONSUMER_OPTIONS
from aioproducer.model import ConsumerRecord

__all__ = ["OPTIONS", "GroupRecords"]

OPTIONS: Final = {
    name: option for name, option in CONSUMER_OPTIONS.items() if name != "auto_commit"
}
"""The options of the member that a user may set."""
_MOST: Final = 500
"""Records that are shown, and then acknowledged, together."""


class GroupRecords:
    """The records that the group gives to this member. ``arguments``: those of a Consumer."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._consumer = Consumer(*arguments, **options)
        self.client = self._consumer._link.client  # the one that is used first

    async def __aenter__(self) -> Self:
        await self._consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Commit what was shown, and leave the group."""
        await self._consumer.close()

    async def chunks(self, count: int | None) -> AsyncGenerator[Iterable[ConsumerRecord]]:
        """Yield chunks of records, as :class:`RecordChunks` does."""
        left = _MOST if count is None else count
        while left > 0:
            most = min(left, _MOST)
            async for records in self._consumer.lists(most):
                yield records
                if count is not None:
                    left -= len(records)
                if left < most:  # the next list has to be shorter
                    await self._consumer.commit()
                    break
