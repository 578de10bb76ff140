"""The records that ``aioproducer tail`` shows, some at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from itertools import islice
from typing import Any, Protocol, Self

from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.model import ConsumerRecord
from aioproducer.reader import Reader

__all__ = ["PartitionRecords", "RecordChunks"]


class RecordChunks(Protocol):
    """A source of records, to be entered."""

    client: ClusterClient

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    def chunks(self, count: int | None) -> AsyncGenerator[Iterable[ConsumerRecord]]:
        """Records, ``count`` of them altogether. Asking for more means that the last are shown."""


class PartitionRecords:
    """The records of assigned partitions. ``arguments``: those of a Reader."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._reader = Reader(*arguments, **options)
        self.client = self._reader._client

    async def __aenter__(self) -> Self:
        await self._reader.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._reader.close()

    async def chunks(self, count: int | None) -> AsyncGenerator[Iterable[ConsumerRecord]]:
        """Yield chunks of records, as :class:`RecordChunks` does."""
        left = count
        async for batch in self._reader.batches():
            records = list(islice(batch, left))
            yield records
            if left is not None:
                left -= len(records)
                if not left:
                    return
