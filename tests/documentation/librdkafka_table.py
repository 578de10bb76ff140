"""The table of librdkafka's options in the page for users of confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterator

from aioproducer.config.__main__ import cell
from aioproducer.config.librdkafka import (
    CONNECTION_ROWS,
    DELIVERY_ROWS,
    OF_CONSUMERS,
    SECURITY_ROWS,
    TUNING_ROWS,
    Row,
)


def markdown() -> str:
    """One table for each area, and the options without counterpart after them."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    chapters = (
        ("Batches, delivery, partitions, transactions", DELIVERY_ROWS),
        ("Connections and metadata", CONNECTION_ROWS),
        ("TLS and logins", SECURITY_ROWS),
    )
    for title, rows in chapters:
        yield from (f"### {title}", "", "| librdkafka | aioproducer |", "|---|---|")
        yield from (_mapped(row) for row in rows if row.options)
        yield ""
    yield from ("### Without counterpart", "")
    yield (
        "These are refused, and the error names them. A value in brackets is accepted, because it "
        "asks for what"
    )
    yield "aioproducer does anyway."
    yield from ("", "| librdkafka | Instead |", "|---|---|")
    yield from (_refused(row) for _, rows in chapters for row in rows if not row.options)
    yield from map(_refused, TUNING_ROWS)
    yield ""
    names = ", ".join(f"`{name}`" for name in sorted(OF_CONSUMERS))
    yield f"The options of consumers are refused, too: {names}."


def _mapped(row: Row) -> str:
    options = ", ".join(f"`{option}`" for option in row.options)
    note = f"<br>{cell(row.note)}" if row.note else ""
    return f"| {_names(row)} | {options}{note} |"


def _refused(row: Row) -> str:
    harmless = f" (`{row.harmless[0]}`)" if row.harmless else ""
    return f"| {_names(row)}{harmless} | {cell(row.note)} |"


def _names(row: Row) -> str:
    return ", ".join(f"`{name}`" for name in row.names)
