"""Figures → tables of rich, and lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from aioproducer.errors.client import shown
from aioproducer.observability.live.snapshots import BrokerFigures, ProducerFigures, TopicFigures

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = ["line", "picture"]

_MEBIBYTE: Final = 1 << 20
_STYLES: Final = {
    "writes": "bold green",
    "can't write": "bold red",
    "dead": "bold red",
    "failing": "bold red",
    "connected": "green",
}
_BAR: Final = 20
_FULL: Final = 0.8
"""The share of memory from which on it is shown in red."""
_LONGEST_NAME: Final = 40


def picture(
    title: str, producers: Sequence[ProducerFigures], *, rows: int, note: str = ""
) -> RenderableType:
    """All figures, with at most ``rows`` topics and brokers each; ``note``: a line of news."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(shown(title), "dim", no_wrap=True, overflow="ellipsis")]
    if note:
        parts.append(Text(shown(note), "bold red"))
    for each in producers:
        parts += [Text(), _head(each), _whole(each)]
        if each.topics:
            parts += [Text(), _topics(each.topics, rows)]
        if each.brokers:
            parts += [Text(), _brokers(each.brokers, rows)]
    if not producers:
        parts.append(Text("\nno producer is started"))
    return Group(*parts)


def line(figures: ProducerFigures) -> str:
    """The figures of a producer in one line."""
    return (
        f"{shown(str(figures.producer))}: {_state(figures)}, "
        f"{_number(figures.records_per_second, 1)} records/sec "
        f"({_mebibytes(figures.bytes_per_second)} MiB/sec), "
        f"{_milliseconds(figures.p50)} ms p50, {_milliseconds(figures.p99)} ms p99, "
        f"{_number(figures.in_flight)} in flight, {_percent(figures.memory_used)} memory, "
        f"oldest record {_number(figures.oldest_record_age, 1)} s, "
        f"{_number(figures.retries)} retries, {_number(figures.errors)} errors."
    )


def _state(figures: ProducerFigures) -> str:
    if figures.state == "can't write" and figures.outage > 0:
        return f"can't write for {figures.outage:,.0f} s"
    return figures.state


def _head(figures: ProducerFigures) -> RenderableType:
    from rich.text import Text

    share = figures.memory_used
    filled = 0 if math.isnan(share) else round(min(max(share, 0.0), 1.0) * _BAR)
    return Text.assemble(
        (_cut(str(figures.producer)), "bold"),
        "  ",
        (_state(figures), _STYLES.get(figures.state, "dim")),
        "  memory ",
        ("█" * filled, "red" if share >= _FULL else "cyan"),
        ("░" * (_BAR - filled), "dim"),
        f" {_percent(share)}",
        no_wrap=True,
        overflow="ellipsis",
    )


def _whole(figures: ProducerFigures) -> Table:
    latencies, now = ("p50 ms", "p99 ms"), ("in flight", "waiting", "oldest s")
    table = _table((), ("records/s", "MiB/s", *latencies, *now, "retries", "errors"))
    table.add_row(
        _number(figures.records_per_second),
        _mebibytes(figures.bytes_per_second),
        _milliseconds(figures.p50),
        _milliseconds(figures.p99),
        _number(figures.in_flight),
        _number(figures.pending_records),
        _number(figures.oldest_record_age, 1),
        _bad(figures.retries, "yellow"),
        _bad(figures.errors, "bold red"),
    )
    return table


def _topics(topics: Sequence[TopicFigures], rows: int) -> Table:
    table = _table(("topic",), ("records/s", "MiB/s", "retries", "errors"))
    for each in topics[:rows]:
        table.add_row(
            _cut(each.topic),
            _number(each.records_per_second),
            _mebibytes(each.bytes_per_second),
            _bad(each.retries, "yellow"),
            _bad(each.errors, "bold red"),
        )
    return _with_rest(table, len(topics) - rows)


def _brokers(brokers: Sequence[BrokerFigures], rows: int) -> Table:
    from rich.text import Text

    table = _table(("broker", "state"), ("requests/s", "MiB/s", "in flight", "retries", "errors"))
    for each in brokers[:rows]:
        table.add_row(
            _cut(each.node),
            Text(each.state, _STYLES.get(each.state, "dim")),
            _number(each.requests_per_second),
            _mebibytes(each.bytes_per_second),
            _number(each.in_flight),
            _bad(each.retries, "yellow"),
            _bad(each.errors, "bold red"),
        )
    return _with_rest(table, len(brokers) - rows)


def _table(words: Iterable[str], numbers: Iterable[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in words:
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _with_rest(table: Table, rest: int) -> Table:
    if rest > 0:
        table.add_row(f"and {rest:,} more", style="dim")
    return table


def _bad(value: float, style: str) -> RenderableType:
    from rich.text import Text

    return Text(_number(value), style if value > 0 else "")


def _cut(name: str) -> str:
    name = shown(name)
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _number(value: float, digits: int = 0) -> str:
    return "-" if math.isnan(value) else f"{value:,.{digits}f}"


def _mebibytes(value: float) -> str:
    return _number(value / _MEBIBYTE, 2)


def _milliseconds(value: float) -> str:
    return _number(value * 1000, 1)


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.0%}"
