"""The tracer of a producer's spans."""

from __future__ import annotations

from typing import Final

from opentelemetry import trace
from opentelemetry.trace import NoOpTracer, ProxyTracerProvider, Tracer, TracerProvider

from aioproducer.foundation.version import __version__
from aioproducer.observability.otel.conventions import SCHEMA_URL

__all__ = ["SCOPE", "TracerSource"]

SCOPE: Final = "aioproducer"


class TracerSource:
    """Finds the tracer of ``provider``, or of the global one, which may be set later."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._provider = provider
        self._tracer: Tracer | None = None
        self.may_come = True
        """False: the provider has no tracer, now and later."""

    def get(self) -> Tracer | None:
        """The tracer; None as long as there is no SDK."""
        if self._tracer is None and self.may_come:
            self._find()
        return self._tracer

    def _find(self) -> None:
        provider = self._provider
        if provider is None or isinstance(provider, ProxyTracerProvider):
            provider = trace.get_tracer_provider()
            if isinstance(provider, ProxyTracerProvider):
                return
        tracer = provider.get_tracer(SCOPE, __version__, schema_url=SCHEMA_URL)
        self.may_come = False
        if type(tracer) is not NoOpTracer:
            self._tracer = tracer
