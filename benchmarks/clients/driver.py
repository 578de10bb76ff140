"""What a driver is: one client behind methods named as the workloads."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter_ns
from typing import Any, Protocol

from benchmarks.clients import Settings


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

    For each workload that the client's settings name there is a method of that name,
    ``async def workload(values, tasks) -> Fates``; it returns when every record has its fate.
    """

    def __init__(self, bootstrap_servers: str, topic: str, settings: Settings) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


async def await_each(
    send: Callable[[bytes], Awaitable[Any]], values: Sequence[bytes], tasks: int
) -> Fates:
    """Send ``values`` from so many tasks, each awaiting one record after another."""
    fates = Fates()
    async with asyncio.TaskGroup() as group:
        for first in range(tasks):
            group.create_task(_await_one_after_another(send, values[first::tasks], fates))
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


WINDOW = 10_000
"""How many futures a bulk sender holds before it awaits them: nobody keeps all of them."""


async def await_window(futures: list[asyncio.Future[Any]], fates: Fates) -> None:
    """Await every future of a window in turn, count its fate, and empty the window."""
    for future in futures:
        try:
            metadata = await future
        except Exception as error:
            fates.fail(error)
        else:
            if metadata.offset >= 0:
                fates.confirmed += 1
            else:
                fates.fail("a result without an offset")
    futures.clear()


def count_futures(futures: Sequence[asyncio.Future[Any]]) -> Fates:
    """The fates of records whose futures should all be done."""
    fates = Fates()
    for future in futures:
        if not future.done():
            continue
        if future.cancelled():
            fates.fail("the future was cancelled")
            continue
        error = future.exception()
        if error is None and future.result().offset >= 0:
            fates.confirmed += 1
        else:
            fates.fail(error or "a result without an offset")
    return fates
