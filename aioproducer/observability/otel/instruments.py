"""The instruments of each meter provider, which all producers share."""

from __future__ import annotations

import weakref
from typing import Final, NamedTuple

from opentelemetry import metrics
from opentelemetry.metrics import MeterProvider

from aioproducer.foundation.version import __version__
from aioproducer.observability.otel.batch_metrics import BatchInstruments
from aioproducer.observability.otel.conventions import SCHEMA_URL
from aioproducer.observability.otel.options import emits_old_names
from aioproducer.observability.otel.producer_metrics import ProducerInstruments
from aioproducer.observability.otel.tracers import SCOPE

__all__ = ["Instruments", "instruments_of"]


class Instruments(NamedTuple):
    """All instruments of a meter."""

    batches: BatchInstruments
    producers: ProducerInstruments


_OF_PROVIDER: Final[weakref.WeakKeyDictionary[MeterProvider, Instruments]] = (
    weakref.WeakKeyDictionary()
)
_OF_GLOBAL_PROVIDER: Final[dict[None, Instruments]] = {}
"""The instruments of the global provider, which may be set later: its proxies become real then."""


def instruments_of(provider: MeterProvider | None) -> Instruments:
    """The instruments of a provider; None: of the global one."""
    if provider is None or provider is metrics.get_meter_provider():
        found = _OF_GLOBAL_PROVIDER.get(None)
        return found or _OF_GLOBAL_PROVIDER.setdefault(None, _made(metrics.get_meter_provider()))
    return _OF_PROVIDER.get(provider) or _OF_PROVIDER.setdefault(provider, _made(provider))


def _made(provider: MeterProvider) -> Instruments:
    meter = provider.get_meter(SCOPE, __version__, schema_url=SCHEMA_URL)
    return Instruments(
        BatchInstruments.of(meter, old=emits_old_names()), ProducerInstruments(meter)
    )
