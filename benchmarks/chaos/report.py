"""The verdicts for people: one table, and below it what happened to whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from benchmarks.chaos.run import Outcome

_COLUMNS: Final = 60
_BARS: Final = " ▁▂▃▄▅▆▇█"

HEADINGS: Final = (
    "client",
    "records",
    "acknowledged",
    "failed",
    "missing",
    "twice",
    "out of order",
    "elsewhere",
    "lied",
    "altered",
    "no fate",
    "no offset",
    "seconds",
)


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    rows = [HEADINGS, *map(_row, outcomes)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *cells[1:]])


def details(outcome: Outcome) -> Iterator[str]:
    brokers = ", ".join(f"{count} x {kind}" for kind, count in outcome.disturbed.most_common())
    faults = ", ".join(f"{count} x {kind.__name__}" for kind, count in outcome.faults.most_common())
    yield f"{outcome.client.name}: brokers {brokers or 'calm'}; connections {faults or 'calm'}"
    if outcome.footprints:
        sizes, files = zip(*outcome.footprints, strict=True)
        yield f"  memory over time   {_curve(sizes)}  {min(sizes) >> 20} to {max(sizes) >> 20} MB"
        yield f"  open files         {_curve(files)}  {min(files)} to {max(files)}"
    for kind, count in outcome.errors.most_common():
        yield f"  {count} x {kind}, such as: {outcome.examples[kind]}"


def _curve(values: Sequence[int]) -> str:
    """The largest values of equal parts of the time, from zero up."""
    width = min(_COLUMNS, len(values))
    ends = [len(values) * column // width for column in range(width + 1)]
    parts = [max(values[first:end]) for first, end in pairwise(ends)]
    return "".join(_BARS[(len(_BARS) - 1) * part // max(values)] for part in parts)


def _row(outcome: Outcome) -> tuple[str, ...]:
    verdict = outcome.verdict
    lied = f"{verdict.lied:,}" if outcome.client.says_what_was_written else "-"
    return (
        outcome.client.name,
        f"{verdict.records:,}",
        f"{verdict.acknowledged:,}",
        f"{verdict.failed:,}",
        f"{verdict.missing:,}",
        f"{verdict.twice:,}",
        f"{verdict.out_of_order:,}",
        f"{verdict.elsewhere:,}",
        lied,
        f"{verdict.altered:,}",
        f"{verdict.fateless:,}",
        f"{verdict.without_place:,}",
        f"{outcome.seconds:.1f}",
    )
