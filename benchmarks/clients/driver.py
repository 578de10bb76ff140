"""What a driver is: one client behind methods named as the shapes of workloads."""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import cycle, repeat
from operator import attrgetter
from time import perf_counter_ns
from typing import Any, Final, Protocol

from benchmarks.clients import Settings
from benchmarks.workloads import Load


class Fates:
    """What became of the records of one run. A record that is in neither count is unconfirmed."""

    def __init__(self) -> None:
        self.confirmed = 0
        self.failed = 0
        self.first_error: BaseException | str | None = None
        self.latencies_ns = array("q")
        """From the call to the confirmation, where the workload awaits every record."""

    def fail(self, error: BaseException | str, records: int = 1) -> None:
        self.failed += records
        if self.first_error is None:
            self.first_error = error


class Driver(Protocol):
    """One client, made and used on one event loop.

    For each workload that the client's settings name there is a method named as its shape,
    ``async def shape(load) -> Fates``; it returns when every record has its fate.
    """

    send: Callable[..., Any]
    """The client's own call for one record, which the methods call; measuring may watch it."""

    def __init__(self, bootstrap_servers: str, settings: Settings) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def routes(load: Load) -> Iterator[tuple[str, bytes | None, bytes]]:
    """Topic, key and value of every record."""
    return zip(cycle(load.topics), load.keys or repeat(None), load.values, strict=False)


async def await_each(send: Callable[[bytes], Awaitable[Any]], load: Load) -> Fates:
    """Send the values from so many tasks, each awaiting one record after another."""
    fates = Fates()
    async with asyncio.TaskGroup() as group:
        for first in range(load.tasks):
            group.create_task(
                _await_one_after_another(send, load.values[first :: load.tasks], fates)
            )
    return fates


async def await_each_topic(send: Callable[[str, bytes], Awaitable[Any]], load: Load) -> Fates:
    """Send and await one record after another, each to the next topic."""
    fates = Fates()
    for topic, _, value in routes(load):
        await _await_one_after_another(partial(send, topic), (value,), fates)
    return fates


async def spawn(send: Callable[[bytes], Awaitable[Any]], load: Load) -> Fates:
    """So many tasks at once, each awaiting one record, again and again."""
    fates = Fates()
    for first in range(0, len(load.values), load.tasks):
        async with asyncio.TaskGroup() as group:
            for value in load.values[first : first + load.tasks]:
                group.create_task(_await_one_after_another(send, (value,), fates))
    return fates


async def _await_one_after_another(
    send: Callable[[bytes], Awaitable[Any]], values: Sequence[bytes], fates: Fates
) -> None:
    add_latency = fates.latencies_ns.append
    for value in values:
        began = perf_counter_ns()
        try:
            await send(value)
        except Exception as error:
            fates.fail(error)
        else:
            add_latency(perf_counter_ns() - began)
            fates.confirmed += 1


async def await_oldest(futures: list[asyncio.Future[Any]], fates: Fates, keep: int = 0) -> None:
    """Await in turn all futures but the last ``keep``, count their fates, and forget them.

    To keep some, half of a window, lets the client go on with these while others are made.
    """
    oldest = futures[: len(futures) - keep]
    del futures[: len(oldest)]
    for future in oldest:
        try:
            metadata = await future
        except Exception as error:
            fates.fail(error)
        else:
            if metadata.offset >= 0:
                fates.confirmed += 1
            else:
                fates.fail("a result without an offset")


class Flow:
    """The futures of a sender that waits for none of them, the oldest first.

    Its application does not hold the event loop: it lets others run after a hundred records, and
    looks at no more than twice as many futures then.
    """

    RECORDS: Final = 100
    """How many are sent before others run."""

    def __init__(self, offset_of: Callable[[Any], Any] = attrgetter("offset")) -> None:
        self.fates = Fates()
        self._offset_of = offset_of
        self._futures: deque[asyncio.Future[Any]] = deque()
        self.add = self._futures.append

    def steps(self, values: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
        """The values that are sent before each :meth:`breathe`."""
        for first in range(0, len(values), self.RECORDS):
            yield values[first : first + self.RECORDS]

    async def breathe(self) -> None:
        """Count and forget the oldest futures that are done, and let others run."""
        futures = self._futures
        done: list[asyncio.Future[Any]] = []
        while futures and len(done) < 2 * self.RECORDS and futures[0].done():
            done.append(futures.popleft())
        self._count(done)
        await asyncio.sleep(0)

    async def end(self) -> Fates:
        """Wait for the rest."""
        while self._futures:
            await asyncio.wait([self._futures[0]])
            await self.breathe()
        return self.fates

    def _count(self, done: Iterable[asyncio.Future[Any]]) -> None:
        for future in done:
            count(future, self.fates, self._offset_of)


def count(
    future: asyncio.Future[Any],
    fates: Fates,
    offset_of: Callable[[Any], Any] = attrgetter("offset"),
) -> None:
    """The fate of a record whose future should be done; else it stays unconfirmed."""
    if not future.done():
        return
    if future.cancelled():
        fates.fail("the future was cancelled")
        return
    error = future.exception()
    if error is None and offset_of(future.result()) >= 0:
        fates.confirmed += 1
    else:
        fates.fail(error or "a result without an offset")
