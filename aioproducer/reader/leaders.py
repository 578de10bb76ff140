"""The leaders of a reader's partitions, as far as they are known. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from typing import Final, NamedTuple
from uuid import UUID

from aioproducer.engine.client.describe_request import ClusterDescription, TopicDescription
from aioproducer.engine.cluster.snapshot import Cluster, PartitionLeader, TopicInfo
from aioproducer.errors import ProducerError, TopicRecreatedError, error_about
from aioproducer.model import Node, TopicPartition

_LONGEST_LAG: Final = 15.0
"""Seconds that a broker may tell a former topic: Kafka fences one that lags by nine seconds."""

_STEP: Final = 1_000
"""Partitions that are taken in one step, at least."""

_FORMER_IDS: Final = 8
"""The former ids that are kept of a topic."""


class Leader(NamedTuple):
    """The leader of a partition."""

    node: Node
    epoch: int
    """-1 from brokers that do not report it."""


class Leaders:
    """The newest leaders of ``topics``.

    A description with an older leader epoch changes nothing, as in a producer's metadata. Nor does
    one of a topic that was created again since: brokers learn it one after the other.
    """

    def __init__(self, topics: Iterable[str]) -> None:
        self._topics = dict.fromkeys(topics)
        self._left: set[str] = set()
        """Topics that are not wanted, and known until the next description: a group often gives
        partitions back at once. They may come back as others."""
        self._cluster = Cluster({})
        self._former: dict[str, list[UUID]] = {}
        """The former ids of topics that were created again, also of topics that were left."""
        self._told: dict[str, tuple[UUID, float]] = {}
        """The former id that is told of a topic, and since when no other one was."""
        self._offline: dict[str, dict[int, tuple[int, ...]]] = {}
        """The replicas that are down, of the partitions that have such, by topic."""

    @property
    def topics(self) -> Collection[str]:
        """The topics whose leaders are wanted."""
        return tuple(self._topics)

    def add(self, topic: str) -> None:
        """Want the leaders of one more topic."""
        self._topics[topic] = None

    def leave(self, topic: str) -> None:
        """Want the leaders of a topic no longer."""
        self._topics.pop(topic, None)
        self._left.add(topic)

    def take(self, description: ClusterDescription, now: float) -> dict[str, ProducerError]:
        """Take what a broker says; returns the errors of topics."""
        taking = self.taking(description, now)
        while True:
            try:
                next(taking)
            except StopIteration as end:
                errors: dict[str, ProducerError] = end.value
                return errors

    def taking(
        self, description: ClusterDescription, now: float
    ) -> Generator[None, None, dict[str, ProducerError]]:
        """:meth:`take` in steps."""
        self._forget_left()
        left = _STEP
        errors: dict[str, ProducerError] = {}
        if description.brokers:
            self._cluster.take_brokers(description.brokers)
        for name, topic in description.topics.items():
            if name not in self._topics:
                continue
            known = self._cluster.topics.get(name)
            if topic.error_code:
                errors[name] = error_about(f"topic {name!r}", topic.error_code)
            elif self._is_former(topic, now):
                continue
            elif _is_another(known, topic):
                errors[name] = TopicRecreatedError(
                    f"topic {name!r} was deleted and created again: its offsets mean other records."
                    " Make a new Reader, or a new Consumer whose auto_offset_reset is not 'none'"
                )
            else:
                self._cluster.take_topic(_info(topic))
                self._offline[name] = {
                    each.partition: each.offline_replicas
                    for each in topic.partitions
                    if each.offline_replicas
                }
                left -= 1 + len(topic.partitions)
                if left <= 0:
                    left = _STEP
                    yield
        return errors

    def _is_former(self, topic: TopicDescription, now: float) -> bool:
        """True if a broker that lags describes a topic that had this name before.

        If brokers tell nothing else for long, it is the present topic, and the other one was the
        former: of two ids, nothing says which is newer.
        """
        name, topic_id = topic.name, topic.topic_id
        former = self._former.get(name)
        if former is None or topic_id is None or topic_id not in former:
            self._told.pop(name, None)
            return False
        told, since = self._told.get(name, (None, now))
        if told != topic_id:
            self._told[name] = topic_id, now
            return True
        if now - since <= _LONGEST_LAG:
            return True
        former.remove(topic_id)
        del self._told[name]
        return False

    def renew(self, topic: str) -> None:
        """Know nothing of a topic but that its id is a former one: another one has its name."""
        known = self._cluster.topics.get(topic)
        if known is not None and known.topic_id is not None:
            former = self._former.setdefault(topic, [])
            former.append(known.topic_id)
            del former[:-_FORMER_IDS]
        self._forget((topic,))

    def _forget(self, topics: Iterable[str]) -> None:
        self._cluster.forget(topics)
        for topic in topics:
            self._offline.pop(topic, None)

    def _forget_left(self) -> None:
        self._forget(self._left)
        self._left.clear()

    def leader(self, where: TopicPartition) -> Leader | None:
        """The partition's leader, if it is known."""
        node = self._cluster.leader(*where)
        if node is None:
            return None
        return Leader(node, self._cluster.topics[where.topic].partitions[where.partition][2])

    def replica(self, where: TopicPartition, broker: int) -> Node | None:
        """The broker, unless it is unknown, or its copy of the partition is known to be down."""
        if broker in self._offline.get(where.topic, {}).get(where.partition, ()):
            return None
        return self._cluster.brokers.get(broker)

    def topic_id(self, topic: str) -> UUID | None:
        """The id of a topic; None: it is not known, or has none."""
        info = self._cluster.topics.get(topic)
        return None if info is None else info.topic_id


def _is_another(known: TopicInfo | None, topic: TopicDescription) -> bool:
    """True if ``topic`` is not the one that was known by its name, as far as both have ids."""
    return (
        known is not None
        and topic.topic_id is not None
        and known.topic_id not in (None, topic.topic_id)
    )


def _info(topic: TopicDescription) -> TopicInfo:
    known = {each.partition: each for each in topic.partitions}
    return TopicInfo(
        topic.name,
        topic.topic_id,
        tuple(
            PartitionLeader(number, each.leader, each.leader_epoch)
            if (each := known.get(number)) is not None
            else PartitionLeader(number, None)
            for number in range(max(known, default=-1) + 1)
        ),
    )
