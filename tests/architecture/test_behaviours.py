"""Each of the behaviours of Kafka's producer is shown by tests, or a page says why not."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = Path(__file__).with_name("behaviours.md")
REASON, NOT_YET = "reason: ", "not yet: "


class Behaviour(NamedTuple):
    """One row of the table."""

    says: str
    shown_by: str

    @property
    def tests(self) -> list[str]:
        return self.shown_by.removeprefix(NOT_YET).split(", ")


def behaviours() -> list[Behaviour]:
    rows = [line for line in TABLE.read_text("utf-8").splitlines() if line.startswith("|")]
    cells = [row.strip("|").split(" | ") for row in rows]
    assert all(len(each) == 2 for each in cells if "---" not in each[0])
    found = [Behaviour(each[0].strip(), each[1].strip()) for each in cells if len(each) == 2]
    return [each for each in found if each != ("behaviour", "shown by")]


BEHAVIOURS: Final = behaviours()
REASONED: Final = [each for each in BEHAVIOURS if each.shown_by.startswith(REASON)]
TESTED: Final = [each for each in BEHAVIOURS if each not in REASONED]


@cache
def functions_in(path: Path) -> dict[str, bool]:
    """The test functions in a file, and whether each is expected to fail."""
    functions = ast.parse(path.read_text("utf-8")).body
    return {
        each.name: any("xfail" in ast.unparse(mark) for mark in each.decorator_list)
        for each in functions
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@cache
def explanations() -> str:
    """The pages that explain, on one line."""
    pages = sorted((ROOT / "docs" / "explanation").glob("*.md"))
    return " ".join(" ".join(page.read_text("utf-8").split()) for page in pages)


def test_the_table_is_whole() -> None:
    assert len(BEHAVIOURS) > 100
    assert len({each.says for each in BEHAVIOURS}) == len(BEHAVIOURS)


@pytest.mark.parametrize("behaviour", TESTED, ids=lambda each: each.says)
def test_what_shows_a_behaviour_is_there(behaviour: Behaviour) -> None:
    for test in behaviour.tests:
        name, _, function = test.partition("::")
        path = ROOT / "tests" / name
        assert path.is_file(), f"tests/{name} is no file"
        assert function.startswith("test_"), test
        assert function in functions_in(path), f"tests/{name} has no {function}"
        expected_to_fail = functions_in(path)[function]
        assert expected_to_fail is behaviour.shown_by.startswith(NOT_YET), f"{test}: 'not yet'?"


@pytest.mark.parametrize("behaviour", REASONED, ids=lambda each: each.says)
def test_a_reason_stands_in_an_explanation(behaviour: Behaviour) -> None:
    assert behaviour.shown_by.removeprefix(REASON) in explanations()
