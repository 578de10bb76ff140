"""What a run costs: wall time, CPU time and memory of this process."""

from __future__ import annotations

import cProfile
import gc
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.clients.driver import Driver, Fates
from benchmarks.summary import percentile
from benchmarks.workloads import Workload


@dataclass(frozen=True, slots=True)
class Costs:
    """One run of a workload, as the client's process saw it."""

    records: int
    confirmed: int
    failed: int
    first_error: str | None
    seconds: float
    cpu_user: float
    cpu_system: float
    """Seconds, all threads, of the measured part only."""
    peak_bytes: int
    """The most memory that the process ever had, interpreter and values included."""
    p50_ms: float | None
    p99_ms: float | None


async def measure(
    driver: Driver, workload: Workload, values: Sequence[bytes], profile: Path | None = None
) -> Costs:
    """Warm up, run, and say what the run alone cost."""
    run = getattr(driver, workload.name)
    await run(values[: workload.warm_up(len(values))], workload.tasks)
    gc.collect()
    profiler = cProfile.Profile() if profile else None
    usage = resource.getrusage(resource.RUSAGE_SELF)
    began = perf_counter()
    if profiler:
        profiler.enable()
    fates: Fates = await run(values, workload.tasks)
    if profiler:
        profiler.disable()
    seconds = perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = _peak_bytes()
    if profiler:
        profiler.dump_stats(str(profile))
    latencies = sorted(fates.latencies_ns)
    return Costs(
        records=len(values),
        confirmed=fates.confirmed,
        failed=fates.failed,
        first_error=None if fates.first_error is None else repr(fates.first_error),
        seconds=seconds,
        cpu_user=used.ru_utime - usage.ru_utime,
        cpu_system=used.ru_stime - usage.ru_stime,
        peak_bytes=peak,
        p50_ms=percentile(latencies, 0.50) / 1e6 if latencies else None,
        p99_ms=percentile(latencies, 0.99) / 1e6 if latencies else None,
    )


def _peak_bytes() -> int:
    # Linux counts the parent's memory in ru_maxrss: it is kept over the exec of a vfork.
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
