"""The same program on confluent-kafka's producer and on ours with its interface.

``python -m benchmarks.compat_confluent [--rounds 5] [--records 300000]``: ``produce()`` of 100
bytes, ``poll(0)`` after each record and ``flush()`` at the end, on librdkafka's mock cluster. The
clients alternate; each run has a process of its own, and is measured after a warm-up. CPU time is
that of all threads of the process.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Sequence
from time import perf_counter, process_time
from typing import Any, Final

from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.report import Measurement, Section, add_options, say_median, say_range
from benchmarks.summary import spread

IMPORTS: Final = {"confluent": "confluent_kafka", "ours": "aioproducer.compat.confluent"}
PATTERNS: Final = ("callback", "plain", "keyed")
WARM_UP: Final = 20_000
TOPIC: Final = "t"
_RUN_SECONDS: Final = 2
"""The time of a run, its start included."""


def send(producer: Any, pattern: str, records: int) -> int:
    """Send ``records``; returns the number of confirmed ones."""
    values = [b"%0100d" % number for number in range(1000)]
    keys = [b"customer-%d" % number for number in range(1000)]
    confirmed = 0

    def delivered(error: object, message: object) -> None:
        nonlocal confirmed
        confirmed += error is None

    keywords = {} if pattern == "plain" else {"on_delivery": delivered}
    for number in range(records):
        key = keys[number % 1000] if pattern == "keyed" else None
        while True:
            try:
                producer.produce(TOPIC, values[number % 1000], key, **keywords)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = int(producer.flush())
    return records - left if pattern == "plain" else confirmed


def run(name: str, pattern: str, records: int, servers: str) -> None:
    """Measure, and print records per second and microseconds of CPU time per record."""
    producer = importlib.import_module(IMPORTS[name]).Producer({"bootstrap.servers": servers})
    send(producer, pattern, WARM_UP)
    began, cpu = perf_counter(), process_time()
    if send(producer, pattern, records) != records:
        sys.exit("a record was not confirmed")
    seconds = perf_counter() - began
    print(records / seconds, (process_time() - cpu) / records * 1e6)


def compare(rounds: int, records: int) -> list[Section]:
    """Run all, interleaved: a section for each pattern."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with MockCluster(brokers=1, topics={TOPIC: 6}) as cluster:
        for number in range(rounds):
            for pattern in PATTERNS:
                for name in sorted(IMPORTS, reverse=bool(number % 2)):
                    command = [sys.executable, "-m", "benchmarks.compat_confluent"]
                    options = ["--run", name, pattern, str(records), cluster.bootstrap_servers]
                    said = subprocess.check_output([*command, *options], text=True)
                    speed, cpu = map(float, said.split())
                    found.setdefault((pattern, name), []).append((speed, cpu))
    sections = []
    for pattern in PATTERNS:
        rows = []
        for name in sorted(IMPORTS, reverse=True):
            speeds, cpus = map(spread, zip(*found[pattern, name], strict=True))
            rows.append(
                (
                    *(name, say_median(speeds, ",.0f"), say_range(speeds, ",.0f")),
                    *(say_median(cpus, ".2f"), say_range(cpus, ".2f")),
                )
            )
        sections.append(
            Section(
                title=f"{pattern}: produce() of {records:,} records of 100 bytes; {rounds} rounds",
                headings=("client", "records/s", "range", "CPU-µs/record", "range"),
                rows=tuple(rows),
            )
        )
    return sections


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compat_confluent", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--run", nargs=4, metavar="…", help="one run, for the program itself")
    add_options(parser)
    options = parser.parse_args(arguments)
    if options.run:
        name, pattern, records, servers = options.run
        run(name, pattern, int(records), servers)
    else:
        took = options.rounds * len(PATTERNS) * len(IMPORTS) * _RUN_SECONDS
        peers = ["confluent-kafka"]
        measurement = Measurement.begin(parser, arguments, options, peers, seconds=took)
        measurement.publish(compare(options.rounds, options.records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
