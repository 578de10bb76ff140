"""The owner of all tasks of a client, which reports a task that dies, and the loop's end.

``asyncio.run()`` ends by cancelling every task of the loop once, and so do many programs at a
signal. A client that lost its sender and its connections then could neither deliver nor commit what
its user closes it for, so :func:`new_task` hides its tasks. One visible task for each owner is
cancelled with the user's tasks, holds the loop, and closes a client that nobody else will close.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import Context, copy_context
from typing import Any, Final, TypeVar
from weakref import WeakSet

from aioproducer.foundation import logs

_Result = TypeVar("_Result")

_HIDDEN: Final[WeakSet[asyncio.Task[Any]]] = WeakSet()

_WATCHES: Final[WeakSet[asyncio.Task[Any]]] = WeakSet()
"""The visible task of each owner."""
_OUTER: Final[WeakSet[asyncio.Task[Any]]] = WeakSet()
"""Those of clients that the application has started, not another client."""
_PATIENCE: Final = 1.0
"""Seconds that a visible task waits for others if a task has cancelled it."""


def is_being_cancelled() -> bool:
    """True if the present task is to end; else a CancelledError is from something it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def last_steps(left_by: type[BaseException] | None) -> AbstractContextManager[object]:
    """For the awaits at the end of an ``async with``, whose body was left by this exception.

    asyncio cancels once. anyio's scopes cancel again at each await, unless it is shielded.
    """
    cancelled = left_by is not None and issubclass(left_by, asyncio.CancelledError)
    if cancelled and "anyio._backends._asyncio" in sys.modules:
        shielded: AbstractContextManager[object] = sys.modules["anyio"].CancelScope(shield=True)
        return shielded
    return nullcontext()


def new_task(
    coroutine: Coroutine[Any, Any, _Result], name: str | None = None, context: Context | None = None
) -> asyncio.Task[_Result]:
    """A task that only its starter ends: ``asyncio.all_tasks()`` does not show it.

    So neither the end of ``asyncio.run()`` nor a program that cancels all tasks cancels it.
    """
    task = new_visible_task(coroutine, name, context)
    asyncio._unregister_task(task)
    _HIDDEN.add(task)
    return task


def leave_alone(task: asyncio.Task[Any]) -> None:
    """Show a task of :func:`new_task` that nobody ends any more: it ends with the loop."""
    if task in _HIDDEN and not task.done():
        _HIDDEN.discard(task)
        asyncio._register_task(task)


def new_visible_task(
    coroutine: Coroutine[Any, Any, _Result], name: str | None = None, context: Context | None = None
) -> asyncio.Task[_Result]:
    """A task that begins in the next round of the running loop, and ends with the loop.

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


class _Watch(asyncio.Task[None]):
    """The visible task of an owner."""

    patience: float | None = None
    """Seconds to wait for other cancelled tasks; None: until they end.

    A task that cancels this one may be among them, or be awaited by one, and wait for this task.
    """

    def cancel(self, msg: Any | None = None) -> bool:
        with suppress(RuntimeError):  # asyncio.run() cancels it while the loop stands still
            self.patience = None if asyncio.current_task() is None else _PATIENCE
        return super().cancel(msg)


class TaskOwner:
    """Starts tasks, and calls ``on_death`` with the error of the first task that fails.

    A task that the owner cancels has not failed. Nobody else knows the tasks; one that is cancelled
    all the same has failed, and ``on_death`` gets the :class:`asyncio.CancelledError`. The tasks
    write their lines to ``log``.
    """

    def __init__(
        self, on_death: Callable[[BaseException], None], log: logs.ClientLog | None = None
    ) -> None:
        self._on_death = on_death
        self._log = log
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ours: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._reported = False
        self._close_client: Callable[[], Awaitable[object]] | None = None
        self._is_outer = False
        """True for a client that the application has started, not another client."""
        self._watch: _Watch | None = None

    def start(self, coroutine: Coroutine[Any, Any, _Result], name: str) -> asyncio.Task[_Result]:
        """Run ``coroutine`` as a task of this owner."""
        task = new_task(coroutine, name, self._context())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        self._watch_loop()
        return task

    def _context(self) -> Context:
        context = copy_context()
        if self._log is not None:
            context.run(logs.enter, self._log)
        return context

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """End one task on purpose."""
        if not task.done():
            self._ours.add(task)
            task.cancel()

    def release(self, task: asyncio.Task[Any]) -> None:
        """Neither cancel nor await ``task`` in :meth:`close`."""
        self._tasks.discard(task)
        leave_alone(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not self._tasks and self._close_client is None:
            self._end_watch()
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

    # --- the end of the event loop -----------------------------------------------------------

    def close_with_loop(self, close: Callable[[], Awaitable[object]]) -> None:
        """Let ``close`` end the client if the event loop ends first.

        ``close`` may be called for a client that is closing or closed, and returns at its end.
        """
        self._close_client = close
        self._is_outer = asyncio.current_task() not in _HIDDEN
        self._watch_loop()

    @property
    def loop_ends(self) -> bool:
        """True once somebody has cancelled the tasks of the event loop."""
        return self._watch is not None and self._watch.cancelling() > 0

    def _watch_loop(self) -> None:
        if self._watch is None and not self._closed:
            name = "aioproducer-close-with-loop"
            self._watch = _Watch(
                self._until_loop_ends(),
                loop=asyncio.get_running_loop(),
                name=name,
                context=self._context(),
            )
            self._watch.add_done_callback(self._watch_ended)
            _WATCHES.add(self._watch)
        if self._watch is not None and self._is_outer:
            _OUTER.add(self._watch)

    def _watch_ended(self, watch: asyncio.Task[None]) -> None:
        if self._watch is watch and watch.cancelled():  # it was, before it could begin
            self._watch = None
            self._watch_loop()

    def _end_watch(self) -> asyncio.Task[None] | None:
        """End the visible task, which is returned, unless it is closing the client."""
        if self.loop_ends:
            return None
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
        return watch

    async def _until_loop_ends(self) -> None:
        """Wait until somebody cancels this task, and then for whoever may close the client.

        Whoever was cancelled as well may need the client until the end of its task. Others wait
        for this task, maybe. Being cancelled again means that the time has come.
        """
        watch = self._watch
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            if self._watch is not watch:  # it was ended
                raise
        with suppress(asyncio.CancelledError, TimeoutError):
            async with asyncio.timeout(None if watch is None else watch.patience):
                while others := self._cancelled_others():
                    await asyncio.wait(others)
        if self._close_client is not None:
            await self._close_client()
        else:
            await self.close()

    def _cancelled_others(self) -> list[asyncio.Task[Any]]:
        """The tasks that were cancelled, and have not ended.

        An owner of single calls, and a client that another client uses, also wait for the watches
        of the clients that the application has started.
        """
        ahead = _OUTER if self._watch not in _OUTER else ()
        return [
            task
            for task in asyncio.all_tasks()
            if task.cancelling() and (task not in _WATCHES or task in ahead)
        ]

    # --- the end of the owner ----------------------------------------------------------------

    def disown(self) -> None:
        """End the tasks' copies in a forked child, where their event loop may run on."""
        self._closed = True
        self._end_watch()
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
        watch = self._end_watch()
        if watch is not None:
            tasks.append(watch)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=timeout)
            for task in late:
                leave_alone(task)
