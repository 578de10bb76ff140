"""Spans of records, of calls and of requests, from their start to their outcome.

The tracer is found when there is an SDK. The context of a record stands in its headers, by
OpenTelemetry's global propagator. A span of a record learns its broker from the last produce
request of the partition. Errors that samplers, propagators and processors raise are logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import (
    NoOpTracer,
    ProxyTracerProvider,
    Span,
    SpanContext,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
)

from aioproducer.engine.observer import Untraced
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.version import __version__
from aioproducer.model import Header, Headers, Node, NodeId, RecordMetadata, TopicPartition
from aioproducer.observability.otel.conventions import (
    BATCH_COUNT,
    FAILED_COUNT,
    SCHEMA_URL,
    TOMBSTONE,
    Attributes,
    Conventions,
    error_attributes,
)

__all__ = [
    "SCOPE",
    "TracerSource",
    "Complaints",
    "OwnContext",
    "extract",
    "inject",
    "own_context",
    "Deliveries",
    "LastRequest",
    "CallSpan",
    "RecordSpan",
    "end",
]


SCOPE: Final = "aioproducer"


class TracerSource:
    """Finds the tracer of ``provider``, or of the global one, which may be set later."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._provider = provider
        self._tracer: Tracer | None = None
        self.may_come = True
        """False: the provider has no tracer, now and later."""

    def get(self) -> Tracer | None:
        """The tracer; None as long as there is no SDK."""
        if self._tracer is None and self.may_come:
            self._find()
        return self._tracer

    def _find(self) -> None:
        provider = self._provider
        if provider is None or isinstance(provider, ProxyTracerProvider):
            provider = trace.get_tracer_provider()
            if isinstance(provider, ProxyTracerProvider):
                return
        tracer = provider.get_tracer(SCOPE, __version__, schema_url=SCHEMA_URL)
        self.may_come = False
        if type(tracer) is not NoOpTracer:
            self._tracer = tracer


logger = plain_logger("aioproducer.observability.otel")


class Complaints:
    """Logs the first error as WARNING with its traceback, and later ones as DEBUG.

    ``outcome``: what the client does with the record all the same.
    """

    def __init__(self, outcome: str = "sent") -> None:
        self._outcome = outcome
        self._first = True

    def log(self, about: str) -> None:
        """Log the exception that is being handled."""
        level = logging.WARNING if self._first else logging.DEBUG
        self._first = False
        logger.log(
            level,
            "OpenTelemetry failed on %s, which is still %s; later errors are DEBUG",
            about,
            self._outcome,
            exc_info=True,
        )


_BAGGAGE: Final = "baggage"


class OwnContext(NamedTuple):
    """The context that the caller has put into a record's headers."""

    pairs: Sequence[tuple[str, Any]]
    keys: frozenset[str]
    """The propagator's keys among them."""

    @property
    def span(self) -> SpanContext | None:
        """The span that they name."""
        if not self.keys:
            return None
        span = trace.get_current_span(extract(self.pairs, Context())).get_span_context()
        return span if span.is_valid else None

    @property
    def replaces(self) -> bool:
        """True if the record needs no other context than its own."""
        return bool(self.keys - {_BAGGAGE})

    def added(self, context: tuple[Header, ...]) -> tuple[Header, ...]:
        """The headers of another ``context`` that the record gets beside its own."""
        if self.replaces:
            return ()
        return tuple(each for each in context if each[0] not in self.keys) if self.keys else context


class _Append(Setter[list[Header]]):
    def set(self, carrier: list[Header], key: str, value: str) -> None:
        carrier.append((key, value.encode()))


class _Find(Getter[list[tuple[str, Any]]]):
    def get(self, carrier: list[tuple[str, Any]], key: str) -> list[str] | None:
        found = [value for name, value in carrier if name == key and value is not None]
        return [_text(value) for value in found] or None

    def keys(self, carrier: list[tuple[str, Any]]) -> list[str]:
        return [name for name, _ in carrier]


def _text(value: Any) -> str:
    """A value as the producer takes it: bytes-like, or text."""
    return value if isinstance(value, str) else bytes(value).decode(errors="replace")


_APPEND: Final = _Append()
_FIND: Final = _Find()
_NONE: Final = OwnContext((), frozenset())


def inject(context: Context) -> tuple[Header, ...]:
    """The headers that carry ``context``."""
    carrier: list[Header] = []
    propagate.inject(carrier, context=context, setter=_APPEND)
    return tuple(carrier)


def extract(headers: Sequence[tuple[str, Any]], into: Context) -> Context:
    """``into``, with the context that ``headers`` carry."""
    return propagate.extract([*headers], context=into, getter=_FIND)


def _pairs(headers: Headers) -> Iterable[tuple[str, Any]]:
    return headers.items() if isinstance(headers, Mapping) else headers


def own_context(headers: Headers | None) -> OwnContext:
    """The context in the caller's headers. An iterator, or no pairs, are left to the producer."""
    if not headers or not isinstance(headers, Mapping | Sequence):
        return _NONE
    fields = propagate.get_global_textmap().fields
    try:
        pairs = [(name, value) for name, value in _pairs(headers)]
        keys = frozenset(name for name, _ in pairs if name in fields)
    except (TypeError, ValueError):
        return _NONE
    return OwnContext(pairs, keys) if keys else _NONE


_MOST: Final = 10_000


class LastRequest(NamedTuple):
    """A produce request that carried a batch."""

    node: Node
    span: SpanContext | None
    """The request's own span, if it is recorded."""


class Deliveries:
    """Remembers requests by partition, and brokers by id; within bounds."""

    def __init__(self) -> None:
        self.ended = 0
        """The number of requests that have ended."""
        self._requests: dict[TopicPartition, tuple[int, LastRequest]] = {}
        self._nodes: dict[NodeId, Node] = {}

    def add(self, partitions: Iterable[TopicPartition], request: LastRequest) -> None:
        """A request has ended."""
        self.ended += 1
        for memory in (self._requests, self._nodes):
            if len(memory) > _MOST:
                memory.clear()
        self._nodes[request.node.id] = request.node
        for partition in partitions:
            self._requests[partition] = (self.ended, request)

    def last(self, partition: TopicPartition, since: int) -> LastRequest | None:
        """The last request with a batch for the partition, of those after the first ``since``."""
        number, request = self._requests.get(partition, (0, None))
        return request if number > since else None

    def node(self, node: NodeId) -> Node | None:
        """The address of a broker that has got a request."""
        return self._nodes.get(node)


class RecordSpan:
    """The span of a record that is sent by itself."""

    __slots__ = (
        "_complaints",
        "_conventions",
        "_deliveries",
        "_earlier",
        "_span",
        "behind",
        "headers",
    )

    def __init__(
        self,
        span: Span,
        headers: Sequence[Header],
        conventions: Conventions,
        deliveries: Deliveries,
        complaints: Complaints,
        behind: Untraced | None,
    ) -> None:
        self.headers = headers
        self.behind = behind
        self._span: Span | None = span
        self._conventions = conventions
        self._deliveries = deliveries
        self._earlier = deliveries.ended  # requests that can't have carried the record
        self._complaints = complaints

    def ended(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """End the span with the record's place, or with its error."""
        span, self._span = self._span, None
        if span is None:
            return
        attributes: Attributes = {}
        request = None
        try:
            partition = TopicPartition(metadata.topic, metadata.partition)
            last = self._deliveries.last(partition, since=self._earlier)
            attributes = self._conventions.delivery(metadata, None if last is None else last.node)
            request = None if last is None else last.span
            if error is None and metadata.serialized_value_size < 0:
                attributes[TOMBSTONE] = True
        except Exception:  # a topic that is no text, and was refused
            self._complaints.log("the attributes of a span")
        end(span, attributes, error, self._complaints, request=request)


class CallSpan:
    """A ``send_many()``: its span, if it is recorded, and the headers with its context."""

    __slots__ = ("_complaints", "_span", "headers")

    def __init__(
        self, span: Span | None, headers: tuple[Header, ...], complaints: Complaints
    ) -> None:
        self.headers = headers
        self._span = span
        self._complaints = complaints

    def headers_for(self, own: Headers | None) -> tuple[Header, ...]:
        """See :meth:`aioproducer.engine.observer.CallTrace.headers_for`."""
        return own_context(own).added(self.headers)

    def ended(self, records: int, failed: int, error: BaseException | None) -> None:
        """End the span with the number of records."""
        span, self._span = self._span, None
        if span is None:
            return
        attributes: Attributes = {BATCH_COUNT: records}
        if failed:
            attributes[FAILED_COUNT] = failed
        end(span, attributes, error, self._complaints)


def end(
    span: Span,
    attributes: Attributes,
    error: BaseException | None,
    complaints: Complaints,
    *,
    request: SpanContext | None = None,
    end_time: int | None = None,
) -> None:
    """End a span, whatever its processors do."""
    try:
        if request is not None:
            span.add_link(request)
        if error is not None:
            attributes |= error_attributes(error)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.set_attributes(attributes)
    except Exception:
        complaints.log("the attributes of a span")
    try:
        span.end(end_time)
    except Exception:
        complaints.log("the end of a span")
