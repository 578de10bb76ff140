"""The tests of the page about tests pass in a user's project, each block in its own file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.documentation.pages import DOCS, blocks
from tests.support.pytest_project import run_pytest

PAGE: Final = DOCS / "how-to" / "testing.md"


def test_the_tests_of_the_page(tmp_path: Path) -> None:
    [project] = blocks(PAGE, "toml")
    found = blocks(PAGE, "python")
    text = "".join(block.text for block in found)
    seeds = re.findall(r'parametrize\("seed", range\((\d+)\)\)', text)
    tests = text.count("def test_") + sum(int(each) - 1 for each in seeds)
    plugins = ("pytest_aioproducer", "pytest_asyncio.plugin")
    files = {f"{each.module or f'test_{each.line}'}.py": each.text for each in found}
    files["pyproject.toml"] = project.text
    run = run_pytest(tmp_path, files, plugins=plugins)
    assert run.outcomes == {"passed": tests}, run.output
    assert "Warning" not in run.output
