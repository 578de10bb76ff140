"""The cost of idle partitions: ``python -m benchmarks.reading.idle --partitions 1000``.

A reader of one topic waits at its end, and nobody writes. Printed is the CPU time of the reader's
process and of the only broker, in milliseconds per second. The line without a reader is the cost of
the broker by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from aioproducer import loops
from aioproducer.reader import Reader
from aioproducer.testing.kafka_cluster import KafkaCluster
from benchmarks.machine import look_at_machine

_TOPIC: Final = "idle"
_SETTLE: Final = 3.0
_WARM_UP: Final = 20.0
"""Seconds after which the broker's compilers have calmed down."""
_JVM_OPTIONS: Final = ("-Xmx1g", "-XX:+UseSerialGC")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_of(process: int) -> float:
    """User and system seconds of a process so far."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def measured(broker: int, seconds: float) -> tuple[float, float]:
    """The CPU of this process and of the broker, in milliseconds per second."""
    await asyncio.sleep(_SETTLE)
    gc.collect()
    began, own, theirs = time.monotonic(), time.process_time(), cpu_of(broker)
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    own, theirs = time.process_time() - own, cpu_of(broker) - theirs
    return own / took * 1000, theirs / took * 1000


async def reading(bootstrap_servers: str, broker: int, seconds: float) -> tuple[float, float]:
    """The same beside a reader of all partitions."""
    options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers}
    async with Reader(_TOPIC, start="end", **options) as reader:
        waiting = asyncio.ensure_future(anext(aiter(reader)))
        found = await measured(broker, seconds)
        if waiting.done():
            raise RuntimeError("the topic was not idle")
        waiting.cancel()
        await asyncio.wait([waiting])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading.idle", description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000, help="default %(default)s")
    parser.add_argument("--seconds", type=float, default=20.0, help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    options = parser.parse_args(arguments)
    print(look_at_machine(["aioproducer", "uvloop"]).describe())
    without, beside = [], []
    with KafkaCluster(brokers=1, jvm_options=_JVM_OPTIONS) as kafka:
        asyncio.run(kafka.create_topic(_TOPIC, options.partitions))
        broker = kafka.brokers[0].pid
        assert broker is not None
        loops.run(reading(kafka.bootstrap_servers, broker, _WARM_UP))
        for _ in range(options.rounds):
            without.append(loops.run(measured(broker, options.seconds)))
            beside.append(loops.run(reading(kafka.bootstrap_servers, broker, options.seconds)))
    print(f"{options.partitions} partitions; CPU in ms per second, medians of {options.rounds}")
    for name, found in (("no reader", without), ("a reader", beside)):
        own, theirs = (median(each) for each in zip(*found, strict=True))
        print(f"{name:12}client {own:8.2f}   broker {theirs:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
