from __future__ import annotations

import asyncio

import pytest

from aioproducer.foundation.runtime.tasks import TaskOwner
from tests.support.eager_tasks import eager_task_factory
from tests.support.waiting import settle


class Deaths:
    def __init__(self) -> None:
        self.causes: list[BaseException] = []
        self.heard = asyncio.Event()

    def __call__(self, cause: BaseException) -> None:
        self.causes.append(cause)
        self.heard.set()


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def fail(error: BaseException) -> None:
    raise error


async def test_a_task_never_begins_before_its_owner_has_it() -> None:
    """An application may use eager tasks."""
    asyncio.get_running_loop().set_task_factory(eager_task_factory)
    begun: list[str] = []

    async def work() -> None:
        begun.append("ours")

    async def of_the_application() -> None:
        begun.append("the application's")

    task = TaskOwner(Deaths()).start(work(), name="worker")
    theirs = asyncio.create_task(of_the_application())
    assert begun == ["the application's"]
    await asyncio.wait([task, theirs])
    assert begun == ["the application's", "ours"]


async def test_a_task_that_ends_well_is_no_death() -> None:
    deaths = Deaths()
    owner = TaskOwner(deaths)

    async def work() -> None:
        await asyncio.sleep(0)

    task = owner.start(work(), name="worker")
    assert task.get_name() == "worker"
    await task
    await settle()
    assert deaths.causes == []


@pytest.mark.parametrize("error", [ValueError("x"), TimeoutError(), MemoryError()])
async def test_a_dying_task_is_reported_with_its_own_error(error: BaseException) -> None:
    deaths = Deaths()
    owner = TaskOwner(deaths)
    owner.start(fail(error), name="worker")
    await asyncio.wait_for(deaths.heard.wait(), 60)
    assert deaths.causes == [error]
    await owner.close()
    assert deaths.causes == [error]


async def test_the_first_death_alone_is_reported() -> None:
    deaths = Deaths()
    owner = TaskOwner(deaths)
    first, second = ValueError("first"), ValueError("second")
    owner.start(fail(first), name="one")
    owner.start(fail(second), name="two")
    other = owner.start(forever(), name="three")
    await settle()
    other.cancel()
    await settle()
    assert deaths.causes == [first]


async def test_a_task_cancelled_from_outside_is_a_death() -> None:
    deaths = Deaths()
    owner = TaskOwner(deaths)
    task = owner.start(forever(), name="worker")
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait_for(deaths.heard.wait(), 60)
    (cause,) = deaths.causes
    assert isinstance(cause, asyncio.CancelledError)
    assert "'worker'" in str(cause)


async def test_a_task_cancelled_by_its_owner_is_none() -> None:
    deaths = Deaths()
    owner = TaskOwner(deaths)
    task = owner.start(forever(), name="worker")
    await asyncio.sleep(0)
    owner.cancel(task)
    await settle()
    assert task.cancelled()
    owner.cancel(task)
    await settle()
    assert deaths.causes == []


async def test_a_task_that_dies_of_its_cancellation_is_a_death() -> None:
    deaths = Deaths()
    owner = TaskOwner(deaths)

    async def stubborn() -> None:
        try:
            await forever()
        finally:
            raise ValueError("while cleaning up")

    task = owner.start(stubborn(), name="worker")
    await asyncio.sleep(0)
    owner.cancel(task)
    await settle()
    assert [str(cause) for cause in deaths.causes] == ["while cleaning up"]


async def test_close_waits_until_all_have_ended() -> None:
    deaths = Deaths()
    owner = TaskOwner(deaths)
    ended = []

    async def slow_to_end(name: str) -> None:
        try:
            await forever()
        finally:
            await settle()
            ended.append(name)

    for name in ("one", "two"):
        owner.start(slow_to_end(name), name=name)
    await asyncio.sleep(0)
    await owner.close()
    assert sorted(ended) == ["one", "two"]
    assert deaths.causes == []


async def test_errors_while_closing_are_not_deaths_and_nobody_complains() -> None:
    deaths = Deaths()
    owner = TaskOwner(deaths)
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    async def breaks_at_the_end() -> None:
        try:
            await forever()
        finally:
            raise ValueError("at the end")

    owner.start(breaks_at_the_end(), name="worker")
    await asyncio.sleep(0)
    await owner.close()
    await settle()
    assert deaths.causes == []
    assert complaints == []


async def test_close_from_within_an_owned_task_does_not_wait_for_itself() -> None:
    deaths = Deaths()
    owner = TaskOwner(deaths)
    other = owner.start(forever(), name="other")
    closer = owner.start(owner.close(), name="closer")
    await asyncio.wait_for(closer, 60)
    assert other.cancelled()
    assert deaths.causes == []


async def test_closing_twice_and_closing_nothing() -> None:
    owner = TaskOwner(Deaths())
    await owner.close()
    await owner.close()
