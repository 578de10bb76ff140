"""The numbers for people: a section for each load."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.metrics import METRICS
from benchmarks.reading.plan import PARTITIONS, Client, Load
from benchmarks.report import Section, say_median, say_range
from benchmarks.summary import Ratio, Summary, ratios

_SAID = ("records_per_second", "megabytes_per_second", "cpu_us_per_record", "peak_megabytes")


def describe(
    load: Load, clients: Sequence[Client], summaries: Sequence[Summary], records: int
) -> Section:
    """``summaries`` are those of this load."""
    by_name = {summary.client: summary for summary in summaries}
    done = [client for client in clients if client.name in by_name]
    ordered = [by_name[client.name] for client in done]
    found = ratios(ordered, [client.name for client in done if client.ours])
    return Section(
        title=f"{load.name}: {records:,} records, {load.meaning}; {PARTITIONS} partitions",
        headings=("client", *_headings(), "runs", "others' cores"),
        rows=tuple(_row(summary) for summary in ordered),
        ratios=tuple(map(_say_ratio, found)),
        voids=tuple(f"VOID {each.client}, {void}" for each in ordered for void in each.voids),
        settings=tuple(_say_settings(client) for client in done),
    )


def _headings() -> list[str]:
    headings = []
    for name in _SAID:
        headings.append(METRICS[name].heading)
        if METRICS[name].ranged:
            headings.append("range")
    return headings


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


def _say_ratio(ratio: Ratio) -> str:
    said = (f"{number:.2f} x {METRICS[name].ratio}" for name, number in ratio.numbers.items())
    return f"{ratio.ours} / {ratio.peer}: {', '.join(said)}"


def _say_settings(client: Client) -> str:
    options = [f"{name}={value}" for name, value in client.settings.items()] or ["defaults"]
    return f"{client.name}: {', '.join([*options, 'uvloop'] if client.uvloop else options)}"
