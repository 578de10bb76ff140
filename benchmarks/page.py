"""One page of a measurement: ``python -m benchmarks.page [JSON] [--output FILE]``, or
``make bench-report``.

It reads what ``python -m benchmarks`` has written, the newest if none is named, and writes one HTML
file that needs no other.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from aioproducer.errors import MissingExtraError
from benchmarks.plots import draw, plotted
from benchmarks.report import RESULTS
from benchmarks.summary import Run, Summary, summarise

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2733; }
h2 { margin: 2.5rem 0 0; }
svg { max-width: 100%; height: auto; }
.scrolled { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; white-space: nowrap;
         border-bottom: 1px solid #dde3e9; }
th:first-child, td:first-child { text-align: left; }
.ours { font-weight: 600; }
.void { color: #b3261e; }
ul { font-size: 13px; color: #4a5a6a; }
"""


def newest(folder: Path) -> Path:
    """The last one of the main program; names begin with times. Raises FileNotFoundError."""
    found = sorted(folder.glob("*-benchmarks.json"))
    if not found:
        raise FileNotFoundError(f"no measurement in {folder}: make bench")
    return found[-1]


def page(content: Mapping[str, Any]) -> str:
    """HTML of what a JSON file of ``python -m benchmarks`` holds."""
    summaries = summarise(Run(**run) for run in content["runs"])
    ours = [client["name"] for client in content["clients"] if client["ours"]]
    title = f"aioproducer beside its peers, {content['measured_at']}"
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en"><meta charset="utf-8">',
            f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n<h1>{escape(title)}</h1>",
            *_machine(content),
            *(
                part
                for workload, section in zip(content["workloads"], content["sections"], strict=True)
                for part in _workload(workload["name"], section, summaries, ours)
            ),
            "</html>\n",
        )
    )


def _machine(content: Mapping[str, Any]) -> Iterator[str]:
    machine = content["machine"]
    load = " ".join(f"{average:.2f}" for average in machine["load"])
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    yield (
        f"<p>{machine['cores']} cores, {escape(machine['processor'])}, "
        f"{escape(machine['system'])}, load {load} before the first run. "
        f"{escape(machine['python'])}, {escape(versions)}. "
        f"Brokers: {escape(content['brokers'])}.</p>"
    )
    yield "<p>Bars are medians, lines the ranges over the rounds; ours are green.</p>"


def _workload(
    name: str, section: Mapping[str, Any], summaries: Iterable[Summary], ours: Sequence[str]
) -> Iterator[str]:
    yield f'<h2 id="{escape(name)}">{escape(name)}</h2>\n<p>{escape(section["title"])}</p>'
    there = [summary for summary in summaries if summary.workload == name and summary.numbers]
    if plotted(there):
        yield draw(there, ours, name)
    yield '<div class="scrolled"><table>'
    yield _row("th", section["headings"])
    for row in section["rows"]:
        yield _row("td", row, ' class="ours"' if row[0] in ours else "")
    yield "</table></div>"
    for kind in ("voids", "ratios", "settings"):
        if section[kind]:
            items = "".join(f"<li>{escape(line)}</li>" for line in section[kind])
            yield f'<ul class="{kind.removesuffix("s")}">{items}</ul>'


def _row(cell: str, texts: Iterable[str], attributes: str = "") -> str:
    cells = "".join(f"<{cell}>{escape(text)}</{cell}>" for text in texts)
    return f"<tr{attributes}>{cells}</tr>"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 where there is nothing to show, or nothing to draw it with."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("json", nargs="?", type=Path, help="default: the newest measurement")
    parser.add_argument("--output", type=Path, help="default: beside the JSON")
    options = parser.parse_args(arguments)
    try:
        source = options.json or newest(RESULTS)
        output = options.output or source.with_suffix(".html")
        output.write_text(page(json.loads(source.read_text())))
    except (OSError, MissingExtraError) as error:
        print(error, file=sys.stderr)
        return 1
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
