"""Threads of the producer's own, for calls that would hold up the event loop; and locks.

asyncio's default executor belongs to the application, which may keep all of its threads busy. Calls
here do not wait for those threads. The threads here are daemons: the interpreter's exit does not
wait for them.

The rule for everything that several threads share: a call can come in the midst of another call of
the same thread, because a signal handler runs after calls of the main thread, and the collector
runs finalizers as any thread makes a container. Both may send, flush and close. The interrupted
call goes on only after they return. If it holds a lock meanwhile, whoever needs the lock waits for
ever: the handler itself, or an event loop that the handler waits for. A reentrant lock helps only
the handler itself. Therefore:

1. Nothing that a producer's call needs has a lock. Threads share data by operations that the
   interpreter does in one step (``list +=``, ``list.pop``, ``dict.setdefault``, ``deque.append``),
   by ``SimpleQueue``, whose ``put()`` is reentrant, and by ``loop.call_soon_threadsafe()``. A look
   and a change are one step as well, without a call or a new container between them.
2. A field has one thread that writes it, and a reader may see it a moment late. A waiter says so
   first and looks afterwards; a change comes first, its notification afterwards.
3. ``threading.Event``, ``Condition``, ``queue.Queue`` and the futures of ``concurrent.futures``
   hold locks within, so no thread of the producer waits on them, or resolves them.
4. Locks guard slow work of other threads, such as reading certificates. They are made here, and
   nothing that an event loop or a signal handler calls takes one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 # it has locks for forks: not to be met during one
import math
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import RLock, Thread, get_ident
from typing import Any, Final, TypeAlias, TypeVar

from aioproducer.errors import ProducerClosedError, ProducerTimeoutError
from aioproducer.foundation.runtime import forks

_LOCKS: Final[weakref.WeakSet[RLock]] = weakref.WeakSet()


def free_lock() -> RLock:
    """A reentrant lock that each forked child finds free, for data that is whole at each point.

    A lock that another thread held at the fork would stay held for ever: the child has no such
    thread.
    """
    lock = RLock()
    _LOCKS.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_LOCKS):
        lock._at_fork_reinit()  # type: ignore[attr-defined]


forks.in_child(_free_all)


_Answer = TypeVar("_Answer")
_Job: TypeAlias = tuple[Future[Any], Callable[[], Any]]
Load: TypeAlias = Callable[[], None]
"""A function of a module that imports what others of its functions need."""

MOST_HANGING: Final = 64
"""The calls of one provider that may hang at the same time. Each provider has its own threads."""

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
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._unbegun = deque(range(most))
        """The numbers of threads that have not begun."""
        self._begun: list[Thread] = []
        self._idle: SimpleQueue[None] = SimpleQueue()
        """An item for each thread that has begun and has nothing to do."""
        self._ended = False

    async def run(self, call: Callable[[], _Answer]) -> _Answer:
        """Run ``call`` in one of the threads, with its result or its error."""
        return await asyncio.get_running_loop().run_in_executor(self, call)

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See :class:`concurrent.futures.Executor`."""
        if self._ended:
            raise self._refusal()
        future: Future[Any] = Future()
        context = copy_context()
        job = (future, lambda: context.run(call, *args, **kwargs))
        if not self._serves():
            _do(job)
            return future
        self._jobs.put(job)
        if self._ended and future.cancel():  # the threads may have ended before
            raise self._refusal()
        return future

    def _refusal(self) -> ProducerClosedError:
        return ProducerClosedError(f"the threads {self._name!r} were ended")

    def _serves(self) -> bool:
        """True if a thread will take a job; another one begins unless one is idle."""
        try:
            self._idle.get_nowait()
            return True
        except Empty:
            pass
        try:
            number = self._unbegun.popleft()
        except IndexError:
            return True
        thread = Thread(target=self._work, name=f"{self._name}-{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter exits
            self._unbegun.append(number)
            return bool(self._begun)
        self._begun.append(thread)
        if self._ended:
            self._jobs.put(None)  # the end came before it knew of this one
        return True

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            _do(job)
            del job  # keep no reference to the call until the next one comes
            self._idle.put(None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Begin no more calls; each thread ends after its present call, and is not joined.

        ``wait`` has no effect: a running call may take long, and its result is not needed.
        """
        self._ended = True
        while cancel_futures:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            if job is not None:
                job[0].cancel()
        for _ in self._begun:
            self._jobs.put(None)


def _do(job: _Job) -> None:
    future, call = job
    if future.set_running_or_notify_cancel():
        try:
            answer = call()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(answer)


class ThreadForEach(Executor):
    """Runs each call in a thread of its own, for rare calls that may hang.

    ``most``: the calls at the same time, for code of others. No call can be ended from outside, so
    calls that hang for ever would take more and more threads.
    """

    def __init__(self, name: str, most: float = math.inf) -> None:
        self._name = name
        self._most = most
        self._running: list[Future[Any]] = []

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See :class:`concurrent.futures.Executor`.

        Raises:
            ProducerTimeoutError: as many calls as there may be have not returned.
        """
        self._running = [each for each in self._running if not each.done()]
        if len(self._running) >= self._most:
            raise ProducerTimeoutError(
                f"{self._most} calls of the same kind have not returned (threads {self._name!r}); "
                "the next one begins when one of them ends"
            )
        once = DaemonThreads(self._name, 1)
        future = once.submit(call, *args, **kwargs)
        self._running.append(future)
        once.shutdown()
        return future


_LOADS: Final = ThreadForEach("aioproducer-import")
_loaded: set[Load] = set()
_loading: Final[dict[SimpleQueue[None], int]] = {}
"""For each import that is under way, what gets an item at its end, and its thread."""
_LONGEST_FORK: Final = 1.0
"""Seconds that a fork waits for imports."""


async def load(loads: Iterable[Load]) -> None:
    """Call each of ``loads`` once in a process, beside the event loop.

    The start of a client imports everything that the client may need later: an import in its life
    would fail without a free file descriptor, or after the package's folder was replaced. The start
    and not the import of the package does it, so that a program imports only what its clients use.
    """
    missing = [each for each in loads if each not in _loaded]
    if missing:
        await asyncio.get_running_loop().run_in_executor(_LOADS, load_here, missing)


def load_here(loads: Iterable[Load]) -> None:
    """:func:`load` in the present thread."""
    end: SimpleQueue[None] = SimpleQueue()
    _loading[end] = get_ident()
    try:
        for each in loads:
            if each not in _loaded:
                each()
                _loaded.add(each)
    finally:
        del _loading[end]
        end.put(None)


def _wait_for_loads() -> None:
    """A child that is forked during an import would find the lock of a module held for ever."""
    for end, thread in list(_loading.items()):
        if thread != get_ident():
            with suppress(Empty):
                end.get(timeout=_LONGEST_FORK)
                end.put(None)  # for another fork that waits


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_loads, after_in_child=_loading.clear)
