"""Threads of the producer's own, for calls that would hold up the event loop.

asyncio's default executor belongs to the application, which may keep all of its threads busy. Calls
here do not wait for those threads. The threads here are daemons: the interpreter's exit does not
wait for them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeAlias, TypeVar

from aioproducer.errors import ProducerClosedError

_Answer = TypeVar("_Answer")
_Job: TypeAlias = tuple[Future[Any], Callable[[], Any]]

_CORES: Final = (
    len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
)
BESIDE_THE_LOOP: Final = max(1, _CORES - 1)
"""The number of threads that may compute at the same time. Of several cores, one stays free for the
event loop."""


class DaemonThreads(Executor):
    """Runs calls in at most ``most`` threads, each of which begins when it is needed.

    At the interpreter's exit, when no thread can begin, calls run at once.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = Lock()
        """Guards the following fields."""
        self._threads: list[Thread] = []
        self._unfinished = 0
        """Calls that wait, or run."""
        self._ended = False

    async def run(self, call: Callable[[], _Answer]) -> _Answer:
        """Run ``call`` in one of the threads, with its result or its error."""
        return await asyncio.get_running_loop().run_in_executor(self, call)

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See :class:`concurrent.futures.Executor`."""
        future: Future[Any] = Future()
        context = copy_context()
        job = (future, lambda: context.run(call, *args, **kwargs))
        with self._lock:
            if self._ended:
                raise ProducerClosedError(f"the threads {self._name!r} were ended")
            self._unfinished += 1
            served = self._unfinished <= len(self._threads) or self._begin()
            if served:
                self._jobs.put(job)
        if not served:
            self._do(job)
        return future

    def _begin(self) -> bool:
        """Begin one more thread, unless there are enough; True if there is any."""
        if len(self._threads) < self._most:
            name = f"{self._name}-{len(self._threads)}"
            thread = Thread(target=self._work, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter exits
                return bool(self._threads)
            self._threads.append(thread)
        return True

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._do(job)
            del job  # keep no reference to the call until the next one comes

    def _do(self, job: _Job) -> None:
        future, call = job
        if future.set_running_or_notify_cancel():
            try:
                answer = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(answer)
        with self._lock:
            self._unfinished -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Begin no more calls; each thread ends after its present call, and is not joined.

        ``wait`` has no effect: a running call may take long, and its result is not needed.
        """
        with self._lock:
            self._ended = True
            threads = list(self._threads)
        while cancel_futures:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            if job is not None:
                job[0].cancel()
        for _ in threads:
            self._jobs.put(None)


class ThreadForEach(Executor):
    """Runs each call in a thread of its own, for rare calls that may hang."""

    def __init__(self, name: str) -> None:
        self._name = name

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See :class:`concurrent.futures.Executor`."""
        once = DaemonThreads(self._name, 1)
        future = once.submit(call, *args, **kwargs)
        once.shutdown()
        return future
