"""The instruments of each meter provider, which all producers share."""

from __future__ import annotations

import weakref
from typing import Final, NamedTuple

from opentelemetry import metrics
from opentelemetry.metrics import MeterProvider

from aioproducer.observability.otel.batch_metrics import BatchInstruments
from aioproducer.observability.otel.conventions import SCHEMA_URL
from aioproducer.observability.otel.options import emits_old_names
from aioproducer.observability.otel.producer_metrics import ProducerInstruments
from aioproducer.observability.otel.tracers import SCOPE
from aioproducer.runtime.locks import free_lock
from aioproducer.version import __version__

__all__ = ["Instruments", "instruments_of"]


class Instruments(NamedTuple):
    """All instruments of a meter."""

    batches: BatchInstruments
    producers: ProducerInstruments


_LOCK: Final = free_lock()
_OF_PROVIDER: Final[weakref.WeakKeyDictionary[MeterProvider, Instruments]] = (
    weakref.WeakKeyDictionary()
)
_OF_GLOBAL_PROVIDER: Final[list[Instruments]] = []
"""The instruments of the global provider, which may be set later: its proxies become real then."""


def instruments_of(provider: MeterProvider | None) -> Instruments:
    """The instruments of a provider; None: of the global one."""
    with _LOCK:
        if provider is None or provider is metrics.get_meter_provider():
            if not _OF_GLOBAL_PROVIDER:
                _OF_GLOBAL_PROVIDER.append(_made(metrics.get_meter_provider()))
            return _OF_GLOBAL_PROVIDER[0]
        found = _OF_PROVIDER.get(provider)
        if found is None:
            found = _OF_PROVIDER[provider] = _made(provider)
        return found


def _made(provider: MeterProvider) -> Instruments:
    meter = provider.get_meter(SCOPE, __version__, schema_url=SCHEMA_URL)
    return Instruments(
        BatchInstruments.of(meter, old=emits_old_names()), ProducerInstruments(meter)
    )
