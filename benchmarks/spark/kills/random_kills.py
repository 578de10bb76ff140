"""Processes of Spark that die at moments that nobody chose."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import psutil  # type: ignore[import-untyped]

from benchmarks.spark.kills.driver import Settings
from benchmarks.spark.kills.drivers import Run, Seen

ROWS: Final = 500
PARTITIONS: Final = 4
_LONGEST_WAIT: Final = 1.5  # seconds from a micro-batch's end to the next kill
_TIMEOUT_EACH: Final = 60.0  # seconds for a kill and what follows it


@dataclass(frozen=True, slots=True)
class Sink:
    """What writes."""

    name: str
    format: str
    options: Callable[[str, str], Mapping[str, str]]
    """By brokers and topic."""
    settings: Callable[[], Mapping[str, str]] = dict
    """Of Spark."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    sink: str
    batches: int
    killed: Mapping[str, int]
    starts: int
    seen: Seen
    seconds: float


@dataclass(slots=True)
class RandomKiller:
    """Kills a worker, the JVM, or the driver with it, some time after a micro-batch has ended.

    The run does not end before the last kill.
    """

    random: Random
    left: list[int]
    """How many micro-batches have to be through before each kill, the last one first."""
    killed: dict[str, int] = field(default_factory=dict)
    _at: float | None = None

    @classmethod
    def of(cls, random: Random, kills: int, batches: int) -> RandomKiller:
        """``kills`` of them, each after another one of so many micro-batches but the last."""
        return cls(random, sorted(random.sample(range(1, batches), kills), reverse=True))

    def __call__(self, run: Run) -> None:
        """Between two looks at the run."""
        if not self.left:
            run.settings.held.unlink(missing_ok=True)
            return
        if self._at is None:
            if run.settings.committed() >= self.left[-1]:
                self._at = time.monotonic() + self.random.uniform(0, _LONGEST_WAIT)
            return
        if time.monotonic() < self._at:
            return
        victim, doomed = self._choose(run.processes())
        try:
            for process in doomed:
                process.kill()
        except psutil.NoSuchProcess:
            return  # it has just ended by itself: another one
        if doomed:
            self.killed[victim] = self.killed.get(victim, 0) + 1
            self._at = None
            self.left.pop()

    def _choose(self, processes: list[psutil.Process]) -> tuple[str, list[psutil.Process]]:
        jvm = [each for each in processes[1:] if _name(each) == "java"]
        pythons = [each for each in processes[1:] if _name(each).startswith("python")]
        victim = self.random.choice(("worker", "worker", "JVM", "driver"))
        match victim:
            case "worker":
                return victim, [self.random.choice(pythons)] if pythons else []
            case "JVM":
                return victim, jvm
            case _:
                return victim, [*processes[:1], *jvm]


def run_under_kills(
    sink: Sink,
    bootstrap_servers: str,
    topic: str,
    folder: Path,
    *,
    batches: int,
    kills: int,
    random: Random,
) -> Outcome:
    """At least ``batches`` micro-batches into ``topic``, and ``kills`` before the last of them.

    Raises:
        DriverError: it takes too long.
    """
    began = time.monotonic()
    settings = Settings(
        format=sink.format,
        options=sink.options(bootstrap_servers, topic),
        checkpoint=str(folder / "checkpoint"),
        batches=batches,
        rows=ROWS,
        tasks=2,
        spark=sink.settings(),
    )
    run = Run(settings, folder / "log", timeout=120 + batches * 2 + kills * _TIMEOUT_EACH)
    killer = RandomKiller.of(random, kills, batches)
    settings.held.touch()
    run.to_its_end(killer)
    through = settings.committed()
    return Outcome(
        sink.name,
        through,
        killer.killed,
        run.starts,
        Seen.of(bootstrap_servers, topic, PARTITIONS, through * ROWS),
        time.monotonic() - began,
    )


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return ""
