from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aioproducer.engine.bulk.send_many import ValueSender
from aioproducer.engine.core.sending import PythonFastPath, RecordFields
from aioproducer.engine.records.acceleration import Routes
from aioproducer.model import RecordMetadata


def metadata(partition: int, offset: int) -> RecordMetadata:
    return RecordMetadata("orders", partition, offset, 0, -1, 1)


class Core:
    """Delivers at once, and always has room. Its fast path is closed."""

    is_full = False

    def __init__(self) -> None:
        self.fast_path = PythonFastPath()
        self.routes = Routes()
        self.back_pressure = self
        self.pipeline = self
        self.lifecycle = self
        self.loop = asyncio.get_running_loop()

    def check_usable(self) -> None:
        """Always."""

    def put(self, fields: RecordFields, token: Any, *, over_capacity: bool) -> None:
        token.set_result(metadata(0, 0))

    async def drain(self) -> None:
        raise AssertionError

    def withdraw_cancelled(self) -> None:
        raise AssertionError


def value_sender() -> ValueSender:
    core: Any = Core()
    return ValueSender(core)


@pytest.mark.parametrize("kind", ["iterable", "async iterable"])
async def test_values_that_never_suspend_let_others_have_their_turn(kind: str) -> None:
    async def one_by_one() -> AsyncIterator[bytes]:
        for _ in range(10_000):
            yield b"v"

    values = one_by_one() if kind == "async iterable" else [b"v"] * 10_000
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    report = await value_sender().send_all("orders", values, None, None)
    counting.cancel()
    assert report.delivered == 10_000
    assert turns >= 19
