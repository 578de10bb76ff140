"""The outcome of a batch, decided from the broker's response or the lack of one. No I/O, no clock.

Whatever an error does to a batch is decided here: :class:`BatchCompleter` gathers the facts about
the batch (:class:`Standing`), and carries out the outcome that :func:`decide` returns. The decision
combines the facts with the meaning of an error code (:mod:`aioproducer.errors.broker`).
"""

from typing import NamedTuple, TypeAlias

from aioproducer.engine.accumulator import still_uncertain
from aioproducer.engine.protocol import Api
from aioproducer.engine.sender.produce import PartitionResult
from aioproducer.errors import (
    ConcurrentTransactionsError,
    Disposition,
    InvalidRecordError,
    KafkaError,
    ProducerError,
    ProtocolError,
    kafka_error,
)
from aioproducer.errors.broker import explain
from aioproducer.foundation.backoff import Pace


class Deliver(NamedTuple):
    """The batch is in the log."""

    base_offset: int
    """-1: the batch is in the log at an unknown offset, because it is a duplicate."""
    log_append_time_ms: int
    """-1: the records keep their own timestamps."""
    log_start_offset: int = -1
    """The first offset of the log; -1: unknown."""


class Retry(NamedTuple):
    """Send the batch again, at its ``pace``."""

    error: ProducerError
    """If ``refresh_metadata``, the leaders are out of date."""
    numbers_lost: bool = False
    """True if the broker refuses the sequence number: the batch needs a new one."""
    pace: Pace = Pace.USUAL
    """``AT_ONCE`` if another broker leads now, or the number was wrong behind a known gap."""


class SetAside(NamedTuple):
    """Keep the batch until the outcome of a later one shows whether it is in the log."""

    error: ProducerError


class Split(NamedTuple):
    """Send the records again in smaller batches."""

    error: ProducerError


class Fail(NamedTuple):
    """The records fail with ``error``, or with their own error in ``record_errors``, by index."""

    error: ProducerError
    record_errors: dict[int, ProducerError]
    is_fatal: bool = False
    """True if no other batch of the producer can be written either."""


Outcome: TypeAlias = Deliver | Retry | SetAside | Split | Fail


class Standing(NamedTuple):
    """The facts about a batch that decide its outcome together with the response."""

    may_retry: bool
    """Attempts and time are left."""
    first_in_line: bool = True
    """True if no earlier batch of the partition lacks an outcome, or was just dropped."""
    behind_a_gap: bool = False
    """True if an earlier batch is not in the log, and its number will not be either."""
    broker_may_not_know: bool = False
    """True if a later batch is in the log, or the batch was split when it may have been written."""
    uncertain: bool = False
    """True if an earlier attempt may have been written: no response has excluded it."""
    later_was_delivered: bool = False
    """True if a later batch is in the log."""
    later_may_tell: bool = False
    """True if a later batch may be in the log, and then this one is there, too."""
    records: int = 1
    """The number of records in the batch."""
    is_numbered: bool = True
    """True if the batch has a sequence number."""
    may_be_numbered_anew: bool = True
    """True if a batch whose number does not fit may get another one: not in a transaction."""
    has_new_leader: bool = False
    """True if its partition has another leader than the broker that it was sent to."""


def decide(result: PartitionResult | None, where: str, standing: Standing) -> Outcome:
    """The outcome of a batch by the error code in its response; None: the response lacks it.

    ``where``: partition and broker, for messages.
    """
    if result is None:
        missing = ProtocolError(f"{where}: the response does not mention the partition")
        return decide_error(missing, standing)
    said = explain(result.error_code, result.message, Api.PRODUCE)
    error = kafka_error(result.error_code, f"{where}: {said}")
    if error.disposition is Disposition.DELIVERED:
        return Deliver(result.base_offset, result.log_append_time_ms, result.log_start_offset)
    if error.disposition is Disposition.TOO_LARGE and standing.records > 1:
        return Split(error)
    return decide_error(error, standing, result)


def decide_error(
    error: ProducerError, standing: Standing, result: PartitionResult | None = None
) -> Outcome:
    """The outcome of a batch whose request, or the batch itself, met ``error``.

    A batch's number does not fit if the batch arrived before an earlier one, which is still in
    flight, or if an earlier one will never arrive. In the second case the batch needs a new number.
    It gets one only if no earlier attempt may have been written, or it could be written twice.
    Behind a known gap it gets one in doubt, too: a broker would know a batch that it wrote there,
    unless it was split, or a later one was written, for a restarted broker remembers only the last
    batch of a producer. Such a batch fails. Without a known gap, a later batch in the log shows
    that this one is there, too, and one that may be there is asked for first. Without one, the
    batch fails.
    """
    if standing.may_retry:
        misnumbered = (
            standing.is_numbered
            and isinstance(error, KafkaError)
            and error.disposition is Disposition.MISNUMBERED
        )
        if misnumbered:
            uncertain = still_uncertain(standing.uncertain, error)
            if standing.behind_a_gap:
                if not (uncertain and standing.broker_may_not_know):
                    return Retry(error, numbers_lost=True, pace=Pace.AT_ONCE)
                return Fail(error, {})
            if not standing.first_in_line:
                return _retry(error, standing)
            renewable = standing.may_be_numbered_anew
            if uncertain:
                if standing.later_was_delivered:
                    return Deliver(-1, -1)
                if standing.later_may_tell:
                    return SetAside(error)
            elif renewable:
                return _retry(error, standing, numbers_lost=True)
        elif error.retriable:
            return _retry(error, standing)
    # Without a producer id each batch fails on its own.
    fatal = isinstance(error, KafkaError) and error.disposition is Disposition.FATAL
    return Fail(error, _record_errors(error, result), fatal and standing.is_numbered)


def _retry(error: ProducerError, standing: Standing, *, numbers_lost: bool = False) -> Retry:
    pace = Pace.USUAL
    if standing.has_new_leader:
        pace = Pace.AT_ONCE
    elif isinstance(error, ConcurrentTransactionsError):
        pace = Pace.SOON
    return Retry(error, numbers_lost, pace)


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
