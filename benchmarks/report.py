"""Numbers for people: a table per workload, in colour on a terminal, plain text elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from benchmarks.clients import Choice, Client
from benchmarks.metrics import METRICS
from benchmarks.summary import Ratio, Spread, Summary, ratios
from benchmarks.workloads import Workload

_Run = TypeVar("_Run")


@dataclass(frozen=True, slots=True)
class Section:
    """What is said about one workload."""

    title: str
    rows: tuple[tuple[str, ...], ...]
    ratios: tuple[str, ...]
    voids: tuple[str, ...]
    settings: tuple[str, ...]
    headings: tuple[str, ...]


def describe(
    workload: Workload, clients: Sequence[Client], summaries: Sequence[Summary], records: int
) -> Section:
    """``summaries`` are those of this workload, ``clients`` all that were asked for."""
    ours = [client.name for client in clients if client.ours]
    done = [
        (client, summary)
        for client in clients
        for choice in Choice
        for summary in summaries
        if (summary.client, summary.settings) == (client.name, choice)
    ]
    measured = [name for name in METRICS if any(name in summary.numbers for summary in summaries)]
    return Section(
        title=_title(workload, records),
        headings=("client", "settings", *_headings(measured), "runs", "others' cores"),
        rows=tuple(_row(summary, measured) for _, summary in done),
        ratios=tuple(map(_say_ratio, ratios(summaries, ours))),
        voids=tuple(
            f"VOID {summary.client}, {summary.settings}, {void}"
            for summary in summaries
            for void in summary.voids
        ),
        settings=tuple(
            _say_settings(client, Choice(summary.settings), workload) for client, summary in done
        ),
    )


def _title(workload: Workload, records: int) -> str:
    topics = f"{workload.topics:,} topics of " if workload.topics > 1 else ""
    partitions = "1 partition" if workload.partitions == 1 else f"{workload.partitions} partitions"
    return (
        f"{workload.name}: {workload.meaning}; {records:,} records of "
        f"{workload.value_bytes:,} bytes to {topics}{partitions}, acks=all"
    )


def _headings(measured: Iterable[str]) -> Iterator[str]:
    for metric in map(METRICS.__getitem__, measured):
        yield metric.heading
        if metric.ranged:
            yield "range"


def collect(
    run_all: Callable[[Callable[[str], None]], Iterable[_Run]], console: Console
) -> list[_Run]:
    """All runs; a terminal shows which one is under way. ``run_all`` gets what to call with it."""
    if not console.is_terminal:
        return list(run_all(lambda what: None))
    with console.status("starting") as status:
        return list(run_all(status.update))


def print_sections(sections: Sequence[Section], console: Console) -> None:
    """All sections, as the console shows them best."""
    if console.is_terminal:
        print_rich(sections, console)
    else:
        print_plain(sections)


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


def _row(summary: Summary, measured: Iterable[str]) -> tuple[str, ...]:
    return (
        summary.client,
        summary.settings,
        *_cells(summary, measured),
        f"{summary.counted}/{summary.counted + len(summary.voids)}",
        say_range(summary.others_cores, ".1f"),
    )


def _cells(summary: Summary, measured: Iterable[str]) -> Iterator[str]:
    for name in measured:
        metric, numbers = METRICS[name], summary.numbers.get(name)
        yield say_median(numbers, metric.form)
        if metric.ranged:
            yield say_range(numbers, metric.form)


def say_median(spread: Spread | None, form: str) -> str:
    """In the format ``form``."""
    return "-" if spread is None else format(spread.median, form)


def say_range(spread: Spread | None, form: str) -> str:
    """In the format ``form``."""
    return "-" if spread is None else f"{spread.low:{form}}..{spread.high:{form}}"


def _say_ratio(ratio: Ratio) -> str:
    said = (f"{number:.2f} x {METRICS[name].ratio}" for name, number in ratio.numbers.items())
    return f"{ratio.ours} / {ratio.peer}, {ratio.settings}: {', '.join(said)}"


def _say_settings(client: Client, choice: Choice, workload: Workload) -> str:
    settings = client.settings(choice)[workload.name]
    options = [f"{name}={value}" for name, value in settings.items()] or ["no option"]
    said = ", ".join([*options, "uvloop"] if client.uvloop else options)
    return f"{client.name}, {choice}: {said}"
