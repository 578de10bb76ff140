"""Requests for metadata when they are due; the accumulator follows their responses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from itertools import islice
from typing import Final

from aioproducer.engine.accumulator import RecordAccumulator
from aioproducer.engine.client.requester import NEVER, Requester
from aioproducer.engine.client.requests import MetadataRequest
from aioproducer.engine.cluster.metadata import Asked, Metadata
from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.sender.compressor import Compressor
from aioproducer.engine.sender.delivery_reports import PendingFailures
from aioproducer.errors import (
    BrokerConnectionError,
    InvalidProducerIdMappingError,
    ProducerError,
    ProtocolError,
    RebootstrapRequiredError,
    kafka_error,
)
from aioproducer.errors.broker import explain
from aioproducer.errors.client import anew
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import ModuleLogger
from aioproducer.model import Node, NodeId, TopicPartition

logger = ModuleLogger(__name__)

_SHOWN: Final = 10
"""The most brokers in a line."""


class MetadataRefresher(Requester):
    """One metadata request at a time, to the least loaded broker.

    The sender processes the response in parts, some steps in each round.
    """

    requests = (MetadataRequest,)

    def __init__(
        self,
        metadata: Metadata,
        client: NetworkClient,
        accumulator: RecordAccumulator,
        pending_failures: PendingFailures,
        compressor: Compressor,
        wake: Callable[[], None],
        on_refusal: Callable[[ProducerError], None] = lambda error: None,
    ) -> None:
        super().__init__(wake)
        metadata.on_request = self.due_now
        self._on_refusal = on_refusal
        self.on_another_cluster: Callable[[ProducerError, float], None] = lambda _, __: None
        """Called with an error that names both when another cluster takes the place of the known
        one, and with the time."""
        self._metadata = metadata
        self._client = client
        self._accumulator = accumulator
        self._pending = accumulator.pending
        self._pending_failures = pending_failures
        self._compressor = compressor
        self._taking: Generator[None, None, None] | None = None
        """The rest of the work with a response."""
        self._now = 0.0

    def step(self, now: float) -> None:
        """Continue with a response, or send a request if one is due."""
        self._now = now
        self.waits = self._client.has_refused_logins
        if self.waits:
            self._refuse_waiting()
        if self._taking is not None:
            self._take_in()
            self.due = now  # parts of the response may be left
            return
        due = self._metadata.next_refresh()
        self.due = NEVER if due is None else due
        if self.due <= now:
            self._refresh(now)

    def _refresh(self, now: float) -> None:
        self.due = NEVER
        if self._metadata.is_full_refresh_due(now):
            self._forget_idle_topics(now)
        self._metadata.tries(now)
        peers = self._metadata.peers
        node = self._client.least_loaded(peers, now)
        reached = node is not None or self._client.reaches(peers)
        if self._metadata.rebootstraps(now, reached=reached):
            logger.repeated(
                logging.WARNING,
                "rebootstrap",
                "No known broker responds: starting again from bootstrap_servers",
            )
            self._metadata.rebootstrap(now)
            for server in self._metadata.bootstrap:  # its name may lead elsewhere by now
                self._client.end(server.id, BrokerConnectionError("bootstrapping again"))
            self.due = now
            return
        if node is None:
            self.due = self._client.next_chance(peers, now) or NEVER
        if node is None or not self._client.ready(node, now):
            self.waits = True
            self.due = min(self.due, self._metadata.rebootstrap_at)
            return
        asked, detailed = self._metadata.start(now), frozenset(self._metadata.detailed)
        self._client.send_to_any(node.id, MetadataRequest(asked, detailed), peers, now)

    def _refuse_waiting(self) -> None:
        """Fail the records and callers that wait for metadata if every broker refuses the login."""
        refusal = self._client.refusal(self._metadata.peers)
        if refusal is None:
            return
        if self._pending.fails_at_refused_logins:
            for topic in list(self._pending.awaiting_metadata.topics):
                self._fail_pending(topic, anew(refusal))
            self._metadata.tell_waiting(refusal)
        self._on_refusal(refusal)

    def _forget_idle_topics(self, now: float) -> None:
        idle = frozenset(
            topic
            for topic in self._metadata.idle_topics(now)
            if self._accumulator.forget_topic(topic, now)
        )
        if idle:
            self._metadata.forget(idle)
            for topic in idle:
                self._compressor.forget(topic)
                self._client.metrics.forget_topic(topic)

    # --- responses -------------------------------------------------------------------------

    def completed(self, completion: Completion, now: float) -> None:
        """Take the response to a request, or the error instead."""
        request: MetadataRequest = completion.request
        self._now = now
        if completion.error is not None:
            self._failed(completion.error)
        else:
            self._taking = self._take(request.asked, completion.result, completion.node)
            self._take_in()

    def _take_in(self) -> None:
        """Do some of the work with a response."""
        taking, most = self._taking, tuning.METADATA_STEPS_PER_TURN
        if taking is not None and len([*islice(taking, most)]) < most:
            self._taking = None

    def _take(
        self, asked: Asked, reading: Generator[None, None, MetadataNews], node: NodeId
    ) -> Generator[None, None, None]:
        """Read a response to its end, then apply it, in steps."""
        try:
            news = yield from reading
        except ProtocolError as misunderstood:
            self._failed(misunderstood)
            return
        if news.error_code:
            said = explain(news.error_code)
            self._failed(
                kafka_error(news.error_code, f"the broker refused a metadata request: {said}")
            )
            return
        if news.brokers and self._metadata.is_another(news.cluster_id):
            if not self._metadata.follows(node):
                self._refuse_cluster(news, node)
                return
            yield from self._follow_cluster(news, node)
        for topic, error in news.errors.items():
            if error.retriable and topic not in self._metadata.errors:
                logger.repeated(
                    logging.WARNING,
                    ("unusable", type(error)),
                    "%s; records for the topic stay pending",
                    error,
                    topic=topic,
                    error=error,
                )
        self._tell_cluster(news)
        yield from self._apply(news, asked)
        self._client.cluster_id = self._metadata.expected_cluster
        servers = (server.id for server in self._metadata.bootstrap)
        self._client.forget_except([*self._metadata.snapshot.brokers, *servers])
        for topic, error in news.errors.items():
            if self._metadata.is_refused(topic):
                self._fail_pending(topic, error)
            yield

    def _refuse_cluster(self, news: MetadataNews, node: NodeId) -> None:
        """Do without the answer of another cluster; another server may know the right one."""
        metadata, stays = self._metadata, self._metadata.same_cluster
        error = RebootstrapRequiredError(
            f"{metadata.describe(node)} belongs to cluster {news.cluster_id!r} now, and this "
            f"producer to cluster {metadata.cluster_id!r}: no more records are sent there"
            + (
                f". It stays with {metadata.cluster_id!r}, because metadata_recovery_strategy is "
                "'same_cluster'"
                if stays
                else " before bootstrap_servers name the cluster"
            )
        )
        level = logging.WARNING if stays else logging.INFO
        logger.repeated(level, ("foreign", node), "%s", error, error=error)
        self._client.end(node, error)
        self._failed(error)

    def _follow_cluster(self, news: MetadataNews, node: NodeId) -> Generator[None, None, None]:
        """Leave the known cluster for another one. Whatever is in flight there is in doubt."""
        before, now = self._metadata.cluster_id, self._now
        error = InvalidProducerIdMappingError(
            f"cluster {news.cluster_id!r} answers instead of cluster {before!r}, and knows "
            "nothing of this producer's transactions"
        )
        for connection in self._client.connections():
            if connection.node != node:
                why = BrokerConnectionError("another cluster answers now")
                self._client.end(connection.node, why)
        former = self._metadata.leave_cluster()
        self._client.cluster_id = None  # until its brokers are known
        self.on_another_cluster(error, now)
        for info in former:
            if info.name not in news.topics:
                partitions = tuple(PartitionLeader(each[0], None) for each in info.partitions)
                self._accumulator.update_topic(info._replace(partitions=partitions), now)
            yield

    def _tell_cluster(self, news: MetadataNews) -> None:
        """Write a line if the cluster or its brokers are others than before."""
        known, before = self._metadata.snapshot.brokers, self._metadata.cluster_id
        if not news.brokers or (known.keys() == news.brokers.keys() and before == news.cluster_id):
            return
        if self._metadata.is_another(news.cluster_id):
            logger.warning(
                "Cluster %r with the brokers %s answers instead of cluster %r. "
                "Records without an acknowledgement may have been written to the former one",
                news.cluster_id,
                _shortened(news.brokers),
                before,
                cluster_id=news.cluster_id,
                brokers=len(news.brokers),
            )
            return
        logger.repeated(
            logging.INFO,
            "cluster",
            "Connected to cluster %s with the brokers %s",
            news.cluster_id or "without an id",
            _shortened(news.brokers),
            cluster_id=news.cluster_id,
            brokers=len(news.brokers),
        )

    def _apply(self, news: MetadataNews, asked: Asked) -> Generator[None, None, None]:
        is_awaited = self._pending.awaiting_metadata.__contains__
        for changed in self._metadata.update(news, asked, self._now, is_awaited):
            if changed is not None:
                yield from self._follow(changed)
            yield

    def _follow(self, info: TopicInfo) -> Generator[None, None, None]:
        """Give the accumulator a topic's newest state, after steps that prepare it."""
        fresh = {}
        if len(info.partitions) > tuning.METADATA_STEP_PARTITIONS:
            fresh = yield from self._accumulator.prepare(info)
            newest = self._metadata.snapshot.topics.get(info.name)
            if newest is None:
                return
            info = newest
        if waiting := self._pending.awaiting_metadata.of(info.name):
            self._client.metrics.metadata_waited(self._now - waiting[0].sent, self._now)
        _tell_moves(info.name, self._accumulator.update_topic(info, self._now, fresh))

    def update_leaders(
        self,
        leaders: Mapping[TopicPartition, PartitionLeader],
        nodes: Mapping[int, Node],
        now: float,
    ) -> None:
        """Move partitions to the ``leaders`` that a produce response names (KIP-951)."""
        self._metadata.update_leaders(leaders, nodes)
        for topic in {topic for topic, _ in leaders}:
            info = self._metadata.snapshot.topics.get(topic)
            if info is not None:
                _tell_moves(topic, self._accumulator.update_topic(info, now))

    def _fail_pending(self, topic: str, error: ProducerError) -> None:
        waiting = self._pending.awaiting_metadata.of(topic)
        failed = self._pending_failures.fail(topic, waiting, error, self._now)
        if failed:
            self._pending_failures.tell(topic, failed, error)

    def _failed(self, error: ProducerError) -> None:
        logger.debug("Metadata request failed: %s", error, error=error)
        self._metadata.failed(error, self._now)


def _shortened(brokers: Iterable[int]) -> str:
    """The ids in order; of many brokers the first ones and the number of others."""
    ids = sorted(brokers)
    rest = len(ids) - _SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(map(str, ids[:_SHOWN])) + more


def _tell_moves(topic: str, moved: int) -> None:
    """Write a line about ``moved`` partitions of ``topic`` that have another leader."""
    if moved:
        logger.repeated(
            logging.INFO,
            "moves",
            "%d partition%s of topic %r ha%s another leader",
            moved,
            "" if moved == 1 else "s",
            topic,
            "s" if moved == 1 else "ve",
            topic=topic,
            partitions=moved,
        )
