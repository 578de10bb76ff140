"""The results of records: who waits for them, their delivery in turns, and the topics that fail.

Batches and pending records belong to a *generation*, which is a number. A flush closes the present
generation: later records belong to the next one. A flush is done when no item of its generation or
of an older one is left. Flushes share a generation if no record came between them, so every step
costs the same however many flushes wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from aioproducer.engine.accumulator.producer_batch import ProducerBatch
from aioproducer.engine.records.acceleration import RecordsBuilder, deliver_records
from aioproducer.engine.records.builder import Run
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    ProducerClosedError,
    ProducerError,
    TransactionAbortedError,
    UsageError,
)
from aioproducer.foundation import tuning
from aioproducer.model import BigInt


class FlushFuture(Protocol):
    """The part of a future that a flush uses."""

    def done(self) -> bool:
        """True if the caller gave up."""

    def set_result(self, result: None, /) -> None:
        """Every item that the flush waits for has its outcome."""

    def set_exception(self, error: BaseException, /) -> None:
        """An item that the flush waits for will have no outcome."""


class Flushable(Protocol):
    """A batch or a pending record."""

    generation: int


class Flushes:
    """All flushes under way; False if there is none."""

    __slots__ = ("_futures", "_newest", "_oldest", "_pending", "_waiting")

    def __init__(self) -> None:
        self._newest = 0
        """The generation of new batches and records."""
        self._oldest = 0
        """The oldest generation with items left; the newest one if no item is left."""
        self._pending: dict[int, int] = {}
        """The number of items without an outcome, by generation."""
        self._futures: dict[int, dict[FlushFuture, None]] = {}
        """The futures that wait for a generation and all before it."""
        self._waiting: dict[FlushFuture, int] = {}
        """The generation that each future waits for."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    # --- items -----------------------------------------------------------------------------

    def began(self, item: Flushable) -> None:
        """Count the new ``item``: flushes that began before do not wait for it."""
        item.generation = self._newest
        self._pending[self._newest] = self._pending.get(self._newest, 0) + 1

    def done(self, item: Flushable) -> None:
        """Stop counting ``item``: it has its outcome, or its records moved to other items."""
        left = self._pending[item.generation] - 1
        if left:
            self._pending[item.generation] = left
            return
        del self._pending[item.generation]
        while self._oldest < self._newest and self._oldest not in self._pending:
            self._resolve(self._oldest)
            self._oldest += 1

    def moved(self, item: Flushable, to: Flushable) -> None:
        """``item``, or a part of it, is in ``to`` now and shares its outcome."""
        if item.generation < to.generation:
            self.done(to)  # ends no flush: ``item`` is older, and has no outcome
            to.generation = item.generation
            self._pending[item.generation] += 1

    # --- futures ---------------------------------------------------------------------------

    def begin(self, future: FlushFuture) -> None:
        """Resolve ``future`` once all batches and records of this moment have their outcome."""
        if self._newest in self._pending:
            self._newest += 1
        awaited = self._newest - 1
        if awaited < self._oldest:
            future.set_result(None)
            return
        self._waiting[future] = awaited
        self._futures.setdefault(awaited, {})[future] = None

    def give_up(self, future: FlushFuture) -> None:
        """Forget ``future``, which has no more waiters; a second or late call does nothing."""
        generation = self._waiting.pop(future, None)
        if generation is not None:
            del self._futures[generation][future]

    def fail(self, error: BaseException) -> None:
        """End all flushes with ``error`` at once."""
        waiting, self._waiting = self._waiting, {}
        self._futures.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(error)

    def _resolve(self, generation: int) -> None:
        for future in self._futures.pop(generation, ()):
            del self._waiting[future]
            if not future.done():
                future.set_result(None)


class LateResults:
    """Sets the results of delivered batches.

    The records of a large batch, or of many that are delivered together, get their results in
    several turns of the event loop, in the order of the deliveries. A flush waits for them.
    """

    def __init__(self, flushes: Flushes) -> None:
        self._flushes = flushes
        self._turned = inf
        """The time of the last turn, if it left results; else later than any time."""
        self.waiting: deque[_Rest] = deque()
        """The delivered batches that have records without results."""
        self._results_waiting = 0
        self.set_in_turn = 0
        """The number of results that were set since the last :meth:`turn`."""

    def complete_futures(
        self,
        batch: ProducerBatch,
        base_offset: BigInt,
        log_append_time_ms: BigInt,
        log_start_offset: BigInt = -1,
    ) -> None:
        """The records of ``batch`` are in the log; -1 as in ``records.delivery``.

        Source: ``completeFutureAndFireCallbacks`` of Kafka's ``ProducerBatch``.
        """
        builder: RecordsBuilder = batch.builder
        count: int = builder.count
        tokens = builder.tokens
        fits = self.set_in_turn + count <= tuning.RECORDS_PER_SLICE
        batch.note_delivered(base_offset)
        if not self.waiting and (fits or _is_one_call(tokens)):
            self.set_in_turn += count
            deliver_records(
                tokens,
                builder.runs,
                *batch.topic_partition,
                base_offset,
                log_append_time_ms,
                log_start_offset,
            )
            return
        rest = _Rest(batch, log_append_time_ms, log_start_offset)
        self._flushes.began(rest)
        self._flushes.moved(batch, rest)
        self.waiting.append(rest)
        self._results_waiting += rest.left
        self._set(tuning.RECORDS_PER_SLICE - self.set_in_turn)

    def turn(self, now: float) -> None:
        """The event loop has run other tasks, until ``now``: set the next results."""
        self.set_in_turn = 0
        if self.waiting:
            took: float = max(now - self._turned, 0.0)
            most: int = max(tuning.RECORDS_PER_SLICE, int(took * tuning.RESULTS_PER_SECOND))
            self._set(max(most, self._results_waiting // tuning.RESULTS_WAITING_PART))
        self._turned = now if self.waiting else inf

    def _set(self, most: int) -> None:
        waiting = self.waiting
        while most > 0 and waiting:
            rest = waiting[0]
            before = rest.left
            done = rest.set_results(most)
            self._results_waiting -= before - rest.left
            self.set_in_turn += done
            most -= done
            if not rest.left:
                waiting.popleft()
                self._flushes.done(rest)


class _Rest:
    """The records of a delivered batch that have no results yet."""

    __slots__ = (
        "base_offset",
        "first",
        "generation",
        "left",
        "log_append_time_ms",
        "log_start_offset",
        "run",
        "runs",
        "tokens",
        "topic_partition",
    )

    def __init__(
        self, batch: ProducerBatch, log_append_time_ms: BigInt, log_start_offset: BigInt
    ) -> None:
        self.generation = 0
        """See :class:`Flushes`."""
        self.topic_partition = batch.topic_partition
        self.tokens: list[Any] = batch.builder.tokens
        self.runs = batch.builder.runs
        self.base_offset: BigInt = batch.base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.first = 0
        """The index of the first record without a result, and in ``run`` that of its run."""
        self.run = 0
        self.left = len(self.tokens)

    def set_results(self, most: int) -> int:
        """Set up to ``most`` results; returns their number. Those of a call are one."""
        tokens, runs, first = self.tokens, self.runs, self.first
        end, done = first, 0
        while done < most and end < len(tokens):
            token = tokens[end]
            end += token.count if type(token) is BulkToken else 1
            done += 1
        described: list[Run] = []
        while self.run < len(runs) and runs[self.run][0] < end:
            start, timestamp_ms, key_size, value_size = runs[self.run]
            described.append((max(start - first, 0), timestamp_ms, key_size, value_size))
            self.run += 1
        self.run -= 1  # it may go on after the end
        base_offset = self.base_offset
        deliver_records(
            tokens[first:end],
            described,
            *self.topic_partition,
            base_offset + first if base_offset >= 0 else base_offset,
            self.log_append_time_ms,
            self.log_start_offset,
        )
        self.first, self.left = end, len(tokens) - end
        return done


def _is_one_call(tokens: list[Any]) -> bool:
    """True if all records belong to one :class:`BulkToken`, which takes their results at once."""
    return type(tokens[0]) is BulkToken and tokens[0] is tokens[-1]


_ABOUT_THE_RECORD = (
    InvalidRecordError,
    InvalidTimestampError,
    ProducerClosedError,
    TransactionAbortedError,
    UsageError,
)
"""Errors after which other records of the topic may be delivered."""


class FailingTopic(NamedTuple):
    """A topic whose records fail: none was delivered since. Times are clock seconds."""

    since: float
    """The time of the first failure."""
    last: float
    """The time of the last one."""
    error: ProducerError
    """The last one."""


class TopicOutcomes:
    """Counts delivered and failed records, and remembers the topics that fail."""

    def __init__(self) -> None:
        self.delivered_records = 0
        """Records that were acknowledged."""
        self.failed_records = 0
        """Records that failed, whatever the reason."""
        self._failing: dict[str, FailingTopic] = {}
        self.failing: Mapping[str, FailingTopic] = MappingProxyType(self._failing)
        """The topics that fail."""

    def failed(
        self,
        topic: str,
        records: int,
        error: ProducerError,
        now: float,
        *,
        others_may_pass: bool = False,
    ) -> None:
        """Note that ``records`` of ``topic`` failed with ``error``.

        ``others_may_pass``: the error says nothing about other records of the topic.
        """
        self.failed_records += records
        if not others_may_pass and not isinstance(error, _ABOUT_THE_RECORD):
            known = self._failing.get(topic)
            since = now if known is None else known.since
            self._failing[topic] = FailingTopic(since, now, error)

    def forget(self, topic: str) -> None:
        """Forget the failures of a topic that passes, or is not used any more."""
        self._failing.pop(topic, None)
