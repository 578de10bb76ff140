"""The futures of records, whose results and errors have aiokafka's types."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aioproducer import model
from aioproducer.compat.aiokafka.errors import translated
from aioproducer.compat.aiokafka.structs import RecordMetadata, TopicPartition

_set_result = asyncio.Future.set_result
_new = tuple.__new__


class RecordFuture(asyncio.Future[Any]):
    """The future of one record.

    The core resolves it directly, so it costs no callback and no turn of the event loop.
    """

    __slots__ = ()

    def set_result(self, result: Any) -> None:
        """Take the core's metadata."""
        self.set_results((self,), (result,))

    def set_exception(self, exception: Any) -> None:
        """Take the core's error."""
        super().set_exception(translated(exception))

    @staticmethod
    def set_results(
        futures: Sequence[RecordFuture], results: Sequence[model.RecordMetadata]
    ) -> None:
        """Set the results of the futures of one batch, but of those that are done."""
        topic, partition = results[0][:2]
        place = TopicPartition(topic, partition)
        for future, result in zip(futures, results, strict=True):
            if not future.done():
                fields = (topic, partition, place, result[2], result[3], 0, -1)
                _set_result(future, _new(RecordMetadata, fields))


class UnacknowledgedFuture(RecordFuture):
    """The future of a record that is sent with ``acks=0``: its result is None."""

    __slots__ = ()

    @staticmethod
    def set_results(
        futures: Sequence[RecordFuture], results: Sequence[model.RecordMetadata]
    ) -> None:
        """Set the results."""
        for future in futures:
            if not future.done():
                _set_result(future, None)


class BatchToken:
    """Stands for all records of a batch; its future gets the metadata of the first record."""

    __slots__ = ("_count", "_first", "_future")

    def __init__(self, future: asyncio.Future[Any], count: int) -> None:
        self._future = future
        self._count = count
        self._first: model.RecordMetadata | None = None

    def done(self) -> bool:
        """True if the batch has its outcome."""
        return self._future.done()

    def set_result(self, result: model.RecordMetadata) -> None:
        """Take the metadata of one record."""
        if self._first is None or result.offset < self._first.offset:
            self._first = result
        self._count -= 1
        if not self._count and not self._future.done():
            self._future.set_result(self._first)

    def set_exception(self, error: BaseException) -> None:
        """Take the error of one record, which fails the batch."""
        if not self._future.done():
            self._future.set_exception(error)

    def exception(self) -> BaseException | None:
        """The error, which counts as read from now on."""
        return self._future.exception()
