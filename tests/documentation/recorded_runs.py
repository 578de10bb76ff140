"""The page of recorded benchmark runs, drawn from ``benchmarks/history``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from benchmarks.history import Figure, Recorded, history
from benchmarks.metrics import METRICS

__all__ = ["markdown"]

_OURS: Final = "aioproducer"
_SHOWN: Final = ("records_per_second", "cpu_us_per_record", "p50_ms", "p99_ms")
_MISSING: Final = "-"


def markdown() -> str:
    """A table of the runs, newest first, and then each run."""
    runs = history()
    return "\n".join((*_overview(runs), *(line for run in runs for line in _run(run))))


def _overview(runs: Sequence[Recorded]) -> Iterator[str]:
    workloads = list(dict.fromkeys(each.workload for run in runs for each in run.figures))
    yield f"| Run | Commit | {' | '.join(f'`{each}`' for each in workloads)} | Others' cores |"
    yield "|---" * (3 + len(workloads)) + "|"
    for run in runs:
        rates = (_rate(run, workload) for workload in workloads)
        others = median(each.others_cores for each in run.figures)
        yield f"| {_date(run)} | `{run.commit}` | {' | '.join(rates)} | {others:.1f} |"


def _run(run: Recorded) -> Iterator[str]:
    yield f"\n### {_date(run)}, commit {run.commit}\n"
    versions = ", ".join(f"{name} {number}" for name, number in run.machine["versions"].items())
    load = run.machine["load"][0]
    yield (
        f"{_machine(run)}, {run.machine['system']}, load {load:.1f} before the first run. "
        f"{run.machine['python']}, {versions}. Brokers: {run.brokers}.\n"
    )
    headings = [METRICS[name].heading for name in _SHOWN]
    yield f"| Workload | Client | Settings | {' | '.join(headings)} | Rounds | Others' cores |"
    yield "|---" * (5 + len(_SHOWN)) + "|"
    for each in run.figures:
        numbers = (_said(each, name) for name in _SHOWN)
        yield (
            f"| `{each.workload}` | {each.client} | {each.settings} | {' | '.join(numbers)} | "
            f"{each.rounds} | {each.others_cores:.1f} |"
        )


def _rate(run: Recorded, workload: str) -> str:
    for each in run.figures:
        if (each.workload, each.client) == (workload, _OURS):
            return _said(each, "records_per_second")
    return _MISSING


def _said(figure: Figure, name: str) -> str:
    number = figure.numbers.get(name)
    return _MISSING if number is None else format(number, METRICS[name].form)


def _date(run: Recorded) -> str:
    return run.measured_at[:16].replace("T", " ")


def _machine(run: Recorded) -> str:
    return f"{run.machine['cores']} cores, {run.machine['processor']}"
