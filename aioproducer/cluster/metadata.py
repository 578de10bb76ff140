"""When to ask for metadata, of which topics, and who waits for it. No I/O.

Source: Kafka's ``Metadata`` and ``ProducerMetadata``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from aioproducer.cluster.backoff import ExponentialBackoff
from aioproducer.cluster.metadata_response import MetadataNews
from aioproducer.cluster.snapshot import ClusterSnapshot, PartitionInfo, TopicInfo
from aioproducer.errors import Fate, KafkaError, ProducerError
from aioproducer.model import BootstrapServer, Node, NodeId, Peer, TopicPartition


class TopicFuture(Protocol):
    """All that is known here of the future of somebody who waits for a topic."""

    def done(self) -> bool:
        """Whether its caller gave up."""

    def set_result(self, result: TopicInfo | ProducerError, /) -> None:
        """What is known of the topic now, or why that will not be known."""


class Metadata:
    """The current snapshot and the schedule of its refreshes. Times are the clock's seconds.

    ``max_age``: refresh this old a snapshot; ``max_idle``: forget a topic not used for so long.
    """

    def __init__(
        self,
        bootstrap: Sequence[BootstrapServer],
        *,
        max_age: float,
        max_idle: float,
        backoff: ExponentialBackoff,
        rebootstrap_after: float | None,
    ) -> None:
        self.bootstrap = tuple(bootstrap)
        self.snapshot = ClusterSnapshot({})
        self.last_update: float | None = None
        """When the cluster answered last; None: never."""
        self.errors: dict[str, KafkaError] = {}
        """What the last answer said of a topic instead of its partitions."""
        self._max_age = max_age
        self._max_idle = max_idle
        self._backoff = backoff
        self._rebootstrap_after = rebootstrap_after
        self._last_used: dict[str, float] = {}
        self._awaited: dict[str, list[TopicFuture]] = {}
        self._wanted = False
        self._failures = 0
        self._not_before = 0.0
        self._in_progress = False
        self._trying_since: float | None = None

    def set_bootstrap(self, servers: Sequence[BootstrapServer]) -> None:
        """Use other bootstrap servers from now on."""
        self.bootstrap = tuple(servers)

    @property
    def peers(self) -> Collection[Peer]:
        """Whom to ask what any broker can answer: the brokers, or bootstrap servers before."""
        return self.snapshot.brokers.values() or self.bootstrap

    def describe(self, node: NodeId) -> str:
        """A broker or bootstrap server for messages, with its address if that is known."""
        if isinstance(node, int):
            return str(self.snapshot.brokers.get(node, f"broker {node}"))
        found = (str(server) for server in self.bootstrap if server.id == node)
        return next(found, "a bootstrap server")

    # --- topics ----------------------------------------------------------------------------

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are asked for."""
        return frozenset(self._last_used)

    def use(self, topic: str, now: float) -> None:
        """``topic`` is being written to; an unknown one is asked for as soon as possible."""
        if topic not in self._last_used:
            self._wanted = True
            self._not_before = 0.0
        self._last_used[topic] = now

    def idle_topics(self, now: float) -> frozenset[str]:
        """The topics that nobody has used for ``metadata_max_idle_ms``."""
        return frozenset(
            topic
            for topic, used in self._last_used.items()
            if now - used >= self._max_idle and topic not in self._awaited
        )

    def forget(self, topics: frozenset[str]) -> None:
        """Ask for ``topics`` no longer."""
        for topic in topics:
            self._last_used.pop(topic, None)
            self.errors.pop(topic, None)
        self.snapshot = self.snapshot.without(topics)

    def wait_for(self, topic: str, future: TopicFuture, now: float) -> None:
        """Ask for ``topic``, and tell ``future`` what comes of it."""
        self.use(topic, now)
        self.request_update()
        self._awaited.setdefault(topic, []).append(future)

    def wait_no_longer(self, topic: str, future: TopicFuture) -> None:
        """``future`` was told, or its caller gave up."""
        waiting = self._awaited.get(topic, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._awaited.pop(topic, None)

    def close(self, error: ProducerError) -> None:
        """Nothing will be asked any more: whoever waits for a topic gets ``error``."""
        for topic in list(self._awaited):
            self._tell(topic, error)

    def _tell(self, topic: str, known: TopicInfo | ProducerError) -> None:
        for future in self._awaited.pop(topic, ()):
            if not future.done():
                future.set_result(known)

    # --- refreshing ------------------------------------------------------------------------

    def request_update(self) -> None:
        """The snapshot is out of date: refresh it as soon as the backoff allows."""
        self._wanted = True

    def next_refresh(self, now: float) -> float | None:
        """When to send the next request; None while one is under way or nobody needs one."""
        if self._in_progress or not self._last_used:
            return None
        if self._wanted or self.last_update is None:
            return max(self._not_before, 0.0)
        return max(self.last_update + self._max_age, self._not_before)

    def started(self, now: float) -> None:
        """A request is on its way, for all of :attr:`topics`."""
        self._in_progress = True
        self._wanted = False
        if self._trying_since is None:
            self._trying_since = now

    def update(self, news: MetadataNews, asked: frozenset[str], now: float) -> None:
        """A broker answered for the topics ``asked``."""
        self._in_progress = False
        self._trying_since = None
        self.last_update = now
        if news.snapshot.brokers:
            self.snapshot = self.snapshot.updated(news.snapshot)
        for topic in asked:
            if topic in news.errors:
                self.errors[topic] = news.errors[topic]
            else:
                self.errors.pop(topic, None)
        for topic in list(self._awaited):
            if topic in self.snapshot.topics:
                self._tell(topic, self.snapshot.topics[topic])
            elif topic in news.errors and self.is_refused(topic):
                self._tell(topic, news.errors[topic])
        missing = [
            topic
            for topic in self._last_used
            if topic not in self.snapshot.topics and not self.is_refused(topic)
        ]
        unasked = [topic for topic in missing if topic not in asked]
        stale = news.stale or any(error.retriable for error in news.errors.values())
        if len(missing) > len(unasked) or stale or not news.snapshot.brokers:
            self._wanted = True
            self._failures += 1
        else:
            self._failures = 0
        self._not_before = now + self._backoff.delay(max(self._failures, 1))
        if unasked:
            self._wanted = True
            self._not_before = now

    def failed(self, now: float) -> None:
        """The request got no answer that could be used; try again after a backoff."""
        self._in_progress = False
        self._wanted = True
        self._failures += 1
        self._not_before = now + self._backoff.delay(self._failures)

    def is_refused(self, topic: str) -> bool:
        """Whether waiting for ``topic`` does not help: who waits for it gets its error at once."""
        error = self.errors.get(topic)
        return error is not None and error.fate is Fate.TOPIC_REFUSED

    def take_hints(
        self, leaders: Mapping[TopicPartition, PartitionInfo], nodes: Mapping[int, Node]
    ) -> None:
        """Use the leaders that a produce response named (KIP-951)."""
        self.snapshot = self.snapshot.with_leaders(leaders, nodes)

    # --- the cluster is gone ---------------------------------------------------------------

    def rebootstrap_due(self, now: float) -> bool:
        """Whether no broker has answered for ``metadata_recovery_rebootstrap_trigger_ms``."""
        return (
            self._rebootstrap_after is not None
            and self._trying_since is not None
            and now - self._trying_since >= self._rebootstrap_after
        )

    @property
    def may_rebootstrap(self) -> bool:
        """Whether the bootstrap servers may be tried again (KIP-899, KIP-1102)."""
        return self._rebootstrap_after is not None and bool(self.snapshot.brokers)

    def rebootstrap(self, now: float) -> None:
        """Start again from the bootstrap servers; topics and leaders stay until they answer."""
        self.snapshot = self.snapshot._replace(brokers={})
        self._trying_since = now
        self._in_progress = False
        self._wanted = True
