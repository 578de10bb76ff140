"""The cost of being observed: ``python -m benchmarks.observability``.

Each run has a process of its own; the ways to observe take turns. The brokers are the mock
cluster's. Printed are the median rate and CPU time of a record, and both as parts of those without
an observer in the same round.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from statistics import median
from typing import Final

from aioproducer.loops import run
from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.clients.aioproducer_client import Driver
from benchmarks.launch import command
from benchmarks.measure import Numbers, measure
from benchmarks.observability.variants import MEANINGS, VARIANTS
from benchmarks.report import Measurement, Section, add_options
from benchmarks.workloads import WORKLOADS

_WORKLOADS: Final = ("bulk", "tasks")
_SCRAPE_INTERVAL: Final = 1.0
_RUN_SECONDS: Final = 3
"""The time of a run, its start included."""


async def observed_run(variant: str, workload: str, bootstrap_servers: str) -> Numbers:
    """One run in this process."""
    chosen = WORKLOADS[workload]
    driver = Driver(bootstrap_servers, {})
    await driver.start()
    with VARIANTS[variant](driver.producer):
        costs = await measure(driver, chosen, chosen.records)
        await driver.stop()
    assert costs.confirmed == costs.records, asdict(costs)
    return costs.numbers


def in_a_process(variant: str, workload: str, bootstrap_servers: str) -> Numbers:
    """One run in a process of its own, which is scraped if it prints a port."""
    arguments = ("--run", variant, workload, bootstrap_servers)
    called = command("benchmarks.observability", *arguments)
    with subprocess.Popen(called, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ended = threading.Event()
        first = process.stdout.readline()
        if variant == "prometheus":
            threading.Thread(target=_scrape, args=(int(first), ended), daemon=True).start()
            first = process.stdout.readline()
        ended.set()
    if process.returncode:
        raise RuntimeError(f"{' '.join(called)} ended with {process.returncode}")
    numbers: Numbers = json.loads(first)
    return numbers


def _scrape(port: int, ended: threading.Event) -> None:
    while not ended.wait(_SCRAPE_INTERVAL):
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            page.read()


def described(workload: str, rounds: Sequence[dict[str, Numbers]]) -> Section:
    """The medians of all rounds."""
    rows = []
    for variant in (each for each in VARIANTS if each in rounds[0]):
        rate, cpu = (
            median(each[variant][name] for each in rounds)
            for name in ("records_per_second", "cpu_us_per_record")
        )
        part, more = (
            median(each[variant][name] / each["none"][name] for each in rounds)
            for name in ("records_per_second", "cpu_us_per_record")
        )
        slowest = [each[variant]["p99_ms"] for each in rounds if "p99_ms" in each[variant]]
        rows.append(
            (
                *(MEANINGS[variant], f"{rate:,.0f}", f"{part:.2f}", f"{cpu:.2f}"),
                *(f"{more - 1:+.1%}", f"{median(slowest):.1f}" if slowest else "-"),
            )
        )
    return Section(
        title=f"{workload}: {WORKLOADS[workload].meaning}; {len(rounds)} rounds",
        headings=("observed", "records/s", "part", "CPU-µs/record", "more", "p99 ms"),
        rows=tuple(rows),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.observability", description=__doc__)
    parser.add_argument("--workloads", default=",".join(_WORKLOADS), help="default: %(default)s")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    add_options(parser)
    options = parser.parse_args(arguments)
    if options.run:
        print(json.dumps(run(observed_run(*options.run))), flush=True)
        return 0
    variants = ["none", *(each for each in options.variants.split(",") if each != "none")]
    workloads = options.workloads.split(",")
    took = len(workloads) * options.rounds * len(variants) * _RUN_SECONDS
    libraries = ["prometheus-client", "opentelemetry-sdk"]
    measurement = Measurement.begin(parser, arguments, options, libraries, seconds=took)
    sections = []
    for workload in workloads:
        rounds = []
        for number in range(options.rounds):
            chosen = WORKLOADS[workload]
            topics = dict.fromkeys(chosen.topic_names(), chosen.partitions)
            with MockCluster(topics=topics) as cluster:
                turn = variants[number % len(variants) :] + variants[: number % len(variants)]
                rounds.append(
                    {each: in_a_process(each, workload, cluster.bootstrap_servers) for each in turn}
                )
        sections.append(described(workload, rounds))
    measurement.publish(sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
