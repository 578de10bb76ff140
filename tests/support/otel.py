"""OpenTelemetry's SDK, which exports into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler


class _Starts(SpanProcessor):
    """Counts the spans that begin."""

    count = 0

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        self.count += 1


class InMemorySdk:
    """Providers of tracers and meters, and everything that they export."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._starts = _Starts()
        self.tracers.add_span_processor(self._starts)
        self.tracer = self.tracers.get_tracer("tests")
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)

    @property
    def providers(self) -> dict[str, Any]:
        """The arguments of ``instrument()``."""
        return {"tracer_provider": self.tracers, "meter_provider": self.meters}

    @property
    def started(self) -> int:
        """The number of spans that have begun, and are recorded."""
        return self._starts.count

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        """The spans that have ended, in that order."""
        ended = self.exporter.get_finished_spans()
        return [span for span in ended if name in (None, span.name)]

    def metrics(self) -> dict[str, Any]:
        """The metrics of one collection, by name."""
        return dict(self._metrics())

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        data = self.reader.get_metrics_data()
        if data is not None:
            for resource in data.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        yield metric.name, metric


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """The span's attributes."""
    return dict(span.attributes or {})


def context_of(span: ReadableSpan) -> Any:
    """The span's context, which every span has."""
    context = span.get_span_context()
    assert context is not None
    return context
