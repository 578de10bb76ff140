"""A streaming driver, started anew each time it was killed, and what Kafka has in the end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]

from aioproducer.spark.exactly_once import begin
from aioproducer.spark.plan import plan_write
from aioproducer.testing.processes import ProcessSupervisor
from benchmarks.chaos.transactions.read_back import Place, read_to_end
from benchmarks.spark import sessions
from benchmarks.spark.kills.driver import Settings

_DRIVER: Final = "benchmarks.spark.kills.driver"


@dataclass(frozen=True)
class Seen:
    """Under ``read_committed``, of the rows of the micro-batches that are through."""

    missing: int
    duplicated: int
    beyond: int
    """Of a micro-batch that is not through."""

    @classmethod
    def of(cls, bootstrap_servers: str, topic: str, partitions: int, through: int) -> Seen:
        """``through``: how many rows the micro-batches have that are through."""
        places = [Place(topic, number) for number in range(partitions)]
        counts = Counter(int(value) for _, value in read_to_end(bootstrap_servers, places))
        return cls(
            missing=sum(1 for row in range(through) if row not in counts),
            duplicated=sum(times - 1 for row, times in counts.items() if row < through),
            beyond=sum(1 for row in counts if row >= through),
        )


class DriverError(Exception):
    """The drivers did not get through."""


class Run:
    """One driver after the other, until all micro-batches are through."""

    def __init__(self, settings: Settings, log: Path, timeout: float) -> None:
        self.settings = settings
        self.starts = 0
        self.driver: subprocess.Popen[bytes] | None = None
        self._log = log
        self._deadline = time.monotonic() + timeout

    @property
    def log(self) -> str:
        """What the drivers have said."""
        return self._log.read_text(errors="replace")

    def to_its_end(self, meanwhile: Callable[[Run], None] = lambda run: None) -> None:
        """Whatever they have left is settled then: no transaction of theirs is open, or will end.

        Raises:
            DriverError: it takes too long; with the end of the log.
        """
        with ProcessSupervisor() as supervisor, self._log.open("ab") as output:
            while not self.settings.is_through():
                self.driver = supervisor.start(
                    [
                        sys.executable,
                        "-m",
                        "benchmarks.spark.kills.driver",
                        self.settings.to_json(),
                    ],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=sessions.environment(),
                    cwd=sessions.ROOT,
                )
                self.starts += 1
                while self.driver.poll() is None:
                    if time.monotonic() > self._deadline:
                        raise DriverError(f"not through in time: {self.log[-5000:]}")
                    meanwhile(self)
                    time.sleep(0.05)
        if "sink.id" in self.settings.options:
            begin(plan_write(self.settings.options, {"value": "string"}))

    def processes(self) -> list[psutil.Process]:
        """The driver and all that it has started, as far as they are there at this moment."""
        assert self.driver is not None
        try:
            driver = psutil.Process(self.driver.pid)
            return [driver, *driver.children(recursive=True)]
        except psutil.Error:
            return []
