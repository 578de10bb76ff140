"""The README's diagram of a transactional producer is that of ``transactions/states.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from aioproducer.transactions.states import diagram

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- transactions:begin -->", "<!-- transactions:end -->"


def test_readme_is_in_step_with_the_table_of_states() -> None:
    text = README.read_text("utf-8")
    assert (text.count(BEGIN), text.count(END)) == (1, 1)
    section = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    expected = f"\n```mermaid\n{diagram()}\n```\n"
    if section != expected:
        pytest.fail(f"README.md: between its markers there has to be:\n{expected}")


def test_the_diagram_is_part_of_the_architecture() -> None:
    text = README.read_text("utf-8")
    behind = text[: text.index(BEGIN)]
    assert behind.rindex("\n## ARCHITECTURE\n") > behind.rindex("\n## Metrics\n")
    assert behind.rindex("\n### Transactions\n") > behind.rindex("\n## ARCHITECTURE\n")
