"""A file of lines by ``aioproducer produce`` and by kcat: ``python -m benchmarks.produce_lines``.

Both programs read the lines from standard input, with their default settings, and send them to the
mock cluster. Printed are lines and CPU time of the whole process, its start and its end included,
as the medians of interleaved rounds, after one that is not counted. Each line must be in the log.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from time import perf_counter
from typing import Final

from aioproducer.testing.mock_cluster import MockCluster
from benchmarks import launch
from benchmarks.__main__ import positive
from benchmarks.brokers import log_size
from benchmarks.report import Measurement, Section, add_options, say_median, say_range
from benchmarks.summary import spread
from benchmarks.workloads import WORKLOADS

_ROOT: Final = Path(__file__).parent.parent
_TOPIC: Final = "lines"
_PARTITIONS: Final = 6
_LONGEST_RUN: Final = 600.0
_OURS: Final = "aioproducer produce"
_KCAT: Final = "kcat"
_MISSING: Final = "kcat is missing (Debian: apt install kcat), so it is not measured"


class RunError(Exception):
    """A program failed, or has not sent each line."""


@dataclass(frozen=True, slots=True)
class Costs:
    """One run of a program."""

    lines: int
    seconds: float
    cpu_seconds: float


def commands(bootstrap_servers: str) -> dict[str, list[str]]:
    """The command lines of the programs that are there."""
    ours = launch.command("aioproducer", "produce", "-b", bootstrap_servers, _TOPIC)
    kcat = shutil.which(_KCAT)
    if kcat is None:
        return {_OURS: ours}
    return {_OURS: ours, _KCAT: [kcat, "-q", "-P", "-b", bootstrap_servers, "-t", _TOPIC]}


def run(
    name: str, command: Sequence[str], path: Path, lines: int, environment: Mapping[str, str]
) -> Costs:
    """Raises RunError."""
    with path.open("rb") as source, tempfile.TemporaryFile("w+") as errors:
        began = perf_counter()
        process = subprocess.Popen(
            command,
            cwd=_ROOT,
            env=environment,
            stdin=source,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        end = Timer(_LONGEST_RUN, process.kill)
        end.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            end.cancel()
        seconds = perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if process.returncode:
            raise RunError(f"{name}: exit code {process.returncode}: {errors.read()[-500:]}")
    return Costs(lines, seconds, used.ru_utime + used.ru_stime)


def run_all(lines: int, rounds: int) -> dict[str, list[Costs]]:
    """Every run that counts, by program. Raises RunError."""
    with (
        MockCluster(brokers=3, topics={_TOPIC: _PARTITIONS}) as cluster,
        tempfile.TemporaryDirectory() as directory,
    ):
        environment = launch.environment(directory)
        path = Path(directory, "lines.txt")
        values = WORKLOADS["bulk"].load(lines).values
        path.write_bytes(b"".join(value + b"\n" for value in values))
        programs = commands(cluster.bootstrap_servers)
        found: dict[str, list[Costs]] = {name: [] for name in programs}
        for number in range(rounds + 1):
            for name, command in programs.items():
                before = log_size(cluster.bootstrap_servers, [_TOPIC], _PARTITIONS)
                costs = run(name, command, path, lines, environment)
                if number:
                    found[name].append(costs)
                in_log = log_size(cluster.bootstrap_servers, [_TOPIC], _PARTITIONS) - before
                if in_log != lines:
                    raise RunError(f"{name} has sent {lines} lines, and the log grew by {in_log}")
    return found


def describe(found: Mapping[str, Sequence[Costs]], lines: int) -> Section:
    """The medians and the ranges."""
    rows, medians = [], {}
    for name, runs in found.items():
        rate = spread(run.lines / run.seconds for run in runs)
        cpu = spread(run.cpu_seconds / run.lines * 1e6 for run in runs)
        rows.append(
            (
                *(name, say_median(rate, ",.0f"), say_range(rate, ",.0f")),
                *(say_median(cpu, ".2f"), say_range(cpu, ".2f"), str(len(runs))),
            )
        )
        if rate and cpu:
            medians[name] = (rate.median, cpu.median)
    ratios = [
        f"{_OURS} / {name}: {medians[_OURS][0] / rate:.2f} x lines/s, "
        f"{medians[_OURS][1] / cpu:.2f} x CPU"
        for name, (rate, cpu) in medians.items()
        if name != _OURS
    ]
    return Section(
        title=f"lines: {lines:,} of 100 bytes to {_PARTITIONS} partitions, default settings",
        headings=("program", "lines/s", "range", "CPU-µs/line", "range", "runs"),
        rows=tuple(rows),
        ratios=tuple(ratios),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a program failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.produce_lines", description=__doc__)
    parser.add_argument("--lines", type=positive, default=1_000_000, help="default %(default)s")
    parser.add_argument("--rounds", type=positive, default=5, help="default %(default)s")
    add_options(parser)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    measurement = Measurement.begin(parser, arguments, options)
    if shutil.which(_KCAT) is None:
        print(_MISSING)
    try:
        found = run_all(options.lines, options.rounds)
    except RunError as error:
        print(error, file=sys.stderr)
        return 1
    measurement.publish([describe(found, options.lines)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
