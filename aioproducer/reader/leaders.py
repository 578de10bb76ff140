"""The leaders of a reader's partitions, as far as they are known, and their refreshes. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Iterable
from enum import Enum, auto
from typing import Final, NamedTuple
from uuid import UUID

from aioproducer.engine.client.requests import ClusterDescription, TopicDescription
from aioproducer.engine.cluster.snapshot import Cluster, PartitionLeader, TopicInfo
from aioproducer.engine.protocol import Api
from aioproducer.errors import ProducerError, TopicRecreatedError
from aioproducer.errors.broker import error_about
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.model import Node, TopicPartition

_LONGEST_FAILURE: Final = 15.0
"""Seconds for which a topic's leaders may fail before another topic that is told has its name."""

_LONGEST_ABSENCE: Final = 30.0
"""Seconds for which brokers may tell nothing but a former id, while no other one can be read."""

_IN_A_ROW: Final = 5
"""Descriptions that tell another id, at least, before it counts as told for long: two may come from
one broker that lags, however much time is between them."""

_STEP: Final = 1_000
"""Partitions that are taken in one step, at least."""

_FORMER_IDS: Final = 8
"""The former ids that are kept of a topic."""


class Leader(NamedTuple):
    """The leader of a partition."""

    node: Node
    epoch: int
    """-1 from brokers that do not report it."""


class _Told(Enum):
    """A topic that a broker tells by a name."""

    PRESENT = auto()
    """The known one, or the first one."""
    FORMER = auto()
    """Another one, told by a broker that lags."""
    SUCCESSOR = auto()
    """Another one, which has the name now."""


class _OtherId(NamedTuple):
    """An id of a topic that is not the known one, and is told by one description after another."""

    topic_id: UUID | None
    since: float
    times: int = 1

    def lasts(self, now: float, seconds: float) -> bool:
        """True if enough descriptions have told it, for more than ``seconds``."""
        return self.times >= _IN_A_ROW and now - self.since > seconds


class _Topic:
    """What is known of a topic beside its leaders."""

    __slots__ = ("former", "offline", "returning", "served", "told")

    def __init__(self) -> None:
        self.former: list[UUID] = []
        """The former ids, if it was created again."""
        self.served: UUID | None = None
        """The id by which it was read last."""
        self.told: _OtherId | None = None
        """The other id that is told, if the leaders fail, or can't know it."""
        self.returning: _OtherId | None = None
        """The former id that is told, if the topic can't be read."""
        self.offline: dict[int, tuple[int, ...]] = {}
        """The replicas that are down, of the partitions that have such."""


class Leaders:
    """The newest leaders of ``topics``.

    A description with an older leader epoch changes nothing, as in a producer's metadata.

    Brokers learn one after the other that a topic was created again, and nothing says which of two
    ids is newer. The partitions' leaders decide: while they serve the known id, another one that is
    told changes nothing. Leaders that serve topics by their names (Fetch before version 13) can't
    contradict; there another id has to be told for long, and nothing else. An id that was
    superseded does not come back, unless every broker tells it for long and nothing was read by
    another one: an error, or a broker that lagged, misled then.
    """

    def __init__(self, topics: Iterable[str]) -> None:
        self._topics = dict.fromkeys(topics)
        self._left: set[str] = set()
        """Topics that are not wanted, and known until the next description: a group often gives
        partitions back at once. They may come back as others."""
        self._cluster = Cluster({})
        self._known: defaultdict[str, _Topic] = defaultdict(_Topic)
        """Also topics that were left."""
        self._ended: set[UUID] = set()
        """The ids that leaders know no longer."""
        self._by_name: set[UUID] = set()
        """The ids that leaders can't know: they serve topics by their names."""
        self.is_doubtful = False
        """True if the last description told another id, and the next ones have to decide."""

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
        known = self._known[topic]
        known.returning = known.told = None
        self._left.add(topic)

    def taking(
        self, description: ClusterDescription, now: float, failing: Collection[str] = ()
    ) -> Generator[None, None, dict[str, ProducerError]]:
        """Take what a broker says, in steps; returns the errors of topics.

        ``failing``: topics with a partition that can't be fetched now.
        """
        self._forget_left()
        self.is_doubtful = False
        left, cluster = _STEP, self._cluster
        errors: dict[str, ProducerError] = {}
        if description.brokers:
            self._cluster.replace_brokers(description.brokers)
        for name, topic in description.topics.items():
            if name not in self._topics:
                continue
            if topic.error_code:
                errors[name] = error_about(f"topic {name!r}", topic.error_code, Api.METADATA)
                continue
            match self._judged(topic, now, fails=name in failing):
                case _Told.PRESENT:
                    self._take(topic)
                case _Told.SUCCESSOR:
                    errors[name] = TopicRecreatedError(
                        f"topic {name!r} was deleted and created again: its offsets mean other "
                        "records. Make a new Reader"
                    )
            left -= 1 + len(topic.partitions)
            if left <= 0:
                left = _STEP
                yield
                if self._cluster is not cluster:  # it was left meanwhile
                    break
        return errors

    def _take(self, topic: TopicDescription) -> None:
        self._cluster.update_topic(_info(topic))
        self._known[topic.name].offline = {
            each.partition: each.offline_replicas
            for each in topic.partitions
            if each.offline_replicas
        }

    def _judged(self, topic: TopicDescription, now: float, *, fails: bool) -> _Told:
        name, topic_id, known = topic.name, topic.topic_id, self.topic_id(topic.name)
        entry = self._known[name]
        if topic_id is not None and topic_id in entry.former:
            is_gone = fails and (known in self._ended or known in self._by_name)
            is_read = known is not None and entry.served == known and not is_gone
            before = None if is_read else entry.returning
            entry.returning = _told_again(before, topic_id, now)
            if not entry.returning.lasts(now, _LONGEST_ABSENCE):
                return _Told.FORMER  # told for longer, it must be the present one
            entry.former.remove(topic_id)
        entry.returning = None
        if None in (known, topic_id) or topic_id == known:
            entry.told = None
            return _Told.PRESENT
        if entry.served != known:  # nothing was read by the known id
            self._forget((name,))
            return _Told.PRESENT
        if known in self._ended:
            return _Told.SUCCESSOR
        if not (fails or known in self._by_name):
            entry.told = None
            return _Told.FORMER
        entry.told = _told_again(entry.told, topic_id, now)
        if entry.told.lasts(now, _LONGEST_FAILURE):
            return _Told.SUCCESSOR
        self.is_doubtful = True
        return _Told.FORMER

    def served(self, topic: str, topic_id: UUID, *, by_id: bool) -> None:
        """A leader has answered a fetch of ``topic``."""
        self._known[topic].served = topic_id
        if by_id:
            self._ended.discard(topic_id)  # a leader that has just started refused it
            self._by_name.discard(topic_id)
        else:
            self._by_name.add(topic_id)

    def refused(self, topic_id: UUID) -> None:
        """A leader that has served a topic by its id does not know the id any more."""
        self._ended.add(topic_id)

    def renew(self, topic: str) -> None:
        """Know nothing of a topic but that its id is a former one: another one has its name."""
        known = self._cluster.topics.get(topic)
        if known is not None and known.topic_id is not None:
            former = self._known[topic].former
            former.append(known.topic_id)
            del former[:-_FORMER_IDS]
            self._ended.discard(known.topic_id)
            self._by_name.discard(known.topic_id)
        self._known[topic].served = None
        self._forget((topic,))

    def leave_cluster(self) -> None:
        """Know nothing: another cluster has topics by these names."""
        self._cluster = Cluster({})
        for known in (self._known, self._ended, self._by_name):
            known.clear()

    def _forget(self, topics: Iterable[str]) -> None:
        self._cluster.forget(topics)
        for topic in topics:
            self._known[topic].offline = {}

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
        if broker in self._known[where.topic].offline.get(where.partition, ()):
            return None
        return self._cluster.brokers.get(broker)

    def topic_id(self, topic: str) -> UUID | None:
        """The id of a topic; None: it is not known, or has none."""
        info = self._cluster.topics.get(topic)
        return None if info is None else info.topic_id


class LeaderRefresh:
    """The time to ask for leaders again: they are old, or an error says that they moved.

    ``max_age``: the age of old ones, in seconds.
    """

    def __init__(self, max_age: float, backoff: ExponentialBackoff, now: float) -> None:
        self._max_age = max_age
        self._backoff = backoff
        self._refreshed = now
        self._stale = False
        self._under_way = False
        self._failures = 0
        self._not_before = 0.0

    def request(self) -> None:
        """Refresh as soon as the backoff allows, or once more if one is under way."""
        self._stale = True

    @property
    def due(self) -> float | None:
        """The time of the next refresh; None: one is under way."""
        if self._under_way:
            return None
        return self._not_before if self._stale else self._refreshed + self._max_age

    def begin(self) -> None:
        """A refresh is under way."""
        self._under_way, self._stale = True, False

    def end(self, now: float, *, again: bool) -> None:
        """The refresh has ended; ``again``: it has failed, or has left a doubt."""
        self._under_way = False
        self._refreshed = now
        self._stale = self._stale or again
        self._failures = self._failures + 1 if again else 0
        self._not_before = now + self._backoff.delay(max(self._failures, 1))


def _told_again(before: _OtherId | None, topic_id: UUID | None, now: float) -> _OtherId:
    """``topic_id`` is told once more, or for the first time."""
    if before is None or before.topic_id != topic_id:
        return _OtherId(topic_id, now)
    return before._replace(times=before.times + 1)


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
