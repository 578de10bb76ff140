"""The first record after a freeze: ``python -m benchmarks.freezes --seconds 1,10``.

A process that sends is stopped (SIGSTOP) and goes on (SIGCONT), as a cloud freezes a function and a
laptop sleeps. Printed is the time of the next awaited record, and how many records failed or are in
the log twice. The brokers are the mock cluster's, in a process of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final, NamedTuple

from aioproducer import Producer
from aioproducer.loops import run
from aioproducer.testing import read_back_sync
from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.report import Measurement, Section, add_options, say_median, say_range
from benchmarks.summary import spread

_RECORDS: Final = 500
"""Records that are in flight or queued as the process is stopped."""
_SHORT: Final[dict[str, Any]] = {
    "request_timeout_ms": 500,
    "delivery_timeout_ms": 1000,
    "linger_ms": 0,
}
"""Timeouts that a freeze of a second exceeds."""
_NO_PUSH: Final[dict[str, Any]] = {"enable_metrics_push": False}
"""A thread that prepares the first push would compete with the first record for the processor."""
_STATES: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "at rest": (0, _NO_PUSH),
    "at rest, connection too idle": (0, _NO_PUSH | {"connections_max_idle_ms": 900}),
    "records in flight": (_RECORDS, _SHORT),
    "records in flight, acks=1": (_RECORDS, _SHORT | {"acks": 1, "enable_idempotence": False}),
}
"""The number of records on their way, and the producer's options."""


class Thaw(NamedTuple):
    """What one freeze did."""

    milliseconds: float
    """Of the next awaited record, from the first thing that the process does."""
    failed: int
    twice: int


async def send_and_freeze(servers: str, topic: str, records: int, options: dict[str, Any]) -> None:
    """Send ``records``, be stopped by the parent, then send one more; print the outcome."""
    async with Producer(bootstrap_servers=servers, **options) as producer:
        await producer.send(topic, b"warm", partition=0)
        futures = [producer.send(topic, b"%d" % n, partition=n % 3) for n in range(records)]
        await asyncio.sleep(0)  # the requests leave
        os.kill(os.getpid(), signal.SIGSTOP)
        began = perf_counter()
        await producer.send(topic, b"next", partition=0)
        seconds = perf_counter() - began
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
    failed = sum(isinstance(outcome, BaseException) for outcome in outcomes)
    print(json.dumps({"seconds": seconds, "failed": failed}))


def freeze(cluster: MockCluster, state: str, seconds: float, topic: str) -> Thaw:
    """Run the process once, and stop it for ``seconds``."""
    cluster.create_topic(topic, 3)
    command = [sys.executable, "-m", "benchmarks.freezes", "--servers", cluster.bootstrap_servers]
    with subprocess.Popen(
        [*command, "--state", state, "--topic", topic], stdout=subprocess.PIPE, text=True
    ) as process:
        os.waitpid(process.pid, os.WUNTRACED)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)
        told = json.loads(process.communicate()[0])
    values = read_back_sync(topic, bootstrap_servers=cluster.bootstrap_servers).values
    return Thaw(told["seconds"] * 1000, told["failed"], len(values) - len(set(values)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.freezes", description=__doc__)
    parser.add_argument("--seconds", default="1,10", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5)
    for name in ("--servers", "--state", "--topic"):  # of the process that is stopped
        parser.add_argument(name, help=argparse.SUPPRESS)
    add_options(parser)
    options = parser.parse_args(arguments)
    if options.state is not None:
        run(send_and_freeze(options.servers, options.topic, *_STATES[options.state]))
        return 0
    freezes = [float(each) for each in options.seconds.split(",")]
    took = len(_STATES) * options.rounds * (sum(freezes) + 2 * len(freezes))
    measurement = Measurement.begin(parser, arguments, options, seconds=took)
    rows = []
    with MockCluster(brokers=3) as cluster:
        for seconds in freezes:
            for number, state in enumerate(_STATES):
                thaws = [
                    freeze(cluster, state, seconds, f"frozen-{seconds:g}-{number}-{each}")
                    for each in range(options.rounds)
                ]
                times = spread(each.milliseconds for each in thaws)
                failed, twice = (
                    sum(each) for each in zip(*((t.failed, t.twice) for t in thaws), strict=True)
                )
                rows.append(
                    (
                        *(state, f"{seconds:g}", say_median(times, ".1f"), say_range(times, ".1f")),
                        *(str(failed), str(twice)),
                    )
                )
    section = Section(
        title=f"freezes: the next awaited record; {options.rounds} rounds",
        headings=("process", "frozen s", "ms", "range", "failed", "twice"),
        rows=tuple(rows),
        labels=2,
    )
    measurement.publish([section])
    return 0


if __name__ == "__main__":
    sys.exit(main())
