"""How late an event loop runs what is due, and who holds it."""

from __future__ import annotations

import asyncio
import inspect
import types
from array import array
from collections.abc import Awaitable, Callable, Generator
from time import perf_counter, perf_counter_ns, thread_time
from typing import Any, Final, Self

from benchmarks.summary import percentile

_INTERVAL: Final = 0.001


class Heartbeat:
    """A context in which a task is due every millisecond, on a fixed schedule.

    A loop that stands still misses several beats, and each of them is late by its own time: one
    long stall is not one sample among thousands.
    """

    def __init__(self) -> None:
        self._late = array("d")
        self._own = array("d")
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._beat())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _beat(self) -> None:
        due = perf_counter()
        while True:
            due += _INTERVAL
            now, used = perf_counter(), thread_time()
            if now < due:
                await asyncio.sleep(due - now)
                now = perf_counter()
            # Loops count in milliseconds, so they may be early by a part of one.
            late = max(0.0, now - due)
            self._late.append(late)
            self._own.append(min(late, thread_time() - used))

    def lateness_ms(self) -> dict[str, float]:
        """Percentiles and the maximum; nothing if there was no beat."""
        late = sorted(seconds * 1000 for seconds in self._late)
        if not late:
            return {}
        return {
            "late_p50_ms": percentile(late, 0.5),
            "late_p99_ms": percentile(late, 0.99),
            "late_p999_ms": percentile(late, 0.999),
            "late_max_ms": late[-1],
        }

    def own_lateness_ms(self) -> dict[str, float]:
        """An upper bound of the lateness that the loop's thread caused itself, in CPU time.

        The rest of the lateness is the time in which the thread waited for a core. A beat that
        follows a missed one without a pause has no part of its own.
        """
        own = sorted(seconds * 1000 for seconds in self._own)
        if not own:
            return {}
        return {"own_p999_ms": percentile(own, 0.999), "own_max_ms": own[-1]}


class CallWatch:
    """For how long the longest of the watched calls held the event loop."""

    def __init__(self) -> None:
        self.longest_ns = 0

    def watch(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """``call``, watched; what it is waiting for without holding the loop does not count."""
        if inspect.iscoroutinefunction(call):
            return lambda *arguments, **options: self._step(call(*arguments, **options))

        def watched(*arguments: Any, **options: Any) -> Any:
            began = perf_counter_ns()
            result = call(*arguments, **options)
            self._took(perf_counter_ns() - began)
            return result

        return watched

    @types.coroutine
    def _step(self, awaitable: Awaitable[Any]) -> Generator[Any, Any, Any]:
        steps = awaitable.__await__()
        while True:
            began = perf_counter_ns()
            try:
                waits_for = next(steps)
            except StopIteration as end:
                return end.value
            finally:
                self._took(perf_counter_ns() - began)
            yield waits_for

    def _took(self, ns: int) -> None:
        if ns > self.longest_ns:
            self.longest_ns = ns
