"""The outcome of a batch, decided from the broker's response. No I/O, no clock.

The sender carries out the outcome that :func:`decide` returns, and nothing else. The meaning of an
error code is in :mod:`aioproducer.errors.table`; here it meets the facts about the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from aioproducer.errors import (
    Disposition,
    InvalidRecordError,
    KafkaError,
    ProducerError,
    Written,
    explain,
    kafka_error,
)
from aioproducer.sender.produce import PartitionResult


class Deliver(NamedTuple):
    """The batch is in the log."""

    base_offset: int
    """-1: the batch is in the log at an unknown offset (``acks=0``, or a duplicate)."""
    log_append_time_ms: int
    """-1: the records keep their own timestamps."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Send the batch again, after a backoff unless its leader has moved."""

    error: ProducerError
    """If ``refresh_metadata``, the leaders are out of date."""
    numbers_lost: bool = False
    """The broker does not take its sequence number any more; it needs a new one."""


@dataclass(frozen=True, slots=True)
class Split:
    """Send the records again in smaller batches."""

    error: ProducerError


@dataclass(frozen=True, slots=True)
class Fail:
    """The records fail with ``error``, those in ``record_errors`` (by index) with their own."""

    error: ProducerError
    record_errors: dict[int, ProducerError]


Outcome: TypeAlias = Deliver | Retry | Split | Fail


@dataclass(frozen=True, slots=True)
class Standing:
    """The facts about a batch that decide its outcome together with the response."""

    may_retry: bool
    """Attempts and time are left."""
    first_in_line: bool = True
    """No earlier batch of its partition is still without outcome, or was just dropped."""
    uncertain: bool = False
    """An earlier attempt may have been written, for nobody said that it was not."""
    records: int = 1
    """The number of records in the batch."""
    may_be_numbered_anew: bool = True
    """A batch whose number does not fit may get another one; in a transaction none does."""


def decide(result: PartitionResult, where: str, standing: Standing) -> Outcome:
    """The outcome of a batch by its response. ``where``: partition and broker, for messages."""
    if not result.error_code:
        return Deliver(result.base_offset, result.log_append_time_ms)
    said = explain(result.error_code, result.message)
    error = kafka_error(result.error_code, f"{where}: {said}")
    if error.disposition is Disposition.DELIVERED:
        return Deliver(result.base_offset, result.log_append_time_ms)
    if error.disposition is Disposition.TOO_LARGE and standing.records > 1:
        return Split(error)
    return decide_error(error, standing, result)


def decide_error(
    error: ProducerError, standing: Standing, result: PartitionResult | None = None
) -> Outcome:
    """The outcome of a batch whose request, or the batch itself, met ``error``.

    A batch whose number does not fit came before an earlier one that is still on its way, or after
    one that never will be, and then it needs a new number. It gets one only if it is surely not in
    the log: one that may have been written is failed rather than written twice.
    """
    if standing.may_retry:
        if isinstance(error, KafkaError) and error.disposition is Disposition.MISNUMBERED:
            if not standing.first_in_line:
                return Retry(error)
            renewable = standing.may_be_numbered_anew
            if renewable and not still_uncertain(standing.uncertain, error):
                return Retry(error, numbers_lost=True)
        elif error.retriable:
            return Retry(error)
    return Fail(error, _record_errors(error, result))


def still_uncertain(before: bool, error: ProducerError) -> bool:
    """True if a batch may be in the log after ``error``; ``before``: True if it might before."""
    return before or error.written is Written.MAYBE


def _record_errors(
    error: ProducerError, result: PartitionResult | None
) -> dict[int, ProducerError]:
    if result is None or not result.record_errors:
        return {}
    return {
        index: kafka_error(result.error_code, f"{error}: {message}" if message else str(error))
        for index, message in result.record_errors.items()
    }


def others_in_batch(error: ProducerError) -> ProducerError:
    """The error of records that fail because others of their batch were refused (KIP-467)."""
    return InvalidRecordError(
        f"not written, because other records of its batch were refused: {error}"
    )
