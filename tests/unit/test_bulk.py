from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aioproducer.bulk import BulkSender, Crowd, OffsetRange, SendReport, Tally
from aioproducer.model import RecordMetadata, TopicPartition


def metadata(partition: int, offset: int) -> RecordMetadata:
    return RecordMetadata("orders", partition, offset, 0, -1, 1)


def tally() -> Tally:
    return Tally(asyncio.get_running_loop().create_future())


async def test_nothing_sent_is_a_report_of_nothing() -> None:
    report = await tally().finish()
    assert report == SendReport(0, 0)
    assert report.sent == 0
    report.raise_for_failures()


async def test_counts_and_offsets_by_partition() -> None:
    counted = tally()
    for _ in range(5):
        counted.add()
    counted.set_result(metadata(0, 7))
    counted.set_result(metadata(0, 5))
    counted.set_result(metadata(0, 9))
    counted.set_result(metadata(1, 0))
    error = ValueError("no")
    counted.set_exception(error)
    report = await counted.finish()
    assert (report.delivered, report.failed, report.sent) == (4, 1, 5)
    assert report.offsets == {
        TopicPartition("orders", 0): OffsetRange(5, 9, 3),
        TopicPartition("orders", 1): OffsetRange(0, 0, 1),
    }
    assert report.errors == (error,)
    with pytest.raises(ValueError, match="no"):
        report.raise_for_failures()


async def test_finish_waits_for_the_last_fate_and_no_longer() -> None:
    counted = tally()
    counted.add()
    counted.add()
    waiting = asyncio.create_task(counted.finish())
    await asyncio.sleep(0)
    counted.set_result(metadata(0, 0))
    await asyncio.sleep(0)
    assert not waiting.done()
    counted.set_exception(ValueError())
    assert (await asyncio.wait_for(waiting, 60)).sent == 2


async def test_fates_that_come_before_all_is_sent_do_not_end_it() -> None:
    counted = tally()
    counted.add()
    counted.set_result(metadata(0, 0))
    counted.add()
    waiting = asyncio.create_task(counted.finish())
    await asyncio.sleep(0)
    assert not waiting.done()
    counted.set_result(metadata(0, 1))
    assert (await asyncio.wait_for(waiting, 60)).delivered == 2


async def test_ten_errors_are_kept_and_all_are_counted() -> None:
    counted = tally()
    raised = [ValueError(number) for number in range(25)]
    for error in raised:
        counted.add()
        counted.set_exception(error)
    report = await counted.finish()
    assert report.failed == 25
    assert report.errors == tuple(raised[:10])


async def test_a_cancelled_wait_does_not_disturb_the_records() -> None:
    counted = tally()
    counted.add()
    counted.add()
    waiting = asyncio.create_task(counted.finish())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    counted.set_result(metadata(0, 0))
    counted.set_exception(ValueError())


async def test_cancelled_it_wants_no_fate_any_more() -> None:
    counted = tally()
    assert not counted.cancelled()
    counted.cancel()
    assert counted.cancelled()
    assert counted.done()


async def test_it_takes_every_fate_as_a_batch_gives_it() -> None:
    counted = tally()
    counted.add()
    assert not counted.done()
    counted.set_exception(ValueError())
    assert not counted.done()
    assert counted.exception() is None
    await counted.finish()


class Roomy:
    """Delivers at once, and always has room."""

    crowded = False

    def __init__(self) -> None:
        self._crowd: Crowd = self

    def check_usable(self) -> None:
        """Always."""

    def put(self, *record: Any, patient: bool) -> None:
        record[-1].set_result(metadata(0, 0))

    async def put_later(self, record: Any) -> None:
        raise AssertionError

    async def drain(self) -> None:
        raise AssertionError

    def take_back_cancelled(self) -> None:
        raise AssertionError


def nowhere(*record: Any) -> int:
    """The short way is closed."""
    return 0


@pytest.mark.parametrize("kind", ["iterable", "async iterable"])
async def test_values_that_never_suspend_let_others_have_their_turn(kind: str) -> None:
    async def one_by_one() -> AsyncIterator[bytes]:
        for _ in range(10_000):
            yield b"v"

    values = one_by_one() if kind == "async iterable" else [b"v"] * 10_000
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    sender = BulkSender(Roomy(), nowhere, asyncio.get_running_loop().create_future())
    report = await sender.send_all("orders", values, None, None)
    counting.cancel()
    assert report.delivered == 10_000
    assert turns >= 19
