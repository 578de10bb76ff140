"""Decisions about many records at once have the distribution of the SDK's samplers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from opentelemetry import context, trace
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
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from aioproducer.engine.observer import Untraced
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
from tests.unit.observability.otel.tracing import DELIVERED, Traced

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
