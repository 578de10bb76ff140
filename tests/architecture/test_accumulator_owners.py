"""A partition's state has one owner, and other rooms use the accumulator by its front alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioproducer.accumulator.partition import Partition

PACKAGE = Path(__file__).parents[2] / "aioproducer"
ROOM = PACKAGE / "accumulator"
FIELDS = set(Partition.__slots__) - {"topic_partition"}
"""The name of the partition never changes; all else is state."""


NEIGHBOURS = ["accumulator", "bulk", "core", "records", "sender", "sync"]
"""The rooms through which partitions pass."""
SOURCES = [path for room in NEIGHBOURS for path in sorted((PACKAGE / room).rglob("*.py"))]
MUTATORS = {"add", "append", "appendleft", "clear", "extend", "insert", "pop", "popleft", "remove"}


def touched(source: str, fields: set[str]) -> Iterator[str]:
    """The accesses to ``fields`` of another object than ``self``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in fields:
            owner = node.value
            if not (isinstance(owner, ast.Name) and owner.id == "self"):
                yield ast.unparse(node)


def mutated(source: str) -> Iterator[str]:
    """The changes of a collection that is a partition's view."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in MUTATORS:
            view = node.value
            if (
                isinstance(view, ast.Attribute)
                and view.attr in ("in_flight", "pending")
                and ast.unparse(view.value) != "self"  # the accumulator has a queue of that name
            ):
                yield ast.unparse(node)


def reached_through(source: str) -> Iterator[str]:
    """The uses of a part of an accumulator by way of the accumulator."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            accumulator = ast.unparse(node.value.value).rsplit(".", 1)[-1]
            if accumulator.lstrip("_") == "accumulator":
                yield ast.unparse(node)


def test_the_state_of_a_partition_is_private_and_its_views_have_no_setter() -> None:
    assert all(field.startswith("_") for field in FIELDS)
    views = {name: each for name, each in vars(Partition).items() if isinstance(each, property)}
    assert views
    assert all(view.fset is None and view.fdel is None for view in views.values())
    with pytest.raises(AttributeError):
        Partition.leader.__set__(Partition.__new__(Partition), 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_nobody_else_touches_the_state_of_a_partition(path: Path) -> None:
    if path != ROOM / "partition.py":
        source = path.read_text("utf-8")
        assert not list(touched(source, FIELDS))
        assert not list(mutated(source))


def test_a_touch_is_noticed() -> None:
    assert list(touched("def f(partition): partition._batches.append(1)", FIELDS))
    assert list(mutated("partition.pending.popleft()"))
    assert not list(touched("class A:\n def f(self): self._pending.add(1)", FIELDS))


@pytest.mark.parametrize(
    "path",
    sorted(path for path in PACKAGE.rglob("*.py") if ROOM not in path.parents),
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_no_other_room_reaches_past_the_front(path: Path) -> None:
    assert not list(reached_through(path.read_text("utf-8")))


def test_a_reach_is_noticed() -> None:
    assert list(reached_through("self._accumulator.batches.drain(1)"))
    assert list(reached_through("engine.accumulator.pool.close()"))
    assert not list(reached_through("self._accumulator.append(record, now)"))
