"""The report of a bulk send: counts, offsets, and errors in the order of the records."""

from __future__ import annotations

import asyncio
from array import array

import pytest

from aioproducer.engine.bulk.send_report import BulkResult, OffsetRange, SendReport
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.model import TopicPartition
from tests.unit.bulk.test_value_sender import metadata


def tally() -> BulkResult:
    return BulkResult(asyncio.get_running_loop().create_future())


async def test_nothing_sent_is_a_report_of_nothing() -> None:
    report = await tally().finish()
    assert report == SendReport(0, 0)
    assert report.sent == 0
    report.raise_for_failures()


async def test_counts_and_places_of_records() -> None:
    counted = tally()
    tokens = [counted.one(counted.add()) for _ in range(5)]
    tokens[0].set_result(metadata(0, 7))
    tokens[2].set_result(metadata(0, 5))
    tokens[3].set_result(metadata(0, 9))
    tokens[4].set_result(metadata(1, 0))
    error = ValueError("no")
    tokens[1].set_exception(error)
    report = await counted.finish()
    assert (report.delivered, report.failed, report.sent) == (4, 1, 5)
    assert report.partitions == array("i", [0, -1, 0, 0, 1])
    assert report.offsets == array("q", [7, -1, 5, 9, 0])
    assert report.ranges == {
        TopicPartition("orders", 0): OffsetRange(5, 9, 3),
        TopicPartition("orders", 1): OffsetRange(0, 0, 1),
    }
    assert report.failures == {1: error}
    with pytest.raises(ValueError, match="no"):
        report.raise_for_failures()


async def test_a_span_tells_of_all_its_records_at_once() -> None:
    counted = tally()
    first = counted.add(6)
    BulkToken(counted, first + 1, count=3).deliver("orders", 2, 40)
    BulkToken(counted, first, count=1).deliver("orders", 2, -1)
    last = BulkToken(counted, first + 4, count=2)
    last.one(1).set_exception(ValueError("no"))
    last.one(0).set_result(metadata(1, 3))
    report = await counted.finish()
    assert report.partitions == array("i", [2, 2, 2, 2, 1, -1])
    assert report.offsets == array("q", [-1, 40, 41, 42, 3, -1])
    assert report.ranges == {
        TopicPartition("orders", 2): OffsetRange(-1, 42, 4),
        TopicPartition("orders", 1): OffsetRange(3, 3, 1),
    }
    assert list(report.failures) == [5]


async def test_finish_waits_for_the_last_outcome_and_no_longer() -> None:
    counted = tally()
    counted.add(3)
    waiting = asyncio.create_task(counted.finish())
    await asyncio.sleep(0)
    BulkToken(counted, 0, count=2).deliver("orders", 0, 0)
    await asyncio.sleep(0)
    assert not waiting.done()
    counted.one(2).set_exception(ValueError())
    assert (await asyncio.wait_for(waiting, 60)).sent == 3


async def test_outcomes_that_come_before_all_is_sent_do_not_end_it() -> None:
    counted = tally()
    counted.one(counted.add()).set_result(metadata(0, 0))
    last = counted.one(counted.add())
    waiting = asyncio.create_task(counted.finish())
    await asyncio.sleep(0)
    assert not waiting.done()
    last.set_result(metadata(0, 1))
    assert (await asyncio.wait_for(waiting, 60)).delivered == 2


async def test_every_error_is_kept_in_the_order_of_records() -> None:
    counted = tally()
    raised = [ValueError(number) for number in range(25)]
    counted.add(25)
    for index in reversed(range(25)):
        counted.one(index).set_exception(raised[index])
    report = await counted.finish()
    assert report.failed == 25
    assert list(report.failures.items()) == list(enumerate(raised))
    assert report.first_failure is raised[0]


async def test_a_cancelled_wait_does_not_disturb_the_records() -> None:
    counted = tally()
    counted.add(2)
    waiting = asyncio.create_task(counted.finish())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    counted.one(0).set_result(metadata(0, 0))
    counted.one(1).set_exception(ValueError())


async def test_cancelled_it_wants_no_outcome_any_more() -> None:
    counted = tally()
    token = counted.one(counted.add())
    span = BulkToken(counted, counted.add(2), count=2)
    assert not token.done()
    assert not token.cancelled()
    assert not span.done()
    counted.cancel()
    assert token.done()
    assert token.cancelled()
    assert span.done()


async def test_it_takes_every_outcome_as_a_batch_gives_it() -> None:
    counted = tally()
    token = counted.one(counted.add())
    token.set_exception(ValueError())
    assert not token.done()
    assert token.exception() is None
    await counted.finish()


def test_a_report_of_many_records_is_one_line() -> None:
    places = {TopicPartition("orders", number): OffsetRange(0, 9, 10) for number in range(6)}
    many = SendReport(100_000, 0, partitions=array("i", [0]) * 100_000, ranges=places)
    assert repr(many) == "<SendReport 100,000 delivered, 0 failed, 6 partitions>"
    some = SendReport(1, 2, failures={1: ValueError("no"), 2: OSError()}, pending=3)
    assert str(some) == (
        "<SendReport 1 delivered, 2 failed (first: ValueError('no')), 3 pending, 0 partitions>"
    )
