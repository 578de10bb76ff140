"""Links, names of files and lengths in the documentation, as GitHub shows it."""

from __future__ import annotations

import ast
import configparser
import re
from pathlib import Path
from typing import Final

import pytest

from tests.documentation.pages import DOCS, PAGES, ROOT, anchors, blocks, links, name

PACKAGE: Final = ROOT / "aioproducer"
FILE: Final = re.compile(r"(?<![\w/.])((?:[a-z_]+/)*[a-zA-Z_]+\.py)\b")
ARCHITECTURE: Final = DOCS / "explanation" / "architecture.md"
MAPS: Final = (ROOT / "CONTRIBUTING.md", ARCHITECTURE)
SOURCES: Final = ("aioproducer", "benchmarks", "docs", "examples", "tests")
SCREEN: Final = 45
"""The lines of a listing that a reader takes in at once."""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        assert "://" not in target, f"{target}: nothing here depends on another site"
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), f"{name(page)}: {target}"
        if anchor:
            assert anchor in anchors(other), f"{name(page)}: {target}"


def _tests_in(file: str) -> set[str]:
    """The names of the tests of a file."""
    return set(re.findall(r"^(?:async )?def (test_\w+)\(", (ROOT / file).read_text("utf-8"), re.M))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tests_that_are_named_are_there(page: Path) -> None:
    for file, test in re.findall(r"`(tests/[\w/]+\.\w+)(?:::(\w+))?`", page.read_text("utf-8")):
        assert (ROOT / file).exists(), f"{name(page)}: {file}"
        assert not test or test in _tests_in(file), f"{name(page)}: {file}::{test}"


def test_the_page_of_evidence_names_tests() -> None:
    page = (DOCS / "explanation" / "security-evidence.md").read_text("utf-8")
    assert len(set(re.findall(r"`tests/[\w/]+\.py::\w+`", page))) > 50
    in_rows = [line for line in page.splitlines() if line.startswith("| ")]
    headings = [line for line in in_rows if line.endswith("| Test |")]
    assert all("::test_" in line for line in in_rows if line not in headings)


def test_there_are_links() -> None:
    assert len([target for page in PAGES for target in links(page)]) > 50


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, coming = set(), [ROOT / "README.md"]
    while coming:
        page = coming.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = (each.partition("#")[0] for each in links(page))
        coming += [(page.parent / each).resolve() for each in targets if each.endswith(".md")]
    alone = {name(page) for page in PAGES} - {name(page) for page in reached}
    assert alone == {"docs/index.md", "docs/changelog.md"}  # the site's own


def test_the_readme_is_a_front_door() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    by_hand = re.sub(r"<!-- figures:begin -->.*?<!-- figures:end -->", "", text, flags=re.S)
    assert len(by_hand.split()) <= 760


@pytest.mark.parametrize("page", MAPS, ids=name)
def test_the_files_on_the_maps_are_there(page: Path) -> None:
    """A file without its room stands in the room that was named before it."""
    named = FILE.findall(page.read_text("utf-8"))
    assert len(named) > 20
    there = [*ROOT.glob("*.py"), *(each for of in SOURCES for each in (ROOT / of).rglob("*.py"))]
    known = {path.relative_to(ROOT).as_posix() for path in there}
    for each in named:
        assert any(f"/{path}".endswith(f"/{each}") for path in known), f"{name(page)}: {each}"


def test_a_step_and_a_decision_have_one_file_with_what_they_name() -> None:
    lines = [line for block in blocks(ARCHITECTURE, "text") for line in block.text.splitlines()]
    lines += [each for each in ARCHITECTURE.read_text("utf-8").splitlines() if each[:2] == "| "]
    places = [each for each in lines if FILE.search(each)]
    assert len(places) > 100
    for line in places:
        [file] = FILE.findall(line)
        code = (PACKAGE / file).read_text("utf-8")
        _, _, after = line.partition(file)
        for word in re.findall(r"\w+(?=\.\w+\(\)|\(\))|(?<=: `)\w+(?=`)", after):
            assert re.search(rf"^(?: *(?:async )?(?:def|class) )?{word}\b", code, re.M), line


def test_a_decision_stands_once() -> None:
    rows = [line for line in ARCHITECTURE.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert len(rows) > 50
    assert len({line.split("|")[1] for line in rows}) == len(rows)


def test_the_path_of_a_record_fits_on_a_screen() -> None:
    [path] = [each for each in blocks(ARCHITECTURE, "text") if "Producer.send()" in each.text]
    assert len(path.text.splitlines()) <= SCREEN


def _map_of_rooms(folder: str) -> list[str]:
    """The rooms in their order: those of the package on the map, those of a folder in its head."""
    if folder:
        head = ast.get_docstring(ast.parse((PACKAGE / folder / "__init__.py").read_text("utf-8")))
        return re.findall(r"^    (\w+)  ", head or "", re.M)
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("<!-- packages:begin -->")[2].partition("<!-- packages:end -->")[0]
    return [line.split()[0] for line in section.strip().splitlines()[1:-1]]


def _layers(contract: str) -> list[set[str]]:
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter", "utf-8")
    layers = config[f"importlinter:contract:{contract}"]["layers"].strip().splitlines()
    return [set(re.findall(r"\w+", layer)) for layer in layers]


@pytest.mark.parametrize("folder", ["", "engine", "foundation"])
def test_the_map_has_the_rooms_of_the_import_contract_in_their_order(folder: str) -> None:
    found = iter(_map_of_rooms(folder))
    for layer in _layers(folder or "layers"):
        assert {next(found) for _ in layer} == layer
    assert list(found) == []


@pytest.mark.parametrize("folder", ["", "engine", "foundation"])
def test_every_room_on_the_map_is_there(folder: str) -> None:
    there = {path.name.partition(".")[0] for path in (PACKAGE / folder).iterdir()}
    assert set(_map_of_rooms(folder)) == there - {"__init__", "__pycache__", "py", "_compiled"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_are_targets_of_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    commands = set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text("utf-8"), re.M))
    assert commands <= targets
    if page.name == "README.md":
        assert {"demo", "test"} <= commands


@pytest.mark.parametrize("page", [page for page in PAGES if page.is_relative_to(DOCS)], ids=name)
def test_python_fits_beside_the_sidebars(page: Path) -> None:
    """The site shows 80 columns in a window of 1280 pixels, and ``ruff format`` keeps to them."""
    lines = [line for block in blocks(page, "python") for line in block.text.splitlines()]
    assert [line for line in lines if len(line) > 80] == []


def test_the_blocks_say_what_they_are() -> None:
    bare = [f"{name(page)}:{block.line}" for page in PAGES for block in blocks(page, "")]
    assert bare == []
