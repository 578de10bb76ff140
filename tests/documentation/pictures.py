"""The pictures of the documentation that are drawn; ``make docs-pictures`` draws them anew.

The figures of the plot stand in the README's table alone: rates of aioproducer, and its rates
relative to the other clients. A bar of another client is the rate divided by that number.

The picture of the demo is the output of a run.
"""

from __future__ import annotations

import asyncio
import io
import re
import runpy
from typing import Final, NamedTuple

from tests.documentation.pages import DOCS, ROOT

__all__ = ["COMMAND", "DEMO", "THROUGHPUT", "Figures", "demo", "figures", "throughput"]

COMMAND: Final = "make docs-pictures"
DEMO: Final = DOCS / "images" / "demo.svg"
THROUGHPUT: Final = DOCS / "images" / "throughput.svg"

_ROW: Final = re.compile(r"\| (.+?) \(`(\w+)`\) \| ([\d,]+) \| ([\d.]*) ?\| ([\d.]*) ?\|")
_BENCH: Final = re.compile(r"^python -m benchmarks .*?(?=\s+#|$)", re.MULTILINE)
_PEERS: Final = ("confluent-kafka", "aiokafka")
_OURS_COLOUR: Final = "#1f7a4d"
_PEERS_COLOUR: Final = "#9aa5b1"
_WIDTH: Final = 760
_BARS: Final = (150, 420)
"""The left end of all bars, and the length of the longest."""
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
    """The picture, as SVG."""
    rows = figures(readme)
    command = _BENCH.findall(readme)[0]
    left, longest = _BARS
    scale = longest / max(row.rate for row in rows)
    parts = []
    y = 40
    for row in rows:
        parts.append(
            f'  <text x="16" y="{y}" font-weight="600">{row.meaning}'
            f'<tspan fill="#5a6b86" font-weight="400"> · {row.workload}</tspan></text>'
        )
        y += 12
        bars = [("aioproducer", row.rate * scale, _OURS_COLOUR, f"{row.rate:,} records/s")]
        for peer, times in row.times.items():
            length = row.rate / float(times) * scale
            bars.append((peer, length, _PEERS_COLOUR, f"aioproducer sends {times} times as many"))
        for name, length, colour, text in bars:
            parts += [
                f'  <text x="{left - 10}" y="{y + 16}" text-anchor="end">{name}</text>',
                f'  <rect x="{left}" y="{y}" width="{length:.1f}" height="{_BAR}" '
                f'fill="{colour}"/>',
                f'  <text x="{left + length + 8:.1f}" y="{y + 16}" fill="#5a6b86">{text}</text>',
            ]
            y += _STEP
        y += 26
    parts.append(
        f'  <text x="16" y="{y}" fill="#5a6b86" font-family="monospace" font-size="12">'
        f"{command}</text>"
    )
    height = y + 16
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
            'aria-label="Records per second" font-family="system-ui, sans-serif" font-size="14" '
            'fill="#1d2b45">',
            f'  <rect width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        )
    )


def demo() -> str:
    """The output of ``make demo``, as SVG: of a run with Kafka, where there is Java."""
    from rich.console import Console

    program = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    run = program["demo"]
    # No terminal: a progress bar is shown once, at its end.
    console = Console(file=io.StringIO(), record=True, width=110, highlight=False)
    run.__globals__["console"] = console
    asyncio.run(run(mock=False))
    picture = console.export_svg(title="make demo")
    # Neither fonts nor addresses from elsewhere.
    return re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", picture, flags=re.DOTALL)


if __name__ == "__main__":
    DEMO.write_text(demo(), "utf-8")
    THROUGHPUT.write_text(throughput((ROOT / "README.md").read_text("utf-8")), "utf-8")
