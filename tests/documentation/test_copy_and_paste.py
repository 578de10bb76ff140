"""A reader can copy each block: commands work in a clone, and have neither prompts nor output.

What a block imports or runs is installed by the package itself, or by a command of the page.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.documentation.pages import DOCS, PAGES, ROOT, blocks, name

EXAMPLES: Final = sorted((ROOT / "examples").rglob("*.py"))
INSTALL: Final = re.compile(r"pip install\s+'aioproducer\[")
CLUSTER: Final = "localhost:9092"
WAYS_TO_A_CLUSTER: Final = ("aioproducer mock", "aioproducer.testing", "kafka-server-start")
COLUMNS: Final = re.compile(r"\S {3,}\S")
WIDTH: Final = 104
"""The columns of a listing beside both sidebars, in a window of 1,280 pixels."""
COMMAND_WIDTH: Final = 82
"""The columns of a command there, left of the button that copies it."""
MEASUREMENTS: Final = tuple(ROOT / "benchmarks" / each for each in ("README.md", "RESULTS.md"))
MADE: Final = re.compile(r"--topic ([\w-]+)")
SENT: Final = re.compile(r"\bsend(?:_many)?\(\s*\"([\w-]+)\"")
READ: Final = re.compile(r"\bReader\(\s*(?:TopicPartition\()?\"([\w-]+)\"")
ELSEWHERE: Final = {
    "docs/how-to/broker-telemetry.md": "brokers with a plugin for metrics",
    "docs/how-to/outbox.md": "a database, too",
    "docs/how-to/security.md": "a secured cluster",
    "docs/how-to/functions-that-freeze.md": "a program for a cloud",
    "docs/reference/configuration.md": "an option's form",
}
"""The pages whose programs are not for a first try."""
LOCAL: Final = [
    page
    for page in PAGES
    if any(CLUSTER in block.text for block in blocks(page, "python"))
    and name(page) not in ELSEWHERE
    and "spark" not in page.name
]
INSTALLS: Final = re.compile(r"pip\s+install\s+([^`\n]+)")
PACKAGES: Final = {
    "azure": {"azure-identity"},
    "confluent_kafka": {"testing", "confluent-kafka"},
    "google": {"schema-registry", "google-auth"},
    "kafka": {"kafka-python"},
    "opentelemetry": {"otel"},
    "prometheus_client": {"prometheus"},
    "pyarrow": {"arrow", "spark"},
    "pyspark": {"spark", "spark-connect"},
}
"""The packages and extras that bring a module or a program of another name."""
AT_HAND: Final = {"aioproducer", "pydantic"}
WITH_ANOTHER_CLIENT: Final = {"docs/how-to/schema-registry.md": {"confluent_kafka", "kafka"}}
"""The modules that the readers of a page have: they come from another client."""
PROGRAMS: Final = {"celery", "faststream", "gunicorn", "pytest", "uvicorn"}
OF_A_CLONE: Final = re.compile(r"--(?:app-dir|chdir|workdir)\b")


def imported(text: str) -> Iterator[str]:
    """The names of the modules that ``text`` imports, without their submodules."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for node in ast.walk(compile(text, "block", "exec", flags, dont_inherit=True)):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def installed(page: Path) -> set[str]:
    """The packages and extras that the page's commands install."""
    text = page.read_text("utf-8")
    return {each for line in INSTALLS.findall(text) for each in re.findall(r"[\w-]+", line)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_installs_what_its_blocks_need(page: Path) -> None:
    here = {each.module for each in blocks(page, "python")} | AT_HAND
    here |= WITH_ANOTHER_CLIENT.get(name(page), set())
    needed = {each for block in blocks(page, "python") for each in imported(block.text)}
    for block in blocks(page, "sh"):
        needed |= {
            words[0] for line in block.text.splitlines() if (words := line.split())
        } & PROGRAMS
    brought = installed(page)
    missing = {
        each
        for each in needed - here - sys.stdlib_module_names
        if not brought & (PACKAGES.get(each, set()) | {each})
    }
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_programs_run_outside_of_the_clone(page: Path) -> None:
    """A server that is started in the clone imports its source, which is not compiled."""
    for block in blocks(page, "sh"):
        assert OF_A_CLONE.findall(block.text) == []


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=name)
def test_commands_can_be_copied(page: Path) -> None:
    assert blocks(page, "console") == []
    for block in blocks(page, "sh"):
        assert re.findall(r"^[$>] .*", block.text, re.M) == []
    for paragraph in page.read_text("utf-8").split("\n\n"):
        if INSTALL.search(paragraph):
            assert "After this first install" in paragraph, "it is on no package index: '.[extra]'"


@pytest.mark.parametrize("page", [*sorted(DOCS.rglob("*.md")), *MEASUREMENTS], ids=name)
def test_commands_do_not_wrap_in_the_middle_of_an_option(page: Path) -> None:
    for block in blocks(page, "sh"):
        assert [line for line in block.text.splitlines() if len(line) > COMMAND_WIDTH] == []


@pytest.mark.parametrize("page", LOCAL, ids=name)
def test_a_page_says_how_to_get_its_cluster(page: Path) -> None:
    text = page.read_text("utf-8")
    assert any(each in text for each in WAYS_TO_A_CLUSTER)


@pytest.mark.parametrize("page", LOCAL, ids=name)
def test_a_reader_finds_its_topic(page: Path) -> None:
    """The mock cluster creates a topic when a producer first sends to it, not for a reader."""
    made = {topic for block in blocks(page, "sh") for topic in MADE.findall(block.text)}
    for block in blocks(page, "python"):
        made |= set(SENT.findall(block.text))
        if not block.module:
            assert set(READ.findall(block.text)) <= made, f"{page}:{block.line}"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name)
def test_the_columns_of_a_listing_fit(page: Path) -> None:
    """The site breaks longer lines of text at the width of the page, in the middle of a column."""
    listed = [line for block in blocks(page, "text") for line in block.text.splitlines()]
    assert [line for line in listed if COLUMNS.search(line) and len(line) > WIDTH] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_type_is_read_as_html(page: Path) -> None:
    text = page.read_text("utf-8")
    prose = re.sub(r"^```.*?^```$|`[^`]*`", "", text, flags=re.M | re.S)
    assert re.findall(r"\w+<\w+[:,>]", prose) == []


def test_what_is_looked_for() -> None:
    assert INSTALL.search("`pip install\n'aioproducer[otel]'`")
    assert {DOCS / "index.md", ROOT / "README.md"} <= {*LOCAL}
