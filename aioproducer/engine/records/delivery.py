"""The outcome of a batch for each of its records: its offset, or the error.

No cycle goes through the metadata of records, so the garbage collector need not visit them.
:func:`hide` does nothing here; ``_speedups.pyx`` is its compiled form.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, Self, overload

from aioproducer.engine.records.builder import Run
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.model import RecordMetadata


def hide(each: object) -> None:
    """Hide ``each`` from the garbage collector.

    The traceback of an error leads to frames. So :func:`show` what their variables refer to, before
    an error is kept by something that ``each`` leads to.
    """


def show(each: object) -> None:
    """Show ``each`` to the garbage collector again, if it was hidden."""


_new: Final = tuple.__new__
_first_record: Final = itemgetter(0)
"""Of a run: the index of its first record."""


class RecordResults(Sequence[RecordMetadata]):
    """The metadata of records that follow one another in a batch, each made when it is asked for.

    ``base_offset``: the offset of the batch; -1: unknown, as the offset of each record.
    ``append_time_ms``: the broker's timestamp; -1: the records have their own. ``first``: the
    index of the first record in the batch.
    """

    __slots__ = (
        "_append_time_ms",
        "_base_offset",
        "_count",
        "_first",
        "_runs",
        "partition",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        base_offset: int,
        runs: list[Run],
        append_time_ms: int,
        first: int,
        count: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self._base_offset = base_offset
        self._runs = runs
        self._append_time_ms = append_time_ms
        self._first = first
        self._count = count

    @classmethod
    def of(cls, metadata: RecordMetadata) -> Self:
        """The metadata of one record."""
        topic, partition, offset, *_ = metadata
        run = 0, metadata.timestamp_ms, metadata.serialized_key_size, metadata.serialized_value_size
        return cls(topic, partition, offset, [run], -1, 0, 1)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> RecordMetadata: ...
    @overload
    def __getitem__(self, index: slice) -> list[RecordMetadata]: ...
    def __getitem__(self, index: int | slice) -> RecordMetadata | list[RecordMetadata]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        if index < 0:
            index += self._count
        _, timestamp_ms, *sizes = self._run(index)
        if self._append_time_ms >= 0:
            timestamp_ms = self._append_time_ms
        fields = self.topic, self.partition, self.offset(index), timestamp_ms, *sizes
        return _new(RecordMetadata, fields)

    def offset(self, index: int) -> int:
        """The offset of a record; -1: unknown."""
        if self._base_offset < 0:
            return self._base_offset
        return self._base_offset + self._first + index

    def timestamp_ms(self, index: int) -> int:
        """The timestamp of a record, in milliseconds since the epoch."""
        return self._run(index)[1] if self._append_time_ms < 0 else self._append_time_ms

    def _run(self, index: int) -> Run:
        if not 0 <= index < self._count:
            raise IndexError("there are fewer records")
        return self._runs[bisect_right(self._runs, self._first + index, key=_first_record) - 1]


def fail_record(token: Any, error: BaseException) -> None:
    """Fail the token if it is not done, and read its error, so that asyncio does not complain."""
    if not token.done():
        token.set_exception(error)
        token.exception()


def deliver_records(
    tokens: list[Any],
    runs: list[Run],
    topic: str,
    partition: int,
    base_offset: int,
    append_time_ms: int,
    log_start_offset: int = -1,
) -> None:
    """Set the result of each token that is not done; a :class:`BulkToken` is called once.

    Tokens of a class with ``set_results(tokens, results, is_append_time, log_start_offset)`` get
    their :class:`RecordResults` in one call for all that follow one another, those that are done as
    well. ``base_offset`` and ``log_start_offset`` -1: unknown, ``append_time_ms`` -1: unused.
    """
    is_append_time = append_time_ms >= 0
    delivered = None
    index, run, count = 0, 0, len(tokens)
    while index < count:
        token, first = tokens[index], index
        index += 1
        kind = type(token)
        offset = base_offset + first if base_offset >= 0 else base_offset
        if kind is BulkToken:
            if token is not delivered and not token.done():
                token.deliver(topic, partition, offset)
            delivered = token
        elif hasattr(kind, "set_results"):
            while index < count and type(tokens[index]) is kind:
                index += 1
            results = RecordResults(
                topic, partition, base_offset, runs, append_time_ms, first, index - first
            )
            kind.set_results(tokens[first:index], results, is_append_time, log_start_offset)
        elif not token.done():
            while run + 1 < len(runs) and runs[run + 1][0] <= first:
                run += 1
            _, timestamp_ms, *sizes = runs[run]
            time = append_time_ms if is_append_time else timestamp_ms
            token.set_result(_new(RecordMetadata, (topic, partition, offset, time, *sizes)))
