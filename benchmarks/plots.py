"""Bars with their ranges, as SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any, Final

from aioproducer.errors import MissingExtraError
from benchmarks.metrics import METRICS
from benchmarks.summary import Summary

PLOTTED: Final = (
    *("records_per_second", "cpu_us_per_record", "p50_ms", "p99_ms"),
    *("late_p999_ms", "late_max_ms", "longest_send_ms"),
    *("before_megabytes", "quarter_1_megabytes", "quarter_4_megabytes", "peak_megabytes"),
)
"""Names of metrics, each a plot; those of memory only where memory is what is measured."""
_MEMORY: Final = "quarter_1_megabytes"
_TITLES: Final = {
    "late_p999_ms": "lateness of the loop, p99.9 ms",
    "late_max_ms": "lateness of the loop, max ms",
    "before_megabytes": "MB before the first record",
    "quarter_1_megabytes": "MB after a quarter of the time",
    "quarter_4_megabytes": "MB at the end",
}
"""Where a heading of the table needs its neighbours to be understood."""
_OURS_COLOUR: Final = "#1f7a4d"
_PEERS_COLOUR: Final = "#9aa5b1"
_WIDTH: Final = 4.6
_BAR_HEIGHT: Final = 0.34
_MARGIN: Final = 0.8
_PER_ROW: Final = 2


def plotted(summaries: Sequence[Summary]) -> list[str]:
    """Which metrics there are to plot."""
    there = {name for summary in summaries for name in summary.numbers}
    if _MEMORY not in there:
        there.discard("peak_megabytes")
    return [name for name in PLOTTED if name in there]


def draw(summaries: Sequence[Summary], ours: Sequence[str], name: str) -> str:
    """One figure for a workload: a plot for each metric, a bar for each client, from 0.

    The line through a bar's end is the range over the rounds. ``name`` keeps the ids of several
    figures in one page apart. Raises MissingExtraError without matplotlib.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            'plots need matplotlib: pip install "aioproducer[bench]"'
        ) from error
    names = plotted(summaries)
    columns = min(_PER_ROW, len(names))
    rows = -(-len(names) // columns)
    height = rows * (_MARGIN + _BAR_HEIGHT * len(summaries))
    # Text stays text: small, searchable, and in the font of the page.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 9}):
        figure = Figure(figsize=(_WIDTH * columns, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).flat
        for axis, metric in zip(axes, names, strict=False):
            _draw_bars(axis, metric, summaries, ours)
        for axis in list(axes)[len(names) :]:
            axis.set_visible(False)
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return re.sub(r"^.*?(?=<svg)", "", written.getvalue(), flags=re.DOTALL)


def _draw_bars(axis: Any, metric: str, summaries: Sequence[Summary], ours: Sequence[str]) -> None:
    there = [summary for summary in summaries if metric in summary.numbers]
    spreads = [summary.numbers[metric] for summary in there]
    medians = [spread.median for spread in spreads]
    below = [spread.median - spread.low for spread in spreads]
    above = [spread.high - spread.median for spread in spreads]
    axis.barh(
        [_label(summary, summaries) for summary in there],
        medians,
        xerr=[below, above],
        color=[_OURS_COLOUR if summary.client in ours else _PEERS_COLOUR for summary in there],
        error_kw={"elinewidth": 1.2, "capsize": 3},
    )
    for place, spread in enumerate(spreads):
        text = format(spread.median, METRICS[metric].form)
        axis.annotate(text, (spread.high, place), (5, 0), textcoords="offset points", va="center")
    axis.set_title(_TITLES.get(metric, METRICS[metric].heading), loc="left", fontsize=10)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.3 * max(spread.high for spread in spreads) or 1)
    axis.xaxis.set_major_formatter(lambda number, _: f"{number:,g}")
    axis.spines[["top", "right"]].set_visible(False)
    axis.locator_params(axis="x", nbins=5)


def _label(summary: Summary, summaries: Sequence[Summary]) -> str:
    if len({each.settings for each in summaries}) == 1:
        return summary.client
    return f"{summary.client}, {summary.settings}"
