"""The cluster as it is known: brokers, topics, leaders. No I/O.

A producer has one :class:`Cluster`, which is changed topic by topic, for there may be thousands of
them; everybody else has a :class:`ClusterView` of it, which changes nothing. A client that only
needs the brokers has :class:`KnownPeers`. :func:`why_no_answer` names the peers that do not answer.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from aioproducer.errors import ProducerError
from aioproducer.model import BootstrapServer, Node, NodeId, Peer, TopicPartition

NO_EPOCH = -1
_BELIEVED_AFTER = 5
"""The number of answers in a row after which a lower leader epoch is believed."""


class PartitionLeader(NamedTuple):
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
    partitions: tuple[PartitionLeader, ...]
    """The partitions by number, without gaps."""


class ClusterView:
    """Brokers by id (none before the first answer) and topics by name, as they are now."""

    __slots__ = ("_brokers", "_leaderless", "_topics", "brokers", "topics")

    topics: Mapping[str, TopicInfo]
    brokers: Mapping[int, Node]
    """The brokers of the last answer, and leaders that were named since."""

    def __init__(self, brokers: Mapping[int, Node], topics: Iterable[TopicInfo] = ()) -> None:
        self._brokers = dict(brokers)
        self.brokers = MappingProxyType(self._brokers)
        self._topics = {info.name: info for info in topics}
        self._leaderless: dict[str, int] = {}
        for info in self._topics.values():
            self._count_leaderless(info)
        self.topics = MappingProxyType(self._topics)

    @property
    def leaderless(self) -> Mapping[str, int]:
        """The topics that have partitions without a leader, and their number."""
        return MappingProxyType(self._leaderless)

    def _count_leaderless(self, info: TopicInfo) -> None:
        count = sum([each.leader is None for each in info.partitions])
        if count:
            self._leaderless[info.name] = count
        else:
            self._leaderless.pop(info.name, None)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, UUID]:
        """The ids of ``topics``; none if one of them is unknown."""
        infos = [(topic, self._topics.get(topic)) for topic in topics]
        found = {topic: info.topic_id for topic, info in infos if info and info.topic_id}
        return found if len(found) == len(infos) else {}

    def leader(self, topic: str, partition: int) -> Node | None:
        """The broker that leads a partition, if both are known."""
        info = self._topics.get(topic)
        if info is None or partition >= len(info.partitions):
            return None
        leader = info.partitions[partition].leader
        return None if leader is None else self._brokers.get(leader)


class Cluster(ClusterView):
    """The cluster, for its owner: a change costs only as much as changes."""

    __slots__ = ("_doubts",)

    def __init__(self, brokers: Mapping[int, Node], topics: Iterable[TopicInfo] = ()) -> None:
        super().__init__(brokers, topics)
        self._doubts: dict[str, dict[int, int]] = {}
        """The number of answers in a row with a lower leader epoch than the known one, by topic and
        partition."""

    def replace_brokers(self, brokers: Mapping[int, Node]) -> None:
        """Replace all known brokers by ``brokers``."""
        self._brokers = dict(brokers)
        self.brokers = MappingProxyType(self._brokers)

    def update_topic(self, news: TopicInfo) -> TopicInfo | None:
        """Apply a broker's news of a topic; returns its state now, or None if nothing is new.

        A partition keeps its leader where ``news`` is older: a broker that lags answers with
        an old leader and a lower leader epoch (KIP-320). If several answers in a row do, the known
        epoch was wrong: one absurd epoch is no reason to believe nobody else for ever. A topic with
        another id is another topic.
        """
        known = self._topics.get(news.name)
        doubts = self._doubts.pop(news.name, {})
        if known == news:
            return None
        if known is not None:
            news, lower = _later(known, news, doubts)
            if lower:
                self._doubts[news.name] = lower
            if known == news:
                return None
        self._topics[news.name] = news
        self._count_leaderless(news)
        return news

    def update_leaders(
        self, leaders: Mapping[TopicPartition, PartitionLeader], nodes: Mapping[int, Node]
    ) -> None:
        """Use the leaders that a produce response named, and their addresses (KIP-951).

        A hint whose epoch is not higher than the known one is ignored, and so are addresses that
        come with no other.
        """
        moved: dict[str, list[PartitionLeader]] = {}
        for (name, partition), hint in leaders.items():
            info = self._topics.get(name)
            if info is None or partition >= len(info.partitions):
                continue
            if hint.leader_epoch > info.partitions[partition].leader_epoch:
                moved.setdefault(name, list(info.partitions))[partition] = hint
        for name, partitions in moved.items():
            self._topics[name] = self._topics[name]._replace(partitions=tuple(partitions))
            self._count_leaderless(self._topics[name])
        if moved:
            self._brokers.update(nodes)

    def forget(self, topics: Iterable[str]) -> None:
        """Know nothing of ``topics`` any more."""
        for topic in topics:
            self._topics.pop(topic, None)
            self._leaderless.pop(topic, None)
            self._doubts.pop(topic, None)


def _later(
    known: TopicInfo, news: TopicInfo, doubts: Mapping[int, int]
) -> tuple[TopicInfo, dict[int, int]]:
    """The topic to believe, and the doubts about partitions that keep a known leader.

    Source: Kafka's ``Metadata.updateLatestMetadata``.
    """
    lower: dict[int, int] = {}
    if news.topic_id is not None and known.topic_id != news.topic_id:
        return news, lower
    partitions = list(news.partitions)
    for index, old in enumerate(known.partitions[: len(partitions)]):
        if NO_EPOCH < partitions[index].leader_epoch < old.leader_epoch:
            told = doubts.get(index, 0) + 1
            if told < _BELIEVED_AFTER:
                partitions[index] = old
                lower[index] = told
    return news._replace(partitions=tuple(partitions)), lower


class KnownPeers:
    """The bootstrap servers, and the brokers of the cluster's newest description."""

    def __init__(self, bootstrap: Sequence[BootstrapServer]) -> None:
        self.bootstrap = tuple(bootstrap)
        self.brokers: Mapping[int, Node] = {}
        """The brokers by id; none before the first description."""

    @property
    def peers(self) -> Collection[Peer]:
        """The peers for requests that any broker can serve."""
        return self.brokers.values() or self.bootstrap

    def rebootstrap(self) -> None:
        """Begin again from the bootstrap servers: no known broker answers (KIP-899)."""
        self.brokers = {}


def why_no_answer(peers: Iterable[Peer], failures: Mapping[NodeId, ProducerError]) -> str:
    """The last error of each of ``peers``. Those with an equal reason are named together."""
    alike: dict[str, list[Peer]] = {}
    for peer in peers:
        said = str(failures.get(peer.id) or f"{peer}: no response yet")
        alike.setdefault(said.removeprefix(str(peer)), []).append(peer)
    return "; ".join(
        f"{_names(found)}{reason}" if reason.startswith((":", " ")) else reason
        for reason, found in alike.items()
    )


def _names(peers: Sequence[Peer]) -> str:
    *others, last = peers
    if not others:
        return str(last)
    noun = "bootstrap server" if isinstance(last, BootstrapServer) else "broker"
    *names, last_name = (str(each).removeprefix(f"{noun} ") for each in peers)
    return f"{noun}s {', '.join(names)} and {last_name}"
