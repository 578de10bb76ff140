"""The estimated size of an object follows from what it holds, wherever it holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from aioproducer.engine.core.serializer_preparation import estimated_size

LARGE = b"x" * 100_000


@dataclass
class Plain:
    data: Any


@dataclass(slots=True)
class Slotted:
    data: Any


class Struct(msgspec.Struct):
    data: Any


class Model(BaseModel):
    data: Any


class Message:
    """As Protocol Buffers have them: the data is not among Python's objects."""

    def ByteSize(self) -> int:  # noqa: N802
        return len(LARGE)


class OneSlot:
    __slots__ = "data"


def in_one_slot() -> OneSlot:
    made = OneSlot()
    made.data = LARGE  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize(
    "data",
    [
        LARGE,
        {"data": LARGE},
        [{"items": [LARGE]}],
        Plain(LARGE),
        Slotted(LARGE),
        Struct(LARGE),
        Model(data=LARGE),
        in_one_slot(),
        Slotted([Slotted({"data": LARGE})]),
        Message(),
    ],
    ids=lambda data: type(data).__name__,
)
def test_parts_count(data: Any) -> None:
    assert 100_000 <= estimated_size(data) < 110_000


def test_an_object_that_holds_itself_has_a_size() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert estimated_size(ring) > 0


def test_nothing_takes_nothing() -> None:
    assert estimated_size(None) == 0
    assert estimated_size(Message) > 0
