"""Numbers for people: a table per workload, in colour on a terminal, plain text elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.clients import Client
from benchmarks.summary import Ratio, Spread, Summary, ratios
from benchmarks.workloads import Workload

HEADINGS = (
    "client",
    "records/s",
    "range",
    "MB/s",
    "CPU-µs/record",
    "range",
    "peak MB",
    "p50 ms",
    "p99 ms",
    "runs",
    "others' cores",
)


@dataclass(frozen=True, slots=True)
class Section:
    """What is said about one workload."""

    title: str
    rows: tuple[tuple[str, ...], ...]
    ratios: tuple[str, ...]
    voids: tuple[str, ...]
    settings: tuple[str, ...]
    headings: tuple[str, ...] = HEADINGS


def describe(
    workload: Workload, clients: Sequence[Client], summaries: Sequence[Summary], records: int
) -> Section:
    """``summaries`` are those of this workload, ``clients`` all that were asked for."""
    by_name = {summary.client: summary for summary in summaries}
    ours = [client.name for client in clients if client.ours]
    done = [client for client in clients if client.name in by_name]
    return Section(
        title=(
            f"{workload.name}: {workload.meaning}; {records:,} records of "
            f"{workload.value_bytes} bytes to {workload.partitions} partitions, acks=all"
        ),
        rows=tuple(_row(client, by_name[client.name]) for client in done),
        ratios=tuple(map(_say_ratio, ratios(summaries, ours))),
        voids=tuple(
            f"VOID {summary.client}, {void}" for summary in summaries for void in summary.voids
        ),
        settings=tuple(f"{client.name}: {_say_settings(client, workload)}" for client in done),
    )


def print_plain(sections: Iterable[Section]) -> None:
    for section in sections:
        print(f"\n{section.title}")
        table = [section.headings, *section.rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            first, *others = (
                cell.rjust(width) if number else cell.ljust(width)
                for number, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            print("  ".join([first, *others]))
        for line in (*section.ratios, *section.voids, *section.settings):
            print(f"  {line}")


def print_rich(sections: Iterable[Section], console: Console) -> None:
    for section in sections:
        table = Table(title=section.title, title_justify="left", title_style="bold")
        for heading in section.headings:
            table.add_column(heading, justify="left" if heading == "client" else "right")
        for row in section.rows:
            table.add_row(*row, style="bold green" if row[0].startswith("aioproducer") else None)
        console.print()
        console.print(table)
        for style, lines in (
            ("cyan", section.ratios),
            ("bold red", section.voids),
            ("dim", section.settings),
        ):
            for line in lines:
                console.print(line, style=style, markup=False, highlight=False)


def _row(client: Client, summary: Summary) -> tuple[str, ...]:
    return (
        client.name,
        say_median(summary.records_per_second, ",.0f"),
        say_range(summary.records_per_second, ",.0f"),
        say_median(summary.megabytes_per_second, ".1f"),
        say_median(summary.cpu_us_per_record, ".2f"),
        say_range(summary.cpu_us_per_record, ".2f"),
        say_median(summary.peak_megabytes, ".0f"),
        say_median(summary.p50_ms, ".3f"),
        say_median(summary.p99_ms, ".3f"),
        f"{summary.counted}/{summary.counted + len(summary.voids)}",
        say_range(summary.others_cores, ".1f"),
    )


def say_median(spread: Spread | None, form: str) -> str:
    """In the format ``form``."""
    return "-" if spread is None else format(spread.median, form)


def say_range(spread: Spread | None, form: str) -> str:
    """In the format ``form``."""
    return "-" if spread is None else f"{spread.low:{form}}..{spread.high:{form}}"


def _say_ratio(ratio: Ratio) -> str:
    text = (
        f"{ratio.ours} / {ratio.peer}: {ratio.records_per_second:.2f} x records/s, "
        f"{ratio.cpu_us_per_record:.2f} x CPU"
    )
    return text if ratio.p99_ms is None else f"{text}, {ratio.p99_ms:.2f} x p99"


def _say_settings(client: Client, workload: Workload) -> str:
    settings = client.settings[workload.name]
    text = ", ".join(f"{name}={value}" for name, value in settings.items()) or "defaults"
    return f"{text}, uvloop" if client.uvloop else text
