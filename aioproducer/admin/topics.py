"""Topics: creation, partitions, deletion, description; their records: deletion and offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aioproducer.admin.calls import Answers, Calls, listed, never
from aioproducer.admin.outcomes import Outcomes
from aioproducer.admin.requests import (
    Answer,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
)
from aioproducer.admin.values import CreatedTopic, NewTopic, TopicDescription
from aioproducer.engine.client import requests as described
from aioproducer.engine.client.offset_lookup import portions
from aioproducer.engine.client.requests import LATEST, FoundOffset, ListOffsetsRequest
from aioproducer.engine.network.request import Request
from aioproducer.errors.broker import ErrorCode
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


class TopicCalls:
    """The calls of an Admin that are about topics."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create(
        self, topics: Mapping[str, NewTopic], validate_only: bool, timeout: float | None
    ) -> dict[str, CreatedTopic]:
        """Create topics, which are given by name."""
        calls = self._calls
        permission = "CREATE for the topic or for the cluster"
        outcomes = Outcomes(topics, _topic, permission, never, changes=not validate_only)

        async def attempt(names: tuple[str, ...]) -> Answers[str]:
            request = CreateTopicsRequest(
                tuple(topics[name] for name in names),
                calls.broker_timeout_ms(timeout),
                validate_only,
            )
            return await self._change(outcomes, names, request)

        doing = f"creating {listed(topics, _topic)}"
        try:
            return await calls.settle(outcomes, attempt, doing, timeout)
        finally:
            if not validate_only:
                for name, created in outcomes.values.items():
                    self._changed(topics[name], created)

    def _changed(self, asked: NewTopic, created: CreatedTopic) -> None:
        count = created.partitions or asked.partitions or len(asked.assignment or (0,))
        self._calls.recent.changed(asked.name, count, self._calls.client.clock())

    async def add_partitions(
        self,
        topic: str,
        total: int,
        assignment: Mapping[int, tuple[int, ...]] | None,
        validate_only: bool,
        timeout: float | None,
    ) -> None:
        """Give a topic partitions until it has ``total``."""
        calls = self._calls
        outcomes = Outcomes(
            (topic,), _topic, "ALTER for the topic", never, changes=not validate_only
        )
        brokers = None if assignment is None else tuple(assignment.values())

        async def attempt(names: tuple[str, ...]) -> Answers[str]:
            request = CreatePartitionsRequest(
                topic, total, brokers, calls.broker_timeout_ms(timeout), validate_only
            )
            return await self._change(outcomes, names, request)

        await calls.settle(outcomes, attempt, f"adding partitions to topic {topic!r}", timeout)
        if not validate_only:
            calls.recent.changed(topic, total, calls.client.clock())

    async def delete(self, topics: tuple[str, ...], timeout: float | None) -> None:
        """Delete topics."""
        calls = self._calls
        outcomes = Outcomes(topics, _topic, "DELETE for the topic", never, changes=True)

        async def attempt(names: tuple[str, ...]) -> Answers[str]:
            request = DeleteTopicsRequest(names, calls.broker_timeout_ms(timeout))
            return await self._change(outcomes, names, request)

        try:
            await calls.settle(outcomes, attempt, f"deleting {listed(topics, _topic)}", timeout)
        finally:
            for name in outcomes.values:
                calls.recent.deleted(name)

    async def _change(
        self, outcomes: Outcomes[str], names: tuple[str, ...], request: Request
    ) -> Answers[str]:
        """The controller's answers; the controller is looked up for each attempt."""
        node = await self._calls.controller()
        answers: Answers[str] = await self._calls.change(outcomes, names, request, node)
        return answers

    # --- descriptions ----------------------------------------------------------------------

    async def names(self, internal: bool, timeout: float | None) -> list[str]:
        """The names of all topics that the principal may see."""
        return [topic.name for topic in await self._all(timeout) if internal or not topic.internal]

    async def describe(
        self, topics: tuple[str, ...] | None, timeout: float | None
    ) -> dict[str, TopicDescription]:
        """Topics as any broker knows them."""
        if topics is None:
            return {topic.name: _description(topic) for topic in await self._all(timeout)}
        outcomes = Outcomes(topics, _topic, "DESCRIBE for the topic", self._calls.late)
        return await self._calls.settle(
            outcomes, self._described, f"describing {listed(topics, _topic)}", timeout
        )

    async def _all(self, timeout: float | None) -> list[described.TopicDescription]:
        async def attempt() -> described.ClusterDescription:
            return await self._calls.client.describe(None)

        found = await self._calls.client.retry(
            attempt, timeout=self._calls.seconds(timeout), doing="listing the topics"
        )
        return sorted(
            (each for each in found.topics.values() if not each.error_code),
            key=lambda topic: topic.name,
        )

    async def _described(self, names: tuple[str, ...]) -> Answers[str]:
        found = await self._calls.client.describe(names)
        return {name: self._answer(found.topics[name]) for name in names}

    def _answer(self, topic: described.TopicDescription) -> Answer:
        if topic.error_code:
            return Answer(topic.error_code)
        now = self._calls.client.clock()
        if self._calls.recent.missing(topic.name, len(topic.partitions), now):
            return Answer(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the broker does not know all partitions yet"
            )
        return Answer(value=_description(topic))

    async def wait_for_leaders(
        self, topics: tuple[str, ...], timeout: float | None
    ) -> dict[str, TopicDescription]:
        """Wait until topics exist and all their partitions have leaders."""
        outcomes = Outcomes(topics, _topic, "DESCRIBE for the topic", lambda _: True)

        async def attempt(names: tuple[str, ...]) -> Answers[str]:
            answers = await self._described(names)
            return {name: _with_leaders(answer) for name, answer in answers.items()}

        doing = f"waiting for the leaders of {listed(topics, _topic)}"
        return await self._calls.settle(outcomes, attempt, doing, timeout)


def _with_leaders(answer: Answer) -> Answer:
    if answer.error_code:
        return answer
    without = [each.partition for each in answer.value.partitions if each.leader is None]
    if without:
        return Answer(
            ErrorCode.LEADER_NOT_AVAILABLE, f"the partitions {without[:20]} have no leader"
        )
    return answer


def _description(topic: described.TopicDescription) -> TopicDescription:
    return TopicDescription(topic.name, topic.topic_id, topic.internal, topic.partitions)


def _topic(name: str) -> str:
    return f"topic {name!r}"
