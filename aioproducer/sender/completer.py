"""Carries out the outcomes of batches: futures, retries, memory, metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from copy import copy

from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.accumulator.record_accumulator import RecordAccumulator
from aioproducer.cluster.backoff import ExponentialBackoff
from aioproducer.cluster.metadata import Metadata
from aioproducer.errors import (
    DeliveryTimeoutError,
    ProducerError,
)
from aioproducer.metrics import ProducerMetrics
from aioproducer.records.compression_ratio import CompressionRatios
from aioproducer.sender.outcomes import (
    Deliver,
    Fail,
    Outcome,
    Retry,
    Split,
    Standing,
    others_in_batch,
    still_uncertain,
)
from aioproducer.transactions.identity import ProducerIdentity

logger = logging.getLogger(__name__)


class BatchCompleter:
    """Gives each batch the outcome that was decided, and keeps the buffers that it frees."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        metadata: Metadata,
        identity: ProducerIdentity,
        metrics: ProducerMetrics,
        ratios: CompressionRatios,
        backoff: ExponentialBackoff,
        retries: int,
    ) -> None:
        self._accumulator = accumulator
        self._metadata = metadata
        self._identity = identity
        self._metrics = metrics
        self._ratios = ratios
        self._backoff = backoff
        self._retries = retries
        self._freed: list[bytearray] = []

    def take_freed(self) -> list[bytearray]:
        """The buffers of batches that are done, to be given back to the pool."""
        freed, self._freed = self._freed, []
        return freed

    def standing(self, batch: ProducerBatch, now: float) -> Standing:
        """What is to be known of ``batch`` to decide its outcome."""
        return Standing(
            may_retry=batch.attempts < self._retries and now < batch.deadline,
            first_in_line=self._accumulator.is_first_in_line(batch),
            uncertain=batch.uncertain,
            records=batch.count,
        )

    def settle(self, batch: ProducerBatch, outcome: Outcome, node: int, now: float) -> None:
        """Carry out ``outcome`` for a batch that was sent to ``node``."""
        if isinstance(outcome, Deliver):
            batch.deliver(outcome.base_offset, outcome.log_append_time_ms)
            self._done(batch, now)
            return
        if outcome.error.refresh_metadata:
            self._metadata.request_update()
        match outcome:
            case Retry(error, numbers_lost):
                self._retry(batch, error, node, now)
                if numbers_lost:
                    self._identity.lost()
            case Split(error):
                self._split(batch, error, now)
            case Fail(error, record_errors):
                error.may_have_been_written = still_uncertain(batch.uncertain, error)
                if record_errors:
                    batch.fail_records(dict(record_errors), others_in_batch(error))
                else:
                    batch.fail(error)
                self._failed(batch, error, now)

    def _split(self, batch: ProducerBatch, error: ProducerError, now: float) -> None:
        topic = batch.topic_partition.topic
        self._ratios.reset(topic, batch.compression_ratio)
        parts = self._accumulator.split(batch, now)
        self._metrics.batch_split(now)
        logger.warning("Sending a batch again as %d smaller ones: %s", parts, error)

    def _retry(self, batch: ProducerBatch, error: ProducerError, node: int, now: float) -> None:
        topic = batch.topic_partition.topic
        batch.last_error = error
        batch.uncertain = still_uncertain(batch.uncertain, error)
        logger.info(
            "Retrying %d records for %s (attempt %d failed): %s",
            batch.count,
            batch.topic_partition,
            batch.attempts + 1,
            error,
        )
        self._metrics.records_retried(topic, batch.count, now)
        moved = self._accumulator.queue_for(batch).leader != node
        wait = 0.0 if moved else self._backoff.delay(batch.attempts + 1)
        self._accumulator.retry(batch, now + wait, now)

    def expire(
        self,
        batches: Iterable[ProducerBatch],
        timeout: float,
        why_not_sent: Callable[[ProducerBatch], str],
        now: float,
    ) -> None:
        """Fail batches whose ``delivery_timeout_ms`` is over."""
        for batch in batches:
            uncertain = self._may_have_been_written(batch)
            written = "it may have been written" if uncertain else "it was not written"
            error = DeliveryTimeoutError(
                f"{batch.topic_partition}: not acknowledged within {timeout:g} s "
                f"(delivery_timeout_ms), {written}; {batch.last_error or why_not_sent(batch)}"
            )
            error.may_have_been_written = uncertain
            batch.fail(error)
            self._failed(batch, error, now)

    def _may_have_been_written(self, batch: ProducerBatch) -> bool:
        """Whether a batch that is given up now may be in the log."""
        return batch.uncertain or self._accumulator.is_on_wire(batch)

    def abort(self, error: ProducerError, now: float) -> int:
        """Fail everything that has no outcome; how many records that were."""
        batches = list(self._accumulator.incomplete)
        records = sum(batch.count for batch in batches)
        uncertain = copy(error)
        uncertain.__cause__ = error.__cause__
        uncertain.may_have_been_written = True
        for batch in batches:
            batch.fail(uncertain if self._may_have_been_written(batch) else error)
            self._metrics.records_failed(batch.topic_partition.topic, batch.count, now)
            self._done(batch, now)
        waiting = list(self._accumulator.line)
        for record in waiting:
            self._metrics.records_failed(record.topic, 1, now)
        return records + self._accumulator.fail_waiting(waiting, error)

    def _failed(self, batch: ProducerBatch, error: ProducerError, now: float) -> None:
        if batch.order >= 0:
            self._identity.lost()
        topic, count = batch.topic_partition.topic, batch.count
        logger.error("A batch of %d records for %s failed: %s", count, topic, error)
        self._metrics.records_failed(topic, count, now)
        self._done(batch, now)

    def _done(self, batch: ProducerBatch, now: float) -> None:
        buffer = self._accumulator.complete(batch, now)
        if buffer is not None:
            self._freed.append(buffer)
