"""``python -m aioproducer.config``: the option tables of the documentation, as Markdown.

``python -m aioproducer.config linger_ms`` explains the options that it names.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from textwrap import fill

from aioproducer.config.names import WITHOUT_EFFECT, unknown_keyword, unknown_property
from aioproducer.config.options import OPTIONS, Group, Option, OptionTable, options_of
from aioproducer.config.reader_options import READER_OPTIONS, ReaderOptions

__all__ = ["cell", "main", "markdown", "meanings", "option_table"]


def markdown() -> str:
    """One table per group, then the Java options without effect; ends with a line feed."""
    return "\n".join(_lines()) + "\n"


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


def _lines() -> Iterator[str]:
    for group in Group:
        of_readers = [each for name, each in READER_OPTIONS.items() if name not in OPTIONS]
        rows = [each for each in (*OPTIONS.values(), *of_readers) if each.group is group]
        yield from (f"### {group.value}", "")
        yield from _table("Option", "Meaning")
        yield from (_row(row, meanings()) for row in rows)
        yield ""
    yield from ("### Java options without effect", "")
    yield "As properties these are named in one warning; as keywords they are errors."
    yield ""
    yield from _table("Java option", "Why")
    for name, reason in WITHOUT_EFFECT.items():
        yield f"| `{name}` | {cell(reason)} |"


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
    return f"| {cell(name)} | {cell(said[option.name])}<br>*{cell(_values(option))}* |"


def _values(option: Option) -> str:
    default = "Required" if option.required else f"Default: `{option.default!r}`"
    if option.kafka_default is not None:
        default += f" (Kafka: {option.kafka_default})"
    return f"Values: {option.kind.wording}. {default}. Importance: {option.importance.value}."


def cell(text: str) -> str:
    """``text`` in a cell of a table."""
    return text.replace("|", "\\|")


_ELSEWHERE = (
    "This command explains the options of Producer, Reader and Admin. Those of Consumer are on the "
    "page 'Consume with a group'."
)


def main(names: Sequence[str]) -> int:
    """Explain the options with these names, Python's or Java's. Without names, print all tables.

    Returns the exit status: 2 if no option has a name, which the error output says.
    """
    if not names:
        sys.stdout.write(markdown())
        return 0
    known = {**OPTIONS, **READER_OPTIONS}
    known |= {option.java_name: option for option in known.values()}
    for name in names:
        if name not in known:
            unknown = unknown_property if "." in name else unknown_keyword
            sys.stderr.write(f"{unknown(name)}\n{_ELSEWHERE}\n")
            return 2
    sys.stdout.write("\n".join(_explained(known[name]) for name in names))
    return 0


def _explained(option: Option) -> str:
    """An option for a terminal."""
    texts = (meanings()[option.name], _values(option).replace("`", ""))
    inside = (fill(text, 78, initial_indent="  ", subsequent_indent="  ") for text in texts)
    return "\n".join((f"{option.name} (Java: {option.java_name})", *inside, ""))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
