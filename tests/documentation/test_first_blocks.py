"""Each Python block is complete: it needs neither a name nor an import of another one."""

from __future__ import annotations

import ast
import builtins
import codeop
import symtable
from pathlib import Path
from typing import Final

import pytest

from tests.documentation.pages import PAGES, Block, blocks, name

WITH_A_DATAFRAME: Final = {"README.md", "docs/how-to/spark.md", "docs/how-to/spark-formats.md"}
"""The pages that write ``df``, a DataFrame of the reader."""
CODE: Final = [page for page in PAGES if blocks(page, "python")]


def unknown_names(text: str) -> set[str]:
    """The names that ``text`` uses but neither binds nor imports."""
    module = symtable.symtable(text, "block", "exec")
    bound = {
        each.get_name()
        for each in module.get_symbols()
        if each.is_assigned() or each.is_imported() or each.is_namespace()
    }
    used: set[str] = set()
    tables = [module]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        used |= {
            each.get_name()
            for each in table.get_symbols()
            if each.is_referenced() and (table is module or each.is_global())
        }
    return used - bound - {*dir(builtins), "__name__"}


def awaits(text: str) -> bool:
    """Whether it is no module, because it awaits outside of functions."""
    try:
        compile(text, "block", "exec", dont_inherit=True)
    except SyntaxError:
        return True
    return False


def pasted(text: str) -> list[str]:
    """The statements that ``python -m asyncio`` runs when ``text`` is pasted line by line."""
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    statements, lines = [], []
    for line in [*text.splitlines(), ""]:
        lines.append(line)
        source = "\n".join(lines)
        if compiler(source, "pasted", "single") is not None:
            statements.append(source)
            lines = []
    assert "".join(lines).strip() == ""
    return [each for each in statements if each.strip()]


@pytest.mark.parametrize("page", CODE, ids=name)
def test_a_block_needs_no_other(page: Path) -> None:
    given = {"df"} if name(page) in WITH_A_DATAFRAME else set()
    for block in blocks(page, "python"):
        assert unknown_names(block.text) <= given, f"{page}:{block.line}"


@pytest.mark.parametrize("page", CODE, ids=name)
def test_the_first_block_of_a_page_is_a_program(page: Path) -> None:
    first = next(each for each in blocks(page, "python") if not each.module)
    assert not awaits(first.text)


@pytest.mark.parametrize("page", CODE, ids=name)
def test_a_block_that_awaits_can_be_pasted(page: Path) -> None:
    for block in blocks(page, "python"):
        if awaits(block.text):
            assert pasted(block.text), f"{page}:{block.line}"


def test_unknown_names_are_noticed() -> None:
    text = "import a\n\nb = a.x\n\n\ndef f(c):\n    print(b, c, d)\n\n\nawait e\n"
    assert unknown_names(text) == {"d", "e"}


def test_a_block_that_a_terminal_cuts_is_noticed() -> None:
    with pytest.raises(SyntaxError):
        pasted("async with a:\n    b\n\n    c\n")
    assert len(pasted("import a\n\nasync with a:\n    b\n\n\nc\n")) == 3


def test_a_file_of_a_page_is_a_module(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("In `shop.py`:\n\n```python\na = 1\n```\n\n```python\nb = 2\n```\n")
    assert blocks(page, "python") == [
        Block("python", "a = 1\n", 4, "shop"),
        Block("python", "b = 2\n", 8),
    ]
