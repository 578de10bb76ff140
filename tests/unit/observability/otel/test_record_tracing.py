"""Records in traces: the context, its headers, suppression, and the decisions of samplers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    DEFAULT_OFF,
    DEFAULT_ON,
    Decision,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
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
from aioproducer.observability.otel.record_tracing import (
    ALL,
    Known,
    Ratio,
    Verdict,
    records_until_sample,
    tracer_of_sample,
    verdict,
)
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


@pytest.mark.usefixtures("_with_baggage")
@pytest.mark.parametrize("sampler", [ALWAYS_ON, DEFAULT_ON], ids=["span", "no span"])
@pytest.mark.parametrize(
    ("headers", "added"),
    [
        (None, {"traceparent", "baggage"}),
        ({"other": b"1"}, {"traceparent", "baggage"}),
        ({"baggage": b"mine=1"}, {"traceparent"}),
        ([["baggage", "mine=1"]], {"traceparent"}),
        ({"traceparent": MINE}, set()),
        ([["traceparent", MINE.decode()]], set()),
        ({"tracestate": b"mine=1"}, set()),
        ([["a"]], {"traceparent", "baggage"}),
        (7, {"traceparent", "baggage"}),
    ],
)
def test_a_whole_record_of_a_send_many_gets_what_a_lone_one_gets(
    headers: Any, added: set[str], sampler: Sampler
) -> None:
    traced = Traced(sampler)
    with trace.use_span(NonRecordingSpan(UNSAMPLED)):
        call = traced.observer.call_started("orders", None)
        assert call is not None
        alone = traced.send(headers=headers)
    assert [key for key, _ in call.headers_for(headers)] == [key for key, _ in alone.headers]
    assert {key for key, _ in alone.headers} == added
    call.ended(1, 0, None)
    assert len(traced.spans()) == (sampler is ALWAYS_ON)


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


DROP, ASK = Known.DROP, Known.ASK
HALF = Ratio(1 << 63)


class Mine(TraceIdRatioBased):
    """A sampler that inherits its description, and decides by itself."""

    def should_sample(self, *args: Any, **kwargs: Any) -> SamplingResult:
        return ALWAYS_ON.should_sample(*args, **kwargs)


class Unknown(Sampler):
    def should_sample(self, *args: Any, **kwargs: Any) -> SamplingResult:
        return ALWAYS_OFF.should_sample(*args, **kwargs)

    def get_description(self) -> str:
        return "AlwaysOffSampler"


def parent(*, sampled: bool, remote: bool = False, trace_id: int = 7) -> SpanContext:
    return SpanContext(trace_id, 8, is_remote=remote, trace_flags=TraceFlags(int(sampled)))


PARENTS = {
    "none": None,
    "local": parent(sampled=True),
    "local, off": parent(sampled=False),
    "remote": parent(sampled=True, remote=True),
    "remote, off": parent(sampled=False, remote=True),
    "high": parent(sampled=True, trace_id=(1 << 64) - 1),
}


@pytest.mark.parametrize(
    ("sampler", "by_parent"),
    [
        (ALWAYS_ON, {"none": ASK, "local": ASK, "local, off": ASK}),
        (ALWAYS_OFF, {"none": DROP, "local": DROP, "local, off": DROP}),
        (DEFAULT_ON, {"none": ASK, "local": ASK, "local, off": DROP, "remote, off": DROP}),
        (DEFAULT_OFF, {"none": DROP, "local": ASK, "remote": ASK, "remote, off": DROP}),
        (TraceIdRatioBased(0.5), {"none": HALF, "local": ASK, "local, off": ASK, "high": DROP}),
        (TraceIdRatioBased(0.0), {"none": DROP, "local": DROP}),
        (TraceIdRatioBased(1.0), {"none": ASK, "high": ASK}),
        (
            ParentBasedTraceIdRatio(0.5),
            {"none": HALF, "local": ASK, "local, off": DROP, "high": ASK},
        ),
        (
            ParentBased(ALWAYS_OFF, remote_parent_not_sampled=ALWAYS_ON),
            {"none": DROP, "remote, off": ASK, "local, off": DROP},
        ),
        (ParentBased(DEFAULT_OFF), {"none": DROP, "local": ASK}),
        (ParentBased(Unknown()), {"none": ASK, "local, off": DROP}),
        (ParentBased(Mine(0.5)), {"none": ASK, "local, off": DROP}),
        (Mine(0.5), {"none": ASK, "local": ASK}),
        (Unknown(), {"none": ASK, "local, off": ASK}),
    ],
    ids=lambda value: value.get_description() if isinstance(value, Sampler) else "",
)
def test_verdicts(sampler: Sampler, by_parent: dict[str, Verdict]) -> None:
    """And the sampler itself says the same where it is certain."""
    tracer = TracerProvider(sampler=sampler, shutdown_on_exit=False).get_tracer("tests")
    for name, expected in by_parent.items():
        each = PARENTS[name]
        assert verdict(tracer, each) == expected
        if expected is DROP:
            given = trace.set_span_in_context(
                trace.INVALID_SPAN if each is None else NonRecordingSpan(each), context.Context()
            )
            assert not tracer.start_span("send", context=given).is_recording()


def test_verdicts_about_other_tracers() -> None:
    assert verdict(trace.NoOpTracer(), None) is ASK
    assert verdict(trace.ProxyTracer("tests"), None) is ASK


class Stubborn(RandomIdGenerator):
    """Trace ids that begin with a date."""

    def generate_trace_id(self) -> int:
        return (7 << 96) + super().generate_trace_id() % (1 << 96)

    def is_trace_id_random(self) -> bool:
        return False


class Dated(Stubborn):
    def is_trace_id_random(self) -> bool:
        return True


def test_trace_ids_that_are_not_random_are_never_drawn_here() -> None:
    provider = TracerProvider(
        sampler=TraceIdRatioBased(0.5), id_generator=Stubborn(), shutdown_on_exit=False
    )
    assert verdict(provider.get_tracer("tests"), None) is ASK


def test_the_high_half_of_a_trace_id_is_the_generators() -> None:
    sampler = TraceIdRatioBased(0.25)
    provider = TracerProvider(sampler=sampler, id_generator=Dated(), shutdown_on_exit=False)
    tracer = provider.get_tracer("tests")
    rng = random.Random(1)
    ids = []
    for _ in range(4_000):
        span = tracer_of_sample(tracer, Ratio(sampler.bound), rng).start_span("send")
        assert span.is_recording()
        flags = span.get_span_context().trace_flags
        assert flags.sampled
        assert flags.random_trace_id
        ids.append(span.get_span_context().trace_id)
    assert {each >> 96 for each in ids} == {7}
    low = [each % (1 << 64) / sampler.bound for each in ids]
    assert max(low) < 1
    chi_square(Counts.of(low, 20), [1 / 20] * 20)
    assert provider.get_tracer("tests") is tracer
    assert type(provider.id_generator) is Dated


class Counts:
    @staticmethod
    def of(values: list[float], bins: int) -> list[int]:
        counts = [0] * bins
        for value in values:
            counts[min(int(value * bins), bins - 1)] += 1
        return counts


def chi_square(counts: list[int], probabilities: list[float]) -> None:
    """The counts are from the distribution, or an event of one in a million has happened."""
    total = sum(counts)
    score = sum(
        (count - total * share) ** 2 / (total * share)
        for count, share in zip(counts, probabilities, strict=True)
    )
    freedom = len(counts) - 1
    # Wilson and Hilferty: the cube root is close to normal.
    normal = ((score / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    assert abs(normal) < 4.75


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.9])
def test_the_gaps_are_geometric(rate: float) -> None:
    ratio, rng = Ratio(TraceIdRatioBased.get_bound_for_rate(rate)), random.Random(7)
    last = 15
    counts = [0] * (last + 1)
    for _ in range(50_000):
        counts[min(records_until_sample(ratio, rng), last)] += 1
    shares = [rate * (1 - rate) ** gap for gap in range(last)]
    shares.append(1 - sum(shares))
    kept = [index for index, share in enumerate(shares) if share * 50_000 > 10]
    rest = 1 - sum(shares[index] for index in kept)
    if rest * 50_000 > 10:
        chi_square(
            [*(counts[i] for i in kept), 50_000 - sum(counts[i] for i in kept)],
            [*(shares[i] for i in kept), rest],
        )
    else:
        chi_square([counts[i] for i in kept], [shares[i] / (1 - rest) for i in kept])


@pytest.mark.parametrize(("bound", "gap"), [(1, ALL), (1 << 64, 0), ((1 << 64) - 1, 0)])
def test_the_rarest_and_the_most_frequent(bound: int, gap: int) -> None:
    assert records_until_sample(Ratio(bound), random.Random(1)) == gap


def core(
    traced: Traced,
    records: int,
    enter: Callable[[int], Any] | None = None,
    headers: Callable[[int], Any] = lambda number: None,
) -> list[int]:
    """The numbers of the records that are traced, as a producer asks."""
    sampled, left, known = [], 0, None
    for number in range(records):
        if enter is not None:
            enter(number)
        present, own = traced.observer.context(), headers(number)
        if own is None and present is known and left > 0:
            left -= 1
            continue
        decision = traced.send(headers=own)
        if not isinstance(decision, Untraced):
            sampled.append(number)
            decision.ended(DELIVERED, None)
            assert own is None or decision.behind is None
            if decision.behind is not None:
                known, left = present, decision.behind.records
        elif own is None:
            known, left = present, decision.records - 1
    return sampled


@pytest.mark.parametrize("sampler", [TraceIdRatioBased, ParentBasedTraceIdRatio])
def test_as_many_records_as_the_sampler_takes(sampler: Callable[[float], Sampler]) -> None:
    """The number is binomial, and the gaps are geometric, as those of the SDK's own decisions."""
    rate, records = 0.05, 100_000
    traced = Traced(sampler(rate), seed=3)
    ours = core(traced, records)
    theirs = [
        number
        for number in range(records)
        if TraceIdRatioBased(rate)
        .should_sample(None, random.Random(number).getrandbits(128), "send")
        .decision
        is Decision.RECORD_AND_SAMPLE
    ]
    deviation = math.sqrt(records * rate * (1 - rate))
    for each in (ours, theirs):
        assert abs(len(each) - records * rate) < 4.75 * deviation
        gaps = [after - before - 1 for before, after in pairwise(each)]
        limits = [-1, *range(4, 80, 5), 10**9]
        counts = [sum(low < gap <= high for gap in gaps) for low, high in pairwise(limits)]
        shares = [
            (1 - rate) ** (low + 1) - (0 if high == 10**9 else (1 - rate) ** (high + 1))
            for low, high in pairwise(limits)
        ]
        chi_square(counts, shares)
    assert len(traced.spans()) == len(ours)
    assert all(context_of(span).trace_flags.sampled for span in traced.spans())


def test_contexts_that_alternate_keep_the_rate() -> None:
    """A decision that another context replaces is drawn anew, and that changes no probability."""
    rate, records = 0.1, 60_000
    traced = Traced(TraceIdRatioBased(rate), seed=5)
    others = [context.set_value("task", number) for number in range(3)]
    tokens: list[Any] = []

    def enter(number: int) -> None:
        if number % 4 == 0 or number % 7 == 0:
            if tokens:
                context.detach(tokens.pop())
            tokens.append(context.attach(others[number % 3]))

    try:
        sampled = core(traced, records, enter, lambda number: None if number % 5 else {})
    finally:
        context.detach(tokens.pop())
    alone = sum(number % 5 == 0 for number in sampled)
    for count, of in ((alone, records / 5), (len(sampled) - alone, records * 4 / 5)):
        assert abs(count - of * rate) < 4.75 * math.sqrt(of * rate * (1 - rate))


@pytest.mark.parametrize("sampled", [True, False])
def test_a_decision_holds_until_another_replaces_it(sampled: bool) -> None:
    """A sampled record elsewhere replaces none, so that the next question says: used up."""
    traced = Traced(ParentBasedTraceIdRatio(2**-20))
    assert isinstance(traced.send(), Untraced)
    span = NonRecordingSpan(parent(sampled=sampled))
    token = context.attach(trace.set_span_in_context(span))
    assert isinstance(traced.send(), Untraced) is not sampled
    context.detach(token)
    assert isinstance(traced.send(headers={}), Untraced)
    assert isinstance(traced.send(), Untraced) is not sampled


def test_a_decision_without_an_end_is_drawn_again() -> None:
    traced = Traced(TraceIdRatioBased(2**-60))
    assert traced.send() == (ALL, ())
    assert traced.send() == (ALL, ())


def test_a_sampled_send_many_without_a_caller() -> None:
    """A call that a ratio drops leaves no headers in its records."""
    traced = Traced(TraceIdRatioBased(0.5))
    calls = [traced.observer.call_started("orders", None) for _ in range(200)]
    taken = [call for call in calls if call is not None]
    assert 50 < len(taken) < 150
    assert all(len(call.headers) == 1 for call in taken)
