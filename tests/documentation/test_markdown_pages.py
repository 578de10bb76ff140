"""The site has each page as Markdown, and a list of the pages for programs that read."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.documentation.api_pages import AREAS, shown
from tests.documentation.pages import DOCS, ROOT


@pytest.fixture(scope="module")
def program() -> ModuleType:
    path = DOCS / ".site" / "markdown_pages.py"
    spec = importlib.util.spec_from_file_location("markdown_pages", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(program: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    program.write(folder)
    return folder


def test_every_page_is_there_and_listed(site: Path) -> None:
    sources = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    written = {path.relative_to(site).as_posix() for path in site.rglob("*.md")}
    overview = (site / "llms.txt").read_text("utf-8")
    assert written == sources
    assert set(re.findall(r"^- \[[^]]+\]\(([^)]+)\): \S", overview, re.M)) == sources
    assert overview.startswith("# aioproducer\n\n> ")
    assert "starts a cluster" not in overview, "a page begins with its purpose"


def test_nothing_is_left_to_the_site(site: Path) -> None:
    for path in site.rglob("*.md"):
        text = path.read_text("utf-8")
        assert not re.search(r"^(:::|--8<--|---\n|<!-- )", text, re.M), path.name
        assert ":class:" not in text, path.name
        assert text.startswith("# "), path.name


def test_what_a_page_includes_is_written_out(site: Path) -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert (site / "changelog.md").read_text("utf-8").strip() == changelog.strip()
    measured = (site / "explanation" / "measurements.md").read_text("utf-8")
    assert "## Workloads" in measured


@pytest.mark.parametrize("page", sorted(AREAS.glob("*.md")), ids=lambda page: page.stem)
def test_an_api_page_has_signatures_and_docstrings(site: Path, page: Path) -> None:
    text = (site / page.relative_to(DOCS)).read_text("utf-8")
    for path in shown(page):
        assert f"\n## `{path.rpartition('.')[2]}`\n\n```python\n" in text
    if page.stem == "producer":
        assert "async def close(timeout: float | None = None) -> int" in text
        assert "__class_getitem__" not in text
