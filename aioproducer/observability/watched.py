"""The producers of this process that are shown elsewhere."""

from __future__ import annotations

import weakref
from typing import Final

from aioproducer.errors import IllegalStateError
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.observability.series import (
    Families,
    ProducerSeries,
    SeriesOptions,
    SeriesSource,
)

__all__ = ["WatchedProducers"]

_GONE: Final = frozenset({"closed", "forked"})


class WatchedProducers:
    """Producers, until they are closed or nobody has them any more; any thread may call this.

    Producers that share a ``client_id`` are distinguished by a number: ``web``, ``web-2``.
    """

    def __init__(self, options: SeriesOptions) -> None:
        self._options = options
        self._names: dict[str, weakref.ref[SeriesSource]] = {}
        """The names in use, and the producers that have them."""
        self._watched: dict[weakref.ref[SeriesSource], ProducerSeries] = {}
        self._reading = free_lock()
        """A series keeps its topics from one reading to the next. No event loop waits for it."""

    def add(self, producer: SeriesSource) -> None:
        """Watch ``producer``; a second time does nothing."""
        self._forget_gone()
        watched = weakref.ref(producer)
        if watched not in self._watched:
            name = self._name(watched, producer.client_id)
            self._watched[watched] = ProducerSeries(name, self._options)

    def _name(self, watched: weakref.ref[SeriesSource], client_id: str) -> str:
        """A name for a producer that no other one has."""
        name, number = client_id, 1
        while self._names.setdefault(name, watched) is not watched:
            number += 1
            name = f"{client_id}-{number}"
        return name

    def remove(self, producer: SeriesSource) -> None:
        """Watch ``producer`` no more."""
        self._forget(weakref.ref(producer))

    def families(self) -> Families:
        """All series of all producers as they are now."""
        self._forget_gone()
        families = Families()
        with self._reading:
            for watched, series in self._watched.copy().items():
                _read(watched(), series, families)
        return families

    def _forget_gone(self) -> None:
        for watched in self._watched.copy():
            if not _lives(watched()):
                self._forget(watched)

    def _forget(self, watched: weakref.ref[SeriesSource]) -> None:
        series = self._watched.pop(watched, None)
        if series is not None:
            self._names.pop(series.client_id, None)


def _lives(producer: SeriesSource | None) -> bool:
    return producer is not None and producer.health().state not in _GONE


def _read(producer: SeriesSource | None, series: ProducerSeries, families: Families) -> None:
    if producer is None:
        return
    try:
        metrics, latencies = producer.metrics(), producer.latencies()
    except IllegalStateError:
        return  # it was not started yet
    series.add_to(families, metrics, latencies, producer.health())
