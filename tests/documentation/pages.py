"""The pages of the documentation, and the code in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))

_FENCE: Final = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
_FILE: Final = re.compile(r"`(?P<module>\w+)\.py`:\n\n\Z")
_HEADING: Final = re.compile(r"^#+ (?P<title>.+)$", re.M)
_LINK: Final = re.compile(r"!?\[[^]]*\]\((?P<target>[^)\s]+)\)")
_CODE: Final = re.compile(r"`[^`\n]+`")
_ANCHOR: Final = re.compile(r'<a id="(?P<name>[\w-]+)"></a>')


class Block(NamedTuple):
    """One fenced block."""

    language: str
    text: str
    line: int
    """The line of the page on which the text begins, from 1."""
    module: str = ""
    """The module that other blocks import, if the page says ``in `name.py`:``."""


def name(page: Path) -> str:
    """The page's path below the root."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[Block]:
    """The page's blocks in a language, in their order."""
    text = page.read_text("utf-8")
    found = []
    for each in _FENCE.finditer(text):
        if each["language"] == language:
            file = _FILE.search(text[: each.start()])
            line = text.count("\n", 0, each.start("text")) + 1
            found.append(Block(language, each["text"], line, file["module"] if file else ""))
    return found


def links(page: Path) -> list[str]:
    """The targets of the page's links and pictures."""
    text = _CODE.sub("``", _FENCE.sub("", page.read_text("utf-8")))
    return [each["target"] for each in _LINK.finditer(text)]


def anchors(page: Path) -> set[str]:
    """The names of the page's headings, as they are linked to, and its anchors."""
    text = _FENCE.sub("", page.read_text("utf-8"))
    headings = {_slug(each["title"]) for each in _HEADING.finditer(text)}
    return headings | {each["name"] for each in _ANCHOR.finditer(text)}


def _slug(title: str) -> str:
    words = re.sub(r"[^\w\- ]", "", title.lower()).strip()
    return words.replace(" ", "-")
