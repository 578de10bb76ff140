"""The futures of records and batches, whose results and errors have aiokafka's types."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from aioproducer import model
from aioproducer.compat.aiokafka.errors import translated
from aioproducer.compat.aiokafka.structs import RecordMetadata, TopicPartition
from aioproducer.engine.records.acceleration import hide, show
from aioproducer.engine.records.bulk_tokens import BulkToken

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

_set_result = asyncio.Future.set_result
_new = tuple.__new__


class RecordFuture(asyncio.Future[Any]):
    """The future of one record.

    The core resolves it directly, so it costs no callback and no turn of the event loop.
    """

    __slots__ = ()

    def set_result(self, result: Any) -> None:
        """Take the core's metadata of a record that is traced."""
        self.set_results((self,), (result,), False, -1)

    def set_nothing(self) -> None:
        """Set None as the result: nothing was sent."""
        _set_result(self, None)

    def set_exception(self, exception: Any) -> None:
        """Take the core's error."""
        show(self)  # the error leads to frames
        super().set_exception(translated(exception))

    @staticmethod
    def set_results(
        futures: Sequence[RecordFuture],
        results: Sequence[model.RecordMetadata],
        is_log_append_time: bool,
        log_start_offset: int,
    ) -> None:
        """Set the results of the futures of one batch, but of those that are done."""
        topic, partition = results[0][:2]
        place = TopicPartition(topic, partition)
        kind = LOG_APPEND_TIME if is_log_append_time else CREATE_TIME
        for future, result in zip(futures, results, strict=True):
            if not future.done():
                fields = topic, partition, place, result[2], result[3], kind, log_start_offset
                metadata = _new(RecordMetadata, fields)
                hide(metadata)
                _set_result(future, metadata)


class UnacknowledgedFuture(RecordFuture):
    """The future of a record that is sent with ``acks=0``: its result is None."""

    __slots__ = ()

    @staticmethod
    def set_results(
        futures: Sequence[RecordFuture], results: Sequence[model.RecordMetadata], *_: object
    ) -> None:
        """Set the results of the futures, but of those that are done."""
        for future in futures:
            if not future.done():
                _set_result(future, None)


class BatchToken:
    """Stands for each record of a batch; ``future`` gets the metadata of the first one.

    The future gets its outcome when all ``count`` records have theirs. Cancelling it takes no
    record back.
    """

    __slots__ = ("_error", "_facts", "_first", "_future", "_left")

    def __init__(self, future: RecordFuture, count: int) -> None:
        self._future = future
        self._left = count
        self._first: model.RecordMetadata | None = None
        self._facts: tuple[bool, int] = (False, -1)
        self._error: BaseException | None = None

    def done(self) -> bool:
        """True if all records have their outcome."""
        return not self._left

    def set_result(self, result: model.RecordMetadata) -> None:
        """Take the metadata of one record."""
        self.set_results((self,), (result,), *self._facts)

    def set_exception(self, error: BaseException) -> None:
        """Take the error of one record, which fails the batch."""
        self._error = self._error or error
        self._count(1)

    def exception(self) -> BaseException | None:
        """The error; a failed future counts as read, so that asyncio does not complain."""
        return self._error

    @staticmethod
    def set_results(
        tokens: Sequence[BatchToken],
        results: Sequence[model.RecordMetadata],
        is_log_append_time: bool,
        log_start_offset: int,
    ) -> None:
        """Take the metadata of records that lie in one batch of the core."""
        for token, result in zip(tokens, results, strict=True):
            first = token._first
            if first is None or result.offset < first.offset:
                token._first = result
                token._facts = (is_log_append_time, log_start_offset)
            token._count(1)

    def arrived(self, token: BulkToken, *_: object) -> None:
        """Count the records of ``token``, which are in the log."""
        self._count(token.count)

    def one(self, _index: int) -> BatchToken:
        """The token of one record, for a batch of the core that is split or fails."""
        return self

    def all(self) -> list[Any]:
        """The tokens of all records, for a batch of the core that has no others.

        The records after the first one are counted at once.
        """
        rest = self._left - 1
        return [self, *[BulkToken(self, 1, count=rest)] * rest]

    def _count(self, records: int) -> None:
        self._left -= records
        if self._left or self._future.done():
            return
        if self._error is not None:
            self._future.set_exception(self._error)
            self._future.exception()
        else:
            assert self._first is not None
            self._future.set_results((self._future,), (self._first,), *self._facts)
