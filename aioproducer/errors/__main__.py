"""``python -m aioproducer.errors``: the table of brokers' error codes as Markdown, for the
documentation.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from aioproducer.errors.broker import TABLE, Row
from aioproducer.errors.client import Written

__all__ = [
    "markdown",
]


def markdown() -> str:
    """One row for each code, in their order; ends with a line feed."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "| Code | Class | Disposition | Notes and advice |"
    yield "|---|---|---|---|"
    for row in sorted(TABLE, key=lambda row: row.code):
        yield f"| {' | '.join(_cells(row))} |"


def _cells(row: Row) -> Iterator[str]:
    yield str(row.code.value)
    yield f"`{row.error.__name__}`"
    yield row.disposition.value
    yield "; ".join(_notes(row)).replace("|", "\\|")


def _notes(row: Row) -> Iterator[str]:
    if row.refresh:
        yield "**new metadata**"
    if row.written is Written.MAYBE:
        yield "**may be written**"
    if row.advice:
        yield row.advice


if __name__ == "__main__":
    sys.stdout.write(markdown())
