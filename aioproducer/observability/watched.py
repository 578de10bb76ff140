"""The producers of this process that are shown elsewhere."""

from __future__ import annotations

import weakref
from threading import Lock
from typing import Final, NamedTuple

from aioproducer.errors import IllegalStateError
from aioproducer.observability.series import (
    Families,
    ProducerSeries,
    SeriesOptions,
    SeriesSource,
)

__all__ = ["WatchedProducers"]

_GONE: Final = frozenset({"closed", "forked"})


class _Watched(NamedTuple):
    producer: weakref.ref[SeriesSource]
    series: ProducerSeries


class WatchedProducers:
    """Producers, until they are closed or nobody has them any more; any thread may call this.

    Producers that share a ``client_id`` are told apart by a number: ``web``, ``web-2``.
    """

    def __init__(self, options: SeriesOptions) -> None:
        self._options = options
        self._watched: list[_Watched] = []
        self.renew_locks()

    def renew_locks(self) -> None:
        """Replace the locks in a forked child: a thread of the parent may have held them."""
        self._lock = Lock()
        """Guards the list. An event loop may wait for it, so nothing slow is done within."""
        self._reading_lock = Lock()
        """A series keeps its topics from one reading to the next."""

    def add(self, producer: SeriesSource) -> None:
        """Watch ``producer``; a second time does nothing."""
        with self._lock:
            watched = self._living()
            if all(each.producer() is not producer for each in watched):
                taken = {each.series.client_id for each in watched}
                series = ProducerSeries(_unique(producer.client_id, taken), self._options)
                watched.append(_Watched(weakref.ref(producer), series))
            self._watched = watched

    def remove(self, producer: SeriesSource) -> None:
        """Watch ``producer`` no more."""
        with self._lock:
            self._watched = [each for each in self._living() if each.producer() is not producer]

    def families(self) -> Families:
        """All series of all producers as they are now."""
        with self._lock:
            self._watched = watched = self._living()
        families = Families()
        with self._reading_lock:
            for each in watched:
                _read(each, families)
        return families

    def _living(self) -> list[_Watched]:
        return [each for each in self._watched if _lives(each.producer())]


def _lives(producer: SeriesSource | None) -> bool:
    return producer is not None and producer.health().state not in _GONE


def _read(watched: _Watched, families: Families) -> None:
    producer = watched.producer()
    if producer is None:
        return
    try:
        metrics, latencies = producer.metrics(), producer.latencies()
    except IllegalStateError:
        return  # it was not started yet
    watched.series.add_to(families, metrics, latencies, producer.health())


def _unique(client_id: str, taken: set[str]) -> str:
    name, number = client_id, 1
    while name in taken:
        number += 1
        name = f"{client_id}-{number}"
    return name
