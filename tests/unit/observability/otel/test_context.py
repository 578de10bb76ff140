"""The context of records: parent or link, headers, baggage, suppression."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, DEFAULT_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    NoOpTracerProvider,
    SpanContext,
    SpanKind,
    TraceFlags,
)

from aioproducer.engine.observer import Untraced
from aioproducer.observability.otel.instrumentation import observer_of
from aioproducer.observability.otel.options import Options
from tests.support.otel import context_of
from tests.unit.observability.otel.tracing import DELIVERED, StandIn, Traced

UNSAMPLED = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(0))
SAMPLED = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1))
MINE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
EVERY = 1 << 30


def attached(new: context.Context) -> Iterator[None]:
    token = context.attach(new)
    yield
    context.detach(token)


@pytest.fixture
def _in_unsampled() -> Iterator[None]:
    yield from attached(trace.set_span_in_context(NonRecordingSpan(UNSAMPLED)))


@pytest.fixture
def _in_sampled() -> Iterator[None]:
    yield from attached(trace.set_span_in_context(NonRecordingSpan(SAMPLED)))


@pytest.fixture
def _with_baggage() -> Iterator[None]:
    yield from attached(baggage.set_baggage("tenant", "7"))


def traceparent(each: Any) -> str:
    found: bytes = dict(each.headers)["traceparent"]
    return found.decode()


def test_a_span_is_the_child_of_the_callers() -> None:
    traced = Traced()
    with traced.tracer.start_as_current_span("request") as caller:
        span = traced.delivered()
    assert span.parent == caller.get_span_context()
    assert span.links == ()
    assert context_of(span).trace_id == caller.get_span_context().trace_id


def test_a_span_links_to_the_callers() -> None:
    traced = Traced(link=True)
    with traced.tracer.start_as_current_span("request") as caller:
        record = traced.sent()
        (header,) = record.headers
        span = traced.delivered()
    assert span.parent is None
    assert [link.context for link in span.links] == [caller.get_span_context()]
    assert context_of(span).trace_id != caller.get_span_context().trace_id
    assert f"{caller.get_span_context().trace_id:032x}" not in (header[1] or b"").decode()


def test_headers_carry_the_spans_context() -> None:
    traced = Traced()
    record = traced.sent()
    record.ended(DELIVERED, None)
    own = context_of(traced.spans()[0])
    assert (
        traceparent(record)[:55]
        == f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"
    )


@pytest.mark.usefixtures("_with_baggage")
def test_baggage_travels() -> None:
    assert dict(Traced().sent().headers)["baggage"] == b"tenant=7"
    assert Traced(ALWAYS_OFF).send() == (EVERY, (("baggage", b"tenant=7"),))


@pytest.mark.parametrize("kind", [list, tuple, dict, lambda pairs: MappingProxyType(dict(pairs))])
def test_the_callers_own_context_stays(kind: Any) -> None:
    traced = Traced()
    headers = kind([("traceparent", MINE), ("other", b"1"), ("nothing", None)])
    with traced.tracer.start_as_current_span("request") as caller:
        record = traced.sent(headers=headers)
    assert record.headers == ()
    record.ended(DELIVERED, None)
    span = traced.spans()[-1]
    assert span.kind is SpanKind.CLIENT
    assert span.parent == caller.get_span_context()
    (link,) = span.links
    assert f"{link.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert dict(headers)["traceparent"] == MINE


@pytest.mark.parametrize("value", [b"nonsense", None, b"\xff", bytearray(MINE)])
def test_a_header_that_names_no_context_is_not_written_twice(value: Any) -> None:
    record = Traced().sent(headers={"traceparent": value})
    assert record.headers == ()


@pytest.mark.parametrize("headers", [None, (), [], {}, MappingProxyType({}), [("other", b"1")]])
def test_headers_without_a_context(headers: Any) -> None:
    assert [key for key, _ in Traced().sent(headers=headers).headers] == ["traceparent"]


@pytest.mark.usefixtures("_with_baggage")
def test_the_callers_own_baggage_stays() -> None:
    record = Traced().sent(headers={"baggage": b"mine=1"})
    assert [key for key, _ in record.headers] == ["traceparent"]


@pytest.mark.parametrize("value", [MINE, MINE.decode(), bytearray(MINE), memoryview(MINE)])
def test_a_context_as_bytes_or_text(value: Any) -> None:
    traced = Traced()
    traced.sent(headers={"traceparent": value}).ended(DELIVERED, None)
    assert len(traced.spans()[0].links) == 1


@pytest.mark.parametrize("headers", [5, "text", [1], [("a",)], [([], b"1")], {5: b"1"}])
def test_wrong_headers_are_left_to_the_producer(
    headers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(Traced().sent(headers=headers).headers) == 1
    assert caplog.records == []


def test_an_iterator_of_headers_is_left_to_the_producer() -> None:
    headers = iter([("other", b"1")])
    assert len(Traced().sent(headers=headers).headers) == 1
    assert list(headers) == [("other", b"1")]


def test_no_propagation() -> None:
    traced = Traced(propagate=False)
    record = traced.sent()
    assert record.headers == ()
    record.ended(DELIVERED, None)
    assert traced.spans()[0].kind is SpanKind.CLIENT
    assert Traced(ALWAYS_OFF, propagate=False).send() == (EVERY, ())


@pytest.mark.usefixtures("_in_unsampled")
def test_an_unsampled_caller_is_propagated() -> None:
    traced = Traced(DEFAULT_ON)
    decision = traced.send()
    assert isinstance(decision, Untraced)
    assert decision.records == EVERY
    assert traceparent(decision) == f"00-{0xABC:032x}-{0xDEF:016x}-00"
    call = traced.observer.call_started("orders", None)
    assert call is not None
    assert call.headers == decision.headers
    call.ended(1, 0, None)
    assert traced.spans() == []


@pytest.mark.usefixtures("_in_unsampled")
def test_an_unsampled_caller_and_the_records_own_context() -> None:
    traced = Traced(DEFAULT_ON)
    assert traced.send(headers={"traceparent": MINE}) == (1, ())
    assert traced.observer.call_started("orders", {"traceparent": MINE}) is None
    decision = traced.send(headers={"other": b"1"})
    assert isinstance(decision, Untraced)
    assert decision.records == 1
    assert [key for key, _ in decision.headers] == ["traceparent"]


@pytest.mark.usefixtures("_in_unsampled")
def test_an_unsampled_caller_that_is_linked_to_decides_nothing() -> None:
    traced = Traced(DEFAULT_ON, link=True)
    assert not isinstance(traced.send(), Untraced)


@pytest.mark.usefixtures("_in_sampled")
def test_a_sampler_that_asks_no_parent() -> None:
    decision = Traced(ALWAYS_OFF).send()
    assert isinstance(decision, Untraced)
    assert decision.records == EVERY
    assert traceparent(decision) == f"00-{0xABC:032x}-{0xDEF:016x}-01"


def test_no_caller_and_nothing_sampled() -> None:
    traced = Traced(ALWAYS_OFF)
    assert traced.send() == (EVERY, ())
    assert traced.observer.call_started("orders", None) is None


def test_suppression() -> None:
    traced = Traced()
    with suppress_instrumentation():
        assert traced.send() == (EVERY, ())
        assert traced.observer.call_started("orders", None) is None
    assert not isinstance(traced.send(), Untraced)


@pytest.mark.usefixtures("_in_sampled")
def test_without_an_sdk_the_context_is_propagated() -> None:
    producer = StandIn()
    observer = observer_of(producer, Options(metrics=False), tracer_provider=NoOpTracerProvider())
    decision = observer.record_sent("orders", None, None, None)
    assert isinstance(decision, Untraced)
    assert decision.records == EVERY
    assert traceparent(decision) == f"00-{0xABC:032x}-{0xDEF:016x}-01"
    assert observer.call_started("orders", None) is not None


def test_a_provider_that_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    observer = observer_of(StandIn(), Options(metrics=False))
    assert observer.record_sent("orders", None, None, None) == (100, ())
    proxied = observer_of(
        StandIn(), Options(metrics=False), tracer_provider=trace.get_tracer_provider()
    )
    assert proxied.record_sent("orders", None, None, None) == (100, ())
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", Traced(ALWAYS_ON).tracers)
    for each in (observer, proxied):
        assert not isinstance(each.record_sent("orders", None, None, None), Untraced)


class BrokenPropagator(TextMapPropagator):
    """A propagator with a bug."""

    def extract(self, carrier: Any, context: Any = None, getter: Any = None) -> Any:
        raise RuntimeError("a bug")

    def inject(self, carrier: Any, context: Any = None, setter: Any = None) -> None:
        raise RuntimeError("a bug")

    @property
    def fields(self) -> set[str]:
        return {"traceparent"}


def test_a_broken_propagator_stops_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propagate, "_HTTP_TEXT_FORMAT", BrokenPropagator())
    traced = Traced()
    span = traced.delivered()
    assert span.name == "send orders"
    assert traced.send(headers={"traceparent": MINE}) == (1, ())
    assert traced.observer.call_started("orders", None) is not None
    assert Traced(ALWAYS_OFF).send() == (EVERY, ())


def test_no_propagators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propagate, "_HTTP_TEXT_FORMAT", CompositePropagator([]))
    assert Traced().sent().headers == ()
