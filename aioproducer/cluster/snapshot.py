"""The cluster at one moment: brokers, topics, leaders. Never changed, only replaced."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from aioproducer.model import Node, TopicPartition

NO_EPOCH = -1
_BELIEVED_AFTER = 5
"""So many answers in a row with a lower leader epoch are no brokers that lag behind."""


class PartitionInfo(NamedTuple):
    """One partition's leader."""

    partition: int
    leader: int | None
    """A broker's id; None while there is none."""
    leader_epoch: int = NO_EPOCH
    """Grows with every election; -1 from brokers that do not say."""


class TopicInfo(NamedTuple):
    """One topic."""

    name: str
    topic_id: UUID | None
    """None from brokers without topic ids (before Kafka 2.8)."""
    partitions: tuple[PartitionInfo, ...]
    """By number, without gaps."""


class ClusterSnapshot(NamedTuple):
    """Brokers by id (none before the first answer) and topics by name."""

    brokers: Mapping[int, Node]
    topics: Mapping[str, TopicInfo] = MappingProxyType({})
    doubts: Mapping[TopicPartition, int] = MappingProxyType({})
    """How many answers in a row told a lower leader epoch than the known one."""

    def leader(self, topic: str, partition: int) -> Node | None:
        """The broker that leads a partition, if both are known."""
        info = self.topics.get(topic)
        if info is None or partition >= len(info.partitions):
            return None
        leader = info.partitions[partition].leader
        return None if leader is None else self.brokers.get(leader)

    def updated(self, newer: ClusterSnapshot) -> ClusterSnapshot:
        """``newer`` over this one; but a partition keeps its leader where ``newer`` is older news.

        A broker that lags behind answers with an old leader and a lower leader epoch (KIP-320). If
        several answers in a row do, the known epoch was wrong: one absurd epoch is no reason to
        believe nobody else for ever. Topics that ``newer`` does not speak of stay. A topic with
        another id is another topic.
        """
        topics = dict(self.topics)
        doubts = {
            place: count for place, count in self.doubts.items() if place.topic not in newer.topics
        }
        for name, info in newer.topics.items():
            known = self.topics.get(name)
            if known is not None:
                info, lower = _later(known, info, self.doubts)
                doubts.update(lower)
            topics[name] = info
        return ClusterSnapshot(newer.brokers, topics, doubts)

    def with_leaders(
        self, leaders: Mapping[TopicPartition, PartitionInfo], nodes: Mapping[int, Node]
    ) -> ClusterSnapshot:
        """The hints of a produce response taken over: new leaders and their addresses (KIP-951).

        A hint whose epoch is not higher than the known one is ignored, and so are addresses that
        come with no other.
        """
        topics = dict(self.topics)
        taken = False
        for (name, partition), hint in leaders.items():
            info = topics.get(name)
            if info is None or partition >= len(info.partitions):
                continue
            if hint.leader_epoch > info.partitions[partition].leader_epoch:
                partitions = list(info.partitions)
                partitions[partition] = hint
                topics[name] = info._replace(partitions=tuple(partitions))
                taken = True
        return self._replace(brokers={**self.brokers, **nodes}, topics=topics) if taken else self

    def without(self, topics: frozenset[str]) -> ClusterSnapshot:
        """The same without ``topics``."""
        kept = {name: info for name, info in self.topics.items() if name not in topics}
        return self._replace(topics=kept)


def _later(
    known: TopicInfo, news: TopicInfo, doubts: Mapping[TopicPartition, int]
) -> tuple[TopicInfo, dict[TopicPartition, int]]:
    """What to believe, and which partitions keep what was known in spite of the news.

    Source: Kafka's ``Metadata.updateLatestMetadata``.
    """
    lower: dict[TopicPartition, int] = {}
    if news.topic_id is not None and known.topic_id != news.topic_id:
        return news, lower
    partitions = list(news.partitions)
    for index, old in enumerate(known.partitions[: len(partitions)]):
        if NO_EPOCH < partitions[index].leader_epoch < old.leader_epoch:
            place = TopicPartition(news.name, index)
            told = doubts.get(place, 0) + 1
            if told < _BELIEVED_AFTER:
                partitions[index] = old
                lower[place] = told
    return news._replace(partitions=tuple(partitions)), lower
