"""Producers as the collector and the live view see them: real counts, no wire."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from aioproducer.engine.core.health import BrokerHealth, Health
from aioproducer.engine.metrics import Latencies, LatencyHistogram, MetricsSnapshot, ProducerMetrics
from aioproducer.engine.metrics.names import GAUGES
from aioproducer.errors import IllegalStateError

__all__ = ["ObservedProducer", "histogram"]


def histogram(*seconds: float) -> LatencyHistogram:
    found = LatencyHistogram()
    for each in seconds:
        found.add(each)
    return found


class ObservedProducer:
    """``counts`` takes what happens; the health is set by the test."""

    def __init__(self, client_id: str = "web", *, started: bool = True) -> None:
        self.client_id = client_id
        self.counts = ProducerMetrics(now=0.0)
        self.record = histogram()
        self.state = "started"
        self.health_fields: Mapping[str, Any] = {"can_write": True}
        self._started = started

    def sent(self, topic: str, records: int, size: int = 1000) -> None:
        self.counts.batch_sent(topic, records, size, size, 100, 0.01, 1.0)
        self.counts.request_built(records, 1.0)

    def metrics(self) -> MetricsSnapshot:
        if not self._started:
            raise IllegalStateError("not started")
        gauges = {gauge.name: 0.0 for gauge in GAUGES} | {"metadata-age": math.nan}
        return self.counts.snapshot(2.0, gauges=gauges)

    def latencies(self) -> Latencies:
        return Latencies(self.record, *(histogram() for _ in range(4)))

    def health(self) -> Health:
        return Health(client_id=self.client_id, state=self.state, **self.health_fields)


def broker(node: int, state: str = "connected", **fields: Any) -> BrokerHealth:
    return BrokerHealth(node=node, address=f"kafka-{node}:9092", state=state, **fields)
