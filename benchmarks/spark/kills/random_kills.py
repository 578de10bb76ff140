"""Processes of Spark that die at moments that nobody chose."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Final, Protocol

import psutil  # type: ignore[import-untyped]

from benchmarks.spark.kills.driver import LOCAL, Settings
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
    keyed: bool = False
    """Whether rows have keys, and go to the tasks of their partitions."""
    rows: int = ROWS
    """In each micro-batch."""
    row_bytes: int = 0
    """The least size of a row."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    sink: str
    batches: int
    killed: Mapping[str, int]
    starts: int
    seen: Seen
    seconds: float


class Victims(Protocol):
    """Who can be killed, and where they run."""

    master: str
    """Of Spark, for the drivers."""
    settings: Mapping[str, str]
    """Of Spark, over those of the sink."""

    def kill_one(self, run: Run, random: Random) -> str | None:
        """Kill one of them, and say whom; None: nobody was there."""

    def revive(self) -> None:
        """Between two looks at the run: start again who does not come back by himself."""


class LocalVictims:
    """A worker, the JVM, or the driver with it, of a Spark in one JVM."""

    master = LOCAL
    settings: Mapping[str, str] = MappingProxyType({})

    def kill_one(self, run: Run, random: Random) -> str | None:
        processes = run.processes()
        jvm = [each for each in processes[1:] if name_of(each) == "java"]
        pythons = [each for each in processes[1:] if name_of(each).startswith("python")]
        victim = random.choice(("worker", "worker", "JVM", "driver"))
        match victim:
            case "worker":
                doomed = [random.choice(pythons)] if pythons else []
            case "JVM":
                doomed = jvm
            case _:
                doomed = [*processes[:1], *jvm]
        return victim if kill_all(doomed) else None

    def revive(self) -> None:
        """Drivers are started again by their run, and start the rest."""


@dataclass(slots=True)
class RandomKiller:
    """Kills one of the victims some time after a micro-batch has ended.

    The run does not end before the last kill.
    """

    victims: Victims
    random: Random
    left: list[int]
    """How many micro-batches have to be through before each kill, the last one first."""
    killed: dict[str, int] = field(default_factory=dict)
    _at: float | None = None

    @classmethod
    def of(cls, victims: Victims, random: Random, kills: int, batches: int) -> RandomKiller:
        """``kills`` of them, each after another one of so many micro-batches but the last."""
        moments = sorted(random.sample(range(1, batches), kills), reverse=True)
        return cls(victims, random, moments)

    def __call__(self, run: Run) -> None:
        """Between two looks at the run."""
        self.victims.revive()
        if not self.left:
            run.settings.held.unlink(missing_ok=True)
            return
        if self._at is None:
            if run.settings.committed() >= self.left[-1]:
                self._at = time.monotonic() + self.random.uniform(0, _LONGEST_WAIT)
            return
        if time.monotonic() < self._at:
            return
        if (victim := self.victims.kill_one(run, self.random)) is not None:
            self.killed[victim] = self.killed.get(victim, 0) + 1
            self._at = None
            self.left.pop()


def kill_all(doomed: Iterable[psutil.Process]) -> bool:
    """False: there is none, or one of them has just ended by itself."""
    doomed = list(doomed)
    try:
        for process in doomed:
            process.kill()
    except psutil.NoSuchProcess:
        return False
    return bool(doomed)


def run_under_kills(
    sink: Sink,
    bootstrap_servers: str,
    topic: str,
    folder: Path,
    *,
    batches: int,
    kills: int,
    random: Random,
    victims: Victims | None = None,
) -> Outcome:
    """At least ``batches`` micro-batches into ``topic``, and ``kills`` before the last of them.

    ``victims``: None are those of a Spark in one JVM.

    Raises:
        DriverError: it takes too long.
    """
    began = time.monotonic()
    victims = victims or LocalVictims()
    settings = Settings(
        format=sink.format,
        options=sink.options(bootstrap_servers, topic),
        checkpoint=str(folder / "checkpoint"),
        batches=batches,
        rows=sink.rows,
        row_bytes=sink.row_bytes,
        tasks=2,
        spark={**sink.settings(), **victims.settings},
        master=victims.master,
        keyed_partitions=PARTITIONS if sink.keyed else 0,
    )
    run = Run(settings, folder / "log", timeout=120 + batches * 2 + kills * _TIMEOUT_EACH)
    killer = RandomKiller.of(victims, random, kills, batches)
    settings.held.touch()
    run.to_its_end(killer)
    through = settings.committed()
    return Outcome(
        sink.name,
        through,
        killer.killed,
        run.starts,
        Seen.of(bootstrap_servers, topic, PARTITIONS, through * sink.rows),
        time.monotonic() - began,
    )


def name_of(process: psutil.Process) -> str:
    """Empty when it is gone."""
    try:
        return str(process.name())
    except psutil.Error:
        return ""
