"""Each page of the site as Markdown, ``llms.txt``, which lists them, and what search engines see.

``make docs`` runs it after the build: ``python docs/.site/markdown_pages.py build/site``. A page's
Markdown is next to its HTML, so relative links hold in both. Included files and the API's
signatures and docstrings are written out. Each page gets a description and a title of its own. The
search of the site finds each option by its name.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
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
_OPTION: Final = re.compile(
    r'^\| <a id="(?P<name>\w+)"></a>\[[^]]*\]\([^)]*\)[^|]*\| (?P<meaning>.*) \|$', re.M
)
_NAME: Final = re.compile(r"#(?P<owner>aioproducer[\w.]*)\.(?P<name>\w+)$")
_DESCRIPTION: Final = re.compile(r'<meta name="description" content="[^"]*">')
_TITLE: Final = re.compile(r"<title>(?P<title>.*) - ")
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


def described(html: str, entry: Entry, text: str, *, is_only: bool) -> str:
    """The HTML of a page with its own description and title.

    ``is_only``: no other page has its heading.
    """
    content = escape(re.sub("[`*]", "", summary(text)))
    html = _DESCRIPTION.sub(lambda _: f'<meta name="description" content="{content}">', html)
    if not is_only:
        area = escape(entry.group.rpartition(": ")[2])
        html = _TITLE.sub(lambda found: f"<title>{found['title']} ({area}) - ", html)
    return html


def options(entry: Entry, text: str) -> Iterator[dict[str, Any]]:
    """The options in the tables of a page, as items of the search."""
    for row in _OPTION.finditer(text):
        meaning = row["meaning"].replace("<br>", " ")
        yield {
            "location": f"{Path(entry.path).with_suffix('.html')}#{row['name']}",
            "level": 3,
            "title": row["name"],
            "text": f"<p>{escape(re.sub(r'[*`]', '', meaning), quote=False)}</p>",
            "path": [*entry.group.split(": "), entry.title],
            "tags": [],
        }


def complete(items: list[dict[str, Any]], pages: Iterable[Entry]) -> None:
    """Add the options to the items of the search, and the class to the names of methods.

    A name has no labels, such as async. The search prefers titles that begin with its words, so
    names of ``Producer`` have no class.
    """
    for item in items:
        found = _NAME.search(item["location"])
        if found is not None:
            owner = found["owner"].rpartition(".")[2]
            is_plain = owner.islower() or found["owner"] == "aioproducer.Producer"
            item["title"] = found["name"] if is_plain else f"{owner}.{found['name']}"
    for entry in pages:
        items += options(entry, (DOCS / entry.path).read_text("utf-8"))


def write(site: Path) -> None:
    """Put the Markdown of each page, and ``llms.txt``, into the built site, and complete its HTML
    and its search."""
    pages = {entry: markdown(DOCS / entry.path) for entry in navigation()}
    headings = Counter(text.partition("\n")[0] for text in pages.values())
    for entry, text in pages.items():
        target = site / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
        html = target.with_suffix(".html")
        if html.exists():
            is_only = headings[text.partition("\n")[0]] == 1
            html.write_text(
                described(html.read_text("utf-8"), entry, text, is_only=is_only), "utf-8"
            )
    (site / "llms.txt").write_text(overview(pages), "utf-8")
    search = site / "search.json"
    if search.exists():
        found = json.loads(search.read_text("utf-8"))
        complete(found["items"], pages)
        search.write_text(json.dumps(found, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
