"""The hooks of one producer: made once, closed once, also when one of them can't be made."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.engine.core.hooks import Hooks
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


async def test_classes_are_made_and_closed_once_in_their_order(closed: list[Hook]) -> None:
    made = hooks(interceptor_classes=[Hook], key_serializer=Hook, value_serializer=Hook)
    key, value = made.serializers.key, made.serializers.value
    assert key is not None
    assert value is not None
    assert isinstance(key.given, Hook)
    assert key.given is not value.given
    await made.close()
    await made.close()
    assert len(closed) == 3
    assert closed[1:] == [key.given, value.given]


async def test_objects_of_the_user_stay_open_but_interceptors(closed: list[Hook]) -> None:
    interceptor, serializer, partitioner = Hook(), Hook(), Hook()
    made = hooks(
        interceptor_classes=[interceptor], key_serializer=serializer, partitioner=partitioner
    )
    assert made.partitioner() is partitioner
    await made.close()
    assert closed == [interceptor]


async def test_a_partitioner_is_made_when_it_is_asked_for(closed: list[Hook]) -> None:
    made = hooks(partitioner=Hook)
    partitioner = made.partitioner()
    assert isinstance(partitioner, Hook)
    await made.close()
    assert closed == [partitioner]


class AsyncHook(Hook):
    """A serializer whose close() is asynchronous."""

    error: Exception | None = None
    seconds = 0.0
    began: list[str] = []  # noqa: RUF012 -- of all of them

    async def close(self) -> None:  # type: ignore[override]
        self.began.append(type(self).__name__)
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        self.closed.append(self)


class Slow(AsyncHook):
    seconds = 3600.0


class Broken(AsyncHook):
    error = ZeroDivisionError("broken")


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(AsyncHook, "began", names)
    return names


async def test_an_asynchronous_close_is_awaited_and_bounded(
    closed: list[Hook], began: list[str]
) -> None:
    await hooks(key_serializer=AsyncHook, value_serializer=Slow).close(0.05)
    assert began == ["AsyncHook", "Slow"]
    assert [type(each) for each in closed] == [AsyncHook]


async def test_a_close_that_fails_is_logged_and_the_next_one_closed(
    caplog: pytest.LogCaptureFixture, closed: list[Hook], began: list[str]
) -> None:
    await hooks(key_serializer=Broken, value_serializer=AsyncHook).close()
    assert [type(each) for each in closed] == [AsyncHook]
    assert "close of" in caplog.text
    assert "ZeroDivisionError: broken" in caplog.text


def test_hooks_of_a_producer_without_a_loop_are_closed_but_asynchronous_ones(
    closed: list[Hook], began: list[str]
) -> None:
    hooks(key_serializer=AsyncHook, value_serializer=Hook).close_unstarted()
    assert began == []
    assert [type(each) for each in closed] == [Hook]


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
    assert (bool(made.serializers), made.partitioning) == (serializing, partitioning)
