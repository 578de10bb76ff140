"""Numbers for people: a table per workload, in colour on a terminal, plain text elsewhere.

Every program of the benchmarks is a `Measurement`, which also writes its tables to a file.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from rich.console import Console
from rich.table import Table

import aioproducer
from aioproducer.testing.kafka_distribution import kafka_version
from benchmarks.clients import Choice, Client
from benchmarks.machine import Machine, look_at_commit, look_at_machine
from benchmarks.metrics import METRICS
from benchmarks.summary import Ratio, Spread, Summary, ratios
from benchmarks.workloads import Workload

RESULTS: Final = Path(__file__).parent / "results"
"""The folder of the JSON files."""

_Run = TypeVar("_Run")


@dataclass(frozen=True, slots=True)
class Section:
    """What is said about one workload. The title begins with its name and a colon."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    ratios: tuple[str, ...] = ()
    voids: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    labels: int = 1
    """The number of leading cells that name a row."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One call of a program: its command, and the commit and machine that it measured."""

    command: str
    commit: str | None
    machine: Machine
    compiled: bool
    brokers: str
    """``"mock"``, or ``"kafka"``: real ones."""
    results: Path

    @classmethod
    def begin(
        cls,
        parser: argparse.ArgumentParser,
        arguments: Sequence[str] | None,
        options: argparse.Namespace,
        distributions: Iterable[str] = (),
        *,
        brokers: str = "mock",
        seconds: float | None = None,
    ) -> Self:
        """Print the machine, and how long it takes: ``seconds``, about.

        Uncompiled source is refused, unless ``options`` ask for it: see :func:`add_options`.
        """
        compiled = aioproducer.__accelerated__
        if not (compiled or options.uncompiled):
            parser.exit(
                2,
                f"{Path(aioproducer.__file__).parent} is uncompiled source, several times slower "
                f"than compiled modules. Run `make env`, and then: .venv/bin/{parser.prog} (or "
                "--uncompiled, which the results name)\n",
            )
        machine = look_at_machine(["aioproducer", *distributions])
        if not compiled:
            machine.versions["aioproducer"] += " UNCOMPILED"
        if brokers == "kafka":
            machine.versions["Apache Kafka"] = kafka_version()
        said = sys.argv[1:] if arguments is None else arguments
        print(machine.describe())
        if seconds is not None:
            print(f"this takes {say_seconds(seconds)}")
        if machine.warning:
            print(f"WARNING: {machine.warning}")
        sys.stdout.flush()
        return cls(
            shlex.join([*parser.prog.split(), *said]),
            look_at_commit(),
            machine,
            compiled,
            brokers,
            options.results,
        )

    def publish(self, sections: Sequence[Section], console: Console | None = None) -> None:
        """Print the sections, and write them."""
        print_sections(sections, console or Console())
        print(f"\nwritten to {self.write(sections)}")

    def write(self, sections: Sequence[Section], **more: Any) -> Path:
        """The file: the measurement, its sections, and ``more`` of the program."""
        self.results.mkdir(parents=True, exist_ok=True)
        now = datetime.now(UTC)
        path = self.results / f"{now:%Y%m%dT%H%M%SZ}-{program_of(self.command)}.json"
        content = {
            "measured_at": now.isoformat(timespec="seconds"),
            "command": self.command,
            "commit": self.commit,
            "compiled": self.compiled,
            "machine": dataclasses.asdict(self.machine),
            "brokers": self.brokers,
            "sections": [dataclasses.asdict(section) for section in sections],
            **more,
        }
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
        return path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every program."""
    parser.add_argument(
        "--uncompiled",
        action="store_true",
        help="measure uncompiled source, and say so in the results",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="for the JSON")


def program_of(command: str) -> str:
    """The program's module: ``"benchmarks"``, or ``"web"`` of ``python -m benchmarks.web``."""
    return command.split()[2].removeprefix("benchmarks.")


def say_seconds(seconds: float) -> str:
    """In minutes, or in hours from 90 minutes."""
    if seconds >= 90 * 60:
        return f"about {seconds / 3600:.1f} hours"
    minutes = max(1, round(seconds / 60))
    return f"about {minutes} minute{'s' if minutes > 1 else ''}"


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
        labels=2,
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
