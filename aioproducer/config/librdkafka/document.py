"""The table of librdkafka's options for the documentation."""

from __future__ import annotations

from collections.abc import Iterator

from aioproducer.config.librdkafka import delivery, general, security
from aioproducer.config.librdkafka.row import Row
from aioproducer.config.librdkafka.table import OF_CONSUMERS

__all__ = ["markdown"]


def markdown() -> str:
    """One table for each file of rows, and the options without counterpart after them."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    chapters = (
        ("Batches, delivery, partitions, transactions", delivery.ROWS),
        ("Connections and metadata", general.ROWS),
        ("TLS and logins", security.ROWS),
    )
    for title, rows in chapters:
        yield from (f"### {title}", "", "| librdkafka | Here |", "|---|---|")
        yield from (_mapped(row) for row in rows if row.options)
        yield ""
    yield from ("### Without counterpart", "")
    yield (
        "These are refused, and the error names them. A value in brackets is accepted, because it "
        "asks for what"
    )
    yield "happens here anyway."
    yield from ("", "| librdkafka | Instead |", "|---|---|")
    yield from (_refused(row) for _, rows in chapters for row in rows if not row.options)
    yield ""
    names = ", ".join(f"`{name}`" for name in sorted(OF_CONSUMERS))
    yield f"The options of consumers are refused, too: {names}."


def _mapped(row: Row) -> str:
    options = ", ".join(f"`{option}`" for option in row.options)
    note = f"<br>{_cell(row.note)}" if row.note else ""
    return f"| {_names(row)} | {options}{note} |"


def _refused(row: Row) -> str:
    harmless = f" (`{row.harmless[0]}`)" if row.harmless else ""
    return f"| {_names(row)}{harmless} | {_cell(row.note)} |"


def _names(row: Row) -> str:
    return ", ".join(f"`{name}`" for name in row.names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
