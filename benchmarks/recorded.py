"""The recorded figures: ``python -m benchmarks.recorded [JSON...]``.

Every program of the benchmarks writes its tables to a file of ``results/``. This one takes such
files, the newest if none is named, into ``recorded.json``, from which the documentation draws its
figures. A table replaces an older one of the same name. The older runs are in Git's history of the
file.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.report import RESULTS, program_of

RECORDED: Final = Path(__file__).parent / "recorded.json"
_KEPT: Final = ("command", "commit", "measured_at", "machine", "brokers")
_CELLS: Final = " | "
"""A row is one line of the file."""


class Run(NamedTuple):
    """One call of a program."""

    command: str
    commit: str
    measured_at: str
    """ISO 8601, UTC."""
    machine: Mapping[str, Any]
    """The fields of a `Machine`."""
    brokers: str


class Table(NamedTuple):
    """A recorded table: its cells are texts, as they were printed."""

    title: str
    headings: Sequence[str]
    labels: int
    """The number of leading cells that name a row."""
    rows: Sequence[Sequence[str]]
    run: Run

    def row(self, *labels: str) -> dict[str, str] | None:
        """The cells of a row by their headings; of two equal ones the first."""
        for row in self.rows:
            if tuple(row[: self.labels]) == labels:
                return dict(reversed([*zip(self.headings, row, strict=True)]))
        return None


def kept(content: Mapping[str, Any]) -> dict[str, Any]:
    """What is recorded of a JSON file of ``results/``.

    Raises:
        ValueError: it names no commit, the tree was not that of its commit, or the measured source
            was not compiled.
    """
    commit = content.get("commit")
    if not commit or commit.endswith("-dirty"):
        raise ValueError(f"only a measurement of a commit is recorded, and this is of {commit}")
    if not content.get("compiled"):
        raise ValueError("a measurement of uncompiled source is not recorded")
    command = content["command"]
    scope = "" if command.split()[2] == "benchmarks" else f"{program_of(command)}."
    brokers = "" if content["brokers"] == "mock" else f"@{content['brokers']}"
    found = {
        f"{scope}{section['title'].partition(':')[0]}{brokers}": {
            "title": section["title"],
            "headings": _CELLS.join(section["headings"]),
            "labels": section["labels"],
            "rows": [*map(_CELLS.join, section["rows"])],
        }
        for section in content["sections"]
    }
    return {name: content[name] for name in _KEPT} | {"tables": found}


def joined(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The runs, newest first, each with the tables of which none has a newer one."""
    seen: set[str] = set()
    result = []
    for run in sorted(runs, key=lambda each: str(each["measured_at"]), reverse=True):
        left = {name: table for name, table in run["tables"].items() if name not in seen}
        seen.update(left)
        if left:
            result.append({**run, "tables": left})
    return result


def tables(path: Path = RECORDED) -> dict[str, Table]:
    """The recorded tables by their names: ``"bulk"``, ``"bulk@kafka"``, ``"web.starlette"``."""
    found = {}
    for run in json.loads(path.read_text("utf-8")):
        of = Run(*(run[name] for name in _KEPT))
        for name, table in run["tables"].items():
            rows = [row.split(_CELLS) for row in table["rows"]]
            headings = table["headings"].split(_CELLS)
            found[name] = Table(table["title"], headings, table["labels"], rows, of)
    return found


def number(cell: str) -> float | None:
    """None: the cell has no number."""
    try:
        return float(cell.replace(",", "").rstrip("%x"))
    except ValueError:
        return None


def said(value: float) -> str:
    """Three digits of a large number, and two or three of a small one: 767,000, 7.5, 1.11."""
    if value >= 1_000:
        return f"{round(value, 3 - len(str(int(value)))):,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def figure(key: str, found: Mapping[str, Table] | None = None) -> str:
    """The figure that a page names: a table, the labels of a row and a heading, with colons.

    ``bulk:aioproducer:defaults:records/s`` is a rate. With two names in a label, as in
    ``bulk:aioproducer/confluent:defaults:records/s``, it is the first row's figure divided by the
    second's.

    Raises:
        LookupError: no recorded run has it.
    """
    name, *labels, heading = key.split(":")
    table = (tables() if found is None else found).get(name)
    ours = tuple(each.partition("/")[0] for each in labels)
    peers = tuple(each.rpartition("/")[2] for each in labels)
    cells = [table and (table.row(*row) or {}).get(heading) for row in dict.fromkeys((ours, peers))]
    values = [number(cell) if cell else None for cell in cells]
    if None in values:
        raise LookupError(f"{key}: no recorded run has this figure")
    value, *others = (each for each in values if each is not None)
    if others:
        return said(value / others[0])
    return said(value) if value >= 1_000 else re.sub(r"\.0+$", "", str(cells[0]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a file was not recorded, or there is none. The others are recorded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recorded", description=__doc__)
    parser.add_argument("json", nargs="*", type=Path, help="default: the newest measurement")
    parser.add_argument("--recorded", type=Path, default=RECORDED, metavar="FILE")
    options = parser.parse_args(arguments)
    sources = options.json or sorted(RESULTS.glob("*.json"))[-1:]
    if not sources:
        print(f"no measurement in {RESULTS}: make bench", file=sys.stderr)
    new = []
    for source in sources:
        try:
            new.append(kept(json.loads(source.read_text("utf-8"))))
        except (KeyError, OSError, ValueError) as error:
            print(f"{source}: {error}", file=sys.stderr)
    if new:
        path: Path = options.recorded
        old = json.loads(path.read_text("utf-8")) if path.exists() else []
        text = json.dumps(joined([*new, *old]), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", "utf-8")
        print(f"{path}; now: make docs-tables docs-pictures")
    return 0 if new and len(new) == len(sources) else 1


if __name__ == "__main__":
    sys.exit(main())
