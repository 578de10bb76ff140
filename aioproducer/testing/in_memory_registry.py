"""A schema registry in memory, without a server, for fast tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, TypeAlias

from aioproducer.errors import IllegalStateError, SchemaRegistryError
from aioproducer.schema_registry import Schema, SchemaRegistry
from aioproducer.schema_registry.rest.requests import RegistryRequest
from aioproducer.testing.registry_contents import Contents

__all__ = ["InMemorySchemaRegistry"]

Judge: TypeAlias = Callable[[Schema, Sequence[Schema]], Iterable[str]]
"""Returns the reasons why a schema is incompatible with the subject's earlier versions."""

_URL: Final = "memory:"


class InMemorySchemaRegistry(SchemaRegistry):
    """Registers and finds schemas like a registry. Equal texts are one schema, with one id.

    It does not parse schemas, and considers every schema compatible unless ``judge`` returns
    reasons.
    """

    def __init__(self, *, judge: Judge | None = None, latest_ttl: float = 300.0) -> None:
        self._memory = _MemoryTransport(Contents(judge or (lambda *_: ())))
        self._use(self._memory, latest_ttl)

    def __reduce__(self) -> tuple[Any, ...]:
        raise IllegalStateError(
            "an InMemorySchemaRegistry belongs to its process: it can't be pickled"
        )

    @property
    def requests(self) -> list[str]:
        """The requests so far, such as ``POST /subjects/orders-value/versions``. Cached responses
        cause no request."""
        return self._memory.log

    def fail_with(self, error: Exception | None) -> None:
        """Let requests fail with ``error``; None ends this."""
        self._memory.error = error

    def delay(self, seconds: float) -> None:
        """Delay every request."""
        self._memory.seconds = seconds


class _MemoryTransport:
    """Carries requests to schemas in memory."""

    def __init__(self, contents: Contents) -> None:
        self.log: list[str] = []
        self.error: Exception | None = None
        self.seconds = 0.0
        self._contents = contents

    @property
    def shown(self) -> str:
        return _URL

    def session(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def request(self, request: RegistryRequest) -> Any:
        self.log.append(f"{request.method} {request.path}")
        await asyncio.sleep(self.seconds)
        if isinstance(self.error, SchemaRegistryError) and self.error.url is None:
            self.error.url = f"{_URL}{request.path}"
        if self.error is not None:
            raise self.error
        return self._contents.answer(request)
