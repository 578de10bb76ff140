"""What a partition of the model remembers of producers, and how it is rebuilt from the log."""

from __future__ import annotations

import pytest

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.batch import Batch
from aioproducer.testing.simulation.kafka.producer_state import AbortedTransaction, ProducerStates
from tests.unit.testing.simulation.test_kafka_logs import TRANSACTIONAL, data, marker

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def written(sequence: int, size: int = 1, *, at: int, epoch: int = 0, producer: int = 1) -> Batch:
    return data(size, (producer, epoch, sequence)).at(at, 0, None)


def known(*sequences: int) -> ProducerStates:
    return ProducerStates.from_log(
        written(sequence, at=place) for place, sequence in enumerate(sequences)
    )


def test_five_batches_are_remembered() -> None:
    states = known(*range(6))
    found = [states.duplicate_of(written(sequence, at=9)) for sequence in range(6)]
    assert [each and each.first_offset for each in found] == [None, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("epoch", "sequence", "code"),
    [
        (0, 3, ErrorCode.NONE),
        (0, 2, OUT_OF_ORDER),
        (0, 4, OUT_OF_ORDER),
        (0, 0, OUT_OF_ORDER),
        (1, 0, ErrorCode.NONE),
        (1, 3, OUT_OF_ORDER),
    ],
)
def test_the_next_sequence_number(epoch: int, sequence: int, code: ErrorCode) -> None:
    assert known(0, 1, 2).refuses(written(sequence, at=9, epoch=epoch), None) == code


def test_an_older_epoch_is_refused() -> None:
    states = ProducerStates.from_log([written(0, at=0, epoch=2)])
    assert states.refuses(written(1, at=1, epoch=1), None) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_forgotten_producer_may_go_on_anywhere() -> None:
    states = known(0, 1)
    states.expire()
    assert states.refuses(written(7, at=2), None) == ErrorCode.NONE


def test_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    states = ProducerStates.from_log([data(1, (1, 0, 0), TRANSACTIONAL).at(0, 0, None)])
    states.expire()
    assert states.has_transaction(1, 0)


def test_transactional_batches_want_the_word_of_the_coordinator() -> None:
    states = ProducerStates()
    batch = data(1, (1, 0, 0), TRANSACTIONAL).at(0, 0, None)
    assert states.refuses(batch, None) == ErrorCode.INVALID_TXN_STATE
    verified = states.start_verification(batch, adds_partitions=True)
    assert states.refuses(batch, verified) == ErrorCode.NONE


def test_a_marker_makes_an_earlier_word_of_the_coordinator_void() -> None:
    states = ProducerStates()
    batch = data(1, (1, 0, 0), TRANSACTIONAL).at(1, 0, None)
    verified = states.start_verification(batch, adds_partitions=False)
    states.end_transaction(
        marker(1, commit=False).at(0, 0, None), commit=False, coordinator_epoch=0
    )
    assert states.refuses(batch, verified) == ErrorCode.INVALID_TXN_STATE


def test_transactions_end_at_their_markers_and_are_stable_above_the_high_watermark() -> None:
    states = ProducerStates.from_log(
        [
            data(1, (1, 0, 0), TRANSACTIONAL).at(0, 0, None),
            data(2, (2, 0, 0), TRANSACTIONAL).at(1, 0, None),
            marker(1, commit=False).at(3, 0, None),
        ]
    )
    assert states.first_unstable_offset(3) == 0
    assert states.first_unstable_offset(4) == 1
    assert states.aborted_between(0, 4) == [AbortedTransaction(0, 1, 3)]
    assert states.aborted_between(4, 9) == []


@pytest.mark.parametrize(
    ("version", "epoch", "coordinator_epoch", "code"),
    [
        (1, 0, 3, ErrorCode.NONE),
        (2, 0, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 1, 3, ErrorCode.NONE),
        (1, 0, 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
def test_markers_are_checked(
    version: int, epoch: int, coordinator_epoch: int, code: ErrorCode
) -> None:
    states = ProducerStates.from_log(
        [marker(1, commit=True).at(0, 0, None), data(1, (1, 0, 0), TRANSACTIONAL).at(1, 0, None)]
    )
    assert states.refuses_marker(1, epoch, coordinator_epoch, version) == code


def test_a_marker_that_is_repeated_is_allowed() -> None:
    states = ProducerStates.from_log([marker(1, commit=True).at(0, 0, None)])
    assert states.refuses_marker(1, 0, 3, 2) == ErrorCode.NONE
