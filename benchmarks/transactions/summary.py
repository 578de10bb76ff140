"""Many runs into a few numbers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.summary import Spread, spread


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one client; one that is void has no numbers."""

    client: str
    load: str
    protocol: int
    round: int
    void: str | None = None
    """Why the run does not count."""
    others_cores: float | None = None
    """How many cores others used meanwhile: over some tenths, wall times mean little."""
    transactions_per_second: float | None = None
    cpu_us: float | None = None
    """Of the client's process, for a transaction."""
    p50_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """All runs of one client at one load. Without a run that counts, each spread is None."""

    client: str
    counted: int
    voids: tuple[str, ...]
    others_cores: Spread | None
    transactions_per_second: Spread | None
    cpu_us: Spread | None
    p50_ms: Spread | None
    p99_ms: Spread | None


def why_void(values: Sequence[bytes], transactions: int, committed: Counter[bytes]) -> str | None:
    """Why a run does not count, or None. ``committed``: how often each value was read back."""
    wanted = Counter(dict.fromkeys(values, transactions))
    for what, wrong in (("are missing", wanted - committed), ("too many", committed - wanted)):
        if wrong:
            return f"{wrong.total()} of {wanted.total()} records {what} in the logs"
    return None


def summarise(runs: Iterable[Run]) -> dict[tuple[int, str], list[Summary]]:
    """By protocol and load, a summary for each client. Void runs count for nothing."""
    groups: dict[tuple[int, str], dict[str, list[Run]]] = {}
    for run in runs:
        clients = groups.setdefault((run.protocol, run.load), {})
        clients.setdefault(run.client, []).append(run)
    return {where: list(map(_summarise, clients.values())) for where, clients in groups.items()}


def _summarise(runs: Sequence[Run]) -> Summary:
    counted = [run for run in runs if run.void is None]

    def of(number: Callable[[Run], float | None]) -> Spread | None:
        return spread(map(number, counted))

    return Summary(
        client=runs[0].client,
        counted=len(counted),
        voids=tuple(f"round {run.round}: {run.void}" for run in runs if run.void is not None),
        others_cores=of(lambda run: run.others_cores),
        transactions_per_second=of(lambda run: run.transactions_per_second),
        cpu_us=of(lambda run: run.cpu_us),
        p50_ms=of(lambda run: run.p50_ms),
        p99_ms=of(lambda run: run.p99_ms),
    )
