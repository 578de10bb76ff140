# cython: language_level=3, annotation_typing=False, binding=False, nonecheck=True
"""The results of delivered records, and those that wait so that other tasks may run."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any

from aioproducer.engine.accumulator.flushes import Flushes
from aioproducer.engine.accumulator.producer_batch import ProducerBatch
from aioproducer.engine.records.acceleration import deliver_records
from aioproducer.engine.records.builder import Run
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.foundation import tuning


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

    def deliver(
        self,
        batch: ProducerBatch,
        base_offset: int,
        log_append_time_ms: int,
        log_start_offset: int = -1,
    ) -> None:
        """The records of ``batch`` are in the log; -1 as in ``records.delivery``."""
        if not self.waiting and _is_one_call(batch.builder.tokens):
            self.set_in_turn += batch.builder.count
            batch.deliver(base_offset, log_append_time_ms, log_start_offset)
            return
        batch.is_delivered(base_offset)
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
            took = max(now - self._turned, 0.0)
            most = max(tuning.RECORDS_PER_SLICE, int(took * tuning.RESULTS_PER_SECOND))
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
        self, batch: ProducerBatch, log_append_time_ms: int, log_start_offset: int
    ) -> None:
        self.generation = 0
        """See :class:`Flushes`."""
        self.topic_partition = batch.topic_partition
        self.tokens: list[Any] = batch.builder.tokens
        self.runs = batch.builder.runs
        self.base_offset = batch.base_offset
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
