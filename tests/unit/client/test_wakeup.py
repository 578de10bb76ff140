from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.foundation.runtime.tasks import new_task
from tests.support.clock import Clock


async def iterations(waiting: asyncio.Task[float], limit: int = 20) -> int:
    """How many loop iterations it takes until ``waiting`` is done."""
    for count in range(limit):
        if waiting.done():
            return count
        await asyncio.sleep(0)
    return limit


def start(wakeup: Wakeup, deadline: float | None) -> asyncio.Task[float]:
    return new_task(wakeup.wait(deadline))


async def test_it_sleeps_until_woken() -> None:
    wakeup = Wakeup(Clock())
    waiting = start(wakeup, None)
    assert await iterations(waiting) == 20
    wakeup.wake()
    assert await iterations(waiting) < 3


async def test_a_wake_before_the_sleep_is_not_lost() -> None:
    wakeup = Wakeup(Clock())
    wakeup.wake()
    assert await iterations(start(wakeup, None)) < 4
    waiting = start(wakeup, None)
    assert await iterations(waiting) == 20, "but counts once"
    waiting.cancel()


async def test_a_wake_in_the_iteration_of_a_wait_that_need_not_sleep_is_not_lost() -> None:
    wakeup = Wakeup(Clock())
    wakeup.wake()
    first = start(wakeup, None)
    await asyncio.sleep(0)
    assert not first.done()
    wakeup.wake()
    await first
    assert await iterations(start(wakeup, None)) < 4


async def test_waking_twice_is_waking_once_and_after_the_end_is_for_the_next() -> None:
    wakeup = Wakeup(Clock())
    waiting = start(wakeup, None)
    await asyncio.sleep(0)
    wakeup.wake()
    wakeup.wake()
    await asyncio.wait_for(waiting, 60)
    wakeup.wake()
    assert await iterations(start(wakeup, None)) < 4


@pytest.mark.parametrize("deadline", [100.0, 99.0, 0.0, float("-inf")])
async def test_a_deadline_that_is_over_still_gives_the_loop_a_turn(deadline: float) -> None:
    wakeup = Wakeup(Clock())
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(other())
    for _ in range(10):
        await wakeup.wait(deadline)
    assert others >= 10, "a sender that has always something to do starves nobody"
    task.cancel()


async def test_a_deadline_ends_the_sleep() -> None:
    wakeup = Wakeup(time.monotonic)
    began = time.monotonic()
    await asyncio.wait_for(wakeup.wait(began + 0.005), 60)
    assert time.monotonic() >= began + 0.004


async def test_a_wake_ends_it_before_the_deadline_and_the_timer_goes_too() -> None:
    clock = Clock()
    wakeup = Wakeup(clock)
    waiting = start(wakeup, clock.now + 0.005)
    await asyncio.sleep(0)
    wakeup.wake()
    assert await iterations(waiting) < 3
    following = start(wakeup, None)
    await asyncio.sleep(0.01)
    assert not following.done(), "the first timer must not wake the second sleep"
    following.cancel()


class Timers:
    """What is asked of the loop's timers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.handles: list[asyncio.TimerHandle] = []
        self.loop = asyncio.get_running_loop()
        really = self.loop.call_later

        def call_later(*given: Any) -> asyncio.TimerHandle:
            self.handles.append(really(*given))
            return self.handles[-1]

        monkeypatch.setattr(self.loop, "call_later", call_later)

    @property
    def live(self) -> int:
        return sum(not handle.cancelled() for handle in self.handles)


async def nap(wakeup: Wakeup, deadline: float | None) -> None:
    sleeping = start(wakeup, deadline)
    await asyncio.sleep(0)
    wakeup.wake()
    await sleeping


async def test_sleeps_that_end_early_share_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(monkeypatch)
    wakeup = Wakeup(Clock())
    for deadline in (130.0, 131.0, None, 130.0, 200.0):
        await nap(wakeup, deadline)
    assert len(timers.handles) == 1
    await nap(wakeup, 110.0)
    assert (len(timers.handles), timers.live) == (2, 1), "an earlier moment needs another"


async def test_a_timer_that_rings_too_early_is_set_anew_and_wakes_nobody() -> None:
    clock = Clock()  # it stands still, so that no deadline is over before it is slept for
    wakeup = Wakeup(clock)
    await nap(wakeup, clock.now + 0.005)
    began = time.monotonic()
    await asyncio.wait_for(wakeup.wait(clock.now + 0.03), 60)
    assert time.monotonic() >= began + 0.029


async def test_closing_leaves_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(monkeypatch)
    wakeup = Wakeup(Clock())
    await nap(wakeup, 130.0)
    assert timers.live == 1
    wakeup.close()
    wakeup.close()
    assert timers.live == 0


async def test_no_end_in_sight() -> None:
    wakeup = Wakeup(Clock())
    waiting = start(wakeup, float("inf"))
    assert await iterations(waiting) == 20
    wakeup.wake()
    await asyncio.wait_for(waiting, 60)


async def test_a_cancelled_sleep_leaves_it_usable() -> None:
    wakeup = Wakeup(Clock())
    waiting = start(wakeup, 200.0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    again = start(wakeup, None)
    assert await iterations(again) == 20
    wakeup.wake()
    await asyncio.wait_for(again, 60)


async def test_no_wake_is_lost_whenever_it_comes() -> None:
    """A consumer that looks after each wait sees every item, wherever between the wake-ups fall."""
    wakeup = Wakeup(Clock())
    produced = consumed = 0

    async def consume() -> None:
        nonlocal consumed
        while consumed < 200:
            consumed = produced
            await wakeup.wait(None)
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(consume())
    for number in range(200):
        for _ in range(number % 4):
            await asyncio.sleep(0)
        produced += 1
        wakeup.wake()
    await asyncio.sleep(0)
    wakeup.wake()
    await asyncio.wait_for(task, 60)
    assert consumed == 200


@pytest.mark.parametrize("asleep", [True, False])
async def test_an_error_is_raised_in_the_sleeping_coroutine_or_the_next_sleep(asleep: bool) -> None:
    wakeup = Wakeup(Clock())
    if asleep:
        waiting = start(wakeup, None)
        await asyncio.sleep(0)
        wakeup.fail(LookupError("lost"))
    else:
        wakeup.fail(LookupError("lost"))
        waiting = start(wakeup, None)
    with pytest.raises(LookupError, match="lost"):
        await waiting


# --- a stop is noticed -------------------------------------------------------------------------


async def test_a_sleep_ends_long_before_something_is_late() -> None:
    loop = asyncio.get_running_loop()
    wakeup = Wakeup(loop.time)
    now = wakeup.turn()
    assert await asyncio.wait_for(wakeup.wait(None, now + 0.4), 60) < now + 0.4


@pytest.mark.parametrize("late_in", [0.2, 30.0, 120.0])
async def test_a_stop_takes_a_part_of_the_time_that_is_left(late_in: float) -> None:
    clock = Clock()
    wakeup = Wakeup(clock)
    waiting = asyncio.get_running_loop().create_task(wakeup.wait(None, clock.now + late_in))
    await asyncio.sleep(0)
    began = clock.now
    clock.now += 900.0
    wakeup.wake()
    now = await waiting
    assert began <= now < began + late_in
    assert wakeup.clock.lost == pytest.approx(900.0 - (now - began))


async def test_a_long_sleep_counts_where_nothing_is_waited_for() -> None:
    clock = Clock()
    wakeup = Wakeup(clock)
    waiting = asyncio.get_running_loop().create_task(wakeup.wait(None))
    await asyncio.sleep(0)
    clock.now += 900.0
    wakeup.wake()
    assert await waiting == clock.now
    assert wakeup.clock.lost == 0


async def test_a_loop_that_is_held_after_a_wake_loses_the_time() -> None:
    clock = Clock()
    wakeup = Wakeup(clock)
    waiting = asyncio.get_running_loop().create_task(wakeup.wait(None))
    await asyncio.sleep(0)
    wakeup.wake()
    began = clock.now
    clock.now += 900.0
    assert await waiting < began + 1.0


@pytest.mark.parametrize("due", [True, False])
async def test_a_loop_that_is_held_while_a_turn_is_due_loses_the_time(due: bool) -> None:
    clock = Clock()
    wakeup = Wakeup(clock)
    if not due:
        wakeup.wake()
    turn = start(wakeup, clock() if due else None)
    await asyncio.sleep(0)  # it gives the loop a turn
    began = wakeup.clock()  # a record is sent here, and waits for the turn
    clock.now += 60.0
    assert await turn - began < 1.0
