"""Many runs into a few numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.metrics import METRICS


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one client; one that is void has no numbers."""

    client: str
    workload: str
    round: int
    others_cores: float
    """How many cores others used meanwhile: over some tenths, wall times mean little."""
    void: str | None
    """Why the run does not count."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """By the names of `METRICS`; what was not measured is missing."""
    settings: str = "tuned"
    """Which ones the client had: a `Choice`, where there is one."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of several rounds, and between what they lay."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Summary:
    """All runs of one client at one workload, with the same choice of settings.

    Without a run that counts there are no numbers.
    """

    client: str
    settings: str
    workload: str
    counted: int
    voids: tuple[str, ...]
    others_cores: Spread | None
    numbers: Mapping[str, Spread]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ours divided by the peer's, medians: more records/s and less CPU and latency are better."""

    settings: str
    ours: str
    peer: str
    numbers: Mapping[str, float]


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
    """By workload, client and settings, in the order of their first runs.

    Void runs count for nothing.
    """
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.workload, run.client, run.settings), []).append(run)
    return [_summarise(group) for group in groups.values()]


def _summarise(group: Sequence[Run]) -> Summary:
    counted = [run for run in group if run.void is None]
    spreads = {name: spread(run.numbers.get(name) for run in counted) for name in METRICS}
    return Summary(
        client=group[0].client,
        settings=group[0].settings,
        workload=group[0].workload,
        counted=len(counted),
        voids=tuple(f"round {run.round}: {run.void}" for run in group if run.void is not None),
        others_cores=spread(run.others_cores for run in counted),
        numbers={name: found for name, found in spreads.items() if found is not None},
    )


def ratios(summaries: Sequence[Summary], ours: Iterable[str]) -> list[Ratio]:
    """Each of ours to each peer with the same choice of settings, of one workload."""
    own = set(ours)
    found = []
    for mine in (summary for summary in summaries if summary.client in own):
        for peer in (summary for summary in summaries if summary.client not in own):
            if peer.settings != mine.settings:
                continue
            numbers = {
                name: mine.numbers[name].median / peer.numbers[name].median
                for name, metric in METRICS.items()
                if metric.ratio and name in mine.numbers and name in peer.numbers
                if peer.numbers[name].median
            }
            if numbers:
                found.append(Ratio(mine.settings, mine.client, peer.client, numbers))
    return found
