"""Each page of the site as Markdown, and ``llms.txt``, which lists them.

``make docs`` runs it after the build: ``python docs/.site/markdown_pages.py build/site``. A page's
Markdown stands beside its HTML, so relative links hold in both. Included files and the API's
signatures and docstrings are written out.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import griffe

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"

_FRONT_MATTER: Final = re.compile(r"\A---\n.*?\n---\n+", re.S)
_INCLUDED: Final = re.compile(r'^--8<-- "(?P<file>[^":]+)(?::(?P<first>\d+):)?"$', re.M)
_SHOWN: Final = re.compile(r"^::: (?P<path>[\w.]+)\n(?: .*\n)*", re.M)
_CROSS_REFERENCE: Final = re.compile(r"\[(`[^`\n]+`)\]\[[\w.]+\]")
_MARKER: Final = re.compile(r"^<!-- [\w-]+:(?:begin|end) -->\n", re.M)
_KEY: Final = re.compile(r"<!--(?:[^<>\s][^<>\n]*)?-->")
"""Around a figure of the benchmarks."""
_ANCHOR: Final = re.compile(r'<a id="[\w-]+"></a>')
_FENCE: Final = re.compile(r"^```.*?^```$", re.M | re.S)


class Entry(NamedTuple):
    """A page of the navigation."""

    group: str
    title: str
    path: str
    """Of the Markdown, below the folder of the site."""


def navigation() -> list[Entry]:
    """The pages in their order."""
    settings = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    return list(_entries(settings["nav"], ()))


def _entries(items: list[dict[str, Any]], groups: tuple[str, ...]) -> Iterator[Entry]:
    for item in items:
        for title, below in item.items():
            if isinstance(below, str):
                yield Entry(": ".join(groups), title, below)
            else:
                yield from _entries(below, (*groups, title))


def markdown(page: Path) -> str:
    """The page as it can be read without the site."""
    text = _FRONT_MATTER.sub("", page.read_text("utf-8"))
    text = _INCLUDED.sub(_included, text)
    text = _SHOWN.sub(lambda found: "\n".join(_described(found["path"])) + "\n", text)
    for pattern, instead in (
        (_CROSS_REFERENCE, r"\1"),
        (_MARKER, ""),
        (_KEY, ""),
        (_ANCHOR, ""),
    ):
        text = pattern.sub(instead, text)
    return text


def _included(found: re.Match[str]) -> str:
    lines = (ROOT / found["file"]).read_text("utf-8").splitlines()
    return "\n".join(lines[int(found["first"] or 1) - 1 :])


def summary(text: str) -> str:
    """The first sentence of a page."""
    paragraphs = _FENCE.sub("", text).partition("\n")[2].strip().split("\n\n")
    prose = next(
        (each for each in paragraphs if not each.startswith(("#", "|", "!", "-"))),
        "",
    )
    plain = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", " ".join(prose.split()))
    return re.split(r"(?<=[.:!?])\s", plain)[0].rstrip(":")


def overview(pages: dict[Entry, str]) -> str:
    """The text of ``llms.txt``."""
    settings = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    groups: dict[str, list[str]] = {}
    for entry, text in pages.items():
        line = f"- [{entry.title}]({entry.path}): {summary(text)}"
        groups.setdefault(entry.group, []).append(line)
    lines = [
        f"# {settings['site_name']}",
        "",
        f"> {settings['site_description']}",
    ]
    for group, listed in groups.items():
        lines += ["", f"## {group}", "", *listed] if group else ["", *listed]
    return "\n".join(lines) + "\n"


@cache
def _package() -> griffe.Object:
    roles = griffe.load_extensions(str(DOCS / ".site" / "roles.py"))
    found = griffe.load(
        "aioproducer", search_paths=[ROOT], extensions=roles, allow_inspection=False
    )
    assert isinstance(found, griffe.Object)
    return found


def _target(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found


def _described(path: str) -> Iterator[str]:
    found = _target(_package()[path.removeprefix("aioproducer.")])
    if isinstance(found, griffe.Module):
        own = (name for name, member in found.members.items() if not member.is_alias)
        for name in found.exports or own:
            if not str(name).startswith("_"):
                yield from _described(f"{path}.{name}")
        return
    yield from _object(found, path.rpartition(".")[2], "##")
    for name, member in found.members.items():
        if not name.startswith("_") and member.has_docstring:
            yield from _object(_target(member), name, "###")


def _object(found: griffe.Object, name: str, heading: str) -> Iterator[str]:
    yield from (
        f"{heading} `{name}`",
        "",
        "```python",
        _signature(found, name),
        "```",
        "",
    )
    if found.docstring is not None:
        yield from (found.docstring.value, "")


def _signature(found: griffe.Object, name: str) -> str:
    if isinstance(found, griffe.Class):
        init = found.all_members.get("__init__")
        target = None if init is None else _target(init)
        inside = target.signature(name=name) if isinstance(target, griffe.Function) else name
        return f"class {inside.removesuffix(' -> None')}"
    if isinstance(found, griffe.Function):
        return f"{'async ' if 'async' in found.labels else ''}def {found.signature(name=name)}"
    annotation = getattr(found, "annotation", None)
    return name if annotation is None else f"{name}: {annotation}"


def write(site: Path) -> None:
    """Put the Markdown of each page, and ``llms.txt``, into the built site."""
    pages = {entry: markdown(DOCS / entry.path) for entry in navigation()}
    for entry, text in pages.items():
        target = site / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    (site / "llms.txt").write_text(overview(pages), "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
