"""The command line: ``python -m benchmarks.new_process --rounds 10``.

Each run is a new Python process that imports a client, starts a producer and awaits its first
record. The runs of the clients are interleaved, after one of each that is not counted and leaves
compiled modules behind.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from aioproducer.testing.mock_cluster import MockCluster
from benchmarks import launch
from benchmarks.__main__ import ask_for_clients
from benchmarks.brokers import log_size
from benchmarks.report import Measurement, Section, add_options, say_median, say_range
from benchmarks.summary import spread

_ROOT: Final = Path(__file__).parent.parent.parent
_TOPIC: Final = "first"
_PARTITIONS: Final = 6
_LONGEST_RUN: Final = 60.0
_OURS: Final = "aioproducer"
_NOTHING: Final = "no client"
CLIENTS: Final = {
    _NOTHING: "nothing_first",
    _OURS: "aioproducer_first",
    "aiokafka": "aiokafka_first",
    "confluent": "confluent_first",
}
"""The modules of this package that send."""
_METRICS: Final = {
    "imported_ms": "import ms",
    "delivered_ms": "first record ms",
    "ended_ms": "ended ms",
    "cpu_ms": "CPU ms until delivered",
}

Times = Mapping[str, float]
"""By the names of the metrics."""


class RunError(Exception):
    """A process failed, or did not end."""


def measure(client: str, bootstrap_servers: str, environment: Mapping[str, str]) -> Times:
    """One process. Raises RunError."""
    module = f"{__package__}.{CLIENTS[client]}"
    command = launch.command(f"{__package__}.first", module, bootstrap_servers, _TOPIC)
    began = monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=_ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LONGEST_RUN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"{client}: the process did not end within {_LONGEST_RUN:g} s") from None
    ended = monotonic()
    if done.returncode:
        raise RunError(f"{client}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    return times(json.loads(done.stdout.splitlines()[-1]), began, ended)


def times(said: Mapping[str, float], began: float, ended: float) -> Times:
    """``said``: what the process printed; the others: when it was started, and when it was over."""
    seconds = {
        "imported_ms": said["imported"] - said["began"],
        "delivered_ms": said["delivered"] - began,
        "ended_ms": ended - began,
        "cpu_ms": said["cpu_seconds"],
    }
    return {name: 1000 * number for name, number in seconds.items()}


def run_all(clients: Sequence[str], rounds: int) -> dict[str, list[Times]]:
    """Every run that counts, by client. Raises RunError."""
    found: dict[str, list[Times]] = {client: [] for client in clients}
    with (
        MockCluster(brokers=3, topics={_TOPIC: _PARTITIONS}) as cluster,
        tempfile.TemporaryDirectory() as bytecode,
    ):
        environment = launch.environment(bytecode)
        for number in range(rounds + 1):
            first = number % len(clients)
            for client in (*clients[first:], *clients[:first]):
                measured = measure(client, cluster.bootstrap_servers, environment)
                if number:
                    found[client].append(measured)
        sent = sum(client != _NOTHING for client in clients) * (rounds + 1)
        in_log = log_size(cluster.bootstrap_servers, [_TOPIC], _PARTITIONS)
    if in_log < sent:
        raise RunError(f"{sent} records were delivered, but the log has only {in_log} of them")
    return found


def describe(found: Mapping[str, Sequence[Times]]) -> Section:
    """The medians and the ranges."""
    rounds = min(map(len, found.values()))
    return Section(
        title=f"first record: a new process until its delivery, acks=all; {rounds} rounds",
        headings=("client", *(each for name in _METRICS.values() for each in (name, "range"))),
        rows=tuple((client, *_cells(runs)) for client, runs in found.items()),
        ratios=tuple(_ratios(found)),
    )


def _cells(runs: Sequence[Times]) -> Iterator[str]:
    for name in _METRICS:
        numbers = spread(run[name] for run in runs)
        yield say_median(numbers, ".0f")
        yield say_range(numbers, ".0f")


def _ratios(found: Mapping[str, Sequence[Times]]) -> Iterator[str]:
    for peer in found:
        if peer in (_OURS, _NOTHING) or _OURS not in found:
            continue
        said = []
        for name, heading in _METRICS.items():
            mine, other = (spread(run[name] for run in found[each]) for each in (_OURS, peer))
            if mine and other:
                said.append(f"{mine.median / other.median:.2f} x {heading}")
        yield f"{_OURS} / {peer}: {', '.join(said)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a process failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.new_process", description=__doc__)
    ask_for_clients(parser, CLIENTS)
    add_options(parser)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    peers = ["aiokafka", "confluent-kafka"]
    measurement = Measurement.begin(parser, arguments, options, peers, seconds=60)
    try:
        found = run_all(options.clients, options.rounds)
    except RunError as error:
        print(error, file=sys.stderr)
        return 1
    measurement.publish([describe(found)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
