"""Spans of the work on records that were read. They link to the spans that sent the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.trace import INVALID_SPAN, Link, Span, SpanKind

from aioproducer.engine.observer import TracedConsumer
from aioproducer.model import AnyRecord
from aioproducer.observability.otel.conventions import (
    BATCH_COUNT,
    DESTINATION,
    Attributes,
    Conventions,
)
from aioproducer.observability.otel.options import Options
from aioproducer.observability.otel.spans import Complaints, TracerSource, end, extract, own_context

if TYPE_CHECKING:
    from aioproducer.consumer import Consumer

__all__ = ["ProcessTracing", "process_span"]


def process_span(
    consumer: Consumer, records: AnyRecord | Iterable[AnyRecord]
) -> AbstractContextManager[Span]:
    """Create a span for processing one or several records in a loop over an instrumented consumer.

    ::

        async for record in consumer:
            with process_span(consumer, record):
                await handle(record)

    The span is current in the block, ends with it, and records the error that leaves it. Without
    instrumentation the span records nothing. ``run()`` creates such spans automatically.
    """
    return consumer._tracing.process(records, INVALID_SPAN)


class _Work(NamedTuple):
    """The work on records, whose span is to begin."""

    topics: set[str]
    context: Context
    links: list[Link]
    attributes: Attributes


class ProcessTracing:
    """Makes the spans of one consumer's records."""

    def __init__(
        self,
        consumer: TracedConsumer,
        options: Options,
        conventions: Conventions,
        tracers: TracerSource,
    ) -> None:
        self._continues = options.continue_trace
        self._conventions = conventions
        self._operation = conventions.process(consumer.group_id)
        self._tracers = tracers
        self._complaints = Complaints("processed")

    def record(self, record: AnyRecord) -> AbstractContextManager[Span]:
        """The span of one record, current in the block."""
        return self._span(partial(self._work_on_record, record))

    def batch(self, records: Sequence[AnyRecord]) -> AbstractContextManager[Span]:
        """One span for all of ``records``, current in the block. None without records."""
        return self._span(partial(self._work_on_batch, records) if records else None)

    def _work_on_record(self, record: AnyRecord) -> _Work:
        context, sent = otel_context.get_current(), own_context(record.headers).span
        if self._continues:
            context = extract(record.headers, context)
        links = [] if sent is None else [Link(sent)]
        return _Work({record.topic}, context, links, self._conventions.consumed(record))

    def _work_on_batch(self, records: Sequence[AnyRecord]) -> _Work:
        links = [
            Link(sent, self._conventions.consumed(record))
            for record in records
            if (sent := own_context(record.headers).span) is not None
        ]
        topics = {record.topic for record in records}
        return _Work(topics, otel_context.get_current(), links, {BATCH_COUNT: len(records)})

    @contextmanager
    def _span(self, work: Callable[[], _Work] | None) -> Iterator[Span]:
        begun = None if work is None else self._begin(work)
        if begun is None:
            yield INVALID_SPAN
            return
        span, context = begun
        token = otel_context.attach(trace.set_span_in_context(span, context))
        try:
            yield span
        except BaseException as error:
            end(span, {}, error, self._complaints)
            raise
        else:
            end(span, {}, None, self._complaints)
        finally:
            otel_context.detach(token)

    def _begin(self, work: Callable[[], _Work]) -> tuple[Span, Context] | None:
        try:
            tracer = self._tracers.get()
            if tracer is None or not is_instrumentation_enabled():
                return None
            topics, context, links, attributes = work()
            name = "process"
            if len(topics) == 1:
                (topic,) = topics
                attributes[DESTINATION] = topic
                name = f"process {topic}"
            span = tracer.start_span(
                name,
                context=context,
                kind=SpanKind.CONSUMER,
                attributes=self._operation | attributes,
                links=links,
            )
        except Exception:
            self._complaints.log("the span of a record")
            return None
        return span, context
