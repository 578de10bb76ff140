"""The option tables of the documentation: our options, and librdkafka's.

``python -m aioproducer.config`` prints our options; ``--write docs/reference/configuration.md``
puts them between the file's markers. :func:`librdkafka_markdown` is the table of librdkafka's.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from aioproducer.config.librdkafka_options import (
    CONNECTION_ROWS,
    DELIVERY_ROWS,
    OF_CONSUMERS,
    SECURITY_ROWS,
    Row,
)
from aioproducer.config.names import WITHOUT_EFFECT
from aioproducer.config.options import OPTIONS, Group, Option, OptionTable, options_of
from aioproducer.config.reader_options import READER_OPTIONS, ReaderOptions
from aioproducer.errors import ConfigError

__all__ = [
    "BEGIN",
    "END",
    "REFRESH_COMMAND",
    "insert",
    "markdown",
    "meanings",
    "option_table",
    "section",
    "write",
    "librdkafka_markdown",
]


BEGIN: Final = "<!-- config:begin -->"
END: Final = "<!-- config:end -->"
REFRESH_COMMAND: Final = "python -m aioproducer.config --write docs/reference/configuration.md"


def markdown() -> str:
    """One table per group, then the Java options without effect; ends with a line feed."""
    return "\n".join(_lines()) + "\n"


def section(document: str) -> str:
    """The text between the markers.

    Raises:
        ConfigError: the document does not hold both markers, once and in their order.
    """
    return _split(document)[1]


def insert(document: str) -> str:
    """The document with :func:`markdown` between the markers.

    Raises:
        ConfigError: as :func:`section`.
    """
    before, _, after = _split(document)
    return f"{before}\n{markdown()}{after}"


def write(path: Path) -> None:
    """Refresh the section in a file.

    Raises:
        ConfigError: as :func:`section`.
    """
    path.write_text(insert(path.read_text("utf-8")), "utf-8")


def option_table(table: type) -> str:
    """The table of options of a dataclass that belongs to a part above this one."""
    said = _meanings_of((table,))
    lines = _table("Option", "Meaning")
    return "\n".join((*lines, *(_row(each, said) for each in options_of(table).values())))


@cache
def meanings() -> dict[str, str]:
    """The docstring under each field of the tables and of their bases, on one line."""
    return _meanings_of((OptionTable, ReaderOptions))


def _meanings_of(tables: tuple[type, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for table in tables:
        rows = options_of(table)
        for node in ast.parse(inspect.getsource(table)).body:
            body = node.body if isinstance(node, ast.ClassDef) else []
            for row, text in pairwise(body):
                match row, text:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str() as meaning)),
                    ) if name in rows:
                        found[name] = " ".join(meaning.split())
    return found


def _split(document: str) -> tuple[str, str, str]:
    before, begin, rest = document.partition(BEGIN)
    content, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after:
        raise ConfigError(f"the document must hold {BEGIN} and, after it, {END}, once each")
    return before + begin, content.removeprefix("\n"), end + after


def _lines() -> Iterator[str]:
    for group in Group:
        of_readers = [each for name, each in READER_OPTIONS.items() if name not in OPTIONS]
        rows = [each for each in (*OPTIONS.values(), *of_readers) if each.group is group]
        yield from (f"### {group.value}", "")
        yield from _table("Option", "Meaning")
        yield from (_row(row, meanings()) for row in rows)
        yield ""
    yield from ("### Java options without effect", "")
    yield "In a properties file these are named in one warning; as keywords they are errors."
    yield ""
    yield from _table("Java option", "Why")
    for name, reason in WITHOUT_EFFECT.items():
        yield f"| `{name}` | {_cell(reason)} |"


def _table(*titles: str) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"


def _row(option: Option, said: Mapping[str, str]) -> str:
    """Two cells, which fit beside each other on a desk and below each other on a phone.

    The anchor has the option's name, so that any page can link to ``configuration.html#linger_ms``.
    """
    name = f'<a id="{option.name}"></a>[`{option.name}`](#{option.name})'
    if option.java_name != option.name.replace("_", "."):
        name += f"<br>Java: `{option.java_name}`"
    default = "Required" if option.required else f"Default: `{option.default!r}`"
    if option.kafka_default is not None:
        default += f" (Kafka: {option.kafka_default})"
    values = f"Values: {option.kind.wording}. {default}. Importance: {option.importance.value}."
    return f"| {_cell(name)} | {_cell(said[option.name])}<br>*{_cell(values)}* |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def librdkafka_markdown() -> str:
    """One table for each area, and the options without counterpart after them."""
    return "\n".join(_librdkafka_lines()) + "\n"


def _librdkafka_lines() -> Iterator[str]:
    chapters = (
        ("Batches, delivery, partitions, transactions", DELIVERY_ROWS),
        ("Connections and metadata", CONNECTION_ROWS),
        ("TLS and logins", SECURITY_ROWS),
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
