"""The state of the machine: numbers without it mean nothing."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil  # type: ignore[import-untyped]

_BUSY = 0.5


@dataclass(frozen=True, slots=True)
class Machine:
    """What the measurements ran on."""

    cores: int
    processor: str
    system: str
    python: str
    load: tuple[float, float, float]
    """The load averages of 1, 5 and 15 minutes before the first run."""
    versions: dict[str, str]

    @property
    def warning(self) -> str | None:
        """Why the numbers may be wrong."""
        if self.load[0] > _BUSY * self.cores:
            return f"the machine is busy: load {self.load[0]:.2f} on {self.cores} cores"
        return None

    def describe(self) -> str:
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        load = " ".join(f"{average:.2f}" for average in self.load)
        return (
            f"{self.cores} cores, {self.processor}, {self.system}, load {load}\n"
            f"{self.python}, {versions}"
        )


class Neighbours:
    """How many cores everything else on the machine has used since this was made.

    Everything else is what is neither this process nor its children, running or ended.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._others = _cpu_seconds_of_others()

    def cores_used(self) -> float:
        seconds = time.perf_counter() - self._began
        return max(0.0, (_cpu_seconds_of_others() - self._others) / seconds)


def _cpu_seconds_of_others() -> float:
    machine = psutil.cpu_times()
    busy = machine.user + machine.system + getattr(machine, "nice", 0.0)
    own = sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    return float(busy - own - _cpu_seconds(psutil.Process().children(recursive=True)))


def cpu_seconds_of_servers() -> float:
    """The CPU time of this process, and of its children that run: the servers that it started."""
    process = psutil.Process()
    return _cpu_seconds((process, *process.children(recursive=True)))


def _cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """Of those that still run."""
    total = 0.0
    for each in processes:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def look_at_machine(distributions: Iterable[str]) -> Machine:
    """The machine as it is now, with the versions of these distributions."""
    versions = {}
    for name in dict.fromkeys(distributions):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "missing"
    return Machine(
        cores=_usable_cores(),
        processor=_processor(),
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        load=os.getloadavg(),
        versions=versions,
    )


def look_at_commit() -> str | None:
    """The commit that is measured, with ``-dirty`` if files differ from it; None without Git."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--exclude=*", "--abbrev=10", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
