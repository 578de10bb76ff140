"""Spans of the work on records that were read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import INVALID_SPAN, SpanKind, StatusCode

from aioproducer.consumer.tracing import TracingSlot
from aioproducer.model import ConsumerRecord, Header
from aioproducer.observability.otel import process_span
from aioproducer.observability.otel.instrumentation import tracing_of
from aioproducer.observability.otel.options import Options
from tests.support.otel import InMemorySdk, attributes, context_of

TRACE, SPAN = 0xABC, 0xDEF
SENT = ("traceparent", f"00-{TRACE:032x}-{SPAN:016x}-01".encode())


def record(*headers: Header, **fields: Any) -> ConsumerRecord:
    usual: dict[str, Any] = {"topic": "orders", "partition": 3, "offset": 42}
    usual |= {"timestamp_ms": 5, "timestamp_type": "CreateTime", "key": b"k", "value": b"value"}
    return ConsumerRecord(**usual | fields, headers=headers)


class Traced(InMemorySdk):
    """A consumer that is not there, and its spans."""

    def __init__(self, sampler: Sampler | None = None, **options: Any) -> None:
        super().__init__(sampler)
        self.slot = TracingSlot("tests", "billing")
        self.consumer: Any = SimpleNamespace(_tracing=self.slot)
        self.slot.tracing = tracing_of(self.slot, Options(**options), tracer_provider=self.tracers)

    def processed(self, *records: ConsumerRecord) -> ReadableSpan:
        """The span of the work on a record, or on several."""
        with process_span(self.consumer, records[0] if len(records) == 1 else records) as span:
            assert trace.get_current_span() is span
        return self.spans()[-1]


def links(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(each.context.trace_id, each.context.span_id) for each in span.links]


def test_the_names_of_the_conventions() -> None:
    sdk = Traced(body_size=True, record_key=True)
    span = sdk.processed(record(SENT))
    assert (span.name, span.kind) == ("process orders", SpanKind.CONSUMER)
    assert attributes(span) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.client.id": "tests",
        "messaging.consumer.group.name": "billing",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
        "messaging.kafka.offset": 42,
        "messaging.kafka.message.key": "k",
        "messaging.message.body.size": 5,
    }
    assert span.status.status_code is StatusCode.UNSET
    assert trace.get_current_span() is INVALID_SPAN


def test_the_names_of_version_1_24(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "messaging/dup")
    found = attributes(Traced().processed(record()))
    assert found["messaging.operation"] == "process"
    assert found["messaging.client_id"] == "tests"
    assert found["messaging.kafka.consumer.group"] == "billing"
    assert found["messaging.kafka.destination.partition"] == 3
    assert found["messaging.kafka.message.offset"] == 42


def test_a_record_without_a_value_and_a_key_that_is_no_text() -> None:
    found = attributes(
        Traced(body_size=True, record_key=True).processed(record(value=None, key=b"\xff"))
    )
    assert found["messaging.kafka.message.tombstone"] is True
    assert "messaging.message.body.size" not in found
    assert "messaging.kafka.message.key" not in found
    assert "messaging.kafka.message.key" not in attributes(Traced().processed(record()))


def test_a_span_links_to_the_records_context_and_begins_a_trace() -> None:
    span = Traced().processed(record(("other", None), SENT))
    assert links(span) == [(TRACE, SPAN)]
    assert span.parent is None
    assert context_of(span).trace_id != TRACE


@pytest.mark.parametrize("headers", [(), (("traceparent", b"\xff"),), (("traceparent", None),)])
@pytest.mark.parametrize("continues", [False, True])
def test_a_record_without_a_context_has_no_link(
    headers: tuple[Header, ...], *, continues: bool
) -> None:
    span = Traced(continue_trace=continues).processed(record(*headers))
    assert (links(span), span.parent) == ([], None)


def test_the_current_span_is_the_parent() -> None:
    sdk = Traced()
    with sdk.tracer.start_as_current_span("job") as job:
        span = sdk.processed(record(SENT))
    assert span.parent == job.get_span_context()
    assert links(span) == [(TRACE, SPAN)]


def test_a_trace_can_be_continued() -> None:
    sdk = Traced(continue_trace=True)
    with sdk.tracer.start_as_current_span("job"):
        with process_span(sdk.consumer, record(SENT, ("baggage", b"user=7"))):
            assert baggage.get_baggage("user") == "7"
        assert baggage.get_baggage("user") is None
    (span,) = sdk.spans("process orders")
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == (TRACE, SPAN)
    assert links(span) == [(TRACE, SPAN)]


def test_one_span_for_a_batch() -> None:
    sdk = Traced(continue_trace=True, record_key=True)
    span = sdk.processed(record(SENT), record(offset=43), record(SENT, offset=44, key=None))
    assert span.name == "process orders"
    assert span.parent is None
    found = attributes(span)
    assert found["messaging.batch.message_count"] == 3
    assert found["messaging.destination.name"] == "orders"
    assert "messaging.kafka.offset" not in found
    assert [dict(link.attributes or {}) for link in span.links] == [
        {
            "messaging.destination.partition.id": "3",
            "messaging.kafka.offset": 42,
            "messaging.kafka.message.key": "k",
        },
        {"messaging.destination.partition.id": "3", "messaging.kafka.offset": 44},
    ]


def test_a_batch_of_several_topics_and_one_without_records() -> None:
    sdk = Traced()
    span = sdk.processed(record(), record(topic="events"))
    assert span.name == "process"
    assert "messaging.destination.name" not in attributes(span)
    with process_span(sdk.consumer, []) as none:
        assert none is INVALID_SPAN
    assert sdk.started == 1


def test_an_iterator_of_records() -> None:
    sdk = Traced()
    with process_span(sdk.consumer, iter([record()])):
        pass
    assert attributes(sdk.spans()[0])["messaging.batch.message_count"] == 1


@pytest.mark.parametrize("error", [ValueError("too late"), asyncio.CancelledError()])
def test_the_error_of_the_work(error: BaseException) -> None:
    sdk = Traced()
    with pytest.raises(type(error)) as raised, process_span(sdk.consumer, record()):
        raise error
    assert raised.value is error
    (span,) = sdk.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == str(error)
    assert attributes(span)["error.type"] == type(error).__name__
    assert trace.get_current_span() is INVALID_SPAN


def test_the_application_adds_to_the_span() -> None:
    sdk = Traced()
    with process_span(sdk.consumer, record()) as span:
        span.set_attribute("shop.order", 7)
    assert attributes(sdk.spans()[0])["shop.order"] == 7


# --- no span -------------------------------------------------------------------------------


def test_no_span_where_tracing_is_off() -> None:
    sdk = Traced(traces=False)
    assert sdk.slot.tracing is None
    with process_span(sdk.consumer, record()) as span:
        assert span is INVALID_SPAN
    sdk = Traced()
    with suppress_instrumentation(), process_span(sdk.consumer, record()) as span:
        assert span is INVALID_SPAN
    assert sdk.started == 0


class _Failing(Sampler):
    def should_sample(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no idea")

    def get_description(self) -> str:
        return "failing"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "aioproducer"):
        yield caplog


def test_an_error_of_the_sampler_is_a_line_in_the_log(log: pytest.LogCaptureFixture) -> None:
    sdk = Traced(_Failing())
    for _ in range(2):
        with process_span(sdk.consumer, record()) as span:
            assert span is INVALID_SPAN
    (line,) = log.messages
    assert "which is still processed" in line
