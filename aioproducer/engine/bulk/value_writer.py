"""The writer of many records: it puts values into batches while there is room."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from aioproducer.engine.bulk.send_report import OneRecord, RecordOutcomes
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.send_pipeline import RecordFields
from aioproducer.engine.core.tracing import in_context
from aioproducer.engine.records.bulk_tokens import BulkOutcomes, BulkToken
from aioproducer.errors import ProducerError
from aioproducer.foundation import tuning
from aioproducer.model import ProducerRecord
from aioproducer.serialization import SharedHeaders


class Outcomes(BulkOutcomes, RecordOutcomes, Protocol):
    """The receiver of the outcomes of all records."""

    def add(self, count: int) -> int:
        """Add ``count`` records that are sent; returns the index of the first of them."""

    def refused(self, index: int, error: ProducerError) -> None:
        """One record was not sent, because of its fields or the producer's state."""


class ValueWriter:
    """Puts records into batches, many in one call where that is possible."""

    def __init__(self, core: ProducerCore, outcomes: Outcomes) -> None:
        self._core = core
        self._outcomes = outcomes
        self._fast_path = core.fast_path
        self._routes = core.routes
        self._given = 0
        """The number of records that were sent or refused."""
        self._work = 0
        """The work since other tasks could run last, in values."""
        self._work_of_one = max(tuning.BULK_ROWS_PER_TURN // tuning.BULK_RECORDS_PER_TURN, 1)
        """The work for a record that is sent alone."""
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """True if :meth:`stop` was called."""
        return self._stopped

    def stop(self) -> None:
        """Put no more values into batches."""
        self._stopped = True

    async def write(
        self, topic: str, values: list[Any], partition: int | None, headers: SharedHeaders | None
    ) -> int:
        """Put ``values`` into batches, in order; returns the most of them in one call.

        The call waits for memory, not for outcomes.
        """
        core, put = self._core, self._put
        first = self._outcomes.add(len(values))
        at = count = most = 0
        while at < len(values) and not self._stopped:
            before = count
            count = 0
            if type(values[at]) is bytes:
                count = self._append_values(first + at, topic, values, at, partition, headers)
            if count:
                most = max(most, count)
                self._work += count
                at += count
            else:
                put(first + at, topic, values[at], partition, headers)
                self._worked_on_one(before)
                at += 1
            if core.back_pressure.is_full:
                await core.drain()
            if self._work >= tuning.BULK_ROWS_PER_TURN:
                self._work = 0
                await asyncio.sleep(0)
        return most

    async def write_pairs(
        self,
        topic: str,
        pairs: Sequence[tuple[Any, Any]],
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> None:
        """Do :meth:`write` with records of a key and a value."""
        core = self._core
        first = self._outcomes.add(len(pairs))
        for index, (key, value) in enumerate(pairs, first):
            if self._stopped:
                return
            self._put_fields(index, (topic, value, key, partition, headers, None))
            self._work += self._work_of_one
            if core.back_pressure.is_full:
                await core.drain()
            if self._work >= tuning.BULK_ROWS_PER_TURN:
                self._work = 0
                await asyncio.sleep(0)

    def _worked_on_one(self, before: int) -> None:
        """Count the work for a record that was sent alone, after ``before`` in one call."""
        self._work += tuning.BULK_RECORDS_PER_TURN if before else self._work_of_one

    def _append_values(
        self,
        index: int,
        topic: str,
        values: list[Any],
        at: int,
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> int:
        """Put values into the open batch, while they are bytes and fit; returns their number."""
        if not self._fast_path.serves():
            return 0
        builder = self._routes.find(topic, None, None, partition)
        if builder is None:
            return 0
        token = BulkToken(self._outcomes, index)
        self._routes.last = builder
        now_ns = self._core.wall_clock_ns()
        builder.mark(now_ns)
        before = builder.count
        try:
            builder.append_values(token, now_ns // 1_000_000, values, at, headers or ())
        finally:  # out of memory, it has written some of them
            token.count = builder.count - before
            self._given += token.count
        return token.count

    def _put(
        self,
        index: int,
        topic: str,
        value: Any,
        partition: int | None,
        headers: SharedHeaders | None,
    ) -> None:
        """Send a value, or a whole record."""
        if isinstance(value, ProducerRecord):
            self._put_fields(index, in_context(value.fields(), headers))
        else:
            self._put_fields(index, (topic, value, None, partition, headers, None))

    def _put_fields(self, index: int, fields: RecordFields) -> None:
        topic, value, key, partition, headers, timestamp_ms = fields
        token = OneRecord(self._outcomes, index)
        if (
            headers is None
            and timestamp_ms is None
            and self._fast_path.append(token, topic, value, key, partition)
        ):
            self._given += 1
            return
        self._core.check_usable()
        self._given += 1
        try:
            self._core.pipeline.put(fields, token, over_capacity=True)
        except ProducerError as error:
            self._outcomes.refused(index, error)
