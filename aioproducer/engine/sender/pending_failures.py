"""Pending records that fail: each is counted once, and one line reports many. No I/O."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from aioproducer.engine.accumulator import PendingRecord, RecordAccumulator
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import RoomLogger
from aioproducer.foundation.wording import counted

logger = RoomLogger(__name__)


class PendingFailures:
    """Fails records before they are in a batch."""

    def __init__(self, accumulator: RecordAccumulator, metrics: ProducerMetrics) -> None:
        self._pending = accumulator.pending
        self._topic_outcomes = accumulator.topic_outcomes
        self._metrics = metrics

    def fail(
        self,
        topic: str,
        records: Sequence[PendingRecord],
        error: ProducerError,
        now: float,
        *,
        others_may_pass: bool = False,
    ) -> int:
        """Fail those of ``records`` for ``topic`` that still wait. Returns their number.

        ``others_may_pass``: the error says nothing about other records of the topic.
        """
        failed = self._pending.fail(records, error)
        if failed:
            self._count(topic, failed, error, now, others_may_pass=others_may_pass)
        return failed

    def _count(
        self,
        topic: str,
        failed: int,
        error: ProducerError,
        now: float,
        *,
        others_may_pass: bool = False,
    ) -> None:
        self._metrics.records_failed(topic, failed, now)
        self._topic_outcomes.failed(topic, failed, error, now, others_may_pass=others_may_pass)

    def count_refused(self, now: float) -> None:
        """Count the records that no batch could take, and that have failed."""
        for topic, error in self._pending.take_refused():
            self._count(topic, 1, error, now)
            self.tell(topic, 1, error)

    def tell(self, topic: str, failed: int, error: ProducerError) -> None:
        """Write a line about records that have failed."""
        logger.repeated(
            logging.ERROR,
            ("failed", type(error)),
            "%s for %s failed: %s",
            counted(failed, "pending record"),
            topic,
            error,
            records=failed,
            topic=topic,
            error=error,
        )
