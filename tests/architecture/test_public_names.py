"""What users may import, and that it is what they see."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import tomllib
import types
from pathlib import Path

import griffe
import pytest
from packaging.version import Version

import aioproducer
from aioproducer import errors
from tests.documentation.public_api import MODULES, Listing, public_names

ROOT = Path(__file__).parents[2]

PUBLIC = set(aioproducer.__all__)
"""``docs/reference/public-names.md`` lists them, and ``test_tables.py`` keeps the page in step.

Taking a name away, or adding one, is a decision: it is seen in a change of that page.
"""


def test_the_package_names_nothing_twice() -> None:
    assert len(aioproducer.__all__) == len(PUBLIC)
    modules = {name.split(".")[1] for name in MODULES if "." in name}
    assert set(aioproducer._PUBLIC_MODULES) == modules - PUBLIC
    assert set(dir(aioproducer)) - PUBLIC <= modules
    assert set(dir(aioproducer)) >= PUBLIC


def modules() -> list[str]:
    found = [
        each.name
        for each in pkgutil.walk_packages(aioproducer.__path__, "aioproducer.")
        if not each.name.endswith("__main__")
    ]
    return ["aioproducer", *found]


@pytest.mark.parametrize("name", modules())
def test_every_name_in_all_is_there_and_every_module_says_what_it_is(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    for each in getattr(module, "__all__", ()):
        assert hasattr(module, each), f"{name}.__all__ has {each}"


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__", "errors"}))
def test_every_public_class_and_method_is_documented(name: str) -> None:
    public = getattr(aioproducer, name)
    assert inspect.getdoc(public), name
    if not inspect.isclass(public):
        return
    for attribute, value in vars(public).items():
        if not attribute.startswith("_") and isinstance(value, types.FunctionType | property):
            assert inspect.getdoc(value), f"{name}.{attribute}"


def test_every_error_is_found_under_errors_and_nothing_else_is_private_there() -> None:
    classes = {
        name
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, errors.ProducerError)
    }
    own = {name for name in classes if not issubclass(getattr(errors, name), errors.KafkaError)}
    assert own | {"KafkaError"} <= set(errors.__all__)
    assert {each for each in PUBLIC if each.endswith("Error")} <= classes


def test_every_public_name_is_documented_and_importable() -> None:
    listed = public_names()
    assert set(listed["aioproducer"]) == PUBLIC
    there = {
        name for name in modules() if not any(part.startswith("_") for part in name.split("."))
    }
    assert set(listed) <= there
    for name, names in listed.items():
        if name == "aioproducer.spark":
            continue  # PySpark may be missing
        module = importlib.import_module(name)
        missing = [each for each in names if not hasattr(module, each)]
        assert (name, missing) == (name, [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def timeout(self) -> int: ...", "def timeout(self, unit: str) -> int: ..."),
        ("def timeout(self) -> int: ...", "async def timeout(self) -> int: ..."),
        ("def timeout(self) -> int: ...", ""),
        ("limit: int = 3", "limit: int | None = 3"),
    ],
)
def test_a_change_of_the_listing_is_noticed(before: str, after: str) -> None:
    source = "__all__ = ['A']\nclass A:\n    limit: int = 3\n    def timeout(self) -> int: ...\n"

    def lines(text: str) -> list[str]:
        with griffe.temporary_visited_module(text, module_name="aioproducer") as module:
            return Listing(module).lines("aioproducer", module)

    assert lines(source) == ["class A", "    limit: int", "    timeout() -> int"]
    assert lines(source.replace(before, after or "pass")) != lines(source)


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "version" in project["project"]["dynamic"]
    [attribute] = project["tool"]["setuptools"]["dynamic"]["version"].values()
    assert attribute == "aioproducer.foundation.version.__version__"
    assert str(Version(aioproducer.__version__)) == aioproducer.__version__
    words = (ROOT / "README.md").read_text("utf-8").split()
    assert aioproducer.__version__ in words


def test_the_package_is_typed() -> None:
    assert (ROOT / "aioproducer" / "py.typed").is_file()


BUILTIN_ERRORS = {
    "Exception",
    "RuntimeError",
    "ValueError",
    "TypeError",
    "KeyError",
    "OSError",
    "ConnectionError",
    "TimeoutError",
    "asyncio.TimeoutError",
}
AS_ITS_BASE = "aioproducer/sync/record_future.py"
"""Its future raises what concurrent.futures.Future does when the pump itself is wrong."""
CHECKED_BY_THEIR_CALLERS = (
    "config/",
    "engine/metrics/",
    "engine/records/",
    "engine/partitioning.py",
)
"""What they raise becomes a ConfigError, or tells of a mistake in our own code."""


def test_only_errors_of_ours_are_raised() -> None:
    """``except ProducerError`` catches everything; shells (cli, testing) speak for themselves.

    The names of confluent-kafka raise what that library raises.
    """
    foreign = [
        f"{path.relative_to(ROOT)}:{node.lineno} raises {ast.unparse(node.exc.func)}"
        for path in sorted((ROOT / "aioproducer").rglob("*.py"))
        if not path.relative_to(ROOT / "aioproducer")
        .as_posix()
        .startswith((*CHECKED_BY_THEIR_CALLERS, "cli/", "testing/", "spark/", "compat/confluent/"))
        and path != ROOT / AS_ITS_BASE
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and ast.unparse(node.exc.func) in BUILTIN_ERRORS
    ]
    assert foreign == []
