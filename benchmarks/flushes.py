"""Many tasks that each send a record and flush: ``python -m benchmarks.flushes``.

Printed is the CPU time of a task, for several numbers of tasks at once: it should not grow with
them. The brokers are the mock cluster's, in a process of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from time import process_time

from aioproducer import Producer
from aioproducer.loops import run
from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.report import Measurement, Section, add_options, say_median, say_range
from benchmarks.summary import spread

_TOPIC = "flushed"


async def measure(bootstrap_servers: str, tasks: int) -> float:
    """CPU-µs that a task costs."""
    async with Producer(bootstrap_servers=bootstrap_servers) as producer:
        await producer.send(_TOPIC, b"warm")

        async def send_and_flush() -> None:
            producer.send(_TOPIC, bytes(100))
            await producer.flush()

        began = process_time()
        await asyncio.gather(*(send_and_flush() for _ in range(tasks)))
        return (process_time() - began) / tasks * 1_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flushes", description=__doc__)
    parser.add_argument("--tasks", default="1000,8000", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5)
    add_options(parser)
    options = parser.parse_args(arguments)
    measurement = Measurement.begin(parser, arguments, options, seconds=30)
    rows = []
    with MockCluster(brokers=3) as cluster:
        cluster.create_topic(_TOPIC, 6)
        for tasks in map(int, options.tasks.split(",")):
            measured = [
                run(measure(cluster.bootstrap_servers, tasks)) for _ in range(options.rounds)
            ]
            found = spread(measured)
            rows.append((f"{tasks:,}", say_median(found, ".1f"), say_range(found, ".1f")))
    section = Section(
        title=f"flushes: tasks that each send() and flush(); {options.rounds} rounds",
        headings=("tasks", "CPU-µs/task", "range"),
        rows=tuple(rows),
    )
    measurement.publish([section])
    return 0


if __name__ == "__main__":
    sys.exit(main())
