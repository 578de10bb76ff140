"""The place in a batch when the position is moved by something else than reading."""

from __future__ import annotations

from aioproducer.engine.records.decoder import decode
from aioproducer.model import TopicPartition
from aioproducer.reader.cursor import Cursor
from aioproducer.reader.fetch_request import FetchedPartition
from aioproducer.reader.partition import PartitionState
from tests.unit.reader.written import batch

WHERE = TopicPartition("orders", 0)


def opened() -> tuple[Cursor, PartitionState]:
    """A cursor behind the first of two records at the offsets 100 and 101."""
    state = PartitionState(WHERE, 100, None)
    fetched = FetchedPartition(0, batch(100, b"a", b"b"), 102, 102, 0, ())
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
