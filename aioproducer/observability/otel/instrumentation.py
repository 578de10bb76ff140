"""Instrumentation of one client, and of all producers and consumers of a process."""

from __future__ import annotations

import random
import weakref
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, Unpack

from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined]
    BaseInstrumentor,
)
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from aioproducer import Producer, sync
from aioproducer.engine import observer
from aioproducer.engine.observer import ObservedProducer, TracedConsumer
from aioproducer.observability.otel.batch_metrics import BatchMetrics
from aioproducer.observability.otel.complaints import Complaints
from aioproducer.observability.otel.conventions import Conventions
from aioproducer.observability.otel.deliveries import Deliveries
from aioproducer.observability.otel.instruments import instruments_of
from aioproducer.observability.otel.observer import OtelObserver, RequestTracing
from aioproducer.observability.otel.options import Options, OptionsAsKeywords, emits_old_names
from aioproducer.observability.otel.process_tracing import ProcessTracing
from aioproducer.observability.otel.record_tracing import RecordTracing
from aioproducer.observability.otel.tracers import TracerSource

if TYPE_CHECKING:  # a process that only sends does not import the room of consumers
    from aioproducer.consumer import Consumer

__all__ = ["AioproducerInstrumentor", "instrument", "observer_of", "uninstrument"]


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
