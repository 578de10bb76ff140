"""The collector of prometheus_client."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from aioproducer.errors import MissingExtraError
from aioproducer.foundation.runtime import forks
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.observability.prometheus.messages import to_bytes
from aioproducer.observability.prometheus.workers import OtherWorkers, WorkerSocket
from aioproducer.observability.series import (
    LATENCY_BUCKETS,
    Families,
    Family,
    SeriesOptions,
    SeriesSource,
)
from aioproducer.observability.series.producer import all_families
from aioproducer.observability.watched import WatchedProducers

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
except ImportError as error:
    raise MissingExtraError(
        "the collector needs prometheus_client: pip install 'aioproducer[prometheus]'"
    ) from error

__all__ = ["ProducerCollector"]

_SILENT: Final = (
    "aioproducer_workers_silent",
    "Processes of this server that did not answer in time; their series are missing",
)


class ProducerCollector(Collector):
    """Exports the metrics, latencies and health of producers to Prometheus.

    The collector holds no reference to a producer: the metrics of a producer disappear when it is
    closed or garbage-collected. You can call the methods from any thread, and a scrape never waits
    for an event loop. Producers with the same ``client_id`` are numbered: ``web``, ``web-2``.

    Args:
        registry: The registry to register with; None for no registry.
        max_topics: The number of topics per producer that get their own series, first come, first
            served. ``aioproducer_topics_left_out`` counts the others; the producer's own series
            include all.
        max_nodes: The same limit for brokers.
        rates: Also export rates and percentiles over the producer's own windows. Usually Prometheus
            computes them from totals and histograms.
        buckets: The upper bounds of the latency buckets, in seconds, ascending.
        workers: A folder shared by the processes of a server: any process then answers for all,
            with the label ``pid``. Default: ``$PROMETHEUS_MULTIPROC_DIR``; without it, a process
            answers only for itself.

    Raises:
        ConfigError: a limit is negative, or buckets are not ascending; :meth:`add` raises it if
            ``workers`` can't be used.
    """

    def __init__(
        self,
        *,
        registry: CollectorRegistry | None = REGISTRY,
        max_topics: int = 500,
        max_nodes: int = 500,
        rates: bool = False,
        buckets: Iterable[float] = LATENCY_BUCKETS,
        workers: str | os.PathLike[str] | None = None,
    ) -> None:
        options = SeriesOptions(max_topics, max_nodes, rates, tuple(buckets))
        self._watched = WatchedProducers(options)
        folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR") if workers is None else workers
        self._folder = Path(folder) if folder else None
        self._socket: WorkerSocket | None = None
        self._socket_lock = free_lock()
        _ALL.add(self)
        if registry is not None:
            registry.register(self)

    def add(self, producer: SeriesSource) -> None:
        """Export ``producer``, a ``Producer`` or a ``sync.Producer``, until it is closed."""
        if self._folder is not None:
            with self._socket_lock:
                self._socket = self._socket or WorkerSocket(self._folder, self._message)
        self._watched.add(producer)

    def remove(self, producer: SeriesSource) -> None:
        """Stop exporting ``producer``."""
        self._watched.remove(producer)

    def describe(self) -> Iterator[Metric]:
        """Return all possible metrics without values. prometheus_client calls this."""
        families = all_families()
        families.family(_SILENT[0], "gauge", _SILENT[1])
        yield from map(_metric, families)

    def collect(self) -> Iterator[Metric]:
        """Return all current metrics. prometheus_client calls this for every scrape."""
        own = self._watched.families()
        yield from map(_metric, own if self._folder is None else _of_all(own, self._folder))

    def _message(self) -> bytes:
        return to_bytes(self._watched.families())

    def _forked(self) -> None:
        """Leave the parent's socket to it."""
        if self._socket is not None:
            self._socket.leave()
            self._socket = None

    def _at_exit(self) -> None:
        if self._socket is not None:
            self._socket.close()


def _of_all(own: Families, folder: Path) -> Families:
    """The series of this process and of the others, by ``pid``."""
    families = Families()
    families.merge(own, {"pid": str(os.getpid())})
    others = OtherWorkers(folder).ask()
    for process, found in others.families.items():
        families.merge(found, {"pid": process})
    families.add(_SILENT[0], "gauge", _SILENT[1], {}, others.silent)
    return families


def _metric(family: Family) -> Metric:
    metric = Metric(family.name, family.meaning, family.kind)
    for name, labels, value in family.samples:
        metric.add_sample(name, dict(labels), value)
    return metric


_ALL: Final[weakref.WeakSet[ProducerCollector]] = weakref.WeakSet()


def _after_fork() -> None:
    for collector in list(_ALL):
        collector._forked()


def _at_exit() -> None:
    for collector in list(_ALL):
        collector._at_exit()


forks.in_child(_after_fork)
atexit.register(_at_exit)
