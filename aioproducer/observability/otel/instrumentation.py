"""Instrumentation of one client, and of all producers and consumers of a process.

:class:`OtelObserver` traces a producer and counts its batches, by OpenTelemetry.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, Unpack

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined]
    BaseInstrumentor,
)
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanContext, SpanKind, TracerProvider

from aioproducer import Producer, sync
from aioproducer.engine import observer
from aioproducer.engine.client.environment import SYSTEM
from aioproducer.engine.observer import (
    BatchOutcome,
    CallTrace,
    ObservedProducer,
    RecordTrace,
    RequestOutcome,
    TracedConsumer,
    Untraced,
)
from aioproducer.model import Headers
from aioproducer.observability.otel.conventions import (
    BATCH_COUNT,
    DESTINATION,
    REQUEST_SIZE,
    Conventions,
    add_server,
)
from aioproducer.observability.otel.metrics import BatchMetrics, instruments_of
from aioproducer.observability.otel.options import Options, OptionsAsKeywords, emits_old_names
from aioproducer.observability.otel.process_tracing import ProcessTracing
from aioproducer.observability.otel.record_tracing import ALL, RecordTracing
from aioproducer.observability.otel.spans import (
    Complaints,
    Deliveries,
    LastRequest,
    TracerSource,
    end,
)

if TYPE_CHECKING:
    # a process that only sends does not import the package of consumers
    from aioproducer.consumer import Consumer

__all__ = [
    "OtelObserver",
    "RequestTracing",
    "AioproducerInstrumentor",
    "instrument",
    "observer_of",
    "uninstrument",
]


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


def instrument(
    producer: Producer | sync.Producer | Consumer,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    **options: Unpack[OptionsAsKeywords],
) -> None:
    """Trace the records that ``producer`` sends from now on, and export its metrics.

    This replaces an earlier instrumentation of the producer. Call it before or after the start. A
    consumer is traced from its next ``run()`` on, and in the blocks of :func:`process_span`.

    Args:
        producer: a producer, asynchronous or blocking; or a consumer, which has only traces.
        tracer_provider: creates the spans; None uses the global one.
        meter_provider: receives the metrics; None uses the global one.
        options: see :class:`Options`.
    """
    chosen = Options(**options)
    if not isinstance(producer, Producer | sync.Producer):
        slot = producer._tracing
        slot.tracing = tracing_of(slot, chosen, tracer_provider=tracer_provider)
        return
    core = producer._core
    core.observe(
        observer_of(core, chosen, tracer_provider=tracer_provider, meter_provider=meter_provider)
    )


def uninstrument(producer: Producer | sync.Producer | Consumer) -> None:
    """Stop tracing records of ``producer``. Spans that have begun still end."""
    if isinstance(producer, Producer | sync.Producer):
        producer._core.observe(None)
    else:
        producer._tracing.tracing = None


def _conventions(client_id: str, options: Options) -> Conventions:
    return Conventions(
        client_id,
        old=emits_old_names(),
        record_key=options.record_key,
        body_size=options.body_size,
    )


def tracing_of(
    consumer: TracedConsumer, options: Options, *, tracer_provider: TracerProvider | None = None
) -> ProcessTracing | None:
    """The tracing of ``consumer``; None: ``options`` want no traces."""
    if not options.traces:
        return None
    conventions = _conventions(consumer.client_id, options)
    return ProcessTracing(consumer, options, conventions, TracerSource(tracer_provider))


def observer_of(
    producer: ObservedProducer,
    options: Options,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    rng: random.Random | None = None,
) -> OtelObserver:
    """An observer of ``producer``, to which its metrics belong until it is closed."""
    conventions = _conventions(producer.client_id, options)
    tracers, deliveries, complaints = TracerSource(tracer_provider), Deliveries(), Complaints()
    records = requests = batches = None
    if options.traces:
        records = RecordTracing(
            options, conventions, tracers, deliveries, complaints, rng or random.Random()
        )
        if options.request_spans:
            requests = RequestTracing(conventions, tracers, complaints)
    key = object()
    instruments = None
    if options.metrics:
        instruments = instruments_of(meter_provider)
        instruments.producers.add(key, producer, options.max_topics)
        batches = BatchMetrics(instruments.batches, options.max_topics)

    def closing() -> None:
        if instruments is not None:
            instruments.producers.remove(key)

    return OtelObserver(
        records,
        requests,
        batches,
        deliveries,
        complaints,
        calls=options.send_many_spans,
        closing=closing,
    )


class AioproducerInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Instruments every producer and every consumer that starts from now on.

    ``instrument()`` takes ``tracer_provider``, ``meter_provider`` and :class:`Options` as keywords.
    ``uninstrument()`` also ends the instrumentation of running clients.
    """

    _tracings: Final[weakref.WeakKeyDictionary[TracedConsumer, ProcessTracing]] = (
        weakref.WeakKeyDictionary()
    )
    _observers: Final[weakref.WeakKeyDictionary[ObservedProducer, OtelObserver]] = (
        weakref.WeakKeyDictionary()
    )

    def instrumentation_dependencies(self) -> Collection[str]:
        """See ``BaseInstrumentor``: this package itself."""
        return ("aioproducer",)

    def _instrument(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        **options: Unpack[OptionsAsKeywords],
    ) -> None:
        chosen = Options(**options)

        def factory(producer: ObservedProducer) -> OtelObserver:
            made = observer_of(
                producer, chosen, tracer_provider=tracer_provider, meter_provider=meter_provider
            )
            self._observers[producer] = made
            return made

        def tracing_factory(consumer: TracedConsumer) -> ProcessTracing | None:
            made = tracing_of(consumer, chosen, tracer_provider=tracer_provider)
            if made is not None:
                self._tracings[consumer] = made
            return made

        observer.set_default(factory)
        observer.set_default_of_consumers(tracing_factory)

    def _uninstrument(self, **kwargs: Any) -> None:
        observer.set_default(None)
        observer.set_default_of_consumers(None)
        for producer, made in list(self._observers.items()):
            producer.unobserve(made)
        self._observers.clear()
        for consumer, tracing in list(self._tracings.items()):
            if consumer.tracing is tracing:
                consumer.tracing = None
        self._tracings.clear()
