"""The price of an installation: ``python -m benchmarks.light --rounds 10``.

Each client is installed in an environment of its own, by a pip that is given nothing else. The
program counts what came with it, and then starts a Python process of the environment again and
again, which imports the client. The runs of the clients are interleaved, after one of each that is
not counted. "Nothing" is the interpreter alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.__main__ import ask_for_clients
from benchmarks.launch import without_bytecode_rules
from benchmarks.report import Measurement, Section, add_options, say_median, say_range
from benchmarks.summary import spread

_ROOT: Final = Path(__file__).parent.parent
_OURS: Final = "aioproducer"
_NOTHING: Final = "nothing"
_ASYNCIO: Final = "asyncio"
_LONGEST_RUN: Final = 60.0


class Client(NamedTuple):
    """``installs``: for pip; None: the standard library has the module."""

    module: str
    installs: str | None = None


CLIENTS: Final = {
    _NOTHING: Client("sys"),
    _ASYNCIO: Client("asyncio"),
    _OURS: Client("aioproducer", str(_ROOT)),
    "aiokafka": Client("aiokafka", "aiokafka"),
    "confluent-kafka": Client("confluent_kafka", "confluent-kafka"),
}
_METRICS: Final = {
    "imported_ms": "import ms",
    "objects": "objects",
    "collection_ms": "collection ms",
}

IMPORT_ONE: Final = """
import gc, importlib, json, sys
from time import perf_counter

began = perf_counter()
importlib.import_module(sys.argv[1])
imported = perf_counter() - began
gc.collect()
objects = len(gc.get_objects())
times = []
for _ in range(5):
    began = perf_counter()
    gc.collect()
    times.append(perf_counter() - began)
print(json.dumps({
    "imported_ms": 1000 * imported, "objects": objects, "collection_ms": 1000 * sorted(times)[2],
}))
"""
"""The program of a run. It prints the collector's objects, not yet over those of "nothing"."""

Numbers = Mapping[str, float]
"""By the names of the metrics."""


class Installed(NamedTuple):
    """The environment of one client."""

    python: Path
    megabytes: Mapping[str, float]
    """By the package: the client itself, and what came with it. 1 MB is 1,000,000 bytes."""


def install(client: Client, place: Path) -> Installed:
    """Raises CalledProcessError."""
    venv.create(place, with_pip=True, symlinks=os.name != "nt")
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    if client.installs is None:
        return Installed(python, {})
    before = _packages(python)
    constraint = {"PIP_CONSTRAINT": str(_ROOT / "constraints.txt")}
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", client.installs],
        env=without_bytecode_rules() | constraint,
        cwd=place,
        check=True,
    )
    found = _packages(python)
    return Installed(python, {name: size for name, size in found.items() if name not in before})


_SIZES: Final = """
import json
from importlib.metadata import distributions
print(json.dumps({
    each.metadata["Name"]: sum(
        path.stat().st_size
        for path in map(each.locate_file, each.files or ())
        if path.exists()
    ) / 1e6
    for each in distributions()
}))
"""


def _packages(python: Path) -> dict[str, float]:
    printed = subprocess.run(
        [python, "-I", "-c", _SIZES], check=True, capture_output=True, text=True
    ).stdout
    found: dict[str, float] = json.loads(printed)
    return found


def measure(python: Path, module: str) -> Numbers:
    """One process. Raises CalledProcessError and TimeoutExpired."""
    ended = subprocess.run(
        [python, "-I", "-c", IMPORT_ONE, module],
        env=without_bytecode_rules(),
        cwd=python.parent,  # no folder of the source
        check=True,
        capture_output=True,
        text=True,
        timeout=_LONGEST_RUN,
    )
    found: Numbers = json.loads(ended.stdout)
    return found


def run_all(
    clients: Sequence[str], rounds: int, environments: Mapping[str, Installed]
) -> dict[str, list[Numbers]]:
    """Every run that counts, by client; the objects are those over "nothing"."""
    found: dict[str, list[Numbers]] = {client: [] for client in clients}
    for number in range(rounds + 1):
        first = number % len(clients)
        for client in (*clients[first:], *clients[:first]):
            measured = measure(environments[client].python, CLIENTS[client].module)
            if number:
                found[client].append(measured)
    bare = min((run["objects"] for run in found.get(_NOTHING, ())), default=0)
    return {
        client: [{**run, "objects": run["objects"] - bare} for run in runs]
        for client, runs in found.items()
    }


def describe(
    found: Mapping[str, Sequence[Numbers]], environments: Mapping[str, Installed]
) -> list[Section]:
    """A table of the clients, and one of the packages of each."""
    rounds = min(map(len, found.values()))
    clients = Section(
        title=f"installation: each client in an environment of its own; {rounds} rounds",
        headings=(
            "client",
            "packages besides",
            "MB",
            *(each for name in _METRICS.values() for each in (name, "range")),
        ),
        rows=tuple(
            (client, *_size(environments[client]), *_cells(runs)) for client, runs in found.items()
        ),
    )
    packages = Section(
        title="packages: those of each client",
        labels=2,
        headings=("client", "package", "MB"),
        rows=tuple(
            (client, name, f"{size:.1f}")
            for client in found
            for name, size in sorted(
                environments[client].megabytes.items(), key=lambda each: -each[1]
            )
        ),
    )
    return [clients, packages]


def _size(installed: Installed) -> tuple[str, str]:
    if not installed.megabytes:
        return "-", "-"
    return str(len(installed.megabytes) - 1), f"{sum(installed.megabytes.values()):.0f}"


def _cells(runs: Sequence[Numbers]) -> Iterator[str]:
    for name in _METRICS:
        numbers = spread(run[name] for run in runs)
        form = ",.0f" if name == "objects" else ".1f"
        yield say_median(numbers, form)
        yield say_range(numbers, form)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a client can't be installed, or not be imported."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.light", description=__doc__)
    ask_for_clients(parser, CLIENTS)
    add_options(parser)
    options = parser.parse_args(arguments)
    peers = ["aiokafka", "confluent-kafka"]
    measurement = Measurement.begin(parser, arguments, options, peers, seconds=300)
    with tempfile.TemporaryDirectory() as temporary:
        try:
            environments = {
                client: install(CLIENTS[client], Path(temporary) / client)
                for client in options.clients
            }
            found = run_all(options.clients, options.rounds, environments)
        except subprocess.SubprocessError as error:
            print(error, getattr(error, "stderr", None) or "", file=sys.stderr)
            return 1
    measurement.publish(describe(found, environments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
