"""Outcomes of records: counts, the first errors told as they come, and outcomes of bulk calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from aioproducer.cli.lines import MissingKeyError
from aioproducer.engine.bulk.send_report import OneRecord
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.errors import ProducerError
from aioproducer.model import RecordMetadata

__all__ = [
    "DeliveryCounter",
    "Deliveries",
    "RecordOutcomes",
    "Refused",
]


_ERRORS_TOLD = 5


class DeliveryCounter:
    """``tell`` gets the first errors, each distinct one once; ``on_failure`` gets the error of each
    record that failed on its way."""

    def __init__(
        self, tell: Callable[[str], None], on_failure: Callable[[BaseException], None]
    ) -> None:
        self._tell = tell
        self._on_failure = on_failure
        self._told: set[str] = set()
        self.delivered = 0
        self.failed = 0
        self.bytes = 0
        """Keys and values of the delivered records."""

    def watch(self, future: asyncio.Future[RecordMetadata]) -> None:
        """Count the record of this future when it has its outcome."""
        future.add_done_callback(self._settled)

    def fail(self, reason: str) -> None:
        """Count a record that was not even sent, or failed on its way."""
        self.failed += 1
        if len(self._told) < _ERRORS_TOLD and reason not in self._told:
            self._told.add(reason)
            self._tell(reason)

    def arrived(self, count: int, size: int) -> None:
        """Count delivered records, with keys and values of ``size`` bytes together."""
        self.delivered += count
        self.bytes += size

    def lost(self, error: BaseException) -> None:
        """Count a record that failed on its way."""
        self.fail(str(error) or type(error).__name__)
        self._on_failure(error)

    def _settled(self, future: asyncio.Future[RecordMetadata]) -> None:
        if future.cancelled():
            self.fail("a record was cancelled before it was sent")
        elif (error := future.exception()) is not None:
            self.lost(error)
        else:
            metadata = future.result()
            size = max(0, metadata.serialized_key_size) + max(0, metadata.serialized_value_size)
            self.arrived(1, size)


Refused = Callable[[int, ProducerError | MissingKeyError], None]


class Deliveries(Protocol):
    """A receiver of outcomes, which counts them."""

    def arrived(self, count: int, size: int) -> None:
        """``count`` records are in the log, with keys and values of ``size`` bytes together."""

    def lost(self, error: BaseException) -> None:
        """One record failed on its way."""


class RecordOutcomes:
    """The outcomes of the records of one call, for ``deliveries``; ``number``: of the first.

    ``refused`` gets the number of each record that can't be sent, with the reason.
    """

    def __init__(
        self, deliveries: Deliveries, refused: Refused, number: int, sizes: Sequence[int]
    ) -> None:
        self._deliveries = deliveries
        self._refused = refused
        self._number = number
        self._sizes = sizes

    def add(self, count: int) -> int:
        """The index of the first record."""
        return 0

    def done(self) -> bool:
        """Always False: each outcome counts."""
        return False

    def cancelled(self) -> bool:
        """Always False."""
        return False

    def one(self, index: int) -> OneRecord:
        """A stand-in for the future of one record."""
        return OneRecord(self, index)

    def arrived(self, token: BulkToken, topic: str, partition: int, base_offset: int) -> None:
        """All records of ``token`` are in the log."""
        first, stop = token.first, token.first + token.count
        sizes = (
            self._sizes[first:stop]
            if token.rows is None
            else map(self._sizes.__getitem__, token.rows[first:stop])
        )
        self._deliveries.arrived(token.count, sum(sizes))

    def delivered(self, index: int, metadata: RecordMetadata) -> None:
        """One record is in the log."""
        self._deliveries.arrived(1, self._sizes[index])

    def failed(self, index: int, error: BaseException) -> None:
        """One record failed on its way."""
        self._deliveries.lost(error)

    def refused(self, index: int, error: ProducerError) -> None:
        """One record was not sent."""
        self._refused(self._number + index, error)
