"""The runs of ``--brokers kafka`` as bars, for a light and a dark page. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from benchmarks.slow_brokers.client import Costs
from benchmarks.svg import STYLE

_LEFT: Final = 180
_PANEL: Final = 150
_LONGEST: Final = 95
_LONGEST_OF_PARTS: Final = 50
"""The figures of the parts stand behind the bar, and take more room than one."""
_BAR: Final = 16
_STEP: Final = 24
_HEADING: Final = 52


class Measured(NamedTuple):
    """A client's run, and the CPU time of the brokers from its start to its end."""

    costs: Costs
    brokers_cpu_seconds: float


class _Panel(NamedTuple):
    """One figure of every client; ``parts`` are drawn one after the other."""

    title: str
    form: str
    parts: Sequence[Callable[[Measured], float]]


_PANELS: Final = (
    _Panel("1,000 records/s", ",.0f", (lambda run: run.costs.delivered / run.costs.seconds / 1e3,)),
    _Panel(
        "CPU-µs/record",
        ".2f",
        (
            lambda run: run.costs.cpu_seconds / run.costs.delivered * 1e6,
            lambda run: run.brokers_cpu_seconds / run.costs.delivered_in_all * 1e6,
        ),
    ),
    _Panel(
        "KB/request", ",.0f", (lambda run: run.costs.request_bytes / run.costs.requests / 1_024,)
    ),
    _Panel(
        "requests in flight",
        ".1f",
        (lambda run: run.costs.requests / run.costs.seconds * run.costs.response_ms / 1e3,),
    ),
    _Panel("ms/response", ".1f", (lambda run: run.costs.response_ms,)),
)


def draw(cases: Mapping[str, Mapping[str, Sequence[Measured]]]) -> str:
    """An SVG: a row of panels for each case, a bar for each client, medians over its runs.

    In the panel of CPU time the client's part comes first, and that of all brokers after it.
    """
    lines: list[str] = []
    y = 0
    for meaning, clients in cases.items():
        lines.append(f'  <text x="16" y="{y + 22}" class="ink" font-weight="600">{meaning}</text>')
        for number, name in enumerate(clients):
            y_text = y + _HEADING + number * _STEP + 13
            place = f'x="{_LEFT - 10}" y="{y_text}" text-anchor="end"'
            lines.append(f'  <text {place} class="ink">{name}</text>')
        for number, panel in enumerate(_PANELS):
            lines += _panel(panel, clients, _LEFT + number * _PANEL, y)
        y += _HEADING + len(clients) * _STEP + 16
    width = _LEFT + len(_PANELS) * _PANEL
    label = "Rates, CPU time, requests and response times of each client"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
        f'viewBox="0 0 {width} {y}" role="img" aria-label="{label}" '
        'font-family="system-ui, sans-serif" font-size="13">'
    )
    paper = f'  <rect width="{width}" height="{y}" rx="8" class="paper"/>'
    return "\n".join((head, STYLE.rstrip("\n"), paper, *lines, "</svg>\n"))


def _panel(
    panel: _Panel, clients: Mapping[str, Sequence[Measured]], x: int, y: int
) -> Iterator[str]:
    yield f'  <text x="{x}" y="{y + 42}" class="soft">{panel.title}</text>'
    values = {
        name: [median(map(part, runs)) for part in panel.parts] for name, runs in clients.items()
    }
    longest = _LONGEST if len(panel.parts) == 1 else _LONGEST_OF_PARTS
    scale = longest / max(map(sum, values.values()))
    for number, (name, parts) in enumerate(values.items()):
        top, at = y + _HEADING + number * _STEP, float(x)
        colour = "good" if name.startswith("aioproducer") else "peer"
        for place, value in enumerate(parts):
            size = f'width="{value * scale:.1f}" height="{_BAR}" opacity="{0.5 if place else 1}"'
            yield f'  <rect x="{at:.1f}" y="{top}" {size} class="{colour}"/>'
            at += value * scale
        text = " + ".join(format(value, panel.form) for value in parts)
        yield f'  <text x="{at + 5:.1f}" y="{top + 13}" class="soft">{text}</text>'
