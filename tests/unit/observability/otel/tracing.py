"""Observers of a producer that is not there, and the spans that they make."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from aioproducer.config import ProducerConfig
from aioproducer.model import RecordMetadata
from aioproducer.observability.otel.instrumentation import observer_of
from aioproducer.observability.otel.observer import OtelObserver
from aioproducer.observability.otel.options import Options
from aioproducer.observer import RecordTrace, Untraced

DELIVERED = RecordMetadata("orders", 3, 42, 1_700_000_000_000, 4, 5)
LOST = RecordMetadata("orders", 3, -1, -1, -1, -1)


class StandIn:
    """A producer with the metrics that a test gives it."""

    def __init__(self, client_id: str = "tests", **groups: Any) -> None:
        self.client_id = client_id
        self.config = ProducerConfig(bootstrap_servers="localhost:9092")
        self.groups: dict[str, Any] = groups
        self.readings = 0

    def metrics(self) -> Mapping[str, Mapping[str, object]]:
        self.readings += 1
        return self.groups


class Traced:
    """An observer with an SDK of its own, which exports into memory."""

    def __init__(self, sampler: Sampler | None = None, seed: int = 1, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("tests")
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.producer = StandIn()
        self.observer: OtelObserver = observer_of(
            self.producer,
            Options(**options),
            tracer_provider=self.provider,
            meter_provider=self.meters,
            rng=random.Random(seed),
        )

    def send(self, topic: str = "orders", **fields: Any) -> RecordTrace | Untraced:
        """The decision about a record."""
        return self.observer.record_sent(
            topic, fields.get("key"), fields.get("partition"), fields.get("headers")
        )

    def sent(self, **fields: Any) -> RecordTrace:
        """A record that is traced."""
        trace = self.send(**fields)
        assert not isinstance(trace, Untraced)
        return trace

    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended."""
        return list(self.exporter.get_finished_spans())

    def delivered(self, **fields: Any) -> ReadableSpan:
        """The span of a record that was delivered."""
        self.sent(**fields).ended(DELIVERED, None)
        return self.spans()[-1]


def context_of(span: ReadableSpan) -> Any:
    """The span's context, which every span has."""
    context = span.get_span_context()
    assert context is not None
    return context
