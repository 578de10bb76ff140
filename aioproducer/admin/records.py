"""The deletion of records, and the offsets in the logs of partitions."""

from __future__ import annotations

from collections.abc import Mapping

from aioproducer.admin.calls import Answers, Calls, never
from aioproducer.admin.outcomes import Outcomes
from aioproducer.admin.requests import Answer, DeleteRecordsRequest
from aioproducer.engine.client.list_offsets import FoundOffset, ListOffsetsRequest
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
        self,
        timestamps: Mapping[TopicPartition, int],
        timeout: float | None,
        missing: Answer | None = None,
    ) -> dict[TopicPartition, int | None]:
        """The offset of the first record at or after each timestamp; None: there is none.

        ``timestamps``: milliseconds, EARLIEST or LATEST. ``missing``: the answer about a partition
        that does not exist; None: an error.
        """
        calls = self._calls
        outcomes = Outcomes(timestamps, str, "DESCRIBE for the topic", never)

        async def ask(
            some: tuple[TopicPartition, ...], node: Node | None
        ) -> Answers[TopicPartition]:
            request = ListOffsetsRequest({where: timestamps[where] for where in some})
            found: dict[TopicPartition, FoundOffset] = await calls.client.request(request, node)
            return {
                where: Answer(each.error_code, None, None if each.offset < 0 else each.offset)
                for where, each in found.items()
            }

        async def attempt(pending: tuple[TopicPartition, ...]) -> Answers[TopicPartition]:
            return await calls.at_leaders(outcomes, pending, ask, missing=missing)

        topics = sorted({where.topic for where in timestamps})
        return await calls.settle(outcomes, attempt, f"looking up offsets of {topics}", timeout)
