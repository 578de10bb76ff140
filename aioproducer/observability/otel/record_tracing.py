"""Decisions about records and calls: a span, or the number of records without one.

A sampler is asked about one span at a time, which costs more than to send a record. The SDK's own
samplers only use the parent and the trace id, so their decisions about many records are known
ahead. A sampler of another kind is asked each time.
"""

from __future__ import annotations

import math
import random
import sys
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Tracer

from aioproducer.engine.observer import CallTrace, RecordTrace, Untraced
from aioproducer.model import Header, Headers
from aioproducer.observability.otel.conventions import DESTINATION, Attributes, Conventions
from aioproducer.observability.otel.options import Options
from aioproducer.observability.otel.spans import (
    CallSpan,
    Complaints,
    Deliveries,
    OwnContext,
    RecordSpan,
    TracerSource,
    inject,
    own_context,
)

__all__ = [
    "ALL",
    "Known",
    "Ratio",
    "Verdict",
    "records_until_sample",
    "tracer_of_sample",
    "verdict",
    "RecordTracing",
]


ALL: Final = 1 << 30
"""The number of records of a decision without an end."""

_IDS: Final = 1 << 64
"""The ids that a ratio is about: the low half of a trace id."""


class Known(Enum):
    """The decision about every span with the parent."""

    DROP = "drop"
    """The sampler drops it."""
    ASK = "ask"
    """The sampler may record it."""


class Ratio(NamedTuple):
    """The sampler records the spans whose trace id's low half is below ``bound``."""

    bound: int


Verdict: TypeAlias = Known | Ratio


def verdict(tracer: Tracer, parent: SpanContext | None) -> Verdict:
    """The decision about spans with ``parent``; None: about roots."""
    sdk = sys.modules.get("opentelemetry.sdk.trace")
    if sdk is None or type(tracer) is not sdk.Tracer:
        return Known.ASK
    found = _verdict(getattr(tracer, "sampler", None), parent)
    if isinstance(found, Ratio) and not _draws_at_random(getattr(tracer, "id_generator", None)):
        return Known.ASK
    return found


def _verdict(sampler: Any, parent: SpanContext | None) -> Verdict:
    samplers: Any = sys.modules["opentelemetry.sdk.trace.sampling"]
    decides = getattr(type(sampler), "should_sample", None)
    if decides is samplers.StaticSampler.should_sample:
        dropping = sampler.get_description() == "AlwaysOffSampler"
        return Known.DROP if dropping else Known.ASK
    if decides is samplers.TraceIdRatioBased.should_sample:
        return _by_ratio(sampler.bound, parent)
    if decides is samplers.ParentBased.should_sample:
        return _verdict(getattr(sampler, _delegate(parent), None), parent)
    return Known.ASK


def _by_ratio(bound: int, parent: SpanContext | None) -> Verdict:
    if bound <= 0:
        return Known.DROP
    if bound >= _IDS:
        return Known.ASK
    if parent is None:
        return Ratio(bound)
    return Known.ASK if parent.trace_id % _IDS < bound else Known.DROP


def _delegate(parent: SpanContext | None) -> str:
    """The attribute of a ``ParentBased`` that holds the sampler for ``parent``."""
    if parent is None:
        return "_root"
    place = "remote" if parent.is_remote else "local"
    return f"_{place}_parent_{'' if parent.trace_flags.sampled else 'not_'}sampled"


def _draws_at_random(generator: Any) -> bool:
    is_random = getattr(generator, "is_trace_id_random", None)
    if is_random is not None:
        return bool(is_random())
    return type(generator).__name__ == "RandomIdGenerator"  # an SDK without the method


def records_until_sample(ratio: Ratio, rng: random.Random) -> int:
    """The number of records before the next one that is recorded: a geometric number.

    At most :data:`ALL`: then none of that many is, and the next draw decides about the others.
    """
    spared = 1 - ratio.bound / _IDS
    if spared <= 0:
        return 0
    passed = math.log(1 - rng.random()) / math.log1p(-ratio.bound / _IDS)
    return min(int(passed), ALL)


def tracer_of_sample(tracer: Tracer, ratio: Ratio, rng: random.Random) -> Tracer:
    """``tracer``, for one span that its sampler records."""
    sampling: Any = object.__new__(type(tracer))  # copy.copy() takes five times as long
    vars(sampling).update(vars(tracer))
    sampling.id_generator = _RecordedIds(sampling.id_generator, ratio.bound, rng)
    return sampling  # type: ignore[no-any-return]


class _RecordedIds:
    """Trace ids of another generator, as far as a ratio records them.

    The low half is uniform below the bound, as it is for the ids that the sampler would have kept.
    """

    def __init__(self, generator: Any, bound: int, rng: random.Random) -> None:
        self._generator = generator
        self._bound = bound
        self._rng = rng

    def generate_span_id(self) -> int:
        return int(self._generator.generate_span_id())

    def generate_trace_id(self) -> int:
        high = int(self._generator.generate_trace_id()) // _IDS
        return high * _IDS + self._rng.randrange(self._bound)

    def is_trace_id_random(self) -> bool:
        return bool(self._generator.is_trace_id_random())


_UNTIL_SDK: Final = 100
"""The records of a context after which it is looked again for an SDK, which may come later."""


class _Caller(NamedTuple):
    """The place of a new span among those of its caller."""

    context: Context
    """The context that the span has as its parent."""
    parent: SpanContext | None
    link: SpanContext | None


class RecordTracing:
    """Makes the spans of one producer's records and calls."""

    def __init__(
        self,
        options: Options,
        conventions: Conventions,
        tracers: TracerSource,
        deliveries: Deliveries,
        complaints: Complaints,
        rng: random.Random,
    ) -> None:
        self._options = options
        self._conventions = conventions
        self._tracers = tracers
        self._deliveries = deliveries
        self._complaints = complaints
        self._rng = rng
        self._due: Context | None = None
        """The context in which the record after the newest decision is the one to record."""

    def record(
        self, topic: str, key: object, partition: int | None, headers: Headers | None
    ) -> RecordTrace | Untraced:
        """Decide about a record; without headers of its own, about those after it as well."""
        context = otel_context.get_current()
        alone = headers is not None
        due = not alone and self._due is context
        if due:
            self._due = None
        try:
            return self._decide(context, (topic, key, partition, headers), due=due, alone=alone)
        except Exception:
            self._due = None
            raise

    def _decide(
        self,
        context: Context,
        record: tuple[str, object, int | None, Headers | None],
        *,
        due: bool,
        alone: bool,
    ) -> RecordTrace | Untraced:
        topic, key, partition, headers = record
        if not is_instrumentation_enabled():
            return self._untraced(ALL, (), alone)
        tracer, own = self._tracers.get(), own_context(headers)
        if tracer is None:
            records = _UNTIL_SDK if self._tracers.may_come else ALL
            return self._untraced(records, self._inject(context, own), alone)
        caller = self._caller(context)
        decision = verdict(tracer, caller.parent)
        if decision is Known.DROP:
            return self._untraced(ALL, self._inject(caller.context, own), alone)
        ratio = decision if isinstance(decision, Ratio) else None
        if ratio is not None:
            spared = 0 if due else records_until_sample(ratio, self._rng)
            if spared:
                carried = self._inject(caller.context, own)
                return self._untraced(spared, carried, alone, drawn_in=context)
            tracer = tracer_of_sample(tracer, ratio, self._rng)
        attributes = self._conventions.record(topic, key, partition)
        span, added = self._start(tracer, caller, topic, attributes, own)
        if not span.is_recording():
            return self._untraced(1, added, alone)
        behind = None
        if ratio is not None and not alone:
            spared = records_until_sample(ratio, self._rng)
            carried = self._inject(caller.context, own)
            behind = self._untraced(spared, carried, alone, drawn_in=context)
        return RecordSpan(
            span, added, self._conventions, self._deliveries, self._complaints, behind
        )

    def _untraced(
        self,
        records: int,
        headers: tuple[Header, ...],
        alone: bool,
        drawn_in: Context | None = None,
    ) -> Untraced:
        """A decision; ``drawn_in``: the record after the last of ``records`` is one to record."""
        if alone:
            return Untraced(1, headers)
        self._due = drawn_in if records < ALL else None
        return Untraced(records, headers)

    def call(self, topic: str, headers: Headers | None) -> CallTrace | None:
        """Decide about a ``send_many()``."""
        if not is_instrumentation_enabled():
            return None
        context, own = otel_context.get_current(), own_context(headers)
        tracer = self._tracers.get()
        caller = self._caller(context)
        decision = Known.DROP if tracer is None else verdict(tracer, caller.parent)
        recorded: Span | None = None
        if tracer is None or decision is Known.DROP:
            added = self._inject(context if tracer is None else caller.context, own)
        else:
            attributes = self._conventions.operation()
            attributes[DESTINATION] = topic
            span, added = self._start(tracer, caller, topic, attributes, own)
            if span.is_recording():
                recorded = span
            elif isinstance(decision, Ratio):
                added = self._inject(caller.context, own)
        if recorded is None and not added:
            return None
        return CallSpan(recorded, added, self._complaints)

    def _caller(self, context: Context) -> _Caller:
        span = trace.get_current_span(context).get_span_context()
        if not span.is_valid:
            return _Caller(context, None, None)
        if not self._options.link:
            return _Caller(context, span, None)
        return _Caller(trace.set_span_in_context(trace.INVALID_SPAN, context), None, span)

    def _start(
        self,
        tracer: Tracer,
        caller: _Caller,
        topic: str,
        attributes: Attributes,
        own: OwnContext,
    ) -> tuple[Span, tuple[Header, ...]]:
        """A span that has begun, and the headers with its context.

        By the conventions a span whose context the record carries is of the kind PRODUCER, and a
        span beside the caller's own context in the headers is of the kind CLIENT, and links to it.
        """
        creates = self._options.propagate and not own.replaces
        span = tracer.start_span(
            f"send {topic}",
            context=caller.context,
            kind=SpanKind.PRODUCER if creates else SpanKind.CLIENT,
            attributes=attributes,
            links=[Link(each) for each in (caller.link, own.span) if each is not None],
        )
        return span, self._inject(trace.set_span_in_context(span, caller.context), own)

    def _inject(self, context: Context, own: OwnContext) -> tuple[Header, ...]:
        """The headers that carry ``context``, unless the record has a context of its own."""
        if own.replaces or not self._options.propagate:
            return ()
        try:
            return own.added(inject(context))
        except Exception:
            self._complaints.log("the headers of a record")
            return ()
