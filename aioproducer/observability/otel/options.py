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
    """Which parts of a client's work are traced and measured, and how."""

    traces: bool = True
    """Create spans, and put their context into the headers of records."""
    metrics: bool = True
    """Export metrics through the OpenTelemetry API."""
    link: bool = False
    """True: a span starts a new trace and links to the caller's span. False: it is a child of the
    caller's span."""
    propagate: bool = True
    """Add the context to the headers of records with the global propagator."""
    record_key: bool = False
    """Record text keys in spans: ``messaging.kafka.message.key``. A key may be personal data."""
    body_size: bool = False
    """Record the size of values in spans: ``messaging.message.body.size``."""
    send_many_spans: bool = True
    """Create a span for each ``send_many()``, and put its context into all records of the call."""
    request_spans: bool = False
    """Create a span for each produce request; spans of records link to it."""
    max_topics: int = 100
    """The maximum number of topics with their own metrics; later topics share unnamed values."""
    continue_trace: bool = False
    """True: the span for processing a record is a child of the context in the record's headers.
    False: it links to that context, and its parent is the current span, if any."""

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
    """True if the environment asks for the names of version 1.24 in addition to the newest ones."""
    return "messaging/dup" in (each.strip() for each in os.environ.get(_STABILITY, "").split(","))
