"""Logs of the model: offsets, epochs, truncation, deletion, visibility, states of producers."""

from __future__ import annotations

import pytest

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.batch import (
    Batch,
    RecordsError,
    check_batch,
    control_batch,
    increment_sequence,
    only_batch,
)
from aioproducer.testing.simulation.kafka.cluster import TOPIC_DEFAULTS
from aioproducer.testing.simulation.kafka.partition import EpochEnd, PartitionLog
from aioproducer.testing.simulation.kafka.producer_state import AbortedTransaction, ProducerStates
from tests.support.encoded_batches import NOW, batch, record

TRANSACTIONAL = 0x10


def data(
    size: int = 1, producer: tuple[int, int, int] = (-1, -1, -1), attributes: int = 0
) -> Batch:
    """A batch as a client sends it."""
    records = b"".join(record(each, b"%d" % each) for each in range(size))
    return only_batch(batch(records, size, producer=producer, attributes=attributes), 12)


def marker(producer_id: int, *, commit: bool) -> Batch:
    return control_batch(producer_id, 0, commit=commit, coordinator_epoch=3, now_ms=NOW)


def log_of(*batches: Batch, epoch: int = 0) -> PartitionLog:
    log = PartitionLog()
    log.begin_epoch(epoch)
    for each in batches:
        log.append(each.at(log.end_offset, epoch, None))
    return log


def test_offset_and_epoch_leave_the_checksum_right() -> None:
    placed = data(2).at(40, 7, None)
    assert (placed.base_offset, placed.last_offset, placed.leader_epoch) == (40, 41, 7)
    assert [each.offset for each in placed.records(True)] == [40, 41]
    check_batch(placed.at(0, 7, None), TOPIC_DEFAULTS, NOW)


def test_the_time_of_the_broker_is_part_of_a_right_checksum() -> None:
    placed = data(2).at(0, 0, NOW + 5)
    assert [each.timestamp_ms for each in placed.records(True)] == [NOW + 5, NOW + 5]
    check_batch(placed, TOPIC_DEFAULTS, NOW)


def test_a_changed_byte_is_found() -> None:
    changed = bytearray(data().data)
    changed[-2] ^= 1
    with pytest.raises(RecordsError, match="checksum") as caught:
        check_batch(only_batch(bytes(changed), 12), TOPIC_DEFAULTS, NOW)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_marker_says_how_the_transaction_ended() -> None:
    for commit in (True, False):
        placed = marker(5, commit=commit).at(9, 2, None)
        assert (placed.control, placed.commits, placed.coordinator_epoch) == (True, commit, 3)


def test_sequence_numbers_wrap() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert data(3, (1, 0, 2**31 - 2)).last_sequence == 0


def test_records_are_visible_by_the_end_of_their_transaction() -> None:
    log = log_of(
        data(1, (1, 0, 0), TRANSACTIONAL),
        data(1, (2, 0, 0), TRANSACTIONAL),
        data(),
        marker(1, commit=False),
        data(1, (1, 0, 1), TRANSACTIONAL),
        marker(1, commit=True),
    )
    assert [(each.offset, each.visible) for each in log.records()] == [
        (0, False),
        (1, None),
        (2, True),
        (4, True),
    ]


def test_ends_of_epochs_are_where_the_next_one_begins() -> None:
    log = log_of(data(2), data(1), epoch=1)
    log.begin_epoch(4)
    log.append(data(5).at(3, 4, None))
    assert log.end_of_epoch(1) == EpochEnd(1, 3)
    assert log.end_of_epoch(2) == EpochEnd(1, 3)
    assert log.end_of_epoch(0) == EpochEnd(0, 0)
    assert log.end_of_epoch(4) == EpochEnd(4, 8)
    assert log.end_of_epoch(5) == EpochEnd()


def test_an_epoch_without_records_leaves_no_trace() -> None:
    log = log_of(data(2))
    log.begin_epoch(1)
    log.begin_epoch(2)
    log.append(data().at(2, 2, None))
    assert log.end_of_epoch(1) == EpochEnd(0, 2)


def test_truncation_drops_whole_batches_and_later_epochs() -> None:
    log = log_of(data(2), data(2))
    log.begin_epoch(3)
    log.append(data().at(4, 3, None))
    log.truncate(2)
    assert (log.end_offset, len(log.batches)) == (2, 1)
    assert log.end_of_epoch(3) == EpochEnd()


def test_truncation_within_a_batch_drops_it_and_leaves_no_gap() -> None:
    log = log_of(data(2), data(4))
    log.truncate(3)
    assert (log.end_offset, len(log.batches)) == (2, 1)


def test_truncation_before_the_start_moves_the_start() -> None:
    log = log_of(data(2), data(4))
    log.delete_before(3)
    log.truncate(1)
    assert (log.start_offset, log.end_offset, log.batches) == (2, 2, [])


def test_deleted_records_are_gone_within_their_batch_too() -> None:
    log = log_of(data(2), data(3))
    log.delete_before(3)
    assert [each.offset for each in log.records()] == [3, 4]
    assert [each.base_offset for each in log.batches] == [2]


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
