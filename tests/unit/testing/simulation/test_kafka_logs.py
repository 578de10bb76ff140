"""Logs of the model: offsets, epochs, truncation, deletion, and what is visible."""

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
