"""Acknowledged records, counted and timed: since the start, and since the last report. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from aioproducer.engine.metrics import LatencyHistogram
from aioproducer.foundation.logs import counted

__all__ = ["Measurement", "Summary"]

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
