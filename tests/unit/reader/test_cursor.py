"""The place in a batch when the position is moved by something else than reading."""

from __future__ import annotations

from aioproducer.engine.records.decoder import decode
from aioproducer.errors import ProducerError
from aioproducer.model import TopicPartition
from aioproducer.reader.cursor import Cursor
from aioproducer.reader.fetch_request import FetchedPartition
from aioproducer.reader.partition import PartitionState
from tests.unit.reader.written import batch, marker

WHERE = TopicPartition("orders", 0)


def opened(log: bytes = batch(100, b"a", b"b")) -> tuple[Cursor, PartitionState]:
    """A cursor behind the first of two records at the offsets 100 and 101."""
    state = PartitionState(WHERE, 100, None)
    fetched = FetchedPartition(0, log, 102, 102, 0, ())
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
