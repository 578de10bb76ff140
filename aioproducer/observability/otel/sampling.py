"""Decisions about many records at once, by the samplers of OpenTelemetry's SDK.

A sampler is asked about one span at a time, which costs more than to send a record. The SDK's own
samplers only use the parent and the trace id, so their decisions are known ahead. A
sampler of another kind is asked each time.
"""

from __future__ import annotations

import math
import random
import sys
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from opentelemetry.trace import SpanContext, Tracer

__all__ = [
    "ALL",
    "Known",
    "Ratio",
    "Verdict",
    "records_until_sample",
    "tracer_of_sample",
    "verdict",
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
