"""One run of ``aioproducer perf``: records at a rate, each acknowledgement timed."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aioproducer.cli.cancellation import closed_if_cancelled
from aioproducer.cli.delivery_counter import DeliveryCounter
from aioproducer.cli.first_answer import producer_answered
from aioproducer.cli.measurement import Measurement, Summary
from aioproducer.cli.payloads import Payloads
from aioproducer.cli.performance_display import PerformanceDisplay
from aioproducer.cli.rate_schedule import RateSchedule
from aioproducer.cli.record_outcomes import RecordOutcomes
from aioproducer.cli.signals import EndSignals
from aioproducer.cli.terminal import Terminal
from aioproducer.config import ProducerConfig
from aioproducer.engine.bulk.value_writer import ValueWriter
from aioproducer.engine.metrics import LatencyHistogram
from aioproducer.errors import ProducerError, RecordTooLargeError
from aioproducer.producer import Producer

__all__ = ["PerformanceJob", "PerformanceResult", "PerformanceRun"]

_CHUNK_RECORDS: Final = 500
_CHUNK_BYTES: Final = 65536
"""Records of one call have one send time, so a call is short beside any acknowledgement."""


@dataclass(frozen=True, slots=True)
class PerformanceJob:
    """The records to send, and their pace."""

    topic: str
    config: ProducerConfig
    payloads: Payloads
    records: int
    throughput: float | None = None
    """Records per second; None: no limit."""
    warm_up: int = 0
    transaction_seconds: float | None = None
    """The time after which a transaction is committed; None: no transactions."""
    reporting_seconds: float = 5.0
    with_metrics: bool = False


@dataclass(frozen=True, slots=True)
class PerformanceResult:
    """The outcome of a run."""

    total: Summary
    steady_state: Summary | None
    failed: int
    error: str | None
    """The reason why the run ended before its time, such as a transaction that was aborted."""
    commits: LatencyHistogram | None
    """The times of commits; None without transactions."""
    gave_up: signal.Signals | None
    """The signal, if a second one ended the run."""
    interrupted: bool
    metrics: Mapping[str, Any] = field(default_factory=dict)


class PerformanceRun:
    """Sends until all records are sent, or a signal comes, and waits for their outcomes."""

    def __init__(self, job: PerformanceJob, terminal: Terminal) -> None:
        self._job = job
        self._terminal = terminal
        self._deliveries = DeliveryCounter(terminal.say, self._on_failure)
        self._producer = Producer(job.config)
        self._commits = None if job.transaction_seconds is None else LatencyHistogram()
        self._measurement = Measurement(time.monotonic())
        self._schedule = RateSchedule(job.throughput, time.monotonic())
        size = max(1.0, job.payloads.mean_size)
        self._chunk = max(1, min(_CHUNK_RECORDS, int(_CHUNK_BYTES / size)))
        self._sent = 0
        self._stopped = asyncio.Event()
        self._interrupted = False
        self._gave_up: signal.Signals | None = None
        self._error: str | None = None

    async def run(self) -> PerformanceResult:
        """Send, wait for the outcomes, and return the figures."""
        task = asyncio.current_task()
        assert task is not None

        def give_up(number: signal.Signals) -> None:
            self._gave_up = number
            task.cancel()

        metrics: Mapping[str, Any] = {}
        ended: float | None = None
        with EndSignals(self._interrupt, give_up):
            try:
                await self._find_cluster()
                async with self._producer:
                    await self._measure()
                    ended = time.monotonic()
                    if self._job.with_metrics:
                        metrics = self._producer.metrics()
            except asyncio.CancelledError:
                if self._gave_up is None:
                    raise
            except ProducerError as error:
                if not self._sent:
                    raise
                self._error = str(error)
        return self._result(ended or time.monotonic(), metrics)

    async def _find_cluster(self) -> None:
        """Return when a broker has answered; the start of a transactional producer needs one."""
        async with Producer(self._job.config.replace(transactional_id=None)) as producer:
            await producer_answered(producer)

    async def _measure(self) -> None:
        now = time.monotonic()  # the start of the producer, a login perhaps, is not measured
        self._measurement = Measurement(now)
        self._schedule = RateSchedule(self._job.throughput, now)
        with PerformanceDisplay(self._terminal, self._measurement, self._job.reporting_seconds):
            async with closed_if_cancelled(self._producer):
                if self._job.transaction_seconds is None:
                    await self._send(None)
                    await self._producer.flush()
                else:
                    await self._send_transactions(self._job.transaction_seconds)
        await asyncio.sleep(0)  # the last outcomes reach their receivers

    @property
    def _done(self) -> bool:
        return self._stopped.is_set() or self._sent >= self._job.records

    async def _send_transactions(self, seconds: float) -> None:
        assert self._commits is not None
        while not self._done:
            async with self._producer.transaction():
                async with closed_if_cancelled(self._producer):
                    await self._send(time.monotonic() + seconds)
                ended = time.monotonic()
            self._commits.add(time.monotonic() - ended)

    async def _send(self, until: float | None) -> None:
        """Send what is due, at least one record; to the end, or to the time ``until``."""
        while not self._done:
            now = time.monotonic()
            count = self._schedule.due(self._sent, now, self._largest_chunk())
            if count:
                await self._send_chunk(count, now)
                await asyncio.sleep(0)
            else:
                await self._pause(self._schedule.pause(self._sent, now))
            if until is not None and time.monotonic() >= until:
                return

    def _largest_chunk(self) -> int:
        """The number of records that one call may send; none of them crosses the warm-up's end."""
        end = self._job.warm_up if self._sent < self._job.warm_up else self._job.records
        return min(self._chunk, end - self._sent)

    async def _send_chunk(self, count: int, now: float) -> None:
        values = self._job.payloads.take(count)
        steady = self._sent >= self._job.warm_up > 0
        if self._sent == self._job.warm_up > 0:
            self._measurement.end_warm_up(now)
        acks = _Acknowledgements(self._measurement, self._deliveries, now, steady)
        outcomes = RecordOutcomes(acks, self._refuse, self._sent, list(map(len, values)))
        self._sent += count
        try:
            writer = ValueWriter(self._producer._core, outcomes)
            await writer.write(self._job.topic, values, None, None)
        except ProducerError as error:
            self._refuse(self._sent, error)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            return

    # --- the end ---------------------------------------------------------------------------

    def _interrupt(self, number: signal.Signals) -> None:
        self._interrupted = True
        self._stopped.set()
        self._terminal.say(f"{number.name}: waiting for the records sent so far; again gives up")

    def _on_failure(self, error: BaseException) -> None:
        """End the run if the next record would fail like this one."""
        if not self._deliveries.delivered:
            self._stopped.set()

    def _refuse(self, number: int, error: Exception) -> None:
        self._deliveries.fail(str(error))
        if not isinstance(error, RecordTooLargeError) or not self._deliveries.delivered:
            self._stopped.set()

    def _result(self, now: float, metrics: Mapping[str, Any]) -> PerformanceResult:
        measured = self._measurement
        return PerformanceResult(
            total=measured.total(now),
            steady_state=measured.steady_state(now),
            failed=self._deliveries.failed,
            error=self._error,
            commits=self._commits,
            gave_up=self._gave_up,
            interrupted=self._interrupted,
            metrics=metrics,
        )


class _Acknowledgements:
    """The outcomes of records that were sent at the same time."""

    def __init__(
        self, measurement: Measurement, deliveries: DeliveryCounter, sent_at: float, steady: bool
    ) -> None:
        self._measurement = measurement
        self._deliveries = deliveries
        self._sent_at = sent_at
        self._steady = steady

    def arrived(self, count: int, size: int) -> None:
        """Time and count delivered records."""
        latency = time.monotonic() - self._sent_at
        self._measurement.acknowledged(latency, count, size, steady=self._steady)
        self._deliveries.arrived(count, size)

    def lost(self, error: BaseException) -> None:
        """Count a record that failed on its way."""
        self._deliveries.lost(error)
