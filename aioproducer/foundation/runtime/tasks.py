"""The owner of all tasks of a producer, which reports a task that dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, TypeVar

from aioproducer.foundation import logs

_Result = TypeVar("_Result")


def is_being_cancelled() -> bool:
    """True if the present task is to end; else a CancelledError is from something it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def new_task(
    coroutine: Coroutine[Any, Any, _Result], name: str | None = None, context: Context | None = None
) -> asyncio.Task[_Result]:
    """A task that begins in the next round of the running loop.

    The application's task factory is not used: ``asyncio.eager_task_factory`` would begin the task
    within this call, before the caller has put the task into its place.
    """
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is None:
        return loop.create_task(coroutine, name=name, context=context)
    return asyncio.Task(coroutine, loop=loop, name=name, context=context)


async def in_turns(steps: Generator[None, None, _Result]) -> _Result:
    """The result of ``steps``, each in a turn of the event loop of its own."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _Result = end.value
            return result
        await asyncio.sleep(0)


class TaskOwner:
    """Starts tasks, and calls ``on_death`` with the error of the first task that fails.

    A task that the owner cancels has not failed. Any other cancellation means that the loop is
    shutting down, and ``on_death`` gets the :class:`asyncio.CancelledError`. The tasks write their
    lines to ``log``.
    """

    def __init__(
        self, on_death: Callable[[BaseException], None], log: logs.ClientLog | None = None
    ) -> None:
        self._on_death = on_death
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()
        self._ours: set[asyncio.Task[None]] = set()
        self._closed = False
        self._reported = False

    def start(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run ``coroutine`` as a task of this owner."""
        context = copy_context()
        if self._log is not None:
            context.run(logs.enter, self._log)
        task = new_task(coroutine, name, context)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def cancel(self, task: asyncio.Task[None]) -> None:
        """End one task on purpose."""
        if not task.done():
            self._ours.add(task)
            task.cancel()

    def release(self, task: asyncio.Task[None]) -> None:
        """Neither cancel nor await ``task`` in :meth:`close`."""
        self._tasks.discard(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        on_purpose = self._closed or task in self._ours
        self._ours.discard(task)
        if task.cancelled():
            if not on_purpose:
                self._report(asyncio.CancelledError(f"task {task.get_name()!r} was cancelled"))
            return
        error = task.exception()
        if error is not None and not self._closed:
            self._report(error)

    def _report(self, cause: BaseException) -> None:
        if not self._reported:
            self._reported = True
            self._on_death(cause)

    def disown(self) -> None:
        """End the tasks' copies in a forked child, where their event loop may run on."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    async def close(self, timeout: float | None = None) -> None:
        """Cancel the tasks that still run, and wait until all have ended.

        ``timeout``: seconds after which a task that ignores its cancellation is left alone.
        """
        self._closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
