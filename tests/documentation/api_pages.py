"""The tables at the head of the API pages: each class, function and method in one sentence.

A page says by ``::: path`` what it shows. The tables are drawn from the same lines and from the
docstrings, so a name can't be on the page and not in its table. A class with the option
``summary: false`` gets a table of its methods here, and none of its own further down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import griffe

from tests.documentation.pages import DOCS, ROOT

__all__ = ["AREAS", "first_sentence", "package", "shown", "target", "table"]

AREAS: Final = DOCS / "reference" / "api"

_SHOWN: Final = re.compile(r"^::: (?P<path>[\w.]+)\n(?P<options>(?: .*\n)*)", re.M)
_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?])\s")


@cache
def package() -> griffe.Module:
    """The package as its source says, nothing imported."""
    roles = griffe.load_extensions(str(DOCS / ".site" / "roles.py"))
    found = griffe.load(
        "aioproducer", search_paths=[ROOT], extensions=roles, allow_inspection=False
    )
    assert isinstance(found, griffe.Module)
    return found


def target(path: str) -> griffe.Object:
    """The object that a public path stands for."""
    found = package()[path.removeprefix("aioproducer.")]
    return found.final_target if isinstance(found, griffe.Alias) else found


def shown(page: Path) -> list[str]:
    """The paths on the page in their order; a module stands for the names of its ``__all__``."""
    found: list[str] = []
    for each in _SHOWN.finditer(page.read_text("utf-8")):
        path = each["path"]
        obj = target(path)
        if isinstance(obj, griffe.Module):
            found += [f"{path}.{name}" for name in obj.exports or ()]
        else:
            found.append(path)
    return found


def table(page: Path) -> str:
    """The methods of the classes that the page is about, and what else it shows."""
    parts = [
        _rows(f"`{path.rpartition('.')[2]}`", list(_members(path))) for path in _subjects(page)
    ]
    others = [path for path in shown(page) if path not in _subjects(page)]
    if others:
        parts.append(_rows("Also here" if parts else "Name", others))
    return "\n\n".join(parts)


def _subjects(page: Path) -> list[str]:
    return [
        each["path"]
        for each in _SHOWN.finditer(page.read_text("utf-8"))
        if "summary: false" in each["options"] and target(each["path"]).is_class
    ]


def _members(path: str) -> Iterator[str]:
    """The documented members; they stand on the page in this order."""
    for name, member in target(path).members.items():
        if not name.startswith("_") and member.has_docstring:
            yield f"{path}.{name}"


def _rows(title: str, paths: list[str]) -> str:
    lines = [f"| {title} | |", "|---|---|"]
    for path in paths:
        found = target(path)
        name = found.name + ("()" if isinstance(found, griffe.Function) else "")
        lines.append(f"| [`{name}`][{path}] | {first_sentence(found)} |")
    return "\n".join(lines)


def first_sentence(found: griffe.Object) -> str:
    """Of the docstring, as Markdown for a table's cell."""
    if found.docstring is None:
        return ""
    paragraph = " ".join(found.docstring.value.partition("\n\n")[0].split())
    sentence = _SENTENCE_ENDS.split(paragraph)[0].rstrip(":;")
    return sentence.replace("``", "`").replace("|", "\\|")
