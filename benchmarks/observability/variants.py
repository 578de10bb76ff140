"""The ways in which a producer is observed, each as a context around a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeAlias

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, TraceIdRatioBased
from prometheus_client import CollectorRegistry, start_http_server

from aioproducer import Producer
from aioproducer.observability.otel import instrument
from aioproducer.observability.prometheus import ProducerCollector

Variant: TypeAlias = Callable[[Producer], AbstractContextManager[None]]

_SAMPLED: Final = 0.01
_EXPORT_INTERVAL_MS: Final = 1_000


class _DroppedSpans(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class _DroppedMetrics(MetricExporter):
    def export(self, *_: Any, **__: Any) -> MetricExportResult:
        return MetricExportResult.SUCCESS

    def shutdown(self, timeout_millis: float = 0, **_: Any) -> None: ...

    def force_flush(self, timeout_millis: float = 0) -> bool:
        return True


@contextmanager
def _none(_: Producer) -> Iterator[None]:
    yield


@contextmanager
def _traced(producer: Producer) -> Iterator[None]:
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(_SAMPLED)))
    provider.add_span_processor(BatchSpanProcessor(_DroppedSpans()))
    instrument(producer, tracer_provider=provider, metrics=False)
    yield
    provider.shutdown()


@contextmanager
def _in_unsampled_request(producer: Producer) -> Iterator[None]:
    """Each record carries the context of a request that is not sampled."""
    provider = TracerProvider(sampler=ParentBased(ALWAYS_ON))
    instrument(producer, tracer_provider=provider, metrics=False)
    context = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(0))
    with trace.use_span(trace.NonRecordingSpan(context)):
        yield


@contextmanager
def _measured(producer: Producer) -> Iterator[None]:
    reader = PeriodicExportingMetricReader(_DroppedMetrics(), _EXPORT_INTERVAL_MS)
    provider = MeterProvider([reader])
    instrument(producer, meter_provider=provider, traces=False)
    yield
    provider.shutdown()


@contextmanager
def _scraped(producer: Producer) -> Iterator[None]:
    """The parent process scrapes, once a second, the port that this one prints."""
    registry = CollectorRegistry()
    ProducerCollector(registry=registry).add(producer)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    print(server.server_port, flush=True)
    yield
    server.shutdown()
    thread.join()


VARIANTS: Final[dict[str, Variant]] = {
    "none": _none,
    "tracing": _traced,
    "unsampled": _in_unsampled_request,
    "metrics": _measured,
    "prometheus": _scraped,
}
MEANINGS: Final = {
    "none": "not observed",
    "tracing": "OpenTelemetry, 1 % of the records sampled",
    "unsampled": "OpenTelemetry, in a request that is not sampled; its context is in each record",
    "metrics": "OpenTelemetry's metrics, exported once a second",
    "prometheus": "a Prometheus endpoint, scraped once a second",
}
