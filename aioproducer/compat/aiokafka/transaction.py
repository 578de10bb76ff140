"""The block of a transaction."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from aioproducer.compat.aiokafka.errors import translating


class TransactionContext:
    """Begins a transaction, commits it at the end, and aborts it after any exception."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._make = make
        self._block: AbstractAsyncContextManager[None]

    async def __aenter__(self) -> Self:
        with translating():
            self._block = self._make()
            await self._block.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        with translating():
            await self._block.__aexit__(kind, error, frames)
