"""Many runs into a few numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.summary import Spread, spread
from benchmarks.web.plan import NULL
from benchmarks.web.wrk import Load


@dataclass(frozen=True, slots=True)
class Run:
    """One application under one load; a run that is void has no numbers."""

    framework: str
    client: str
    connections: int
    round: int
    others_cores: float
    """How many cores others used meanwhile: over some tenths, wall times mean little."""
    void: str | None
    """Why the run does not count."""
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """All runs of one client with one number of connections. Without a run there are no numbers."""

    client: str
    connections: int
    counted: int
    voids: tuple[str, ...]
    others_cores: Spread | None
    numbers: Mapping[str, Spread]
    """With ``kafka_cpu_us``: the CPU above the null app of the same round."""


def why_void(load: Load, warm_up: Load, in_log: int, least: int) -> str | None:
    """Why a run does not count, or None. ``in_log``: by how many records the log has grown."""
    for name, each in (("", load), (" of the warm-up", warm_up)):
        if each.wrong_statuses:
            return f"{each.wrong_statuses} of {each.requests} responses{name} are not 2xx"
        if each.socket_errors:
            return f"{each.socket_errors} errors of sockets{name}"
        if not each.requests:
            return f"no response{name}"
    if in_log < least:
        return f"{least} requests were answered, but the log has only {in_log} records"
    return None


def summarise(runs: Sequence[Run]) -> list[Summary]:
    """Of one framework, by connections and client, in the order of their first runs."""
    null_cpu = {
        (run.connections, run.round): run.numbers["cpu_us_per_request"]
        for run in runs
        if run.client == NULL and run.void is None
    }
    groups: dict[tuple[int, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.connections, run.client), []).append(run)
    return [_summarise(group, null_cpu) for group in groups.values()]


def _summarise(group: Sequence[Run], null_cpu: Mapping[tuple[int, int], float]) -> Summary:
    counted = [run for run in group if run.void is None]
    names = counted[0].numbers if counted else ()
    spreads = {name: spread(run.numbers[name] for run in counted) for name in names}
    if group[0].client != NULL:
        spreads["kafka_cpu_us"] = spread(_above_null(counted, null_cpu))
    return Summary(
        client=group[0].client,
        connections=group[0].connections,
        counted=len(counted),
        voids=tuple(
            f"{run.connections} connections, round {run.round}: {run.void}"
            for run in group
            if run.void is not None
        ),
        others_cores=spread(run.others_cores for run in counted),
        numbers={name: found for name, found in spreads.items() if found is not None},
    )


def _above_null(
    runs: Iterable[Run], null_cpu: Mapping[tuple[int, int], float]
) -> Iterable[float | None]:
    for run in runs:
        null = null_cpu.get((run.connections, run.round))
        yield None if null is None else run.numbers["cpu_us_per_request"] - null


def ratio(summary: Summary, peer: Summary | None, name: str) -> float | None:
    """Of the medians; None if there is no such number, or nothing to compare with."""
    if peer is None or name not in summary.numbers or name not in peer.numbers:
        return None
    below = peer.numbers[name].median
    return summary.numbers[name].median / below if below else None
