"""The calls of an Admin: requests to the brokers that can serve them, and their repetition."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from aioproducer.admin.outcomes import Outcomes, RecentTopics
from aioproducer.admin.requests import Answer
from aioproducer.engine.client.arguments import TimeLeft, countdown
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.requests import TopicDescription
from aioproducer.engine.network.frames import EncodedPayload
from aioproducer.engine.network.request import Request
from aioproducer.engine.transactions.requests import FindCoordinator, group_coordinator
from aioproducer.errors import NotControllerError, ProducerError, Written
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import Node, TopicPartition

_Key = TypeVar("_Key")
_Result = TypeVar("_Result")

Answers: TypeAlias = Mapping[_Key, Answer]
AskNode: TypeAlias = Callable[[tuple[_Key, ...], Node | None], Awaitable[Answers[_Key]]]
"""Asks a broker, or any, about keys."""
Place: TypeAlias = tuple[Node | None, Iterable[_Key]]
"""Keys, and the broker that knows about them; None: any."""


def never(_: Any) -> bool:
    """Brokers know every topic that exists."""
    return False


def listed(keys: Collection[_Key], named: Callable[[_Key], str]) -> str:
    """Keys in messages, the first few of many."""
    first = ", ".join(map(named, islice(keys, 5)))
    return f"{first} and {len(keys) - 5} more" if len(keys) > 5 else first


class _TrackedRequest:
    """A request that knows whether it was sent: it is built for a connection that is ready."""

    def __init__(self, request: Request) -> None:
        self.api = request.api
        self.answered = request.answered
        self.read = request.read
        self.sent = False
        self._build = request.build

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        built = self._build(version)
        self.sent = True
        return built


class Calls:
    """Attempts, their brokers and their repetition, for all calls of one Admin."""

    def __init__(self, client: ClusterClient) -> None:
        self.client = client
        self.recent = RecentTopics()

    def seconds(self, timeout: float | None) -> float:
        """The time of a call: ``max_block_ms`` if the caller does not say."""
        return self.client.config.max_block_ms / 1000 if timeout is None else timeout

    def countdown(self, timeout: float | None) -> Callable[[], TimeLeft]:
        """The seconds that are left of a call that takes several steps."""
        return countdown(self.seconds(timeout), self.client.clock)

    def broker_timeout_ms(self, timeout: float | None) -> int:
        """The broker's own timeout for a change, shorter than the caller's, so that the result
        arrives in time."""
        longest = self.client.config.request_timeout_ms
        return max(1, min(longest, int(min(self.seconds(timeout), longest) * 1000)))

    def late(self, topic: str) -> bool:
        """True if brokers may not know ``topic`` yet, which this Admin has created."""
        return self.recent.missing(topic, 0, self.client.clock())

    def late_partition(self, where: TopicPartition) -> bool:
        """True if brokers may not know ``where`` yet, which this Admin has created."""
        return self.recent.missing(where.topic, where.partition, self.client.clock())

    async def settle(
        self,
        outcomes: Outcomes[_Key],
        attempt: Callable[[tuple[_Key, ...]], Awaitable[Answers[_Key]]],
        doing: str,
        timeout: float | None,
    ) -> dict[_Key, Any]:
        """Ask about the pending keys until none is pending, and return the values.

        Raises the first key's error, or that of the timeout.
        """
        self.client.check_usable()

        async def once() -> None:
            if outcomes.pending:
                outcomes.take(await attempt(outcomes.pending))
                outcomes.check()

        try:
            await self.client.retry(once, timeout=self.seconds(timeout), doing=doing)
        except ProducerError as error:
            outcomes.give_up(error)
        return outcomes.results()

    async def change(
        self,
        outcomes: Outcomes[_Key],
        keys: tuple[_Key, ...],
        request: Request,
        node: Node | None,
    ) -> Any:
        """The response to a request that changes something.

        If the request was sent and got none, nobody knows whether it was done.
        """
        tracked = _TrackedRequest(request)
        try:
            return await self.client.request(tracked, node)
        except BaseException as error:
            refused = isinstance(error, ProducerError) and error.written is Written.NO
            if tracked.sent and not refused:
                outcomes.unanswered(keys)
            raise

    async def controller(self) -> Node:
        """The broker that takes changes of topics, as the cluster names it now.

        If it names none, any broker says why: there is no controller at present, or its cluster
        never has one (librdkafka's mock cluster). Raises :class:`NotControllerError`, which may
        pass.
        """
        found = await self.client.describe(())
        node = None if found.controller is None else found.brokers.get(found.controller)
        node = node or next(iter(found.brokers.values()), None)
        if node is None:
            raise NotControllerError("the cluster currently has no controller")
        return node

    async def at_leaders(
        self,
        outcomes: Outcomes[TopicPartition],
        partitions: tuple[TopicPartition, ...],
        ask: AskNode[TopicPartition],
        missing: Answer | None = None,
    ) -> Answers[TopicPartition]:
        """Ask the leader of each partition.

        ``missing``: the answer about a partition that does not exist; None: an error.
        """
        found = await self.client.describe(sorted({each.topic for each in partitions}))
        refused: dict[TopicPartition, Answer] = {}
        led: defaultdict[Node, list[TopicPartition]] = defaultdict(list)
        for where in partitions:
            topic = found.topics[where.topic]
            if self._is_news(where, topic):
                refused[where] = Answer(
                    ErrorCode.LEADER_NOT_AVAILABLE, "the brokers do not know it yet"
                )
            elif isinstance(leader := found.leader(where), Node):
                led[leader].append(where)
            else:
                unknown = leader[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                refused[where] = (unknown and missing) or Answer(*leader)
        outcomes.take(refused)
        answers = await self.at_nodes(outcomes, led.items(), ask)
        return {where: _known(answer) for where, answer in answers.items()}

    def _is_news(self, where: TopicPartition, topic: TopicDescription) -> bool:
        known = len(topic.partitions)
        now = self.client.clock()
        return known <= where.partition and self.recent.missing(topic.name, known, now)

    async def at_coordinators(
        self, outcomes: Outcomes[str], groups: tuple[str, ...], ask: AskNode[str]
    ) -> Answers[str]:
        """Ask the coordinator of each group."""
        finds = (FindCoordinator(group_coordinator(group)) for group in groups)
        results = await all_of(map(self.client.request, finds))
        refused: dict[str, Answer] = {}
        by_node: defaultdict[Node, list[str]] = defaultdict(list)
        for group, found in zip(groups, results, strict=True):
            if found.error_code:
                refused[group] = Answer(found.error_code, found.message)
            else:
                by_node[found.node].append(group)
        outcomes.take(refused)
        return await self.at_nodes(outcomes, by_node.items(), ask)

    async def of_each_broker(
        self,
        brokers: Iterable[int],
        request: Callable[[], Request],
        permission: str,
        doing: str,
        timeout: float,
    ) -> list[tuple[Node, Any]]:
        """Each broker with its answer, at its present address; without brokers that have left."""
        outcomes = Outcomes(brokers, lambda broker: f"broker {broker}", permission, never)

        async def ask(some: tuple[int, ...], node: Node | None) -> Answers[int]:
            answer: Answer = await self.client.request(request(), node)
            return dict.fromkeys(some, answer._replace(value=(node, answer.value)))

        async def attempt(pending: tuple[int, ...]) -> Answers[int]:
            return await self.at_owners(outcomes, pending, ask, gone=Answer())

        answers = await self.settle(outcomes, attempt, doing, timeout)
        return [answer for answer in answers.values() if answer is not None]

    async def at_owners(
        self,
        outcomes: Outcomes[_Key],
        keys: tuple[_Key, ...],
        ask: AskNode[_Key],
        gone: Answer | None = None,
    ) -> Answers[_Key]:
        """Ask each broker, by its id, about itself, and any broker about the other keys.

        ``gone``: the answer about a broker that is not in the cluster; None: an error.
        """
        brokers = [each for each in keys if isinstance(each, int)]
        others = [each for each in keys if not isinstance(each, int)]
        places: list[Place[_Key]] = [(None, others)] if others else []
        if brokers:
            nodes = (await self.client.describe()).brokers
            there = f"the cluster currently has the brokers {sorted(nodes)}"
            unknown = gone or Answer(ErrorCode.BROKER_NOT_AVAILABLE, there)
            outcomes.take({each: unknown for each in brokers if each not in nodes})
            places += [(nodes[each], (each,)) for each in brokers if each in nodes]
        return await self.at_nodes(outcomes, places, ask)

    async def at_nodes(
        self, outcomes: Outcomes[_Key], places: Iterable[Place[_Key]], ask: AskNode[_Key]
    ) -> Answers[_Key]:
        """Ask brokers side by side, each about its keys.

        If one fails, the answers of the others are taken before its error is raised.
        """
        asked = [ask(tuple(keys), node) for node, keys in places]
        answers: dict[_Key, Answer] = {}
        failure: BaseException | None = None
        for each in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(each, BaseException):
                failure = failure or each
            else:
                answers |= each
        if failure is not None:
            outcomes.take(answers)
            raise failure
        return answers


def _known(answer: Answer) -> Answer:
    """A leader's answer. The brokers' metadata has the partition, so it is not unknown for long."""
    if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return Answer(ErrorCode.LEADER_NOT_AVAILABLE, "the leader does not know the partition yet")
    return answer


async def all_of(awaitables: Iterable[Awaitable[_Result]]) -> list[_Result]:
    """All results, side by side. Raises the first error when every awaitable has ended."""
    results: list[_Result] = []
    for each in await asyncio.gather(*awaitables, return_exceptions=True):
        if isinstance(each, BaseException):
            raise each
        results.append(each)
    return results
