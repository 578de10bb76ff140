"""Keeps the metadata fresh: asks when it is due, and tells the accumulator what changed."""

from __future__ import annotations

import logging

from aioproducer.accumulator.record_accumulator import RecordAccumulator
from aioproducer.cluster.metadata import Metadata
from aioproducer.cluster.metadata_response import MetadataNews
from aioproducer.errors import (
    BootstrapError,
    Fate,
    KafkaError,
    MetadataTimeoutError,
    NetworkError,
    ProducerError,
    RequestTimeoutError,
    explain,
    kafka_error,
)
from aioproducer.network.client import Completion, NetworkClient
from aioproducer.records.compression_ratio import CompressionRatios
from aioproducer.sender.requests import MetadataRequest

logger = logging.getLogger(__name__)


class MetadataRefresher:
    """One metadata request at a time, to the least loaded broker, for all topics in use."""

    def __init__(
        self,
        metadata: Metadata,
        client: NetworkClient,
        accumulator: RecordAccumulator,
        ratios: CompressionRatios,
    ) -> None:
        self._metadata = metadata
        self._client = client
        self._accumulator = accumulator
        self._ratios = ratios
        self._refusal: ProducerError | None = None
        """Why brokers that are reached do not answer, as far as is known."""

    def step(self, now: float) -> float | None:
        """Send a request if one is due; when to look again by the clock alone."""
        due = self._metadata.next_refresh(now)
        if due is None or due > now:
            return due
        self._forget_idle_topics(now)
        peers = self._metadata.peers
        node = self._client.least_loaded(peers, now)
        gone = node is None and not self._client.reaches(peers)
        if (gone or self._metadata.rebootstrap_due(now)) and self._metadata.may_rebootstrap:
            logger.warning("No known broker answers: starting again from bootstrap_servers")
            self._metadata.rebootstrap(now)
            return now
        if node is None:
            return self._client.next_chance(peers, now)
        if not self._client.ready(node, now):
            return None
        topics = self._metadata.topics
        self._metadata.started(now)
        self._client.send(node.id, MetadataRequest(topics))
        return None

    def _forget_idle_topics(self, now: float) -> None:
        idle = frozenset(
            topic
            for topic in self._metadata.idle_topics(now)
            if self._accumulator.forget_topic(topic, now)
        )
        if idle:
            self._metadata.forget(idle)
            for topic in idle:
                self._ratios.forget(topic)
                self._client.metrics.forget_topic(topic)

    def completed(self, request: MetadataRequest, completion: Completion, now: float) -> None:
        """The answer to a request, or why there is none."""
        error = completion.error
        news: MetadataNews | None = completion.said
        if news is not None and news.error_code:
            said = explain(news.error_code)
            error = kafka_error(news.error_code, f"the broker refused a metadata request: {said}")
        if news is None or error is not None:
            logger.debug("Metadata request failed: %s", error)
            self._metadata.failed(now)
            rebootstrap = isinstance(error, KafkaError) and error.fate is Fate.REBOOTSTRAP
            reached = not isinstance(error, NetworkError | RequestTimeoutError)
            self._refusal = error if reached else None
            if rebootstrap and self._metadata.may_rebootstrap:
                self._metadata.rebootstrap(now)
            return
        self._refusal = None
        for topic, topic_error in news.errors.items():
            if topic_error.retriable and topic not in self._metadata.errors:
                logger.warning("%s; its records wait", topic_error)
        self._metadata.update(news, request.topics, now)
        servers = (server.id for server in self._metadata.bootstrap)
        self._client.forget_except([*self._metadata.snapshot.brokers, *servers])
        for name in news.snapshot.topics:
            info = self._metadata.snapshot.topics.get(name)
            if info is not None:
                if waiting := self._accumulator.line.awaiting(name):
                    self._client.metrics.metadata_waited(now - waiting[0].sent, now)
                self._accumulator.update_topic(info, now)
        for topic, topic_error in news.errors.items():
            if self._metadata.is_refused(topic):
                waiting = self._accumulator.line.awaiting(topic)
                failed = self._accumulator.fail_waiting(waiting, topic_error)
                if failed:
                    self._client.metrics.records_failed(topic, failed, now)
                    logger.error("%d waiting records for %s failed: %s", failed, topic, topic_error)

    def why_no_metadata(self, topic: str, since: float, now: float) -> ProducerError:
        """The error of who waits for ``topic``, which did not become known in time."""
        waited = f"within {now - since:.1f} s (max_block_ms or delivery_timeout_ms)"
        if self._metadata.last_update is None:
            reasons = self._client.failures()
            listed = "; ".join(
                str(reasons.get(node.id) or f"{node}: no answer yet")
                for node in self._metadata.bootstrap
            )
            refused = f". Last answer: {self._refusal}" if self._refusal is not None else ""
            return BootstrapError(
                f"no bootstrap server answered {waited}, so nothing is known of topic "
                f"{topic!r}. Check bootstrap_servers. {listed}{refused}"
            )
        known = self._metadata.errors.get(topic)
        told = known or self._refusal
        reason = f": {told}" if told is not None else ""
        return MetadataTimeoutError(
            f"topic {topic!r} did not become known {waited}. Check its name and that it "
            f"exists, or raise that time{reason}"
        )
