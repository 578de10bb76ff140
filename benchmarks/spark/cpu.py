"""CPU time of Spark and of the brokers, processes that have ended included.

Spark's Python daemons ignore the ends of their workers, whose times no parent then has: so they are
looked at while they live, again and again. What a process used after it was last seen is lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

import psutil  # type: ignore[import-untyped]

_LOOK_EVERY: Final = 0.5


@dataclass(frozen=True, slots=True)
class Seen:
    """A process at one time."""

    id: int
    parent: int
    began: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds, user and system."""

    spark: float
    """The driver's Python, the JVM, and the Python workers under it."""
    brokers: float
    """All else that the driver's Python has started."""

    def since(self, before: Used) -> Used:
        """What came in between."""
        return Used(self.spark - before.spark, self.brokers - before.brokers)


class Ledger:
    """What each process was last seen to have used. Pure.

    ``driver`` is the id of the driver's Python, ``jvm`` that of the JVM which it has started.
    """

    def __init__(self, driver: int, jvm: int) -> None:
        self._driver = driver
        self._jvm = jvm
        self._spark: dict[tuple[int, float], float] = {}
        self._brokers: dict[tuple[int, float], float] = {}

    def enter(self, processes: Iterable[Seen]) -> None:
        """The driver and all processes under it."""
        by_id = {process.id: process for process in processes}
        for process in by_id.values():
            spark = process.id == self._driver or self._under_jvm(process, by_id)
            book = self._spark if spark else self._brokers
            book[process.id, process.began] = process.cpu_seconds

    def _under_jvm(self, process: Seen | None, by_id: dict[int, Seen]) -> bool:
        while process is not None and process.id != self._jvm:
            process = by_id.get(process.parent)
        return process is not None

    def used(self) -> Used:
        """Until now; it only grows."""
        return Used(sum(self._spark.values()), sum(self._brokers.values()))


class CpuWatch:
    """A context that looks at all processes under this one; its own work is left out."""

    def __init__(self, jvm: int) -> None:
        self._process = psutil.Process()
        self._ledger = Ledger(self._process.pid, jvm)
        self._lock = threading.Lock()
        self._looking = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_again, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def used(self) -> Used:
        """Until now."""
        with self._lock:
            self._look()
            used = self._ledger.used()
            return Used(used.spark - self._looking, used.brokers)

    def _look_again(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            with self._lock:
                self._look()

    def _look(self) -> None:
        began = time.thread_time()
        self._ledger.enter(_look_at([self._process, *self._process.children(recursive=True)]))
        self._looking += time.thread_time() - began


def _look_at(processes: Iterable[psutil.Process]) -> Iterator[Seen]:
    for process in processes:
        try:
            with process.oneshot():
                times = process.cpu_times()
                seen = Seen(
                    process.pid, process.ppid(), process.create_time(), times.user + times.system
                )
        except psutil.NoSuchProcess:
            continue
        yield seen
