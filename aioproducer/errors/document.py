"""The table of brokers' error codes as Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator

from aioproducer.errors.dispositions import Written
from aioproducer.errors.table import TABLE, Row

__all__ = ["markdown"]


def markdown() -> str:
    """One row for each code, in their order; ends with a line feed."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "| Code | Class | Disposition | New metadata | May have been written | Advice |"
    yield "|---|---|---|---|---|---|"
    for row in sorted(TABLE, key=lambda row: row.code):
        yield f"| {' | '.join(_cells(row))} |"


def _cells(row: Row) -> Iterator[str]:
    yield str(row.code.value)
    yield f"`{row.error.__name__}`"
    yield row.disposition.value
    yield "yes" if row.refresh else ""
    yield "yes" if row.written is Written.MAYBE else ""
    yield row.advice.replace("|", "\\|")
