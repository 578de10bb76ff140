"""Names, kinds, attributes and status of spans, by the semantic conventions."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import SpanKind, StatusCode

from aioproducer.engine.observer import RequestOutcome, Untraced
from aioproducer.errors import (
    DeliveryTimeoutError,
    NotEnoughReplicasError,
    ProducerClosedError,
    RecordCancelledError,
)
from aioproducer.model import Node, RecordMetadata, TopicPartition
from tests.support.otel import attributes, context_of
from tests.unit.observability.otel.tracing import DELIVERED, LOST, Traced

BROKER = Node(2, "kafka-2.example", 9092)


def request(error: BaseException | None = None) -> RequestOutcome:
    batches = {TopicPartition("orders", 3): (7, 700)}
    return RequestOutcome(BROKER, batches, 0.25, error)


def test_a_delivered_record() -> None:
    traced = Traced(record_key=True)
    record = traced.sent(key="customer-7")
    assert traced.spans() == []
    traced.observer.request_ended(request())
    record.ended(DELIVERED, None)
    (span,) = traced.spans()
    assert (span.name, span.kind) == ("send orders", SpanKind.PRODUCER)
    assert span.status.status_code is StatusCode.UNSET
    assert attributes(span) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.client.id": "tests",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
        "messaging.kafka.message.key": "customer-7",
        "messaging.kafka.offset": 42,
        "server.address": "kafka-2.example",
        "server.port": 9092,
    }
    scope = span.instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.schema_url) == (
        "aioproducer",
        "https://opentelemetry.io/schemas/1.44.0",
    )


def test_a_span_ends_once() -> None:
    traced = Traced()
    record = traced.sent()
    record.ended(DELIVERED, None)
    record.ended(LOST, DeliveryTimeoutError("late"))
    assert len(traced.spans()) == 1


@pytest.mark.parametrize(
    ("error", "kind", "description"),
    [
        (DeliveryTimeoutError("not acknowledged in 2 s"), "DeliveryTimeoutError", "not ack"),
        (NotEnoughReplicasError("2 of 3"), "NOT_ENOUGH_REPLICAS", "2 of 3"),
        (ProducerClosedError("closed"), "ProducerClosedError", "closed"),
        (RecordCancelledError("the caller"), "RecordCancelledError", "the caller"),
    ],
)
def test_a_failed_record(error: BaseException, kind: str, description: str) -> None:
    traced = Traced()
    traced.sent().ended(LOST, error)
    (span,) = traced.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert description in (span.status.description or "")
    found = attributes(span)
    assert found["error.type"] == kind
    assert found["messaging.destination.partition.id"] == "3"
    assert "messaging.kafka.offset" not in found
    assert "messaging.kafka.message.tombstone" not in found
    assert "aioproducer.may_have_been_written" not in found


def test_a_record_that_may_have_been_written() -> None:
    traced = Traced()
    error = DeliveryTimeoutError("late")
    error.may_have_been_written = True
    traced.sent().ended(LOST, error)
    assert attributes(traced.spans()[0])["aioproducer.may_have_been_written"] is True


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("customer-7", "customer-7"),
        (b"customer-7", "customer-7"),
        ("Zoë".encode(), "Zoë"),
        (7, "7"),
        (b"\x00\x01", None),
        (b"\xff\xfe", None),
        (None, None),
        (True, None),
        ({"a": 1}, None),
        ("x" * 257, None),
        (b"x" * 257, None),
    ],
)
def test_keys_that_are_text(key: object, text: str | None) -> None:
    found = attributes(Traced(record_key=True).delivered(key=key))
    assert found.get("messaging.kafka.message.key") == text


def test_options_of_attributes() -> None:
    found = attributes(Traced(body_size=True).delivered(key="customer-7"))
    assert "messaging.kafka.message.key" not in found, "a key may be personal data"
    assert found["messaging.message.body.size"] == 5


def test_a_tombstone() -> None:
    traced = Traced(body_size=True)
    traced.sent().ended(RecordMetadata("orders", 3, 42, 1, 4, -1), None)
    found = attributes(traced.spans()[0])
    assert found["messaging.kafka.message.tombstone"] is True
    assert "messaging.message.body.size" not in found


def test_acks_0_has_no_offset() -> None:
    traced = Traced()
    traced.sent().ended(DELIVERED._replace(offset=-1), None)
    assert "messaging.kafka.offset" not in attributes(traced.spans()[0])


class Asked(Sampler):
    """Drops everything, and remembers the questions."""

    def __init__(self) -> None:
        self.questions: list[Any] = []

    def should_sample(self, *args: Any, **kwargs: Any) -> SamplingResult:
        self.questions.append(args)
        return SamplingResult(Decision.DROP)

    def get_description(self) -> str:
        return "AlwaysOnSampler"


def test_samplers_see_the_attributes_and_are_asked_each_time() -> None:
    sampler = Asked()
    traced = Traced(sampler)
    for _ in range(3):
        decision = traced.send(partition=5)
        assert isinstance(decision, Untraced)
        assert decision.records == 1
    assert len(sampler.questions) == 3
    _, _, name, kind, found, _ = sampler.questions[0]
    assert (name, kind) == ("send orders", SpanKind.PRODUCER)
    assert found["messaging.destination.partition.id"] == "5"
    assert found["messaging.destination.name"] == "orders"


def test_the_names_of_1_24_beside_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http, messaging/dup,messaging")
    span = Traced().delivered(partition=3)
    found = attributes(span)
    assert span.name == "send orders"
    old = {
        "messaging.operation": "publish",
        "messaging.client_id": "tests",
        "messaging.kafka.destination.partition": 3,
        "messaging.kafka.message.offset": 42,
    }
    assert found.items() >= old.items()
    assert found["messaging.kafka.offset"] == 42
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "messaging")
    assert not attributes(Traced().delivered()).keys() & old.keys()


def test_a_send_many() -> None:
    traced = Traced()
    call = traced.observer.call_started("orders", None)
    assert call is not None
    (header,) = call.headers
    call.ended(100, 0, None)
    call.ended(100, 0, None)
    (span,) = traced.spans()
    assert (span.name, span.kind) == ("send orders", SpanKind.PRODUCER)
    assert attributes(span)["messaging.batch.message_count"] == 100
    assert "aioproducer.batch.failed_count" not in attributes(span)
    assert f"{context_of(span).span_id:016x}".encode() in (header[1] or b"")


def test_a_send_many_that_fails() -> None:
    traced = Traced()
    call = traced.observer.call_started("orders", None)
    assert call is not None
    call.ended(100, 7, NotEnoughReplicasError("2 of 3"))
    (span,) = traced.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["aioproducer.batch.failed_count"] == 7
    assert attributes(span)["error.type"] == "NOT_ENOUGH_REPLICAS"


def test_send_many_without_spans() -> None:
    assert Traced(send_many_spans=False).observer.call_started("orders", None) is None


def test_spans_of_requests_are_linked_to() -> None:
    traced = Traced(request_spans=True)
    record = traced.sent()
    traced.observer.request_ended(request())
    record.ended(DELIVERED, None)
    carrier, span = traced.spans()
    assert (carrier.name, carrier.kind) == ("produce kafka-2.example:9092", SpanKind.CLIENT)
    assert carrier.parent is None
    assert carrier.end_time is not None
    assert carrier.start_time is not None
    assert carrier.end_time - carrier.start_time == 250_000_000
    assert attributes(carrier) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "produce",
        "messaging.operation.type": "send",
        "messaging.client.id": "tests",
        "messaging.batch.message_count": 7,
        "messaging.destination.name": "orders",
        "aioproducer.request.size": 700,
        "server.address": "kafka-2.example",
        "server.port": 9092,
    }
    assert [link.context for link in span.links] == [context_of(carrier)]


def test_a_request_that_fails() -> None:
    traced = Traced(request_spans=True)
    traced.observer.request_ended(request(ConnectionResetError("gone")))
    (span,) = traced.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "ConnectionResetError"


def test_a_broker_without_an_address() -> None:
    traced = Traced(request_spans=True)
    record = traced.sent()
    traced.observer.request_ended(request()._replace(node=Node(2, "", -1)))
    record.ended(DELIVERED, None)
    carrier, span = traced.spans()
    assert carrier.name == "produce"
    assert "server.address" not in attributes(span)


def test_a_record_that_was_never_sent_has_no_request() -> None:
    traced = Traced(request_spans=True)
    traced.observer.request_ended(request())
    traced.sent().ended(LOST, DeliveryTimeoutError("late"))
    (span,) = traced.spans("send orders")
    assert span.links == ()
    assert "server.address" not in attributes(span)


def test_no_spans_of_requests_by_default() -> None:
    traced = Traced()
    traced.observer.request_ended(request())
    assert traced.spans() == []


class Broken(SpanProcessor):
    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("the exporter is broken")


def test_a_broken_processor_stops_no_record(caplog: pytest.LogCaptureFixture) -> None:
    traced = Traced()
    traced.tracers.add_span_processor(Broken())
    traced.sent().ended(DELIVERED, None)
    assert "the end of a span" in caplog.text


class BrokenStart(SpanProcessor):
    def on_start(self, span: Span, parent_context: Any = None) -> None:
        raise RuntimeError("the processor is broken")


def test_errors_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    traced = Traced()
    traced.tracers.add_span_processor(BrokenStart())
    assert [traced.send() for _ in range(3)] == [(1, ()), (1, ()), (1, ())]
    assert [each.levelname for each in caplog.records] == ["WARNING"]


def test_a_closed_observer_makes_no_spans() -> None:
    traced = Traced(request_spans=True)
    record = traced.sent()
    traced.observer.close()
    traced.observer.close()
    assert traced.send() == (1 << 30, ())
    assert traced.observer.call_started("orders", None) is None
    traced.observer.request_ended(request())
    record.ended(DELIVERED, None)
    assert [span.name for span in traced.spans()] == ["send orders"]
