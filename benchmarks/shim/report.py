"""The numbers for people: a table for each pattern."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.metrics import METRICS
from benchmarks.report import Section, say_median, say_range
from benchmarks.shim.plan import OURS, PARTITIONS, Pattern
from benchmarks.summary import Summary, ratios

_SAID: Final = ("records_per_second", "cpu_us_per_record", "p50_ms", "p99_ms")


def describe(pattern: Pattern, summaries: Sequence[Summary], records: int) -> Section:
    """``summaries`` are those of this pattern."""
    return Section(
        title=(
            f"{pattern.name}: {pattern.meaning}; {records:,} records of 100 bytes with keys,"
            f" {PARTITIONS} partitions, acks=all"
        ),
        headings=("import", *_headings(), "runs", "others' cores"),
        rows=tuple(map(_row, summaries)),
        ratios=tuple(
            f"{each.ours} / {each.peer}: "
            + ", ".join(f"{n:.2f} x {METRICS[name].ratio}" for name, n in each.numbers.items())
            for each in ratios(summaries, [OURS])
        ),
        voids=tuple(f"VOID {each.client}, {void}" for each in summaries for void in each.voids),
        settings=(),
    )


def _headings() -> Iterator[str]:
    for name in _SAID:
        yield METRICS[name].heading
        if METRICS[name].ranged:
            yield "range"


def _row(summary: Summary) -> tuple[str, ...]:
    cells = []
    for name in _SAID:
        spread = summary.numbers.get(name)
        cells.append(say_median(spread, METRICS[name].form))
        if METRICS[name].ranged:
            cells.append(say_range(spread, METRICS[name].form))
    return (
        summary.client,
        *cells,
        f"{summary.counted}/{summary.counted + len(summary.voids)}",
        say_range(summary.others_cores, ".1f"),
    )
