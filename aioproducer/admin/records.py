"""The deletion of records."""

from __future__ import annotations

from collections.abc import Mapping

from aioproducer.admin.calls import Answers, Calls, never
from aioproducer.admin.outcomes import Outcomes
from aioproducer.admin.requests import DeleteRecordsRequest
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
