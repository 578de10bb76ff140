"""The figures of a run while it lasts: a table on a terminal, or a line now and then."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, Self

from aioproducer.cli.measurement import Measurement, Summary
from aioproducer.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

__all__ = ["PerformanceDisplay", "performance_table"]

_REFRESH: Final = 0.5
"""Seconds between two pictures of the table."""
_LATENCIES: Final = ("avg", "p50", "p95", "p99", "p99.9", "max")


class PerformanceDisplay:
    """Drawn by a timer of the loop on standard error; the result has standard output."""

    def __init__(self, terminal: Terminal, measurement: Measurement, seconds: float) -> None:
        self._terminal = terminal
        self._print_line = terminal.print_line
        self._measurement = measurement
        self._interval = min(_REFRESH, seconds) if terminal.is_interactive else seconds
        self._live: Live | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._terminal.is_interactive:
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, markup=False, highlight=False)
            self._live = Live(console=console, auto_refresh=False)
            self._live.start()
            self._terminal.print_line = console.print
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._live is not None:
            self._draw(self._live)
            self._live.stop()
            self._terminal.print_line = self._print_line

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._show)

    def _show(self) -> None:
        if self._live is not None:
            self._draw(self._live)
        elif (recent := self._measurement.recent(time.monotonic())).records:
            self._terminal.print_line(recent.line(percentiles=False))
        self._wait()

    def _draw(self, live: Live) -> None:
        now = time.monotonic()
        recent, total = self._measurement.recent(now), self._measurement.total(now)
        live.update(performance_table({"now": recent, "so far": total}), refresh=True)


def performance_table(summaries: dict[str, Summary]) -> Table:
    """The figures, one summary a line."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("")
    for heading in ("records", "records/s", "MiB/s", *(f"{each}\nms" for each in _LATENCIES)):
        table.add_column(heading, justify="right")
    for name, summary in summaries.items():
        table.add_row(
            name,
            f"{summary.records:,}",
            f"{summary.rate:,.0f}",
            f"{summary.mebibytes_per_second:,.1f}",
            *(f"{summary.latency_ms[each]:,.1f}" for each in _LATENCIES),
        )
    return table
