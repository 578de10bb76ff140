"""What becomes of a batch, decided from what the broker said. No I/O, no clock.

The sender carries out what :func:`decide` returns, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from aioproducer.errors import (
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    InvalidRecordError,
    MessageTooLargeError,
    NetworkError,
    NetworkExceptionError,
    NotEnoughReplicasAfterAppendError,
    OutOfOrderSequenceNumberError,
    ProducerError,
    RequestTimedOutError,
    RequestTimeoutError,
    UnknownProducerIdError,
    UnknownServerError,
    code_name,
    kafka_error,
)
from aioproducer.sender.produce import PartitionResult


class Deliver(NamedTuple):
    """The batch is in the log."""

    base_offset: int
    """-1: in the log, but nobody knows where (``acks=0``, or a duplicate)."""
    log_append_time_ms: int
    """-1: the records keep their own timestamps."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Send the batch again, after a backoff unless its leader has moved."""

    error: ProducerError
    """If ``refresh_metadata``, the leaders are out of date."""
    identity_lost: bool = False
    """The brokers no longer take this producer's sequence numbers; a new identity comes first."""


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

_IDENTITY_LOST: Final = (UnknownProducerIdError, InvalidProducerEpochError)

_UNCERTAIN: Final = (
    NetworkError,
    RequestTimeoutError,
    NetworkExceptionError,
    NotEnoughReplicasAfterAppendError,
    RequestTimedOutError,
    UnknownServerError,
)

_ADVICE: Final = {
    2: "the network or the broker's memory may be faulty",
    10: "send smaller records, or raise the topic's max.message.bytes",
    17: "check the topic's name",
    18: "lower batch_size, or raise the topic's segment.bytes",
    29: "give the principal the WRITE permission for the topic",
    32: "check the timestamps, or the topic's message.timestamp.before.max.ms and .after.max.ms",
    87: "does the topic need keys (cleanup.policy=compact), or another timestamp?",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """What is to be known of a batch, beside the answer, to decide."""

    may_retry: bool
    """Attempts and time are left."""
    first_in_line: bool = True
    """No earlier batch of its partition is still without outcome."""
    uncertain: bool = False
    """An earlier attempt may have been written, for nobody said that it was not."""
    records: int = 1
    """How many the batch holds."""


def decide(result: PartitionResult, where: str, standing: Standing) -> Outcome:
    """The outcome of a batch that was answered. ``where``: partition and broker, for messages."""
    if not result.error_code:
        return Deliver(result.base_offset, result.log_append_time_ms)
    error = kafka_error(result.error_code, _text(result, where))
    if isinstance(error, DuplicateSequenceNumberError):
        return Deliver(result.base_offset, result.log_append_time_ms)
    if isinstance(error, MessageTooLargeError) and standing.records > 1:
        return Split(error)
    return decide_error(error, standing, result)


def decide_error(
    error: ProducerError, standing: Standing, result: PartitionResult | None = None
) -> Outcome:
    """The outcome of a batch whose request, or the batch itself, met ``error``.

    OUT_OF_ORDER_SEQUENCE_NUMBER says that the batch is not in the log: it came before an earlier
    one that is still on its way, or after one that never will be, which takes a new identity. The
    other two errors of the identity say nothing about an earlier attempt, so a batch that may have
    been written is failed rather than written twice.
    """
    if standing.may_retry:
        if isinstance(error, OutOfOrderSequenceNumberError):
            return Retry(error, identity_lost=standing.first_in_line)
        if isinstance(error, _IDENTITY_LOST) and not standing.uncertain:
            return Retry(error, identity_lost=True)
        if error.retriable:
            return Retry(error)
    return Fail(error, _record_errors(error, result))


def leaves_uncertain(error: ProducerError) -> bool:
    """Whether a batch that met ``error`` may be in the log all the same."""
    return isinstance(error, _UNCERTAIN)


def _record_errors(
    error: ProducerError, result: PartitionResult | None
) -> dict[int, ProducerError]:
    if result is None or not result.record_errors:
        return {}
    return {
        index: kafka_error(result.error_code, f"{error}: {message}" if message else str(error))
        for index, message in result.record_errors.items()
    }


def _text(result: PartitionResult, where: str) -> str:
    parts = [f"{where}: {code_name(result.error_code)}"]
    if result.message:
        parts.append(result.message)
    elif result.error_code in _ADVICE:
        parts.append(_ADVICE[result.error_code])
    return ": ".join(parts)


def others_in_batch(error: ProducerError) -> ProducerError:
    """What the records of a batch get that were fine when others in it were refused (KIP-467)."""
    return InvalidRecordError(
        f"not written, because other records of its batch were refused: {error}"
    )
