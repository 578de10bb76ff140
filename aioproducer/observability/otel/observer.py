"""The observer that traces a producer and counts its batches, by OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, SpanKind

from aioproducer.engine.client.environment import SYSTEM
from aioproducer.engine.observer import (
    BatchOutcome,
    CallTrace,
    RecordTrace,
    RequestOutcome,
    Untraced,
)
from aioproducer.model import Headers
from aioproducer.observability.otel.batch_metrics import BatchMetrics
from aioproducer.observability.otel.complaints import Complaints
from aioproducer.observability.otel.conventions import (
    BATCH_COUNT,
    DESTINATION,
    REQUEST_SIZE,
    Conventions,
    add_server,
)
from aioproducer.observability.otel.deliveries import Deliveries, LastRequest
from aioproducer.observability.otel.record_tracing import RecordTracing
from aioproducer.observability.otel.sampling import ALL
from aioproducer.observability.otel.spans import end
from aioproducer.observability.otel.tracers import TracerSource

__all__ = ["OtelObserver", "RequestTracing"]

_ONE: Final = Untraced()
_EVERY: Final = Untraced(ALL)


class RequestTracing:
    """Makes the spans of one producer's produce requests. Each begins a trace of its own."""

    def __init__(
        self, conventions: Conventions, tracers: TracerSource, complaints: Complaints
    ) -> None:
        self._conventions = conventions
        self._complaints = complaints
        self._tracers = tracers

    def request(self, outcome: RequestOutcome) -> SpanContext | None:
        """The span of a request that has ended; None: it is not recorded."""
        tracer = self._tracers.get()
        if tracer is None:
            return None
        now = SYSTEM.wall_clock_ns()
        attributes = self._conventions.operation("produce")
        attributes[BATCH_COUNT] = sum(records for records, _ in outcome.batches.values())
        attributes[REQUEST_SIZE] = sum(size for _, size in outcome.batches.values())
        topics = {partition.topic for partition in outcome.batches}
        if len(topics) == 1:
            attributes[DESTINATION] = topics.pop()
        add_server(attributes, outcome.node)
        span = tracer.start_span(
            f"produce {outcome.node.address}" if outcome.node.host else "produce",
            context=Context(),
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=now - int(outcome.seconds * 1e9),
        )
        if not span.is_recording():
            return None
        end(span, {}, outcome.error, self._complaints, end_time=now)
        return span.get_span_context()


class OtelObserver:
    """Follows one producer. Errors of samplers, propagators and processors end here.

    ``closing`` is called when the producer is closed.
    """

    def __init__(
        self,
        records: RecordTracing | None,
        requests: RequestTracing | None,
        batches: BatchMetrics | None,
        deliveries: Deliveries,
        complaints: Complaints,
        *,
        calls: bool,
        closing: Callable[[], None],
    ) -> None:
        self.context: Callable[[], object] = otel_context.get_current
        self.traces = records is not None
        self._records = records
        self._calls = records if calls else None
        self._requests = requests
        self._batches = batches
        self._deliveries = deliveries
        self._complaints = complaints
        self._closing = closing

    def record_sent(
        self, topic: str, key: object, partition: int | None, headers: Headers | None
    ) -> RecordTrace | Untraced:
        """See :meth:`aioproducer.engine.observer.Observer.record_sent`."""
        records = self._records
        if records is None:
            return _EVERY
        try:
            return records.record(topic, key, partition, headers)
        except Exception:
            self._complaints.log("a record")
            return _ONE

    def call_started(self, topic: str, headers: Headers | None) -> CallTrace | None:
        """See :meth:`aioproducer.engine.observer.Observer.call_started`."""
        calls = self._calls
        if calls is None:
            return None
        try:
            return calls.call(topic, headers)
        except Exception:
            self._complaints.log("a send_many()")
            return None

    def batch_ended(self, outcome: BatchOutcome) -> None:
        """Count the batch."""
        batches = self._batches
        if batches is None:
            return
        try:
            batches.count(outcome, self._deliveries.node(outcome.node))
        except Exception:
            self._complaints.log("a batch")

    def request_ended(self, outcome: RequestOutcome) -> None:
        """Remember the request for the spans of its records."""
        span, requests = None, self._requests
        if requests is not None:
            try:
                span = requests.request(outcome)
            except Exception:
                self._complaints.log("a produce request")
        self._deliveries.add(outcome.batches, LastRequest(outcome.node, span))

    def close(self) -> None:
        """Make no spans and count no batches from now on; spans that were made still end."""
        self._records = self._calls = self._requests = self._batches = None
        self._closing()
