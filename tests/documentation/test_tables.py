"""The generated parts of the documentation are in step with the code."""

from __future__ import annotations

import pytest

from aioproducer.config import document
from tests.documentation.pages import name
from tests.documentation.tables import COMMAND, PARTS, Part


@pytest.mark.parametrize("part", PARTS, ids=lambda each: f"{name(each.page)} {each.name}")
def test_a_generated_part_is_in_step(part: Part) -> None:
    if part.page.read_text("utf-8") != part.refreshed():
        pytest.fail(f"{name(part.page)} is out of date; run: {COMMAND}")


def test_the_options_can_be_refreshed_by_their_own_command() -> None:
    [page] = [part.page for part in PARTS if part.name == "config"]
    assert document.REFRESH_COMMAND.endswith(f" {name(page)}")
    assert document.section(page.read_text("utf-8")).strip() == document.markdown().strip()


def test_a_part_that_is_out_of_date_is_noticed() -> None:
    for part in PARTS:
        other = part._replace(text=lambda: "something else")
        assert other.refreshed() != part.refreshed()
