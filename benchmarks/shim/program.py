"""The program: ``python -m benchmarks.shim.program IMPORT PATTERN --bootstrap …``.

The import alone differs between its runs. The last line of standard output is the run's `Costs`.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import importlib
import json
from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle
from time import perf_counter_ns
from typing import Any, Final

import uvloop

from benchmarks.measure import Costs, Meter, latencies, per_record
from benchmarks.shim.plan import IMPORTS, OPTIONS, PARTITIONS, PATTERNS, Pattern
from benchmarks.workloads import Load

_TASKS: Final = 100
_WINDOW: Final = 1_000
_BATCH: Final = 500


async def one(producer: Any, load: Load, latencies_ns: list[int]) -> int:
    """One awaited record after another; returns the number of confirmed ones."""
    [topic] = load.topics
    for value, key in zip(load.values, load.keys, strict=True):
        began = perf_counter_ns()
        await producer.send_and_wait(topic, value, key)
        latencies_ns.append(perf_counter_ns() - began)
    return len(latencies_ns)


async def tasks(producer: Any, load: Load, latencies_ns: list[int]) -> int:
    """The same in many tasks at once."""
    shares = [
        dataclasses.replace(
            load, values=load.values[number::_TASKS], keys=load.keys[number::_TASKS]
        )
        for number in range(_TASKS)
    ]
    found: list[list[int]] = [[] for _ in shares]
    await asyncio.gather(*map(one, [producer] * _TASKS, shares, found))
    for each in found:
        latencies_ns += each
    return len(latencies_ns)


async def gather(producer: Any, load: Load, latencies_ns: list[int]) -> int:
    """Futures of many records, awaited together."""
    [topic] = load.topics
    confirmed = 0
    for start in range(0, len(load.values), _WINDOW):
        futures = [
            await producer.send(topic, value, key)
            for value, key in zip(
                load.values[start : start + _WINDOW],
                load.keys[start : start + _WINDOW],
                strict=True,
            )
        ]
        confirmed += len(await asyncio.gather(*futures))
    return confirmed


async def batches(producer: Any, load: Load, latencies_ns: list[int]) -> int:
    """Batches of the caller's own, one under way for each partition."""
    [topic] = load.topics
    waiting: dict[int, tuple[int, int, asyncio.Future[Any]]] = {}
    confirmed = 0

    async def wait_for(partition: int) -> int:
        began, records, future = waiting.pop(partition)
        await future
        latencies_ns.append(perf_counter_ns() - began)
        return records

    partitions = cycle(range(PARTITIONS))
    for start in range(0, len(load.values), _BATCH):
        partition = next(partitions)
        batch = producer.create_batch()
        for value, key in zip(
            load.values[start : start + _BATCH], load.keys[start : start + _BATCH], strict=True
        ):
            if batch.append(key=key, value=value, timestamp=None) is None:
                raise ValueError("the batch is full: max_batch_size is too small for it")
        batch.close()
        if partition in waiting:
            confirmed += await wait_for(partition)
        future = await producer.send_batch(batch, topic, partition=partition)
        waiting[partition] = perf_counter_ns(), batch.record_count(), future
    for partition in sorted(waiting):
        confirmed += await wait_for(partition)
    return confirmed


Send = Callable[[Any, Load, list[int]], Awaitable[int]]
SENDS: Final[dict[str, Send]] = {
    "one": one,
    "tasks": tasks,
    "gather": gather,
    "batches": batches,
}


async def run(module: str, pattern: Pattern, records: int, bootstrap_servers: str) -> Costs:
    """Warm up, and measure what follows."""
    client = importlib.import_module(module)
    workload = pattern.workload()
    send = SENDS[pattern.name]
    warm_up, load = (workload.load(each) for each in (max(records // 10, _TASKS), records))
    options = {**OPTIONS, "max_batch_size": 1 << 20} if pattern.name == "batches" else OPTIONS
    async with client.AIOKafkaProducer(bootstrap_servers=bootstrap_servers, **options) as producer:
        await send(producer, warm_up, [])
        gc.collect()
        found: list[int] = []
        error: Exception | None = None
        confirmed = 0
        meter = Meter()
        with meter:
            try:
                confirmed = await send(producer, load, found)
            except Exception as raised:
                error = raised
    return Costs(
        records=records,
        warm_up=len(warm_up.values),
        confirmed=confirmed,
        failed=records - confirmed,
        first_error=None if error is None else repr(error),
        numbers={
            **per_record(records, workload.value_bytes, meter.seconds, meter.cpu_seconds),
            **latencies(found),
        },
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=IMPORTS, metavar="IMPORT")
    parser.add_argument("pattern", choices=PATTERNS)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--records", type=int, help="default: the pattern's")
    options = parser.parse_args(arguments)
    pattern = PATTERNS[options.pattern]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        costs = runner.run(
            run(
                IMPORTS[options.name],
                pattern,
                options.records or pattern.records,
                options.bootstrap,
            )
        )
    print(json.dumps(dataclasses.asdict(costs)))


if __name__ == "__main__":
    main()
