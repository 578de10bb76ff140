"""A reader can copy each block: commands work in a clone, and Python blocks are complete.

What a block imports or runs is installed by the package itself, or by a command of the page.
"""

from __future__ import annotations

import ast
import builtins
import codeop
import importlib.util
import re
import subprocess
import symtable
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.documentation.pages import DOCS, PAGES, ROOT, Block, blocks, name

EXAMPLES: Final = sorted((ROOT / "examples").rglob("*.py"))
INSTALL: Final = re.compile(r"pip install\s+'aioproducer\[")
CLUSTER: Final = "localhost:9092"
WAYS_TO_A_CLUSTER: Final = ("aioproducer mock", "aioproducer.testing", "kafka-server-start")
COLUMNS: Final = re.compile(r"\S {3,}\S")
WIDTH: Final = 104
"""The columns of a listing beside both sidebars, in a window of 1,280 pixels."""
COMMAND_WIDTH: Final = 82
"""The columns of a command there, left of the button that copies it."""
MEASUREMENTS: Final = tuple(ROOT / "benchmarks" / each for each in ("README.md", "RESULTS.md"))
MADE: Final = re.compile(r"--topic ([\w-]+)")
SENT: Final = re.compile(r"\bsend(?:_many)?\(\s*\"([\w-]+)\"")
READ: Final = re.compile(r"\bReader\(\s*(?:TopicPartition\()?\"([\w-]+)\"")
ELSEWHERE: Final = {
    "docs/how-to/broker-telemetry.md": "brokers with a plugin for metrics",
    "docs/how-to/outbox.md": "a database, too",
    "docs/how-to/security.md": "a secured cluster",
    "docs/how-to/functions-that-freeze.md": "a program for a cloud",
    "docs/reference/configuration.md": "an option's form",
}
"""The pages whose programs are not for a first try."""
LOCAL: Final = [
    page
    for page in PAGES
    if any(CLUSTER in block.text for block in blocks(page, "python"))
    and name(page) not in ELSEWHERE
    and "spark" not in page.name
]
INSTALLS: Final = re.compile(r"pip\s+install\s+([^`\n]+)")
PACKAGES: Final = {
    "azure": {"azure-identity"},
    "confluent_kafka": {"testing", "confluent-kafka"},
    "google": {"schema-registry", "google-auth"},
    "kafka": {"kafka-python"},
    "opentelemetry": {"otel"},
    "prometheus_client": {"prometheus"},
    "pyarrow": {"arrow", "spark"},
    "pyspark": {"spark", "spark-connect"},
}
"""The packages and extras that bring a module or a program of another name."""
AT_HAND: Final = {"aioproducer", "pydantic"}
WITH_ANOTHER_CLIENT: Final = {"docs/how-to/schema-registry.md": {"confluent_kafka", "kafka"}}
"""The modules that the readers of a page have: they come from another client."""
PROGRAMS: Final = {"celery", "faststream", "gunicorn", "pytest", "uvicorn"}
OF_A_CLONE: Final = re.compile(r"--(?:app-dir|chdir|workdir)\b")


def imported(text: str) -> Iterator[str]:
    """The names of the modules that ``text`` imports, without their submodules."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for node in ast.walk(compile(text, "block", "exec", flags, dont_inherit=True)):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def installed(page: Path) -> set[str]:
    """The packages and extras that the page's commands install."""
    text = page.read_text("utf-8")
    return {each for line in INSTALLS.findall(text) for each in re.findall(r"[\w-]+", line)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_installs_what_its_blocks_need(page: Path) -> None:
    here = {each.module for each in blocks(page, "python")} | AT_HAND
    here |= WITH_ANOTHER_CLIENT.get(name(page), set())
    needed = {each for block in blocks(page, "python") for each in imported(block.text)}
    for block in blocks(page, "sh"):
        needed |= {
            words[0] for line in block.text.splitlines() if (words := line.split())
        } & PROGRAMS
    brought = installed(page)
    missing = {
        each
        for each in needed - here - sys.stdlib_module_names
        if not brought & (PACKAGES.get(each, set()) | {each})
    }
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_programs_run_outside_of_the_clone(page: Path) -> None:
    """A server that is started in the clone imports its source, which is not compiled."""
    for block in blocks(page, "sh"):
        assert OF_A_CLONE.findall(block.text) == []


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=name)
def test_commands_can_be_copied(page: Path) -> None:
    assert blocks(page, "console") == []
    for block in blocks(page, "sh"):
        assert re.findall(r"^[$>] .*", block.text, re.M) == []
    for paragraph in page.read_text("utf-8").split("\n\n"):
        if INSTALL.search(paragraph):
            assert "After this first install" in paragraph, "it is on no package index: '.[extra]'"


@pytest.mark.parametrize("page", [*sorted(DOCS.rglob("*.md")), *MEASUREMENTS], ids=name)
def test_commands_do_not_wrap_in_the_middle_of_an_option(page: Path) -> None:
    for block in blocks(page, "sh"):
        assert [line for line in block.text.splitlines() if len(line) > COMMAND_WIDTH] == []


@pytest.mark.parametrize("page", LOCAL, ids=name)
def test_a_page_says_how_to_get_its_cluster(page: Path) -> None:
    text = page.read_text("utf-8")
    assert any(each in text for each in WAYS_TO_A_CLUSTER)


@pytest.mark.parametrize("page", LOCAL, ids=name)
def test_a_reader_finds_its_topic(page: Path) -> None:
    """The mock cluster creates a topic when a producer first sends to it, not for a reader."""
    made = {topic for block in blocks(page, "sh") for topic in MADE.findall(block.text)}
    for block in blocks(page, "python"):
        made |= set(SENT.findall(block.text))
        if not block.module:
            assert set(READ.findall(block.text)) <= made, f"{page}:{block.line}"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name)
def test_the_columns_of_a_listing_fit(page: Path) -> None:
    """The site breaks longer lines of text at the width of the page, in the middle of a column."""
    listed = [line for block in blocks(page, "text") for line in block.text.splitlines()]
    assert [line for line in listed if COLUMNS.search(line) and len(line) > WIDTH] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_type_is_read_as_html(page: Path) -> None:
    text = page.read_text("utf-8")
    prose = re.sub(r"^```.*?^```$|`[^`]*`", "", text, flags=re.M | re.S)
    assert re.findall(r"\w+<\w+[:,>]", prose) == []


def test_what_is_looked_for() -> None:
    assert INSTALL.search("`pip install\n'aioproducer[otel]'`")
    assert {DOCS / "index.md", ROOT / "README.md"} <= {*LOCAL}


WITH_A_DATAFRAME: Final = {"README.md", "docs/how-to/spark.md", "docs/how-to/spark-formats.md"}
"""The pages that write ``df``, a DataFrame of the reader."""
WITH_FEW_RECORDS: Final = {"docs/how-to/consuming.md"}
"""The pages whose loops go through what a reader has sent."""
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


def submodules_used(text: str) -> set[str]:
    """The submodules that ``text`` reaches through a package, such as ``logging.config``."""
    tree = compile(text, "block", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    nodes = list(ast.walk(tree))
    imported = {
        alias.name
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname is None
    }
    reached = {
        f"{node.value.id}.{node.attr}"
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    return {
        each
        for each in reached - imported
        if (package := each.partition(".")[0]) in imported
        and package in sys.stdlib_module_names
        and is_submodule(each)
    }


@cache
def is_submodule(name: str) -> bool:
    package = importlib.util.find_spec(name.partition(".")[0])
    return bool(package and package.submodule_search_locations) and bool(
        importlib.util.find_spec(name)
    )


@cache
def comes_with_its_package(name: str) -> bool:
    """Whether ``import package`` is enough in a process that has imported nothing else."""
    program = f"import {name.partition('.')[0]}; {name}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    return done.returncode == 0


def printed_in_loops(text: str) -> list[str]:
    """The sends of loops whose futures ``python -m asyncio`` prints, each in a line."""
    loops = [
        node
        for statement in pasted(text)
        for node in walk_outside_functions(
            compile(statement, "pasted", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        )
        if isinstance(node, ast.For | ast.AsyncFor | ast.While)
    ]
    return [
        ast.unparse(node)
        for loop in loops
        for node in walk_outside_functions(loop)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "send"
    ]


def walk_outside_functions(tree: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            found.append(node)
            waiting += ast.iter_child_nodes(node)
    return found


@pytest.mark.parametrize("page", CODE, ids=name)
def test_a_block_imports_the_submodules_that_it_uses(page: Path) -> None:
    for block in blocks(page, "python"):
        missing = {each for each in submodules_used(block.text) if not comes_with_its_package(each)}
        assert missing == set(), f"{page}:{block.line}"


def test_a_submodule_is_found() -> None:
    (used,) = submodules_used("import logging\n\nlogging.config.dictConfig({})")
    assert used == "logging.config"
    assert not comes_with_its_package(used)
    assert submodules_used("import logging\nimport logging.config\n\nlogging.config.x") == set()


@pytest.mark.parametrize("page", CODE, ids=name)
def test_a_pasted_loop_prints_no_futures(page: Path) -> None:
    for block in blocks(page, "python"):
        if awaits(block.text) and name(page) not in WITH_FEW_RECORDS:
            assert printed_in_loops(block.text) == [], f"{page}:{block.line}"


def test_a_send_in_a_loop_is_found() -> None:
    loop = "async with p:\n    for n in range(3):\n        p.send('orders', n)\n"
    assert printed_in_loops(loop) == ["p.send('orders', n)"]
    assert printed_in_loops(loop.replace("p.send", "sent = p.send")) == []


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
