"""What a run costs: wall time, CPU time and memory of this process."""

from __future__ import annotations

import asyncio
import cProfile
import gc
import resource
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.clients.driver import Driver, Fates, spawn
from benchmarks.heartbeat import CallWatch, Heartbeat
from benchmarks.memory import MemoryCurve, peak_bytes, resident_bytes
from benchmarks.summary import percentile
from benchmarks.workloads import Load, Shape, Watch, Workload

_MEGABYTE = 1e6

Numbers = dict[str, float]
"""By the names of `METRICS`."""


@dataclass(frozen=True, slots=True)
class Costs:
    """One run of a workload, as the client's process saw it."""

    records: int
    warm_up: int
    """How many records went before; they count for nothing, but are in the log."""
    confirmed: int
    failed: int
    first_error: str | None
    numbers: Numbers
    """Of the measured part only."""


async def measure(
    driver: Driver, workload: Workload, records: int, profile: Path | None = None
) -> Costs:
    """Warm up, run, and say what the run alone cost."""
    run: Callable[[Load], Coroutine[Any, Any, Fates]] = getattr(driver, workload.shape)
    warm_up, load = (workload.load(each) for each in (workload.warm_up(records), records))
    before = resident_bytes()
    if warm_up.values:
        await run(warm_up)
    gc.collect()
    meter = Meter(profile)
    if workload.watch is Watch.STALLS:
        calls = CallWatch()
        driver.send = calls.watch(driver.send)
        async with Heartbeat() as heartbeat:
            with meter:
                fates = await run(load)
        extra = {**heartbeat.lateness_ms(), "longest_send_ms": calls.longest_ns / 1e6}
    elif workload.watch is Watch.MEMORY:
        with MemoryCurve() as curve, meter:
            fates = await run(load)
        extra = {"before_megabytes": before / _MEGABYTE} | {
            f"quarter_{number}_megabytes": size / _MEGABYTE
            for number, size in enumerate(curve.quarters(), 1)
        }
    else:
        with meter:
            fates = await run(load)
        extra = {}
    peak = peak_bytes()
    if workload.shape is Shape.SPAWN:
        extra |= await price_of_a_task(load)
    return Costs(
        records=records,
        warm_up=len(warm_up.values),
        confirmed=fates.confirmed,
        failed=fates.failed,
        first_error=None if fates.first_error is None else repr(fates.first_error),
        numbers={
            **per_record(records, workload.value_bytes, meter.seconds, meter.cpu_seconds),
            "peak_megabytes": peak / _MEGABYTE,
            **latencies(fates.latencies_ns),
            **extra,
        },
    )


class Meter:
    """A context; afterwards it knows what this process used in it, all threads."""

    def __init__(self, profile: Path | None = None) -> None:
        self._profile = profile
        self._profiler = cProfile.Profile() if profile else None
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    def __enter__(self) -> None:
        self._cpu_began = _cpu_seconds()
        self._began = perf_counter()
        if self._profiler:
            self._profiler.enable()

    def __exit__(self, *_: object) -> None:
        if self._profiler:
            self._profiler.disable()
        self.seconds = perf_counter() - self._began
        self.cpu_seconds = _cpu_seconds() - self._cpu_began
        if self._profiler:
            self._profiler.dump_stats(str(self._profile))


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def per_record(records: int, value_bytes: int, seconds: float, cpu_seconds: float) -> Numbers:
    """What every run has."""
    rate = records / seconds
    return {
        "records_per_second": rate,
        "megabytes_per_second": rate * value_bytes / _MEGABYTE,
        "cpu_us_per_record": cpu_seconds / records * 1e6,
    }


def latencies(ns: Sequence[int]) -> Numbers:
    """Percentiles, if there are any latencies."""
    ascending = sorted(ns)
    if not ascending:
        return {}
    return {
        "p50_ms": percentile(ascending, 0.50) / 1e6,
        "p99_ms": percentile(ascending, 0.99) / 1e6,
    }


async def price_of_a_task(load: Load) -> Numbers:
    """CPU time of a task that does what those of the workload do, but for sending."""
    meter = Meter()
    with meter:
        await spawn(lambda value: asyncio.sleep(0), load)
    return {"task_us": meter.cpu_seconds / len(load.values) * 1e6}
