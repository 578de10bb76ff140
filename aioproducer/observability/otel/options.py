"""The options of an instrumented producer or consumer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, TypedDict

from aioproducer.errors import ConfigError

__all__ = ["Options", "OptionsAsKeywords", "emits_old_names"]

_STABILITY: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"


@dataclass(frozen=True, slots=True)
class Options:
    """The part of a client's work that is told, and its form."""

    traces: bool = True
    """Spans, and the context of records in their headers."""
    metrics: bool = True
    """Metrics through the OpenTelemetry API."""
    link: bool = False
    """True: a span begins a trace of its own, and links to the caller's span.
    False: it is a child of the caller's span."""
    propagate: bool = True
    """Add the context to the headers of records, by the global propagator."""
    record_key: bool = True
    """Put keys that are text into spans: ``messaging.kafka.message.key``."""
    body_size: bool = False
    """Put the bytes of values into spans: ``messaging.message.body.size``."""
    send_many_spans: bool = True
    """A span for each ``send_many()``, and its context in all records of the call."""
    request_spans: bool = False
    """A span for each produce request; spans of records link to it."""
    max_topics: int = 100
    """The number of topics with metrics of their own; later topics share values without a name."""
    continue_trace: bool = False
    """True: the span of a record that is processed is a child of the context in its headers.
    False: it links to that context. Its parent is the current span, if there is one."""

    def __post_init__(self) -> None:
        if self.max_topics < 0:
            raise ConfigError(f"max_topics={self.max_topics} is below 0")


class OptionsAsKeywords(TypedDict, total=False):
    """:class:`Options` as keywords."""

    traces: bool
    metrics: bool
    link: bool
    propagate: bool
    record_key: bool
    body_size: bool
    send_many_spans: bool
    request_spans: bool
    max_topics: int
    continue_trace: bool


def emits_old_names() -> bool:
    """True if the environment asks for the names of version 1.24 beside the newest ones."""
    return "messaging/dup" in (each.strip() for each in os.environ.get(_STABILITY, "").split(","))
