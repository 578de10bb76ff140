"""Spans of records, of calls and of requests, from their start to their outcome."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.trace import Span, SpanContext, Status, StatusCode

from aioproducer.engine.observer import Untraced
from aioproducer.model import Header, RecordMetadata, TopicPartition
from aioproducer.observability.otel.complaints import Complaints
from aioproducer.observability.otel.conventions import (
    BATCH_COUNT,
    FAILED_COUNT,
    TOMBSTONE,
    Attributes,
    Conventions,
    error_attributes,
)
from aioproducer.observability.otel.deliveries import Deliveries

__all__ = ["CallSpan", "RecordSpan", "UntracedCall", "end"]


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
    """The span of a ``send_many()``."""

    __slots__ = ("_complaints", "_span", "headers")

    def __init__(self, span: Span, headers: Sequence[Header], complaints: Complaints) -> None:
        self.headers = headers
        self._span: Span | None = span
        self._complaints = complaints

    def ended(self, records: int, failed: int, error: BaseException | None) -> None:
        """End the span with the number of records."""
        span, self._span = self._span, None
        if span is None:
            return
        attributes: Attributes = {BATCH_COUNT: records}
        if failed:
            attributes[FAILED_COUNT] = failed
        end(span, attributes, error, self._complaints)


class UntracedCall:
    """A ``send_many()`` without a span, whose records carry the context of the caller."""

    __slots__ = ("headers",)

    def __init__(self, headers: Sequence[Header]) -> None:
        self.headers = headers

    def ended(self, records: int, failed: int, error: BaseException | None) -> None:
        """Do nothing."""


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
