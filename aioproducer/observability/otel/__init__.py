"""Traces and metrics with OpenTelemetry; needs the extra ``otel``.

::

    from aioproducer.observability.otel import instrument

    producer = Producer(bootstrap_servers="localhost:9092")
    instrument(producer)

Use :func:`process_span` in loops over a consumer. :class:`AioproducerInstrumentor` instruments all
producers and consumers of a process; ``opentelemetry-instrument`` finds it automatically.
"""

from __future__ import annotations

from aioproducer.errors import MissingExtraError

try:
    from opentelemetry import instrumentation, trace  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        "OpenTelemetry is not installed: pip install 'aioproducer[otel]'"
    ) from error

from aioproducer.observability.otel.instrumentation import (
    AioproducerInstrumentor,
    instrument,
    uninstrument,
)
from aioproducer.observability.otel.options import Options
from aioproducer.observability.otel.process_tracing import process_span

__all__ = ["AioproducerInstrumentor", "Options", "instrument", "process_span", "uninstrument"]
