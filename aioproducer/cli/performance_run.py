"""One run of ``aioproducer perf``: records at a rate, each acknowledgement timed.

The values are random ones, those of a file, or numbers. :class:`RateSchedule` tells how many
records are due, :class:`Measurement` counts and times the acknowledgements, and
:class:`PerformanceDisplay` shows the figures while the run lasts.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from aioproducer.cli.early_ends import EndSignals, closed_if_cancelled, producer_answered
from aioproducer.cli.record_outcomes import DeliveryCounter, RecordOutcomes
from aioproducer.cli.terminal import Terminal
from aioproducer.config import ProducerConfig
from aioproducer.engine.bulk.writers import ValueWriter
from aioproducer.engine.metrics import LatencyHistogram
from aioproducer.errors import ProducerError, RecordTooLargeError
from aioproducer.foundation.logs import counted
from aioproducer.producer import Producer

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

__all__ = [
    "FilePayloads",
    "Numbers",
    "Payloads",
    "RandomPayloads",
    "RateSchedule",
    "Measurement",
    "Summary",
    "PerformanceDisplay",
    "performance_table",
    "PerformanceJob",
    "PerformanceResult",
    "PerformanceRun",
]


_LETTERS: Final = bytes(65 + number % 26 for number in range(256))
_POOL: Final = 4 << 20
"""Random bytes; larger than a batch, so that no batch repeats what it has."""


class Payloads(Protocol):
    """A source of values."""

    mean_size: float
    """Bytes per value, for an estimate."""

    def take(self, count: int) -> list[bytes]:
        """The next ``count`` values."""


class RandomPayloads:
    """Values of ``size`` random capital letters each, as Kafka's tool makes them."""

    def __init__(self, size: int, random: Random) -> None:
        self.mean_size = float(size)
        self._size = size
        self._random = random
        self._pool = random.randbytes(max(_POOL, 2 * size)).translate(_LETTERS)
        self._at = 0

    def take(self, count: int) -> list[bytes]:
        """Neighbouring parts of the pool; from its end on to another place near its beginning."""
        size, pool = self._size, self._pool
        values: list[bytes] = []
        while len(values) < count:
            whole = min(count - len(values), (len(pool) - self._at) // size)
            if not whole:
                self._at = self._random.randrange(size)
            first, self._at = self._at, self._at + whole * size
            values += [pool[at : at + size] for at in range(first, self._at, size)]
        return values


class FilePayloads:
    """Values of a file, each time one of them at random."""

    def __init__(self, values: Sequence[bytes], random: Random) -> None:
        self.mean_size = sum(map(len, values)) / len(values)
        self._values = values
        self._random = random

    def take(self, count: int) -> list[bytes]:
        """Some of the values."""
        return self._random.choices(self._values, k=count)


class Numbers:
    """The numbers from 0, in decimal digits."""

    mean_size = 8.0

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> list[bytes]:
        """The next numbers."""
        first, self._next = self._next, self._next + count
        return [b"%d" % number for number in range(first, self._next)]


_SHORTEST_PAUSE: Final = 0.001
"""Seconds. At high rates the records of a pause leave together (Kafka's tool pauses for 2 ms)."""


class RateSchedule:
    """``rate``: records per second since ``started``; None: as many as there are.

    Source: Kafka's ``ThroughputThrottler``. What was late is caught up with.
    """

    def __init__(self, rate: float | None, started: float) -> None:
        self._rate = rate
        self._started = started

    def due(self, sent: int, now: float, at_most: int) -> int:
        """The number of records to send now, ``at_most`` of them."""
        if self._rate is None:
            return at_most
        due = int((now - self._started) * self._rate) + 1 - sent
        return min(max(0, due), at_most)

    def pause(self, sent: int, now: float) -> float:
        """Seconds until the next record is due, and never shorter than a tick."""
        if self._rate is None:
            return 0.0
        return max(_SHORTEST_PAUSE, self._started + sent / self._rate - now)


_PERCENTILES: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9}
_ORDINALS: Final = {"p50": "50th", "p95": "95th", "p99": "99th", "p99.9": "99.9th"}
_MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of some seconds."""

    records: int
    bytes: int
    seconds: float
    latency_ms: dict[str, float]
    """``avg``, ``max`` and percentiles ``p50`` to ``p99.9`` of the time from a record's send to its
    acknowledgement."""

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / max(self.seconds, 1e-9)

    @property
    def mebibytes_per_second(self) -> float:
        """Values per second; the unit is that of Kafka's tool."""
        return self.bytes / _MEBIBYTE / max(self.seconds, 1e-9)

    def fields(self) -> dict[str, Any]:
        """The figures, as JSON has them."""
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.rate, 1),
            "mebibytes_per_second": round(self.mebibytes_per_second, 2),
            "latency_ms": {name: round(value, 3) for name, value in self.latency_ms.items()},
        }

    def line(self, *, percentiles: bool) -> str:
        """The figures in the words of Kafka's tool."""
        latency = self.latency_ms
        parts = [
            f"{counted(self.records, 'record')} sent",
            f"{self.rate:.1f} records/sec ({self.mebibytes_per_second:.2f} MB/sec)",
            f"{latency['avg']:.2f} ms avg latency",
            f"{latency['max']:.2f} ms max latency",
        ]
        if percentiles:
            parts += [f"{latency[name]:.2f} ms {word}" for name, word in _ORDINALS.items()]
        return ", ".join(parts) + "."


class _Figures:
    def __init__(self, began: float) -> None:
        self.began = began
        self.bytes = 0
        self.latencies = LatencyHistogram()

    def merge(self, other: _Figures) -> None:
        self.bytes += other.bytes
        self.latencies.absorb(other.latencies)

    def summary(self, now: float) -> Summary:
        found = self.latencies
        latency_ms = dict.fromkeys(("avg", "max", *_PERCENTILES), 0.0)
        if found.count:
            latency_ms = {"avg": found.mean * 1000, "max": found.max * 1000}
            for name, percent in _PERCENTILES.items():
                latency_ms[name] = found.percentile(percent) * 1000
        return Summary(found.count, self.bytes, max(0.0, now - self.began), latency_ms)


class Measurement:
    """Begins ``now``; the records of a warm-up count in the total alone."""

    def __init__(self, now: float) -> None:
        self._earlier = _Figures(now)
        self._recent = _Figures(now)
        self._steady: _Figures | None = None

    def end_warm_up(self, now: float) -> None:
        """Records with ``steady`` are sent from now on."""
        self._steady = _Figures(now)

    def acknowledged(self, latency: float, count: int, size: int, *, steady: bool) -> None:
        """``count`` records of ``size`` bytes together took ``latency`` seconds each."""
        for figures in (self._recent, self._steady if steady else None):
            if figures is not None:
                figures.latencies.add(latency, count)
                figures.bytes += size

    def recent(self, now: float) -> Summary:
        """The figures since the last call of this method."""
        recent, self._recent = self._recent, _Figures(now)
        self._earlier.merge(recent)
        return recent.summary(now)

    def total(self, now: float) -> Summary:
        """The figures since the beginning."""
        total = _Figures(self._earlier.began)
        total.merge(self._earlier)
        total.merge(self._recent)
        return total.summary(now)

    def steady_state(self, now: float) -> Summary | None:
        """The figures since the end of the warm-up; None without one."""
        return None if self._steady is None else self._steady.summary(now)


_REFRESH: Final = 0.5
"""Seconds between two pictures of the table."""
_LATENCIES: Final = ("avg", "p50", "p95", "p99", "p99.9", "max")


class PerformanceDisplay:
    """Drawn by a timer of the loop on standard error; the result has standard output."""

    def __init__(self, terminal: Terminal, measurement: Measurement, seconds: float) -> None:
        self._terminal = terminal
        self._print_line = terminal.print_line
        self._measurement = measurement
        self._interval = min(_REFRESH, seconds) if terminal.is_interactive else seconds
        self._live: Live | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._terminal.is_interactive:
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, markup=False, highlight=False)
            self._live = Live(console=console, auto_refresh=False)
            self._live.start()
            self._terminal.print_line = console.print
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._live is not None:
            self._draw(self._live)
            self._live.stop()
            self._terminal.print_line = self._print_line

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._show)

    def _show(self) -> None:
        if self._live is not None:
            self._draw(self._live)
        elif (recent := self._measurement.recent(time.monotonic())).records:
            self._terminal.print_line(recent.line(percentiles=False))
        self._wait()

    def _draw(self, live: Live) -> None:
        now = time.monotonic()
        recent, total = self._measurement.recent(now), self._measurement.total(now)
        live.update(performance_table({"now": recent, "so far": total}), refresh=True)


def performance_table(summaries: dict[str, Summary]) -> Table:
    """The figures, one summary a line."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("")
    for heading in ("records", "records/s", "MiB/s", *(f"{each}\nms" for each in _LATENCIES)):
        table.add_column(heading, justify="right")
    for name, summary in summaries.items():
        table.add_row(
            name,
            f"{summary.records:,}",
            f"{summary.rate:,.0f}",
            f"{summary.mebibytes_per_second:,.1f}",
            *(f"{summary.latency_ms[each]:,.1f}" for each in _LATENCIES),
        )
    return table


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
        self._terminal.say(f"{number.name}: waiting for the records sent; a second signal gives up")

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
