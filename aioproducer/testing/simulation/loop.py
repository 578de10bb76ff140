"""An event loop in virtual time: nothing waits, and every run of it is the same.

The world outside of the process (the network, the brokers) has the same clock, the
:class:`Agenda`. It goes on while the process computes, holds its loop, or is stopped: what arrives
meanwhile waits in the sockets. The loop refuses the methods that need the machine. The message of
a deadlock names the places at which tasks wait.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import sys
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from itertools import count
from math import inf
from pathlib import Path
from threading import get_ident
from types import FrameType
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple, Unpack
from weakref import WeakSet


class Event:
    """A moment and what happens then; it may be cancelled."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        """Let it not happen."""
        self.call = None


class Agenda:
    """A virtual clock, and the events that happen as it goes on."""

    def __init__(self, now: float) -> None:
        self.now = now
        """Seconds; it jumps from event to event."""
        self._events: list[tuple[float, int, Event]] = []
        self._ticket = count()

    def call_at(self, moment: float, call: Callable[[], object]) -> Event:
        """Let something happen; what is due at one moment happens in the order of these calls."""
        event = Event(call)
        heapq.heappush(self._events, (moment, next(self._ticket), event))
        return event

    def call_later(self, seconds: float, call: Callable[[], object]) -> Event:
        """Let something happen after ``seconds``."""
        return self.call_at(self.now + seconds, call)

    def clear(self) -> None:
        """Let nothing more happen."""
        self._events.clear()

    @property
    def next_moment(self) -> float | None:
        """The time of the next event; None: nothing will happen."""
        events = self._events
        while events and events[0][2].call is None:
            heapq.heappop(events)
        return events[0][0] if events else None

    def run_until(self, moment: float) -> None:
        """Let everything happen that is due up to ``moment``, which is the time then."""
        events = self._events
        while events and events[0][0] <= moment:
            due, _, event = heapq.heappop(events)
            if event.call is not None:
                self.now = max(self.now, due)
                event.call()
        self.now = max(self.now, moment)


def places(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """A line for each task that is not done: its name, and the calls that wait for each other."""
    return "\n".join(
        f"  {task.get_name()}: {' -> '.join(map(_place, _frames(task.get_coro())))}"
        for task in tasks
        if not task.done()
    )


def _frames(awaited: Any) -> Iterator[tuple[str, FrameType]]:
    """The names and frames of a coroutine, and of whatever it awaits."""
    while awaited is not None:
        for frame, inner in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom")):
            if hasattr(awaited, inner):
                if getattr(awaited, frame) is not None:
                    yield awaited.__qualname__, getattr(awaited, frame)
                awaited = getattr(awaited, inner)
                break
        else:
            return


def _place(named: tuple[str, FrameType]) -> str:
    name, frame = named
    line: int | None = frame.f_lineno  # a compiled coroutine has none
    return f"{name}() in {Path(frame.f_code.co_filename).name}" + (f":{line}" if line else "")


Loop = TypeVar("Loop", bound=asyncio.AbstractEventLoop)

_REFUSED: Final = (
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_datagram_endpoint",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "remove_signal_handler",
    "sendfile",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendfile",
    "sock_sendto",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
)


def without_machine(loop: type[Loop]) -> type[Loop]:
    """Let the methods of a class that need the machine raise :class:`NotImplementedError`."""
    for name in _REFUSED:
        setattr(loop, name, _refusal(name))
    return loop


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> None:
        raise NotImplementedError(
            f"{name}() is not simulated: a simulated world has no sockets, names of hosts, "
            "processes and signals of the machine"
        )

    return refuse


T = TypeVar("T")
Ts = TypeVarTuple("Ts")
MOST_STEPS: Final = 2_000_000
STEP_SECONDS: Final = 1e-6
STEPS_TO_CANCEL: Final = 10_000
"""Callbacks that tasks have to end when they are cancelled, because the main one has ended."""
BEGIN: Final = 1_000.0
"""The clock's seconds at the start."""


def _nothing() -> float:
    return 0.0


class DeadlockError(RuntimeError):
    """No callback is due, now or later, but a task still waits; the message names what waits."""


class Network(Protocol):
    """The network of a loop."""

    async def connect(
        self, protocol_factory: Callable[[], Any], host: str, port: int
    ) -> tuple[asyncio.Transport, Any]:
        """Open a connection. Raises :class:`OSError`."""

    def listen(self, protocol_factory: Callable[[], Any], host: str, port: int) -> Any:
        """Accept connections of this process, in this process."""


class Pollable(Protocol):
    """A socket as the loop polls it."""

    def ready(self) -> list[asyncio.Handle]:
        """The callbacks for what has happened since the last call."""


class _Task(asyncio.Task[T]):
    """A task whose place in a set does not depend on its address in memory."""

    __slots__ = ("_number",)

    def __init__(self, number: int, *args: Any, **options: Any) -> None:
        self._number = number
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


@without_machine
class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs what asyncio code needs, except for threads and sockets of the machine.

    Executors run calls in the loop's own thread. An exception that nobody has handled goes to
    :attr:`complaints`, and to the log as in asyncio.

    An iteration polls the sockets, finds the timers that are due, and runs all callbacks that are
    ready then. ``timers_first``: due timers run before what the sockets have, as in libuv; asyncio
    runs them after it.
    """

    network: Network
    _asyncgen_firstiter_hook: Callable[[AsyncGenerator[Any, Any]], None]
    _asyncgen_finalizer_hook: Callable[[AsyncGenerator[Any, Any]], None]

    def __init__(self, *, timers_first: bool = False) -> None:
        self._ended = False
        self._thread: int | None = None
        """The thread that runs it."""
        super().__init__()
        self.steps = 0
        """The number of callbacks that have run."""
        self.turns = 0
        """The number of iterations."""
        self.before_step: Callable[[], object] = _nothing
        """Called before each callback."""
        self.before_sleep: Callable[[float], object] | None = None
        """Called with the time of the next event, before time passes without a callback."""
        self.complaints: list[dict[str, Any]] = []
        """Calls of the exception handler: exceptions that nobody has seen, tasks that were lost."""
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        """The tasks that are still there."""
        self.outside = Agenda(BEGIN)
        """The events outside of the process."""
        self.executor_delay: Callable[[], float] = _nothing
        """Seconds that a call takes in an executor."""
        self.step_seconds = STEP_SECONDS
        """Seconds that a callback takes: more than nothing, or code that sets its timer again until
        its time has come would do so for ever."""
        self.stopped = 0.0
        """Seconds for which the process was stopped, or a callback held it, until now."""
        self._timers_first = timers_first
        self._due: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._pollable: dict[Pollable, None] = {}
        self._ticket = count()
        self._stop_at_poll = 0.0

    # --- running ---------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T], timeout: float = inf) -> T:
        """Run ``main`` to its end, once.

        Raises:
            DeadlockError: it waits, and nothing will ever happen.
            TimeoutError: it takes more than ``timeout`` seconds, or :data:`MOST_STEPS` callbacks.
        """
        task = self.create_task(main, name="main")
        with self._running():
            try:
                self._run_until(task, self.time() + timeout)
            finally:
                self._cancel_all()
                self.close()
        return task.result()

    def _run_until(self, task: asyncio.Task[Any], end: float) -> None:
        began = self.time()
        while not task.done():
            if self.time() > end or self.steps >= MOST_STEPS:
                raise TimeoutError(
                    f"no end after {self.time() - began:g} s and {self.steps:,} callbacks of the "
                    f"event loop; {self._waiting}"
                )
            self._iterate()

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Be the running loop. Objects are collected at no moment that the past decides."""
        hooks, collects = sys.get_asyncgen_hooks(), gc.isenabled()
        gc.disable()
        sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)
        self._thread = get_ident()
        _set_running_loop(self)
        try:
            yield
        finally:
            _set_running_loop(None)
            self._thread = None
            sys.set_asyncgen_hooks(*hooks)
            if collects:
                gc.enable()

    def _cancel_all(self) -> None:
        """End the remaining tasks, as :func:`asyncio.run` does, with patience for most."""
        self.before_step = _nothing
        left = sorted(asyncio.all_tasks(self), key=hash)
        for task in left:
            task.cancel()
        self._run_briefly(left)
        self._run_briefly([self.create_task(self.shutdown_asyncgens())])

    def _run_briefly(self, tasks: list[asyncio.Task[Any]]) -> None:
        last = self.steps + STEPS_TO_CANCEL
        with suppress(DeadlockError):
            while self.steps < last and not all(task.done() for task in tasks):
                self._iterate()

    @property
    def _waiting(self) -> str:
        """The tasks that wait, the first one first, and where."""
        tasks = sorted(self.tasks, key=hash)
        return f"these tasks wait:\n{places(tasks)}"

    def settle(self, most: int) -> None:
        """Run what is due in no time, for ``most`` iterations at most."""
        seconds, self.step_seconds = self.step_seconds, 0.0
        while self._due and most:
            self._iterate()
            most -= 1
        self.step_seconds = seconds

    def _iterate(self) -> None:
        self.turns += 1
        if not self._due and not self._pollable and self.before_sleep is not None:
            self._look_before_sleep(self.before_sleep)
        if self._due:
            self.outside.run_until(self.outside.now)
        else:
            self._sleep()
        ready = self._poll()
        if self._stop_at_poll:
            seconds, self._stop_at_poll = self._stop_at_poll, 0.0
            self.pass_time(seconds)
        if self._timers_first:
            ready = [*self._due_timers(), *self._due, *ready]
        else:
            ready = [*self._due, *ready, *self._due_timers()]
        self._due = deque(ready)
        for _ in range(len(ready)):
            self._step()

    def _step(self) -> None:
        self.before_step()
        self.steps += 1
        handle = self._due.popleft()
        if not handle.cancelled():
            handle._run()
        self.outside.run_until(self.outside.now + self.step_seconds)

    def _look_before_sleep(self, look: Callable[[float], object]) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        moment = self.outside.next_moment
        self.before_sleep = None
        look(min(inf if moment is None else moment, timers[0][0] if timers else inf))
        self.before_sleep = look

    def _sleep(self) -> None:
        """Let time pass until a socket or a timer is due."""
        while not (self._pollable or self._due):
            timers = self._timers
            while timers and timers[0][2].cancelled():
                heapq.heappop(timers)
            moment = self.outside.next_moment
            if timers and (moment is None or timers[0][0] <= moment):
                self.outside.run_until(timers[0][0])
                return
            if moment is None:
                raise DeadlockError(f"nothing will ever happen, but {self._waiting}")
            self.outside.run_until(moment)

    def _poll(self) -> list[asyncio.Handle]:
        polled, self._pollable = self._pollable, {}
        return [handle for each in polled for handle in each.ready()]

    def pollable(self, socket: Pollable) -> None:
        """Something has happened at ``socket``: the next iteration asks it."""
        self._pollable[socket] = None

    def _due_timers(self) -> list[asyncio.Handle]:
        due: list[asyncio.Handle] = []
        while self._timers and self._timers[0][0] <= self.outside.now:
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled():
                due.append(timer)
        return due

    @property
    def timers(self) -> list[asyncio.TimerHandle]:
        """The timers that will still ring."""
        return [timer for *_, timer in self._timers if not timer.cancelled()]

    # --- time ------------------------------------------------------------------------------

    def time(self) -> float:
        """The virtual clock, in seconds."""
        return self.outside.now

    def pass_time(self, seconds: float) -> None:
        """Let time pass in the world outside, while this process runs no callback.

        A callback that calls this holds the loop. Called from the world outside or between
        callbacks, it stops the process.
        """
        self.stopped += seconds
        self.outside.run_until(self.outside.now + seconds)

    def stop_at_poll(self, seconds: float) -> None:
        """Stop the process in its next iteration, between polling its sockets and its timers.

        Data that arrives meanwhile is read one iteration after the timers run.
        """
        self._stop_at_poll += seconds

    # --- what asyncio asks -----------------------------------------------------------------

    def is_running(self) -> bool:
        return self._thread is not None

    def is_closed(self) -> bool:
        return self._ended

    def close(self) -> None:
        """Lead nowhere any more: futures that the collector does not see may keep the loop."""
        self._ended = True
        self.before_step = self.executor_delay = _nothing
        self._due.clear()
        self._timers.clear()
        self._pollable.clear()
        self.outside.clear()
        vars(self).pop("network", None)

    def get_debug(self) -> bool:
        return False

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._due.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if get_ident() != self._thread:
            raise RuntimeError("threads are not simulated: run_in_executor() and to_thread() are")
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.outside.now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._ticket), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is left out when its time has come."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def get_task_factory(self) -> None:
        """There is none."""

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        number = next(self._ticket)
        given = f"Task-{number}" if name is None else str(name)
        task: _Task[T] = _Task(number, coro, loop=self, name=given, context=context)
        self.tasks.add(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.complaints.append(context)
        super().call_exception_handler(context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run the function in this thread, after a while; a cancellation comes too late for it."""
        future: asyncio.Future[T] = self.create_future()
        self.call_later(self.executor_delay(), self._run_call, future, func, args)
        return future

    def _run_call(self, future: asyncio.Future[T], func: Callable[..., T], args: Any) -> None:
        try:
            result = func(*args)
        except BaseException as error:
            if not future.cancelled():
                future.set_exception(error)
        else:
            if not future.cancelled():
                future.set_result(result)

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: Any, port: int, **_: Any
    ) -> Any:
        return self.network.listen(protocol_factory, host, port)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: Any, port: int, **options: Any
    ) -> tuple[asyncio.Transport, Any]:
        if options.get("ssl") is not None:
            raise NotImplementedError(
                "simulated connections have no TLS: set security_protocol to PLAINTEXT here"
            )
        return await self.network.connect(protocol_factory, str(host), port)
