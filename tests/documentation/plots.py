"""The bars that are drawn from the README's figures, for a light and a dark page.

The figures stand in the README's table and nowhere else: rates of aioproducer, and its rates beside
those of the other clients. A bar of another client is the rate divided by that number.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final, NamedTuple

from benchmarks.svg import STYLE

__all__ = ["Figures", "figures", "headline", "throughput"]

_ROW: Final = re.compile(r"\| (.+?) \(`(\w+)`\) \| ([\d,]+) \| ([\d.]*) ?\| ([\d.]*) ?\|")
_BENCH: Final = re.compile(r"python -m benchmarks .*?(?=\s+#|$)", re.MULTILINE)
_PEERS: Final = ("confluent-kafka", "aiokafka")
_WIDTH: Final = 560
"""Narrow enough for a phone, whose screen shows it at three fifths of this size."""
_LEFT: Final = 150
"""The left end of all bars."""
_LONGEST: Final = 225
_COMMAND: Final = 68
"""The columns of a command."""
_BAR: Final = 22
_STEP: Final = 28


class Figures(NamedTuple):
    """One row of the table."""

    meaning: str
    workload: str
    rate: int
    """Records per second of aioproducer."""
    times: dict[str, str]
    """This rate divided by that of each other client, as it is printed."""


def figures(readme: str) -> list[Figures]:
    """The rows of the table."""
    return [
        Figures(
            row[1],
            row[2],
            int(row[3].replace(",", "")),
            {peer: row[place] for place, peer in enumerate(_PEERS, 4) if row[place]},
        )
        for row in _ROW.finditer(readme)
    ]


def throughput(readme: str) -> str:
    """All rows, with the command that measures them."""
    rows = figures(readme)
    longest = max(row.rate for row in rows)
    parts = []
    y = 40
    for row in rows:
        parts.append(
            f'  <text x="16" y="{y}" class="ink" font-weight="600">{row.meaning}'
            f'<tspan class="soft" font-weight="400"> · {row.workload}</tspan></text>'
        )
        y += 12
        for bar in _bars(row, _LONGEST / longest):
            parts += bar.lines(y)
            y += _STEP
        y += 26
    for line in textwrap.wrap(_BENCH.findall(readme)[0], _COMMAND, break_on_hyphens=False):
        parts.append(
            f'  <text x="16" y="{y}" class="soft" font-family="monospace" font-size="12">'
            f"{line}</text>"
        )
        y += 16
    return _picture(parts, y)


def headline(readme: str) -> str:
    """The first row, small enough for the first screen, and large enough for a phone."""
    [row, *_] = figures(readme)
    y = 8
    parts: list[str] = []
    for bar in _bars(row, 180 / row.rate):
        parts += bar.lines(y)
        y += _STEP
    parts.append(
        f'  <text x="{_LEFT}" y="{y + 12}" class="soft" font-size="13">{row.meaning}, '
        "2 cores, all confirmed</text>"
    )
    return _picture(parts, y + 22, width=520)


class _Bar(NamedTuple):
    name: str
    length: float
    colour: str
    text: str

    def lines(self, y: int) -> Iterator[str]:
        name = f'class="ink" text-anchor="end">{self.name}</text>'
        yield f'  <text x="{_LEFT - 10}" y="{y + 16}" {name}'
        yield (
            f'  <rect x="{_LEFT}" y="{y}" width="{self.length:.1f}" height="{_BAR}" '
            f'class="{self.colour}"/>'
        )
        x = _LEFT + self.length + 8
        yield f'  <text x="{x:.1f}" y="{y + 16}" class="soft">{self.text}</text>'


def _bars(row: Figures, scale: float) -> Iterator[_Bar]:
    yield _Bar("aioproducer", row.rate * scale, "good", f"{row.rate:,} records/s")
    for peer, times in row.times.items():
        yield _Bar(
            peer,
            row.rate / float(times) * scale,
            "peer",
            f"aioproducer sends {times}\N{MULTIPLICATION SIGN}",
        )


def _picture(parts: list[str], height: int, width: int = _WIDTH) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" '
        'aria-label="Records per second" font-family="system-ui, sans-serif" font-size="14">'
    )
    paper = f'  <rect width="{width}" height="{height}" rx="8" class="paper"/>'
    return "\n".join((head, STYLE.rstrip("\n"), paper, *parts, "</svg>\n"))
