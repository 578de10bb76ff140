"""Many runs into a few numbers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one client; what could not be measured is None."""

    client: str
    workload: str
    round: int
    others_cores: float
    """How many cores others used meanwhile: over some tenths, wall times mean little."""
    void: str | None
    """Why the run does not count."""
    records_per_second: float = 0.0
    megabytes_per_second: float = 0.0
    """Of values, 1 MB = 1,000,000 bytes."""
    cpu_us_per_record: float = 0.0
    peak_megabytes: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of several rounds, and between what they lay."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Summary:
    """All runs of one client at one workload. Without a run that counts, ``spread`` is None."""

    client: str
    workload: str
    counted: int
    voids: tuple[str, ...]
    others_cores: Spread | None
    records_per_second: Spread | None
    megabytes_per_second: Spread | None
    cpu_us_per_record: Spread | None
    peak_megabytes: Spread | None
    p50_ms: Spread | None
    p99_ms: Spread | None


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ours divided by the peer's, medians: more records/s and less CPU and latency are better."""

    ours: str
    peer: str
    records_per_second: float
    cpu_us_per_record: float
    p99_ms: float | None


def percentile(ascending: Sequence[float], fraction: float) -> float:
    """The nearest-rank percentile of sorted, non-empty numbers."""
    rank = -(-len(ascending) * fraction // 1)
    return ascending[max(0, int(rank) - 1)]


def spread(numbers: Iterable[float | None]) -> Spread | None:
    """Of the numbers that are there; None if there are none."""
    there = [number for number in numbers if number is not None]
    return Spread(median(there), min(there), max(there)) if there else None


def why_void(
    records: int, confirmed: int, failed: int, in_log: int, first_error: str | None
) -> str | None:
    """Why a run does not count, or None. ``in_log``: how many records the log has grown by."""
    if failed:
        return f"{failed} of {records} records failed, the first with {first_error}"
    if confirmed != records:
        return f"{records - confirmed} of {records} records are unconfirmed"
    if in_log < records:
        return f"the client confirmed {records} records, but the log has only {in_log} of them"
    return None


def summarise(runs: Iterable[Run]) -> list[Summary]:
    """By workload and client, in the order of their first runs. Void runs count for nothing."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.workload, run.client), []).append(run)
    return [_summarise(group) for group in groups.values()]


def _summarise(group: Sequence[Run]) -> Summary:
    counted = [run for run in group if run.void is None]

    def of(number: Callable[[Run], float | None]) -> Spread | None:
        return spread(map(number, counted))

    return Summary(
        client=group[0].client,
        workload=group[0].workload,
        counted=len(counted),
        voids=tuple(f"round {run.round}: {run.void}" for run in group if run.void is not None),
        others_cores=of(lambda run: run.others_cores),
        records_per_second=of(lambda run: run.records_per_second),
        megabytes_per_second=of(lambda run: run.megabytes_per_second),
        cpu_us_per_record=of(lambda run: run.cpu_us_per_record),
        peak_megabytes=of(lambda run: run.peak_megabytes),
        p50_ms=of(lambda run: run.p50_ms),
        p99_ms=of(lambda run: run.p99_ms),
    )


def ratios(summaries: Sequence[Summary], ours: Iterable[str]) -> list[Ratio]:
    """Each of ours to each peer, of one workload."""
    own = set(ours)
    found = []
    for mine in (summary for summary in summaries if summary.client in own):
        for peer in (summary for summary in summaries if summary.client not in own):
            rate = _divide(mine.records_per_second, peer.records_per_second)
            cpu = _divide(mine.cpu_us_per_record, peer.cpu_us_per_record)
            if rate is not None and cpu is not None:
                p99 = _divide(mine.p99_ms, peer.p99_ms)
                found.append(Ratio(mine.client, peer.client, rate, cpu, p99))
    return found


def _divide(one: Spread | None, other: Spread | None) -> float | None:
    return one.median / other.median if one and other and other.median else None
