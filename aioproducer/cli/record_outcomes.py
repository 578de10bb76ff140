"""The outcomes of records that went into batches in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from aioproducer.cli.lines import MissingKeyError
from aioproducer.engine.bulk.send_report import OneRecord
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.errors import ProducerError
from aioproducer.model import RecordMetadata

__all__ = ["Deliveries", "RecordOutcomes", "Refused"]

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
