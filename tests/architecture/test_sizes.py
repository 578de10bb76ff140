"""Files, functions, constructors and classes stay small enough to be read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import aioproducer

PACKAGE: Final = Path(aioproducer.__file__).parent
LINES_OF_A_FILE: Final = 600
LINES_OF_A_FUNCTION: Final = 50
PARAMETERS_OF_A_CONSTRUCTOR: Final = 10
WIDER_CONSTRUCTORS: Final = ["compat/confluent/records.py"]
"""confluent-kafka's ``Message`` takes eleven."""

LONGER_FILES: Final = {
    "engine/protocol/tables.py": "written from Kafka's jar: a table for each message",
    "producer.py": "the reference of the public methods: more than half of it is docstrings",
}
"""The exceptions, each with its reason."""


def trees() -> Iterator[tuple[str, str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text("utf-8")
        yield path.relative_to(PACKAGE).as_posix(), text, ast.parse(text)


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of the body, without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for name, _, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}:{node.lineno} {node.name}", node


def test_files_can_be_read_in_one_sitting() -> None:
    longer = {name for name, text, _ in trees() if text.count("\n") > LINES_OF_A_FILE}
    assert longer == set(LONGER_FILES)


def test_functions_fit_on_a_screen() -> None:
    assert not [name for name, each in functions() if length(each) > LINES_OF_A_FUNCTION]


def test_constructors_take_few_parameters() -> None:
    wide = [
        name.partition(":")[0]
        for name, each in functions()
        if each.name == "__init__"
        and len(each.args.args) + len(each.args.kwonlyargs) - 1 > PARAMETERS_OF_A_CONSTRUCTOR
    ]
    assert wide == WIDER_CONSTRUCTORS
