"""The built site: whole, strict, without anything from elsewhere, and also as Markdown."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest

from aioproducer.config.options import OPTIONS, options_of
from aioproducer.config.reader_options import READER_OPTIONS
from aioproducer.consumer import ConsumerOptions
from aioproducer.foundation.version import __version__
from tests.documentation.api_pages import AREAS, shown
from tests.documentation.pages import DOCS, ROOT

SOURCES: Final = ("aioproducer", "benchmarks", "CHANGELOG.md")
REPOSITORY: Final = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"][
    "repo_url"
]
SEARCH: Final = """
const [worker, index, ...queries] = process.argv.slice(1);
const fs = require("fs");
const wait = () => new Promise((resolve) => setTimeout(resolve, 20));
const data = JSON.parse(fs.readFileSync(index, "utf8"));
let answer;
globalThis.self = { postMessage: (message) => { answer = message; } };
(0, eval)(fs.readFileSync(worker, "utf8"));
const ask = async (type, data) => {
  answer = undefined;
  self.onmessage({ data: { type, data } });
  while (!answer) await wait();
  return answer.data;
};
(async () => {
  await ask(0, data);
  for (const input of queries) {
    const { items } = await ask(2, { input });
    console.log(data.items[items[0].id].location);
  }
})();
"""
"""Prints the first hit of each query, found by the worker of the site."""
LOADED: Final = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all that the site is built from."""
    pytest.importorskip("zensical", reason="NOT TESTED: it needs aioproducer[docs]")
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    for source in SOURCES:
        (folder / source).symlink_to(ROOT / source)
    return folder


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
def site(project: Path, program: ModuleType) -> Path:
    built = build(project)
    assert built.returncode == 0, built.stdout + built.stderr
    folder = project / "build" / "site"
    program.write(folder)
    return folder


class Page(HTMLParser):
    """The addresses that a built page links to and loads, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.classes: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.anchors |= {given[key] for key in ("id", "name") if key in given}
        self.classes |= set(given.get("class", "").split())
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        is_canonical = given.get("rel") == "canonical"
        if (address := given.get(LOADED.get(tag, ""))) is not None and not is_canonical:
            self.loads.append(address)


def pages(site: Path) -> Iterator[tuple[Path, Page]]:
    for path in sorted(site.rglob("*.html")):
        if path.name != "404.html":
            yield path, Page(path)


def test_every_page_of_the_navigation_is_built(site: Path) -> None:
    navigation = (ROOT / "zensical.toml").read_text("utf-8")
    listed = set(re.findall(r'= "([\w/-]+)\.md"', navigation))
    built = {path.relative_to(site).with_suffix("").as_posix() for path, _ in pages(site)}
    sources = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert listed == built == sources


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path, page in pages(site):
        for address in page.loads:
            parts = urlsplit(address)
            assert not parts.scheme or parts.scheme == "data", f"{path.name} loads {address}"
            assert not parts.netloc, f"{path.name} loads {address}"
        # These make the theme's script load more, from elsewhere.
        assert not page.classes & {"mermaid", "glightbox", "arithmatex", "md-source"}, path.name
    for style in site.rglob("*.css"):
        text = style.read_text("utf-8")
        assert not re.search(r"(?:url\(|@import\s*)[\"']?(?:https?:)?//", text), style.name


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    built = {path.resolve(): page for path, page in pages(site)}
    for path, page in built.items():
        for address in page.links:
            parts = urlsplit(address)
            if address == REPOSITORY:
                continue
            if parts.scheme or parts.netloc:
                pytest.fail(f"{path.name} links to {address}")
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            assert target.exists(), f"{path.name}: {address}"
            if parts.fragment and target in built:
                anchors = built[target].anchors
                assert unquote(parts.fragment) in anchors, f"{path.name}: {address}"


def test_the_api_is_that_of_the_docstrings(site: Path) -> None:
    anchors = {path.stem: page.anchors for path, page in pages(site) if path.parent.name == "api"}
    for area, each in (
        ("producer", "aioproducer.Producer.send_many"),
        ("records", "aioproducer.SendReport.of"),
        ("blocking", "aioproducer.sync.Producer.flush"),
        ("testing", "aioproducer.testing.MockCluster.requests"),
        ("errors", "aioproducer.errors.ProducerFencedError"),
    ):
        assert each in anchors[area]
    for area in anchors:
        text = (site / "reference" / "api" / f"{area}.html").read_text("utf-8")
        assert ":class:" not in text
        assert ":meth:" not in text
        assert "__class_getitem__" not in text
        assert "doc-overloads" not in text, "one signature each"


@pytest.mark.parametrize(("area", "is_async"), [("producer", True), ("blocking", False)])
def test_a_coroutine_function_is_marked_as_such(site: Path, area: str, is_async: bool) -> None:
    text = (site / "reference" / "api" / f"{area}.html").read_text("utf-8")
    assert ("doc-label-async" in text) == is_async


def test_warnings_are_shown_as_such(site: Path) -> None:
    sources = [path for path in DOCS.rglob("*.md") if "> [!" in path.read_text("utf-8")]
    assert len(sources) > 5
    for source in sources:
        path = site / source.relative_to(DOCS).with_suffix(".html")
        assert "[!" not in path.read_text("utf-8").replace("[![", ""), path.name
        assert "admonition" in Page(path).classes, path.name


def test_a_missing_page_leads_to_the_home_page(site: Path) -> None:
    text = (site / "404.html").read_text("utf-8")
    assert '<a href="/aioproducer/index.html">home page</a>' in text


def test_options_have_anchors(site: Path) -> None:
    anchors = Page(site / "reference" / "configuration.html").anchors
    assert {*OPTIONS, *READER_OPTIONS} <= anchors
    assert set(options_of(ConsumerOptions)) <= Page(site / "how-to" / "consuming.html").anchors


def test_no_anchor_stands_twice_on_a_page(site: Path) -> None:
    for path in site.rglob("*.html"):
        found = re.findall(r'<(?:a|h\d|span)[^>]* id="([^"]+)"', path.read_text("utf-8"))
        assert sorted({each for each in found if found.count(each) > 1}) == [], path.name


FIRST: Final = {
    "exactly once": "how-to/transactions.html#exactly-once-consume-transform-produce",
    "flush": "reference/api/producer.html#aioproducer.Producer.flush",
    "timeout": "reference/configuration.html#delivery_timeout_ms",
    "linger": "reference/configuration.html#linger_ms",
    "retry": "how-to/errors.html#retry-or-not",
}


@pytest.mark.skipif(shutil.which("node") is None, reason="NOT TESTED: there is no node")
def test_the_search_finds_first_what_is_meant(site: Path) -> None:
    [worker] = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    found = subprocess.run(
        ["node", "-e", SEARCH, worker, site / "search.json", *FIRST],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert dict(zip(FIRST, found.stdout.splitlines(), strict=True)) == FIRST


def test_each_page_has_a_title_and_a_description_of_its_own(site: Path) -> None:
    for pattern in (r"<title>(.+?)</title>", r'<meta name="description" content="([^"]+)">'):
        found = [re.findall(pattern, path.read_text("utf-8")) for path, _ in pages(site)]
        assert all(len(each) == 1 for each in found)
        texts = [text for [text] in found]
        assert sorted({each for each in texts if texts.count(each) > 1}) == []


def test_the_site_follows_the_system_and_leads_to_the_repository(site: Path) -> None:
    text = (site / "index.html").read_text("utf-8")
    assert re.findall(r'data-md-color-media="\(prefers-color-scheme([^)]*)', text) == [
        "",
        ": light",
        ": dark",
    ]
    assert REPOSITORY in Page(site / "index.html").links
    assert f"<span>{__version__}</span>" in text


def test_a_broken_link_ends_the_build(project: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / "docs").mkdir(parents=True)
    settings = tomllib.loads((project / "zensical.toml").read_text("utf-8"))["project"]
    assert settings["docs_dir"] == "docs"
    (broken / "docs" / "index.md").write_text("# Home\n\n[There](nowhere.md)\n")
    (broken / "zensical.toml").write_text('[project]\nsite_name = "broken"\n')
    assert build(broken).returncode != 0


@pytest.fixture(scope="module")
def markdown_site(program: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    program.write(folder)
    return folder


def test_every_page_is_there_and_listed(markdown_site: Path) -> None:
    sources = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    written = {path.relative_to(markdown_site).as_posix() for path in markdown_site.rglob("*.md")}
    overview = (markdown_site / "llms.txt").read_text("utf-8")
    assert written == sources
    assert set(re.findall(r"^- \[[^]]+\]\(([^)]+)\): \S", overview, re.M)) == sources
    assert overview.startswith("# aioproducer\n\n> ")
    assert "starts a cluster" not in overview, "a page begins with its purpose"


def test_nothing_is_left_to_the_site(markdown_site: Path) -> None:
    for path in markdown_site.rglob("*.md"):
        text = path.read_text("utf-8")
        assert not re.search(r"^(:::|--8<--|---\n|<!-- )", text, re.M), path.name
        assert ":class:" not in text, path.name
        assert text.startswith("# "), path.name


def test_what_a_page_includes_is_written_out(markdown_site: Path) -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert (markdown_site / "changelog.md").read_text("utf-8").strip() == changelog.strip()
    measured = (markdown_site / "explanation" / "results.md").read_text("utf-8")
    assert "## Workloads" in measured


@pytest.mark.parametrize("page", sorted(AREAS.glob("*.md")), ids=lambda page: page.stem)
def test_an_api_page_has_signatures_and_docstrings(markdown_site: Path, page: Path) -> None:
    text = (markdown_site / page.relative_to(DOCS)).read_text("utf-8")
    for path in shown(page):
        assert f"\n## `{path.rpartition('.')[2]}`\n\n```python\n" in text
    if page.stem == "producer":
        assert "async def close(timeout: float | None = None) -> int" in text
        assert "__class_getitem__" not in text
