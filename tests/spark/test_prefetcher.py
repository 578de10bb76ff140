"""Reading ahead of an event loop, without Spark."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Generator

import pytest

from aioproducer.spark.driver import AHEAD, Prefetcher
from tests.support.waiting import until

pytestmark = pytest.mark.spark  # the package needs it

PATIENCE = 30.0


class Numbers:
    """Counts up to ``end``; ``wait_at`` is a number that does not come before it is interrupted."""

    def __init__(self, end: int = 10, wait_at: int | None = None) -> None:
        self.end = end
        self.wait_at = wait_at
        self.asked_for = 0
        self.interrupted = threading.Event()
        self.interruptions = 0
        self.closed_in: str | None = None

    def read(self) -> Generator[int]:
        try:
            for number in range(self.end):
                self.asked_for = number + 1
                if number == self.wait_at:
                    assert self.interrupted.wait(PATIENCE)
                    raise InterruptedError
                yield number
        finally:
            self.closed_in = threading.current_thread().name

    def interrupt(self) -> None:
        self.interruptions += 1
        self.interrupted.set()


def ahead_of(numbers: Numbers, patience: float = PATIENCE) -> Prefetcher[int]:
    return Prefetcher(numbers.read, numbers.interrupt, "reading", patience)


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("reading")]


async def until_asked_for(numbers: Numbers, count: int) -> None:
    await until(lambda: numbers.asked_for >= count, timeout=PATIENCE)


async def test_all_items_in_their_order() -> None:
    numbers = Numbers(1000)
    async with ahead_of(numbers) as reading:
        assert [number async for number in reading] == list(range(1000))
        assert await anext(reading, None) is None
    assert (numbers.closed_in, numbers.interruptions) == ("reading", 0)
    assert threads() == []


async def test_it_asks_for_no_more_than_it_has_room_for() -> None:
    numbers = Numbers()
    async with ahead_of(numbers) as reading:
        for taken in range(5):
            await until_asked_for(numbers, taken + AHEAD)
            await asyncio.sleep(0.05)  # the chance to ask for more
            assert numbers.asked_for == taken + AHEAD
            assert await anext(reading) == taken


async def test_an_error_comes_after_what_was_read_before_it() -> None:
    numbers = Numbers(wait_at=3)
    numbers.interrupted.set()
    async with ahead_of(numbers) as reading:
        for expected in range(3):
            assert await anext(reading) == expected
        with pytest.raises(InterruptedError):
            await anext(reading)
    assert threads() == []


@pytest.mark.parametrize("wait_at", [0, 1, None])
async def test_leaving_early_interrupts_and_waits_for_the_thread(wait_at: int | None) -> None:
    numbers = Numbers(wait_at=wait_at)
    async with ahead_of(numbers):
        await until_asked_for(numbers, 1 + (wait_at or 0))
    assert numbers.closed_in == "reading"
    assert numbers.asked_for <= AHEAD
    assert numbers.interruptions > 0 or wait_at is None
    assert threads() == []


async def test_what_begins_after_an_interruption_is_interrupted_too() -> None:
    numbers = Numbers(wait_at=0)
    first = True

    def interrupt() -> None:
        nonlocal first
        if first:
            first = False
            raise ConnectionError("nothing to interrupt yet")
        numbers.interrupt()

    async with Prefetcher(numbers.read, interrupt, "reading"):
        pass
    assert (first, numbers.closed_in, threads()) == (False, "reading", [])


async def test_leaving_has_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    let_go = threading.Event()

    def read() -> Generator[int]:
        let_go.wait(PATIENCE)
        yield 0

    with caplog.at_level(logging.ERROR):
        async with Prefetcher(read, lambda: None, "reading", patience=0.05):
            pass
    assert "reading did not end within 0.05 s" in caplog.text
    let_go.set()
    for each in threading.enumerate():
        if each.name == "reading":
            each.join(PATIENCE)


async def test_whoever_is_cancelled_twice_does_not_wait() -> None:
    numbers = Numbers(wait_at=0)
    may_interrupt = threading.Event()

    def interrupt() -> None:
        assert may_interrupt.wait(PATIENCE)
        numbers.interrupt()

    async def leave() -> None:
        async with Prefetcher(numbers.read, interrupt, "reading") as reading:
            await anext(reading)

    task = asyncio.create_task(leave())
    await until_asked_for(numbers, 1)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.01)
    assert task.done()
    assert numbers.closed_in is None
    may_interrupt.set()
    await until(lambda: not threads(), timeout=PATIENCE)
    assert numbers.closed_in == "reading"


def test_a_loop_that_is_gone_ends_the_thread() -> None:
    go_on = threading.Event()

    def read() -> Generator[int]:
        yield 0
        assert go_on.wait(PATIENCE)
        yield from range(1, 100)

    loop = asyncio.new_event_loop()
    reading = Prefetcher(read, lambda: None, "reading")
    loop.run_until_complete(reading.__aenter__())
    assert loop.run_until_complete(anext(reading)) == 0
    loop.close()
    go_on.set()
    for each in threading.enumerate():
        if each.name == "reading":
            each.join(PATIENCE)
    assert threads() == []
