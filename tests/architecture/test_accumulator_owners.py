"""A partition's state has one owner, and other rooms use the accumulator by its front alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioproducer.engine.accumulator.partition import Partition

PACKAGE = Path(__file__).parents[2] / "aioproducer"
ROOM = PACKAGE / "engine" / "accumulator"
FIELDS = set(Partition.__slots__)
PARTITIONS = {"partition", "sticky", "chosen", "owner"}
"""The names that partitions have in these rooms."""


NEIGHBOURS = [
    *(f"engine/{room}" for room in ("accumulator", "bulk", "core", "records", "sender")),
    "sync",
]
"""The rooms through which partitions pass."""
SOURCES = [path for room in NEIGHBOURS for path in sorted((PACKAGE / room).rglob("*.py"))]
MUTATORS = {"add", "append", "appendleft", "clear", "extend", "insert", "pop", "popleft", "remove"}


def changed(source: str) -> Iterator[str]:
    """The fields of partitions that are assigned, and the collections there that are changed."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or not isinstance(
            node.value, ast.Name | ast.Attribute
        ):
            continue
        owner: ast.expr = node.value
        if isinstance(node.ctx, ast.Store | ast.Del) and node.attr in FIELDS:
            owns = owner
        elif node.attr in MUTATORS and isinstance(owner, ast.Attribute) and owner.attr in FIELDS:
            owns = owner.value
        else:
            continue
        if ast.unparse(owns).rpartition(".")[2] in PARTITIONS:
            yield ast.unparse(node)


def reached_through(source: str) -> Iterator[str]:
    """The uses of a part of an accumulator by way of the accumulator."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            accumulator = ast.unparse(node.value.value).rsplit(".", 1)[-1]
            if accumulator.lstrip("_") == "accumulator":
                yield ast.unparse(node)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_nobody_else_changes_the_state_of_a_partition(path: Path) -> None:
    if path != ROOM / "partition.py":
        assert not list(changed(path.read_text("utf-8")))


def test_a_change_is_noticed() -> None:
    assert list(changed("partition.leader = 1"))
    assert list(changed("batch.partition.held += 1"))
    assert list(changed("partition.pending.popleft()"))
    assert not list(changed("partition.queue[0]"))
    assert not list(changed("batch.futures = 1"))


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
