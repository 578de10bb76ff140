"""Sentences begin with their subject, and avoid phrases that read as translated."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.documentation.pages import PAGES, ROOT, name
from tests.documentation.public_api import docstrings

MORE: Final = ("CHANGELOG.md", "SECURITY.md", "benchmarks/README.md", "benchmarks/RESULTS.md")
ALL: Final = (*PAGES, *(ROOT / each for each in MORE))
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


TORN: Final = re.compile(r"^ *<!--\S.*|[.:;)`] - (?=[A-Z*`\[\"]).*", re.M)
"""A figure's key at the start of a line, which ends the paragraph, and an item within a line."""


def torn(text: str) -> list[str]:
    return [each.group() for each in TORN.finditer(FENCED.sub("", text))]


@pytest.mark.parametrize("page", ALL, ids=name)
def test_paragraphs_and_items_are_whole(page: Path) -> None:
    assert torn(page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "It sends\n<!--bulk:x-->1<!----> records/s.",
        "- It signs. - It runs\n  in threads.",
        "- It signs. - **Runs** on.",
    ],
)
def test_torn_text_is_noticed(text: str) -> None:
    assert len(torn(text)) == 1


FOREIGN: Final = {
    r"counts? (?:where|instead of)\b": "applies, overrides",
    r"\bgiven as an? object\b": "if you pass an instance",
    r"\bvanish(?:es)?\b": "disappears",
    r"(?:^|[.:;] )By itself,": "By default,",
    r"\blooks for one\b": "uses, needs",
    r"\ball the same\b": "still, anyway",
    r"\b(?:made|read|fetched) anew\b": "again",
    r"\bas (?:they come|it stands|they stand)\b": "as they arrive, unchanged",
    r"\bfor ever\b": "forever",
    r"\bmends?\b": "fix",
    r"\bin place of\b": "instead of",
    r"\bthe same holds\b": "the same applies",
    r"\bways? of (?:a|the|one) (?:records?|batch)\b": "the path of a record, how a record travels",
    r"\banew\b(?!\])": "again",
    r"\bin the moment in which\b": "just as, when",
    r"\bempty text\b|\b(?:list|sequence|tuple)s? of texts\b": "an empty string, strings",
    r"\bdid not become known\b": "is unknown after",
    r"\bneeds as many brokers\b": "3 replicas need 3 brokers",
    r"\bnone that is None\b|\bit is no such\b": "None for others",
    r"\bstands? beside\b": "is with, is next to",
    r"\brooms\b|\b(?:pure|this) room\b": "packages",
    r"\bthat never leave\b": "that are never sent",
    r"\bcome and go\b": "rebalances, changes",
    r"\bstood there\b": "its content at the time of the call",
    r"\bwhoever\b": "anyone who, a user who",
    r"\bis young\b": "is a release candidate",
    r"(?:^|[,;:.] |\(|\| )also (?:with|while|when|if|in|for|after|of|through|without|from|on|at)\b"
    r"|, also (?:an?|one|to|those|by)\b": "even, including",
    r"\d %": "20%",
    r"\b(?:goes?|went|gone) on\b": "continues",
    r"(?<!there )\bis no (?!longer\b|such\b)": "is not a",
    r"\bwhite space\b|\blook-ups?\b|\bset-ups?\b": "one word",
    r"\bbehind (?:the (?:data|log|marker)|them|offset|markers?)\b": "after, past",
    r"\bon (?:its|their) way\b": "in flight, in transit",
    r"\bstands? (?:before|only)\b|\bmay stand\b": "is before, is only in",
    r"\bsomething else than\b": "something other than",
    r"\b(?:runs|started) already\b": "is already running, is already started",
    r"\bin spite of\b": "despite",
    r"\bsince (?:Kafka|Python) \d": "from Kafka 4.4 on",
    r"\bthis holds for\b": "this applies to",
    r"\ba (?:real )?Kafka(?=[,.;:)]| (?:at|of|with|without|that|on)\b)": "a Kafka cluster, brokers",
    r"\b(?:has|have) no form in\b|\bwithout a form in\b": "can't represent",
    r"\bup to \w+ times as much\b": "a figure with a recorded source, or several times",
}
"""Phrases that read as translated, each with words to use instead."""
CODE: Final = re.compile(r"^```.*?^```$|`[^`]*`", re.M | re.S)
OTHER: Final = ("docs/reference/public-names.md",)
"""A page of signatures."""


def foreign(text: str) -> list[str]:
    """The foreign phrases in ``text``, each with the words to use."""
    prose = " ".join(CODE.sub("", text).split())
    return [
        f"{found.group().strip()!r}: better {better}"
        for phrase, better in FOREIGN.items()
        for found in re.finditer(phrase, prose, re.I)
    ]


@pytest.mark.parametrize("page", [each for each in ALL if name(each) not in OTHER], ids=name)
def test_pages_have_native_phrases(page: Path) -> None:
    assert foreign(page.read_text("utf-8")) == []


def test_docstrings_have_native_phrases() -> None:
    texts = docstrings()
    assert len(texts) > 500
    found = {place: phrases for place, text in texts.items() if (phrases := foreign(text))}
    assert found == {}


def messages(module: ast.Module) -> Iterator[str]:
    """The texts of a module that are no docstrings; ``X`` stands for each value in them."""
    described = {id(each.value) for each in ast.walk(module) if isinstance(each, ast.Expr)}
    for each in ast.walk(module):
        if isinstance(each, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "X" for part in each.values
            )
        elif isinstance(each, ast.Constant) and id(each) not in described:
            yield str(each.value)


def test_messages_have_native_phrases() -> None:
    found = {
        (name(path), phrase)
        for path in (ROOT / "aioproducer").rglob("*.py")
        for text in messages(ast.parse(path.read_text("utf-8")))
        if " " in text
        for phrase in foreign(text)
    }
    assert found == set()


def test_messages_are_found() -> None:
    module = ast.parse(
        '"""It vanishes."""\n\nraise ValueError(f"{x} is fetched anew", "for ever")\n'
    )
    assert ["X is fetched anew" in text for text in messages(module)].count(True) == 1
    assert "for ever" in [*messages(module)]
    assert "It vanishes." not in [*messages(module)]


@pytest.mark.parametrize(
    "text",
    [
        "The brokers' defaults count where a number is left out.",
        "A serializer that is given as\nan object is closed by its owner.",
        "A closed producer vanishes.",
        "By itself, each record is delivered.",
        "No broker listens where it looks for one.",
        "The way of a record through the files.",
        "The topic did not become known in time.",
        "Pure rooms get the time.",
        "The token is asked for anew.",
        "Partitions are read from their beginning, also with `latest`.",
        "All methods are there (also from several tasks).",
        "With 20 % jitter.",
        "A cancelled commit goes on in the background.",
        "The number is no int.",
        "The position behind the marker.",
        "It needs a real Kafka, and Java.",
        "A type that has no form in JSON.",
    ],
)
def test_foreign_phrases_are_noticed(text: str) -> None:
    assert len(foreign(text)) == 1


def test_code_and_other_words_pass() -> None:
    text = "It counts records. `for ever`\n\n```text\nit vanishes\n```\n\nA part works by itself.\n"
    text += "There is no leader; it is no longer in use. A cluster behind a proxy. It is also one."
    assert foreign(text) == []
