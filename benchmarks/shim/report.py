"""The numbers for people: a table for the terminal, and its rows in Markdown."""

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


def markdown(brokers: str, summaries: Sequence[Summary]) -> Iterator[str]:
    """Rows of a table: ours, with aiokafka's number in brackets, and the two ratios."""
    patterns = dict.fromkeys(each.workload for each in summaries)
    for pattern in patterns:
        by_name = {each.client: each for each in summaries if each.workload == pattern}
        ours = by_name.pop(OURS)
        [peer] = by_name.values()
        found = {each.peer: each.numbers for each in ratios([ours, peer], [OURS])}.get(peer.client)
        if found is None:
            continue
        cells = [_pair(ours, peer, name) for name in _SAID]
        cells.insert(1, f"{found['records_per_second']:.2f}")
        cells.insert(3, f"{found['cpu_us_per_record']:.2f}")
        yield f"| {brokers} | `{pattern}` | {' | '.join(cells)} |"


def _pair(ours: Summary, peer: Summary, name: str) -> str:
    medians = [each.numbers[name].median for each in (ours, peer) if name in each.numbers]
    said = [format(median, METRICS[name].form) for median in medians]
    return "" if len(said) < 2 else f"{said[0]} ({said[1]})"


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
