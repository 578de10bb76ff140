"""Sentences of the documentation begin with their subject."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.documentation.pages import PAGES, ROOT, name

ALL: Final = (*PAGES, *(ROOT / "benchmarks" / each for each in ("README.md", "RESULTS.md")))
FENCED: Final = re.compile(r"^```.*?^```$", re.M | re.S)
HEADING: Final = re.compile(r"^(?:#+ |\| .* \|\n\|-).*$", re.M)
HEADLESS: Final = re.compile(
    r"(?:^|\n\n|[.:;!?)] |\| |- |\*\* ?)"
    r"((?:What|Who|Whoever|Whatever|Those who|That is what)\b[^.|]*)"
)


def headless(text: str) -> list[str]:
    """The sentences that open with a clause in place of a noun."""
    prose = HEADING.sub("", FENCED.sub("", text)).replace("\n\n", "\0").replace("\n", " ")
    return [each.strip() for each in HEADLESS.findall(prose.replace("\0", "\n\n"))]


@pytest.mark.parametrize("page", ALL, ids=name)
def test_sentences_begin_with_their_subject(page: Path) -> None:
    assert headless(page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "What is wrong is said by name.",
        "It fails. Whoever\nneeds more looks at the errors.",
        "- **Sure.** Who breaks this is refused.",
        "| event | What went wrong |",
        "A list:\n\nWhat is not obvious:\n",
    ],
)
def test_headless_sentences_are_noticed(text: str) -> None:
    assert len(headless(text)) == 1


def test_headings_and_code_are_left_alone() -> None:
    assert headless("# What is guaranteed\n\n```text\nWhat = 1\n```\n\nThe producer knows.\n") == []
