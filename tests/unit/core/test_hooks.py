"""The hooks of one producer: made once, closed once, also when one of them can't be made."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.core.hooks import Hooks
from aioproducer.model import ProducerRecord


class Hook:
    """An interceptor, serializer and partitioner that logs its end."""

    closed: list[Hook] = []  # noqa: RUF012 -- of all of them

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def serialize(self, topic: str, data: Any) -> bytes:
        return b""

    def partition(self, *_: Any) -> int:
        return 0

    def close(self) -> None:
        self.closed.append(self)


class Fails:
    """A hook that can't be made."""

    def __init__(self) -> None:
        raise ZeroDivisionError

    def serialize(self, topic: str, data: Any) -> bytes:
        return b""

    def partition(self, *_: Any) -> int:
        return 0


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Hook]:
    ended: list[Hook] = []
    monkeypatch.setattr(Hook, "closed", ended)
    return ended


def hooks(**options: Any) -> Hooks:
    return Hooks(ProducerConfig(bootstrap_servers="nowhere:9092", **options))


def test_classes_are_made_and_closed_once_in_their_order(closed: list[Hook]) -> None:
    made = hooks(interceptor_classes=[Hook], key_serializer=Hook, value_serializer=Hook)
    assert isinstance(made.key_serializer, Hook)
    assert made.key_serializer is not made.value_serializer
    made.close()
    made.close()
    assert len(closed) == 3
    assert closed[1:] == [made.key_serializer, made.value_serializer]


def test_objects_of_the_user_stay_open_but_interceptors(closed: list[Hook]) -> None:
    interceptor, serializer, partitioner = Hook(), Hook(), Hook()
    made = hooks(
        interceptor_classes=[interceptor], key_serializer=serializer, partitioner=partitioner
    )
    assert made.key_serializer is serializer
    assert made.partitioner() is partitioner
    made.close()
    assert closed == [interceptor]


def test_a_partitioner_is_made_when_it_is_asked_for(closed: list[Hook]) -> None:
    made = hooks(partitioner=Hook)
    partitioner = made.partitioner()
    assert isinstance(partitioner, Hook)
    made.close()
    assert closed == [partitioner]


@pytest.mark.parametrize("fails", ["key_serializer", "value_serializer"])
def test_hooks_made_before_one_that_fails_are_closed(closed: list[Hook], fails: str) -> None:
    with pytest.raises(ZeroDivisionError):
        hooks(**{"interceptor_classes": [Hook], "key_serializer": Hook, fails: Fails})
    assert len(closed) == (1 if fails == "key_serializer" else 2)


@pytest.mark.parametrize(
    ("options", "serializing", "partitioning"),
    [
        ({}, False, False),
        ({"interceptor_classes": [Hook]}, False, False),
        ({"key_serializer": Hook}, True, False),
        ({"value_serializer": Hook}, True, False),
        ({"partitioner": Hook}, False, True),
    ],
)
def test_a_record_needs_the_long_way_where_there_is_any_hook(
    options: dict[str, Any], serializing: bool, partitioning: bool
) -> None:
    made = hooks(**options)
    assert bool(made) is bool(options)
    assert (made.serializing, made.partitioning) == (serializing, partitioning)
