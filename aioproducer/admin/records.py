"""The deletion of records, and the offsets in the logs of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aioproducer.admin.calls import Answers, Calls, never
from aioproducer.admin.outcomes import Outcomes
from aioproducer.admin.requests import Answer, DeleteRecordsRequest
from aioproducer.engine.client.list_offsets import LATEST, FoundOffset, ListOffsetsRequest
from aioproducer.engine.client.offset_lookup import portions
from aioproducer.model import Node, TopicPartition


class RecordCalls:
    """The calls of an Admin that are about records."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def delete(
        self, offsets: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, int]:
        """Delete the records before offsets. Returns the first offsets then."""
        calls = self._calls
        outcomes = Outcomes(offsets, str, "DELETE for the topic", never, changes=True)

        async def ask(
            some: tuple[TopicPartition, ...], node: Node | None
        ) -> Answers[TopicPartition]:
            wanted = {where: offsets[where] for where in some}
            request = DeleteRecordsRequest(wanted, calls.broker_timeout_ms(timeout))
            answers: Answers[TopicPartition] = await calls.change(outcomes, some, request, node)
            return answers

        async def attempt(pending: tuple[TopicPartition, ...]) -> Answers[TopicPartition]:
            return await calls.at_leaders(outcomes, pending, ask)

        topics = sorted({where.topic for where in offsets})
        return await calls.settle(outcomes, attempt, f"deleting records of {topics}", timeout)

    async def offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, int]:
        """The offset of the first record at or after each timestamp; without one, the end.

        ``timestamps``: milliseconds, EARLIEST or LATEST.
        """
        left = self._calls.countdown(timeout)
        found = await self._looked_up(timestamps, left(), None)
        late = dict.fromkeys((where for where, offset in found.items() if offset < 0), LATEST)
        ends = await self._looked_up(late, left(), None)
        return {where: max(0, ends.get(where, offset)) for where, offset in found.items()}

    async def ends(
        self, partitions: Iterable[TopicPartition], timeout: float | None
    ) -> dict[TopicPartition, int | None]:
        """The ends of partitions; None for those that do not exist any more."""
        timestamps = dict.fromkeys(partitions, LATEST)
        return await self._looked_up(timestamps, timeout, missing=Answer(value=None))

    async def _looked_up(
        self,
        timestamps: Mapping[TopicPartition, int],
        timeout: float | None,
        missing: Answer | None,
    ) -> dict[TopicPartition, Any]:
        """The offsets in the responses; ``missing``: of partitions that do not exist."""
        calls = self._calls
        outcomes = Outcomes(timestamps, str, "DESCRIBE for the topic", never)

        async def ask(
            some: tuple[TopicPartition, ...], node: Node | None
        ) -> Answers[TopicPartition]:
            answers: dict[TopicPartition, Answer] = {}
            for portion in portions(some):
                request = ListOffsetsRequest({where: timestamps[where] for where in portion})
                found: dict[TopicPartition, FoundOffset] = await calls.client.request(request, node)
                for where, each in found.items():
                    answers[where] = Answer(each.error_code, None, each.offset)
            return answers

        async def attempt(pending: tuple[TopicPartition, ...]) -> Answers[TopicPartition]:
            return await calls.at_leaders(outcomes, pending, ask, missing=missing)

        topics = sorted({where.topic for where in timestamps})
        return await calls.settle(outcomes, attempt, f"looking up offsets of {topics}", timeout)
