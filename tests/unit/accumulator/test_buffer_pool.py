"""The pool's rules. A "moment" is one turn of the event loop; nothing here waits for a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest

from aioproducer.accumulator import buffer_pool
from aioproducer.accumulator.buffer_pool import BufferPool
from aioproducer.errors import BufferExhaustedError, ProducerClosedError, RecordTooLargeError

FOREVER = 3_600.0


async def moments(count: int = 6) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def waiter(pool: BufferPool, size: int, timeout: float = FOREVER) -> asyncio.Task[bytearray]:
    return asyncio.create_task(pool.allocate(size, timeout))


async def waiters(pool: BufferPool, *sizes: int) -> list[asyncio.Task[bytearray]]:
    tasks = [waiter(pool, size) for size in sizes]
    await moments()
    assert pool.waiting == len(sizes)
    return tasks


def taken(pool: BufferPool, size: int) -> bytearray:
    buffer = pool.try_allocate(size)
    assert buffer is not None
    assert len(buffer) == size
    return buffer


# --- without waiting ---------------------------------------------------------------------------


async def test_hands_out_its_total_and_not_a_byte_more() -> None:
    pool = BufferPool(100, 10)
    buffers = [taken(pool, 10), taken(pool, 10), taken(pool, 80)]
    assert pool.available == 0
    assert pool.try_allocate(1) is None
    for buffer in buffers:
        await pool.deallocate(buffer)
    assert pool.available == 100


async def test_a_buffer_larger_than_the_pool_is_refused_at_once() -> None:
    pool = BufferPool(100, 10)
    with pytest.raises(RecordTooLargeError, match=r"101 bytes .* 100 bytes .*buffer_memory"):
        await pool.allocate(101, FOREVER)
    assert len(await pool.allocate(100, FOREVER)) == 100


async def test_returned_buffers_of_the_usual_size_are_handed_out_again() -> None:
    pool = BufferPool(100, 10)
    first, second = taken(pool, 10), taken(pool, 10)
    await pool.deallocate(first)
    await pool.deallocate(second)
    again = {id(taken(pool, 10)), id(await pool.allocate(10, 0))}
    assert again == {id(first), id(second)}
    assert pool.available == 80


async def test_other_buffers_are_not_kept() -> None:
    pool = BufferPool(100, 10)
    for size in (9, 11, 50):
        large = taken(pool, size)
        await pool.deallocate(large)
        assert pool.available == 100
        assert taken(pool, 10) is not large
        pool = BufferPool(100, 10)


@pytest.mark.parametrize(("size", "left"), [(50, 50), (95, 5), (100, 0), (61, 39)])
async def test_a_large_buffer_takes_what_it_lacks_from_the_free_list(size: int, left: int) -> None:
    pool = BufferPool(100, 10)
    for buffer in [taken(pool, 10) for _ in range(8)]:
        await pool.deallocate(buffer)
    large = taken(pool, size)
    assert pool.available == left
    small = [taken(pool, 10) for _ in range(left // 10)]
    assert pool.try_allocate(10) is None
    for buffer in [large, *small]:
        await pool.deallocate(buffer)
    assert pool.available == 100
    assert len(taken(pool, 100)) == 100


async def test_try_allocate_does_not_overtake_those_who_wait() -> None:
    pool = BufferPool(100, 10)
    held = taken(pool, 60)
    (large,) = await waiters(pool, 70)
    assert pool.try_allocate(10) is None
    assert pool.try_allocate(40) is None
    await pool.deallocate(held)
    assert len(await large) == 70
    assert len(taken(pool, 30)) == 30


# --- in line -----------------------------------------------------------------------------------


async def test_first_come_first_served_whatever_the_sizes() -> None:
    pool = BufferPool(100, 10)
    held = [taken(pool, 10) for _ in range(10)]
    served: list[int] = []

    def note(number: int, _task: asyncio.Task[bytearray]) -> None:
        served.append(number)

    tasks = await waiters(pool, 30, 10, 20, 10)
    for number, task in enumerate(tasks):
        task.add_done_callback(partial(note, number))
    after: list[list[int]] = []
    for buffer in held[:7]:
        await pool.deallocate(buffer)
        await moments()
        after.append(list(served))
    assert after == [[], [], [0], [0, 1], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert [len(task.result()) for task in tasks] == [30, 10, 20, 10]
    assert (pool.available, pool.waiting) == (0, 0)


async def test_one_large_release_serves_all_that_it_can() -> None:
    pool = BufferPool(100, 10)
    held = taken(pool, 100)
    tasks = await waiters(pool, 10, 20, 30, 50)
    await pool.deallocate(held)
    await moments()
    assert [task.done() for task in tasks] == [True, True, True, False]
    assert pool.waiting == 1
    await pool.deallocate(tasks[0].result())
    assert len(await tasks[3]) == 50


async def test_a_waiter_of_the_usual_size_gets_the_returned_buffer_itself() -> None:
    pool = BufferPool(20, 10)
    held = [taken(pool, 10), taken(pool, 10)]
    (task,) = await waiters(pool, 10)
    await pool.deallocate(held[1])
    assert await task is held[1]


class Counted:
    """Awaits a coroutine and counts how often it was resumed."""

    def __init__(self, coroutine: Coroutine[Any, Any, bytearray]) -> None:
        self.coroutine = coroutine
        self.steps = 0

    def __await__(self) -> Generator[Any, Any, bytearray]:
        inner = self.coroutine.__await__()
        value = None
        while True:
            self.steps += 1
            try:
                awaited = inner.send(value)
            except StopIteration as stop:
                buffer: bytearray = stop.value
                return buffer
            value = yield awaited


async def test_a_release_wakes_only_whom_it_serves() -> None:
    pool = BufferPool(100, 10)
    held = [taken(pool, 10) for _ in range(10)]
    counted = [Counted(pool.allocate(10, FOREVER)) for _ in range(50)]

    async def wait(each: Counted) -> bytearray:
        return await each

    tasks = [asyncio.create_task(wait(each)) for each in counted]
    await moments()
    assert [each.steps for each in counted] == [1] * 50
    for number, buffer in enumerate(held, start=1):
        await pool.deallocate(buffer)
        await moments()
        assert [task.done() for task in tasks] == [True] * number + [False] * (50 - number)
        assert [each.steps for each in counted] == [2] * number + [1] * (50 - number)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# --- giving up ---------------------------------------------------------------------------------


async def test_a_timeout_names_the_remedies_and_returns_what_was_gathered() -> None:
    pool = BufferPool(100, 10)
    held = taken(pool, 60)
    with pytest.raises(BufferExhaustedError, match=r"50 bytes .*0\.000 s.*drain\(\)"):
        await pool.allocate(50, 0)
    assert (pool.available, pool.waiting) == (40, 0)
    await pool.deallocate(held)
    assert len(taken(pool, 100)) == 100


async def test_what_a_cancelled_waiter_had_gathered_serves_the_next() -> None:
    pool = BufferPool(100, 10)
    held = taken(pool, 70)
    large, small = await waiters(pool, 50, 20)
    assert pool.available == 0
    large.cancel()
    assert len(await small) == 20
    assert (pool.available, pool.waiting) == (10, 0)
    await pool.deallocate(held)
    with pytest.raises(asyncio.CancelledError):
        await large


async def test_what_a_late_waiter_had_gathered_serves_the_next() -> None:
    pool = BufferPool(100, 10)
    taken(pool, 70)
    large, small = waiter(pool, 50, timeout=0), waiter(pool, 20)
    with pytest.raises(BufferExhaustedError):
        await large
    assert len(await small) == 20
    assert (pool.available, pool.waiting) == (10, 0)


async def test_a_waiter_in_the_middle_goes_without_a_trace() -> None:
    pool = BufferPool(30, 10)
    held = taken(pool, 30)
    first, middle, last = await waiters(pool, 10, 10, 20)
    middle.cancel()
    await moments()
    assert pool.waiting == 2
    await pool.deallocate(held)
    assert [len(await first), len(await last)] == [10, 20]


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("moment", range(10))
@pytest.mark.parametrize("same_moment", [False, True])
async def test_cancelling_at_any_moment_loses_no_memory_and_nobody_else(
    victim: int, moment: int, same_moment: bool
) -> None:
    pool = BufferPool(100, 10)
    held = [taken(pool, 20) for _ in range(5)]
    tasks = [waiter(pool, size) for size in (50, 10, 40)]
    for now in range(12):
        if now == moment:
            tasks[victim].cancel()
        if now >= 4 and held:
            await pool.deallocate(held.pop())
        if not same_moment:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
    await moments()
    results = [task.result() if not task.cancelled() else None for task in tasks]
    assert [len(each) for each in results if each is not None] == [
        size for size, result in zip((50, 10, 40), results, strict=True) if result is not None
    ]
    assert all(task.cancelled() == (number == victim) for number, task in enumerate(tasks)) or (
        results[victim] is not None
    )
    for buffer in results:
        if buffer is not None:
            await pool.deallocate(buffer)
    assert (pool.available, pool.waiting) == (100, 0)


@pytest.mark.parametrize("where", ["at once", "from the line"])
async def test_a_failed_allocation_gives_its_reservation_back(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(_size: int) -> bytearray:
        raise MemoryError

    pool = BufferPool(100, 10)
    if where == "at once":
        monkeypatch.setattr(buffer_pool, "bytearray", out_of_memory, raising=False)
        with pytest.raises(MemoryError):
            pool.try_allocate(50)
    else:
        held = taken(pool, 80)
        (task,) = await waiters(pool, 50)
        monkeypatch.setattr(buffer_pool, "bytearray", out_of_memory, raising=False)
        await pool.deallocate(held)
        with pytest.raises(MemoryError):
            await task
    monkeypatch.undo()
    assert (pool.available, pool.waiting) == (100, 0)
    assert len(taken(pool, 100)) == 100


# --- closing -----------------------------------------------------------------------------------


async def test_closing_wakes_everybody_with_an_error() -> None:
    pool = BufferPool(100, 10)
    held = taken(pool, 80)
    tasks = await waiters(pool, 50, 10, 10, 90)
    await pool.close()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ProducerClosedError] * 4
    await pool.deallocate(held)
    assert (pool.available, pool.waiting) == (100, 0)


async def test_a_closed_pool_hands_out_nothing() -> None:
    pool = BufferPool(100, 10)
    await pool.close()
    assert pool.try_allocate(10) is None
    with pytest.raises(ProducerClosedError):
        await pool.allocate(10, FOREVER)
    assert pool.available == 100


# --- at random ---------------------------------------------------------------------------------


class Traffic:
    """Tasks that take memory, hold it for some moments and return it; some give up on the way."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.pool = BufferPool(1_000, 100)
        self.out = 0
        self.asked: list[int] = []
        self.served: list[int] = []
        self.gave_up: set[int] = set()

    async def use(self, number: int) -> None:
        size = self.random.choice([100, 100, 100, 1, 99, 101, 350, 1_000])
        timeout = 0 if self.random.random() < 0.1 else FOREVER
        self.asked.append(number)
        try:
            buffer = await self.pool.allocate(size, timeout)
        except (BufferExhaustedError, asyncio.CancelledError):
            self.gave_up.add(number)
            return
        self.served.append(number)
        self.out += size
        assert len(buffer) == size
        assert self.out <= 1_000
        with suppress(asyncio.CancelledError):
            await moments(self.random.randrange(4))
        self.out -= size
        await asyncio.shield(asyncio.create_task(self.pool.deallocate(buffer)))

    async def run(self) -> None:
        tasks: list[asyncio.Task[None]] = []
        for number in range(150):
            tasks.append(asyncio.create_task(self.use(number)))
            if self.random.random() < 0.3:
                self.random.choice(tasks).cancel()
            await moments(self.random.randrange(3))
        for _ in range(5_000):
            if all(task.done() for task in tasks):
                break
            await asyncio.sleep(0)
        assert all(task.done() for task in tasks), "somebody waits for ever"
        assert (self.pool.available, self.pool.waiting, self.out) == (1_000, 0, 0)
        assert self.served == [each for each in self.asked if each not in self.gave_up]


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_happens_all_memory_comes_back_and_the_order_is_kept(seed: int) -> None:
    print(f"{seed=}")
    await Traffic(seed).run()
