"""The asynchronous iterators of a reader. A step that is cancelled or fails does not end them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Self, TypeVar

from aioproducer.model import ConsumerRecord
from aioproducer.reader.cursor import Cursor

_T = TypeVar("_T")


class Steps(Generic[_T]):
    """The results of ``step``, up to None."""

    __slots__ = ("_step",)

    def __init__(self, step: Callable[[], Awaitable[_T | None]]) -> None:
        self._step = step

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _T:
        result = await self._step()
        if result is None:
            raise StopAsyncIteration
        return result


class Records:
    """The records of the batch under ``cursor``, and then of those that ``next_batch`` opens."""

    __slots__ = ("_cursor", "_next_batch")

    def __init__(self, cursor: Cursor, next_batch: Callable[[], Awaitable[bool]]) -> None:
        self._cursor = cursor
        self._next_batch = next_batch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        cursor = self._cursor
        while True:
            for record in cursor.records:
                cursor.last = record
                return record
            if not await self._next_batch():
                raise StopAsyncIteration
