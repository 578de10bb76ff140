"""The state of one partition: what is buffered, hidden, cut off, and the cursor in a batch."""

from __future__ import annotations

import sys

import pytest

from aioproducer.engine.records.decoder import decode
from aioproducer.errors import (
    CorruptRecordsError,
    MissingExtraError,
    OffsetOutOfRangeError,
    ProducerError,
)
from aioproducer.model import TopicPartition
from aioproducer.reader.partition import BATCH_OBJECTS, Cursor, PartitionState
from aioproducer.reader.requests import AbortedTransaction, FetchedPartition
from tests.support.encoded_batches import with_right_checksum
from tests.unit.reader.written import batch, marker

PLACE = TopicPartition("orders", 0)


def state(position: int = 0, end: int | None = None) -> PartitionState:
    return PartitionState(PLACE, position, end)


def fetched(*batches: bytes, aborted: tuple[AbortedTransaction, ...] = ()) -> FetchedPartition:
    return FetchedPartition(0, b"".join(batches), 100, 90, aborted)


def take(
    partition: PartitionState,
    *batches: bytes,
    aborted: tuple[tuple[int, int], ...] = (),
    committed_only: bool = False,
) -> None:
    index = tuple(AbortedTransaction(*each) for each in aborted)
    answer = fetched(*batches, aborted=index)
    for _ in partition.taking(answer, committed_only=committed_only, check_crcs=True):
        pass


def visible(partition: PartitionState) -> list[int]:
    """The base offsets of the batches for the application."""
    found = []
    while partition.has_items:
        item = partition.pop()
        if item.error is not None:
            raise item.error
        if item.batch is not None:
            found.append(item.batch.base_offset)
        partition.advance(item.next_offset)
    return found


def test_batches_come_in_their_order() -> None:
    partition = state()
    take(partition, batch(0, b"a", b"b"), batch(2, b"c"))
    assert partition.fetch_offset == 3
    assert partition.buffered == len(batch(0, b"a", b"b")) + len(batch(2, b"c")) + 2 * BATCH_OBJECTS
    assert visible(partition) == [0, 2]
    assert (partition.position, partition.buffered) == (3, 0)
    assert (partition.high_watermark, partition.last_stable_offset) == (100, 90)


def test_a_batch_that_begins_before_the_position_is_taken_whole() -> None:
    partition = state(1)
    take(partition, batch(0, b"a", b"b", b"c"))
    assert visible(partition) == [0]
    assert partition.position == 3


def test_a_batch_that_was_taken_before_is_dropped() -> None:
    partition = state()
    take(partition, batch(0, b"a", b"b"))
    take(partition, batch(0, b"a", b"b"), batch(2, b"c"))
    assert visible(partition) == [0, 2]


def test_a_batch_that_is_cut_off_waits_for_the_next_response() -> None:
    partition = state()
    take(partition, batch(0, b"a"), batch(1, b"b")[:-1])
    assert visible(partition) == [0]
    assert partition.fetch_offset == 1


@pytest.mark.parametrize("committed_only", [False, True])
def test_control_batches_are_never_records(committed_only: bool) -> None:
    partition = state()
    take(
        partition,
        batch(0, b"a", producer_id=7, transactional=True),
        marker(1, 7, commits=True),
        batch(2, b"b"),
        committed_only=committed_only,
    )
    assert visible(partition) == [0, 2]
    assert partition.position == 3


def test_aborted_transactions_are_hidden_up_to_their_markers() -> None:
    partition = state()
    take(
        partition,
        batch(0, b"aborted", producer_id=7, transactional=True),
        batch(1, b"another producer's", producer_id=8, transactional=True),
        batch(2, b"without a transaction", producer_id=9),
        batch(3, b"aborted", producer_id=7, transactional=True),
        marker(4, 7, commits=False),
        batch(5, b"the next one", producer_id=7, transactional=True),
        marker(6, 7, commits=True),
        batch(7, b"aborted again", producer_id=7, transactional=True),
        marker(8, 7, commits=False),
        marker(9, 8, commits=True),
        aborted=((7, 7), (7, 0)),
        committed_only=True,
    )
    assert visible(partition) == [1, 2, 5]
    assert partition.position == 10


def test_the_index_counts_for_committed_records_alone() -> None:
    partition = state()
    aborted = batch(0, b"aborted", producer_id=7, transactional=True)
    take(partition, aborted, marker(1, 7, commits=False), aborted=((7, 0),))
    assert visible(partition) == [0]


def test_records_behind_the_end_are_not_for_the_application() -> None:
    partition = state(0, end=2)
    assert partition.wants_records
    take(partition, batch(0, b"a"), batch(1, b"b", b"c"), batch(3, b"d"))
    assert not partition.wants_records
    assert not partition.is_done
    assert visible(partition) == [0, 1]
    assert partition.is_done
    assert partition.position == 2


def test_a_corrupt_batch_is_an_error_behind_the_good_ones() -> None:
    partition = state()
    broken = bytearray(batch(1, b"bad"))
    broken[-1] ^= 1
    take(partition, batch(0, b"good"), bytes(broken), batch(2, b"good"))
    assert not partition.wants_records
    first = partition.pop()
    partition.advance(first.next_offset)
    with pytest.raises(CorruptRecordsError, match="orders-0"):
        visible(partition)
    assert (partition.position, partition.fetch_offset) == (1, 1)
    assert partition.wants_records, "it is fetched again"


def test_a_marker_whose_codec_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker compresses markers; a response may."""
    monkeypatch.setitem(sys.modules, "zstandard", None)
    partition = state()
    data = bytearray(marker(0, 7, commits=True))
    data[22] |= 4  # the last byte of the attributes
    take(partition, with_right_checksum(data), committed_only=True)
    item = partition.pop()
    assert isinstance(item.error, MissingExtraError)
    assert "orders-0 at offset 0 can't be read: the codec zstd needs zstandard" in str(item.error)


def test_one_error_is_kept() -> None:
    partition = state()
    partition.fail(OffsetOutOfRangeError("first"))
    partition.fail(OffsetOutOfRangeError("second"))
    with pytest.raises(OffsetOutOfRangeError, match="first"):
        visible(partition)
    assert not partition.has_items


def test_seek_drops_what_was_read_ahead() -> None:
    partition = state()
    take(partition, batch(0, b"a", b"b"), batch(2, b"c"))
    restarts = partition.restarts
    partition.seek(1)
    assert not partition.has_items
    assert (partition.position, partition.fetch_offset, partition.buffered) == (1, 1, 0)
    assert partition.restarts > restarts, "a response on its way is out of date"
    assert not partition.moved_to(9), "nothing was read that a new leader could lack"


def test_truncation_drops_what_the_log_lost() -> None:
    partition = state()
    take(partition, batch(0, b"a", epoch=3), batch(1, b"b", epoch=3), batch(2, b"c", epoch=3))
    partition.truncate(2, 2)
    assert (partition.fetch_offset, partition.read_epoch) == (2, 2)
    assert partition.buffered == 2 * (len(batch(0, b"a")) + BATCH_OBJECTS)
    assert visible(partition) == [0, 1]


def test_a_new_leader_is_asked_only_for_what_was_read() -> None:
    partition = state()
    assert not partition.moved_to(5)
    assert not partition.moved_to(6)
    take(partition, batch(0, b"a", epoch=6))
    assert not partition.moved_to(6)
    assert partition.moved_to(7)
    partition.validated(7)
    assert not partition.moved_to(7)


def test_batches_without_records_for_the_application_take_no_memory() -> None:
    partition = state()
    take(partition, *(marker(offset, 7, commits=True) for offset in range(100)))
    assert partition.pop().next_offset == 100
    assert not partition.has_items


def test_truncation_among_markers_keeps_those_before() -> None:
    partition = state(end=5)
    take(partition, *(marker(offset, 7, commits=True) for offset in range(10)))
    partition.truncate(5, 3)
    assert visible(partition) == []
    assert partition.is_done


WHERE = TopicPartition("orders", 0)


def opened(log: bytes = batch(100, b"a", b"b")) -> tuple[Cursor, PartitionState]:
    """A cursor behind the first of two records at the offsets 100 and 101."""
    state = PartitionState(WHERE, 100, None)
    fetched = FetchedPartition(0, log, 102, 102, ())
    for _ in state.taking(fetched, committed_only=False, check_crcs=True):
        pass
    item = state.pop()
    assert item.batch is not None
    cursor = Cursor()
    cursor.open(state, item, decode(item.batch, limit=1000))
    cursor.last = next(cursor.records)
    return cursor, state


def test_the_position_is_behind_the_records_that_were_read() -> None:
    cursor, state = opened()
    assert cursor.position == (WHERE, 101)
    assert cursor.interrupt() is not None
    assert state.position == 101
    cursor, state = opened()
    cursor.finish()
    assert state.position == 102


def test_a_position_that_was_reset_stays() -> None:
    cursor, state = opened()
    state.seek(0)
    assert cursor.position is None
    cursor.finish()
    assert state.position == 0
    cursor, state = opened()
    state.seek(0)
    assert cursor.interrupt() is None
    assert state.position == 0


def test_the_position_after_a_batch_is_behind_its_removed_records() -> None:
    cursor, state = opened(batch(100, b"a", b"b", removed=3))
    assert cursor.position == (WHERE, 101)
    cursor.last = next(cursor.records)
    assert cursor.position == (WHERE, 105)
    assert cursor.interrupt() is None, "nothing of it is left to hand out"
    assert state.position == 105


def test_the_position_is_behind_markers_that_were_fetched() -> None:
    log = batch(100, b"a", b"b", epoch=5, producer_id=7, transactional=True)
    cursor, state = opened(log + marker(102, 7, commits=True, epoch=6))
    assert state.place_after(101) == (101, 5)
    cursor.last = next(cursor.records)
    assert cursor.position == (WHERE, 102)
    assert state.place_after(102) == (103, 6), "with the epoch of the marker: the log has it"
    cursor.finish()
    assert state.place_after(state.position) == (103, 6)
    state.pop()
    assert state.position_epoch == 6
    state.fail(ProducerError("damaged"))
    assert state.place_after(103) == (103, 6)
