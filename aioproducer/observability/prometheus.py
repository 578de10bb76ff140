"""Metrics for Prometheus; needs the extra ``prometheus``.

:class:`ProducerCollector` is a collector of prometheus_client. If a server has several processes,
each with its own producers, any process answers for all: every process listens on a socket in a
shared folder and responds with its current series. A process that has ended refuses the
connection, and its socket is removed.
"""

from __future__ import annotations

import atexit
import os
import selectors
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple

from aioproducer.errors import ConfigError, MissingExtraError
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.runtime import forks
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.observability.series import (
    LATENCY_BUCKETS,
    Families,
    Family,
    MalformedMessageError,
    SeriesOptions,
    SeriesSource,
    all_families,
    from_bytes,
    to_bytes,
)
from aioproducer.observability.watched import WatchedProducers

__all__ = ["ProducerCollector"]


logger = plain_logger(__name__)

_PREFIX: Final = "aioproducer-"
_SUFFIX: Final = ".sock"
_BOUND: Final = 1.0
"""Seconds for all other processes together."""
_WRITE_BOUND: Final = 5.0
_LARGEST: Final = 64 << 20
"""Bytes of one process's answer."""
_CHUNK: Final = 1 << 20
_PAUSE: Final = 0.1
"""Seconds until a connection that could not be taken is tried again."""
_PATIENCE: Final = 16
"""Connections that may wait for this process's answer."""


class WorkersSeries(NamedTuple):
    """The answers of the other processes."""

    families: dict[str, list[Family]]
    """By process id."""
    silent: int
    """Processes that did not answer in time."""


class WorkerSocket:
    """Answers with ``series()``, in a thread of its own.

    Raises ConfigError if ``folder`` can't have a socket.
    """

    def __init__(self, folder: Path, series: Callable[[], bytes]) -> None:
        self._series = series
        self.path = folder / f"{_PREFIX}{os.getpid()}{_SUFFIX}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.unlink(missing_ok=True)  # of an ended process that had this id
            self._listener.bind(str(self.path))
            self.path.chmod(0o600)
            self._listener.listen(_PATIENCE)
        except OSError as error:
            self._listener.close()
            raise ConfigError(
                f"workers={str(folder)!r} can't have the socket of this process: {error}. Name a "
                "folder with a short path that this process may write to"
            ) from error
        Thread(target=self._serve, name="aioproducer-series", daemon=True).start()

    def close(self) -> None:
        """End, and remove the socket."""
        self.path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """Close the socket of the parent process in its child."""
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._listener.fileno() < 0:
                    return  # closed
                time.sleep(_PAUSE)  # such as without a free file descriptor
                continue
            with connection, suppress(OSError):
                connection.settimeout(_WRITE_BOUND)
                connection.sendall(self._answer())

    def _answer(self) -> bytes:
        """The series; empty if they can't be read now, and the asker counts a silent process."""
        try:
            return self._series()
        except Exception:
            logger.warning("This process can't share its series with the others", exc_info=True)
            return b""


class OtherWorkers:
    """The sockets of the other processes in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ask(self) -> WorkersSeries:
        """The series of all processes that answer within a second."""
        deadline = time.monotonic() + _BOUND
        answers: dict[str, bytearray] = {}
        ended: set[str] = set()
        with selectors.DefaultSelector() as selector, ExitStack() as stack:
            for process, path in self._sockets():
                answers[process] = bytearray()
                connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                if _connected(connection, path):
                    selector.register(connection, selectors.EVENT_READ, process)
                elif not path.exists():
                    del answers[process]
            while selector.get_map() and (left := deadline - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    if _read(key.fileobj, answers[key.data]):  # type: ignore[arg-type]
                        selector.unregister(key.fileobj)
                        ended.add(key.data)
        return _understood(answers, ended)

    def _sockets(self) -> Iterator[tuple[str, Path]]:
        own = str(os.getpid())
        for path in sorted(self._folder.glob(f"{_PREFIX}*{_SUFFIX}")):
            process = path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
            if process != own:
                yield process, path


def _connected(connection: socket.socket, path: Path) -> bool:
    """True if a process listens. The socket of a process that has ended is removed."""
    connection.setblocking(False)
    try:
        connection.connect(str(path))
    except ConnectionRefusedError:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return False
    except OSError:
        return False
    return True


def _read(connection: socket.socket, answer: bytearray) -> bool:
    """Read what is there; True at the end of the answer."""
    try:
        chunk = connection.recv(_CHUNK)
    except BlockingIOError:
        return False
    except OSError:
        chunk = b""
    answer += chunk
    return not chunk or len(answer) > _LARGEST


def _understood(answers: dict[str, bytearray], ended: set[str]) -> WorkersSeries:
    families = {}
    for process in ended:
        with suppress(MalformedMessageError):
            families[process] = from_bytes(bytes(answers[process]))
    return WorkersSeries(families, len(answers) - len(families))


try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
except ImportError as error:
    raise MissingExtraError(
        "the collector needs prometheus_client: pip install 'aioproducer[prometheus]'"
    ) from error


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
