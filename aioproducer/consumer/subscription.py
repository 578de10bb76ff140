"""The topics of a consumer: names, and patterns of names; those that do not exist."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from math import inf
from typing import Any, TypeAlias
from uuid import UUID

from aioproducer.engine.client.arguments import checked_topic
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.requests import ClusterDescription
from aioproducer.engine.groups.assignors import STEP, PartitionRacks, TopicLayout
from aioproducer.engine.protocol import Api
from aioproducer.errors import ConfigError, ProducerError, TopicAuthorizationFailedError
from aioproducer.errors.broker import ErrorCode, error_about
from aioproducer.foundation.logs import ModuleLogger
from aioproducer.foundation.runtime.tasks import in_turns
from aioproducer.model import TopicPartition

logger = ModuleLogger(__name__)

TopicOrPattern: TypeAlias = str | re.Pattern[str]
"""A topic, or a compiled pattern that matches the whole name of each topic."""


class Subscription:
    """The topics that a consumer wants. ``call``: the callable that takes them, for errors.

    Raises :class:`ConfigError` if there are none.
    """

    def __init__(self, topics: tuple[Any, ...], call: str) -> None:
        self._names: tuple[str, ...] = ()
        self._patterns: list[re.Pattern[str]] = []
        if not topics:
            raise ConfigError(f"name at least one topic: {call}('orders', ...)")
        names: dict[str, None] = {}
        for each in topics:
            if isinstance(each, list | tuple | set | frozenset):
                raise ConfigError(
                    f"{call}() takes topics one by one, not a {type(each).__name__}: "
                    f"{call}('orders', 'payments', ...), or {call}(*topics, ...)"
                )
            if not isinstance(each, re.Pattern):
                names[checked_topic(each)] = None
            elif isinstance(each.pattern, str):
                self._patterns.append(each)
            else:
                raise ConfigError("a pattern of topics is one of str: re.compile('orders-.*')")
        self._names = tuple(names)

    def __repr__(self) -> str:
        return ", ".join([*self._names, *(each.pattern for each in self._patterns)])

    def names_it(self, topic: str) -> bool:
        """True if ``topic`` is subscribed to by its name."""
        return topic in self._names

    def has(self, topic: str) -> bool:
        """True if ``topic`` is subscribed to by its name, or matches a pattern."""
        return topic in self._names or any(each.fullmatch(topic) for each in self._patterns)

    @property
    def wanted(self) -> tuple[TopicOrPattern, ...]:
        """All names and patterns."""
        return (*self._names, *self._patterns)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The topics that are subscribed to; None: there are patterns."""
        return None if self._patterns else self._names

    def topics(self, found: ClusterDescription) -> tuple[str, ...]:
        """The names that are subscribed to now."""
        matching = sorted(name for each in self._patterns for name in _matching(each, found))
        return tuple(dict.fromkeys([*self._names, *matching]))


class GroupTopics:
    """The topics of a member, as ``client`` finds them. ``offset_reset``: ``auto_offset_reset``.

    ``tell`` gets the error of a topic that is named and not permitted: others are read.
    """

    def __init__(
        self,
        subscription: Subscription,
        client: ClusterClient,
        group_id: str,
        offset_reset: str,
        tell: Callable[[ProducerError], None],
    ) -> None:
        self._tell = tell
        self._subscription = subscription
        self._client = client
        self._group_id = group_id
        self._begins_early = offset_reset == "earliest"
        self._first: dict[tuple[str, UUID | None], float] = {}
        """The number of partitions of each topic by name and id when it was subscribed to, infinite
        for a topic with an error."""
        self._noted: Subscription | None = subscription if self._begins_early else None
        """The subscription whose topics are noted there; None: they are not known yet."""
        self._unseen: dict[TopicOrPattern, str] = dict.fromkeys(subscription.wanted, "")
        """The names and patterns of which no topic was seen so far, and what a look has found."""

    def names_it(self, topic: str) -> bool:
        """True if ``topic`` is wanted by its name, False if by a pattern."""
        return self._subscription.names_it(topic)

    def has(self, topic: str) -> bool:
        """True if ``topic`` is wanted, by its name or by a pattern."""
        return self._subscription.has(topic)

    def subscribe(self, subscription: Subscription) -> bool:
        """Want other topics from now on. False: they are the same as before."""
        if set(subscription.wanted) == set(self._subscription.wanted):
            return False
        self._subscription = subscription
        self._unseen = dict.fromkeys(subscription.wanted, "")
        if self._begins_early:
            self._noted = subscription
        return True

    async def subscribed(self) -> tuple[str, ...]:
        """The topics that the consumer wants now. The first call notes their partitions."""
        subscription, noted = self._subscription, self._noted
        names = subscription.names
        if names is not None and noted is subscription:
            return names
        found = await self._describe(names)
        wanted = subscription.topics(found)
        if noted is not subscription and noted is self._noted:
            self._note(wanted, found)
            self._noted = subscription
        return wanted

    def _note(self, wanted: Iterable[str], found: ClusterDescription) -> None:
        """Note the partitions of the topics in ``wanted`` that were not wanted before."""
        noted = self._noted
        for name in wanted:
            topic = found.topics.get(name)
            if topic is None or (noted is not None and noted.has(name)):
                continue
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                topic_id = None if topic.error_code else topic.topic_id
                self._first[name, topic_id] = inf if topic.error_code else len(topic.partitions)

    async def new_among(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, bool]:
        """The partitions among ``partitions`` that did not exist when the member subscribed to
        their topic.

        True: their topic was created again. Raises the error of a topic.
        """
        subscription = self._subscription
        if self._noted is not subscription:
            await self.subscribed()
        found = await self._describe(dict.fromkeys(where.topic for where in partitions))
        for name, topic in found.topics.items():
            if topic.error_code:
                raise error_about(f"topic {name!r}", topic.error_code, Api.METADATA)
        if self._noted is not subscription:  # another one came, or another cluster has answered
            return await self.new_among(partitions)
        # A broker of before Kafka 2.8 tells no ids, and others may have told one before.
        first = self._first
        former = {
            name: max((count for (noted, _), count in first.items() if noted == name), default=0)
            for name in found.topics
        }
        counts = {
            name: former[name]
            if topic.topic_id is None
            else first.get((name, topic.topic_id), first.get((name, None), 0))
            for name, topic in found.topics.items()
        }
        return {
            where: where.partition < former[where.topic]
            for where in partitions
            if where.partition >= counts[where.topic]
        }

    def leave_cluster(self) -> None:
        """Another cluster answers: its topics have other ids, and are not new for that."""
        if not self._begins_early:
            self._first, self._noted = {}, None

    async def counts(self, topics: Iterable[str]) -> Mapping[str, int]:
        """The number of partitions of each topic that exists. Raises the error of a topic."""
        return _counts(await self._existing(topics))

    async def layout(self, topics: Iterable[str], *, racks: bool) -> TopicLayout:
        """The partitions of each topic that exists; ``racks``: with those of their replicas.

        Raises the error of a topic.
        """
        found = await self._existing(topics)
        return TopicLayout(_counts(found), await in_turns(_racks(found)) if racks else {})

    async def _existing(self, topics: Iterable[str]) -> ClusterDescription:
        found = await self._describe(tuple(topics))
        for name, topic in found.topics.items():
            if topic.error_code not in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                error = error_about(f"topic {name!r}", topic.error_code, Api.METADATA)
                if isinstance(error, TopicAuthorizationFailedError) and self.names_it(name):
                    self._tell(error)
                elif self.names_it(name):
                    raise error
                else:
                    logger.warning("Group %r: another member wants %s", self._group_id, error)
        return found

    async def ids(self, topics: Iterable[str]) -> Mapping[str, UUID]:
        """The id of each topic that exists."""
        found = await self._describe(tuple(topics))
        return {name: each.topic_id for name, each in found.topics.items() if each.topic_id}

    @property
    def missing(self) -> list[str]:
        """The names and patterns of which no topic was seen so far, one line each."""
        return [problem for problem in self._unseen.values() if problem]

    async def look_for_missing(self, but: Collection[str]) -> None:
        """Look for topics that were not seen so far, except those in ``but``."""
        if names := [each for each in self._unseen if isinstance(each, str) and each not in but]:
            await self._describe(names)

    async def _describe(self, topics: Collection[str] | None) -> ClusterDescription:
        """The cluster and ``topics``, None: all. Those that are missing are in the log."""
        found = await self._client.describe(topics)
        missing: dict[TopicOrPattern, str] = {
            name: f"there is no topic {name!r}"
            for name, topic in found.topics.items()
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        for each in tuple(self._unseen):
            if isinstance(each, str):
                seen, problem = each in found.topics, f"there is no topic {each!r}"
            else:
                seen, problem = any(_matching(each, found)), f"no topic matches {each.pattern!r}"
            if seen and each not in missing:
                del self._unseen[each]
            elif seen or topics is None:
                self._unseen[each] = missing[each] = problem
        for problem in missing.values():
            logger.repeated(
                logging.WARNING,
                problem,
                "Group %r: %s; it is read once it exists",
                self._group_id,
                problem,
            )
        return found


def _matching(pattern: re.Pattern[str], found: ClusterDescription) -> Iterator[str]:
    """The names of the topics that match. Kafka's internal topics match no pattern."""
    return (
        name
        for name, topic in found.topics.items()
        if not topic.internal and pattern.fullmatch(name)
    )


def _counts(found: ClusterDescription) -> dict[str, int]:
    return {
        name: len(topic.partitions) for name, topic in found.topics.items() if not topic.error_code
    }


def _racks(found: ClusterDescription) -> Generator[None, None, PartitionRacks]:
    racks: dict[TopicPartition, frozenset[str]] = {}
    of_brokers = {number: broker.rack for number, broker in found.brokers.items() if broker.rack}
    for name, topic in found.topics.items():
        if topic.error_code:
            continue
        for each in topic.partitions:
            racks[TopicPartition(name, each.partition)] = frozenset(
                of_brokers[number] for number in each.replicas if number in of_brokers
            )
            if not len(racks) % STEP:
                yield
    return racks
