"""The tests of the page about tests pass in a project of a user."""

from __future__ import annotations

import re
from pathlib import Path

from tests.documentation.pages import DOCS, blocks
from tests.support.pytest_project import run_pytest


def test_the_tests_of_the_page(tmp_path: Path) -> None:
    found = blocks(DOCS / "how-to" / "testing.md", "python")
    text = "\n\n".join(block.text for block in found)
    seeds = re.findall(r'parametrize\("seed", range\((\d+)\)\)', text)
    tests = text.count("def test_") + sum(int(each) - 1 for each in seeds)
    plugins = ("pytest_aioproducer", "pytest_asyncio.plugin")
    run = run_pytest(tmp_path, {"test_page.py": text}, "--asyncio-mode=auto", plugins=plugins)
    assert run.outcomes == {"passed": tests}, run.output
