# cython: language_level=3, annotation_typing=False, binding=False, nonecheck=True
"""The reports of what became of batches and requests: to metrics, observer and failed records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.in_flight import Completion
from aioproducer.engine.observer import BatchOutcome, ObserverSlot, RequestOutcome
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import RoomLogger
from aioproducer.model import Node, NodeId

if TYPE_CHECKING:
    from aioproducer.engine.sender.failed_records import FailedRecordQueue

logger = RoomLogger(__name__)


class DeliveryReports:
    """Counts outcomes, and passes them to the observer, whose errors are logged.

    ``failed_records``: takes the records of failed batches; None: nobody wants them.
    """

    def __init__(
        self,
        metrics: ProducerMetrics,
        observed: ObserverSlot,
        metadata: Metadata,
        wall_clock_ns: Callable[[], int],
        failed_records: FailedRecordQueue | None = None,
    ) -> None:
        self._metrics = metrics
        self._observed = observed
        self._metadata = metadata
        self._wall_clock_ns = wall_clock_ns
        self._failed_records = failed_records

    def delivered(self, batch: ProducerBatch, now: float) -> None:
        """``batch`` is in the log, and its futures are about to be resolved."""
        builder = batch.builder
        self._metrics.records_delivered(builder.count, builder.marks, self._wall_clock_ns(), now)
        if self._observed.observer is not None:
            self._tell_batch(batch, None, now)

    def retried(self, batch: ProducerBatch, node: NodeId, now: float) -> None:
        """``batch`` is put back, after an attempt at ``node``."""
        self._metrics.records_retried(batch.topic_partition.topic, batch.count, now, node)

    def split(self, now: float) -> None:
        """A batch was split."""
        self._metrics.batch_split(now)

    def failed(
        self,
        batch: ProducerBatch,
        error: ProducerError,
        others: ProducerError,
        record_errors: Mapping[int, ProducerError],
        now: float,
    ) -> None:
        """``batch`` has failed for good with ``error``, and still has its records.

        The record at an index failed with its error in ``record_errors``, or with ``others``.
        """
        if self._failed_records is not None:
            self._failed_records.add_batch(batch, others, record_errors)
        node = batch.node if batch.node >= 0 else None
        self._metrics.records_failed(batch.topic_partition.topic, batch.count, now, node)
        if self._observed.observer is not None:
            self._tell_batch(batch, error, now)

    def request_ended(self, request: ProduceRequest, completion: Completion) -> None:
        """A produce request has its response, or failed as a whole."""
        observer = self._observed.observer
        if observer is not None:
            node = completion.node
            known = self._metadata.snapshot.brokers.get(node) if isinstance(node, int) else None
            outcome = RequestOutcome(
                known or Node(int(node), "", -1),
                {
                    batch.topic_partition: (batch.count, len(data))
                    for batch, data in request.batches
                },
                completion.latency,
                completion.error,
            )
            _guarded(partial(observer.request_ended, outcome))

    def _tell_batch(self, batch: ProducerBatch, error: BaseException | None, now: float) -> None:
        observer = self._observed.observer
        if observer is not None:
            outcome = BatchOutcome(
                batch.topic_partition,
                batch.node,
                batch.count,
                batch.size,
                now - batch.created,
                error,
            )
            _guarded(partial(observer.batch_ended, outcome))


def _guarded(tell: Callable[[], None]) -> None:
    try:
        tell()
    except Exception as error:
        logger.repeated(
            logging.ERROR,
            type(error).__name__,
            "the observer failed: %r",
            tell,
            exc_info=error,
            error=error,
        )
