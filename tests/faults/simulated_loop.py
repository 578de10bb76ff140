"""An event loop in which nothing takes time: a clock that jumps, connections in memory.

Callbacks run one at a time, and a test may do something before each of them. So every point at
which something could happen between two of them can be tried, one after the other.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, TypeVar, TypeVarTuple, Unpack
from weakref import WeakSet

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
MOST_STEPS = 200_000
_AT_A_SERVER: ContextVar[bool] = ContextVar("at_a_server", default=False)
"""True in the callbacks and tasks of servers."""


class NothingHappensAnyMoreError(Exception):
    """No callback is due, now or later, but somebody still waits."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs what asyncio code needs, except threads and sockets.

    ``delay`` says how long data is under way, in seconds of the loop's clock.
    """

    def __init__(self, delay: Callable[[], float] = lambda: 0.0) -> None:
        self._runs = self._ended = False
        super().__init__()
        self.steps = 0
        """How many callbacks have run."""
        self.before_step: Callable[[], object] = lambda: None
        """Called before each of them."""
        self.complaints: list[dict[str, Any]] = []
        """What asyncio found wrong: exceptions that nobody has seen, tasks that were lost."""
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        """All that were started and are still there."""
        self._delay = delay
        self._now = 1000.0
        self._due: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._transports: WeakSet[MemoryTransport] = WeakSet()
        self._ticket = count()
        self._listeners: dict[int, tuple[Callable[[], asyncio.BaseProtocol], Context]] = {}
        self._ports = count(10_001)

    # --- running ---------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T], most_steps: int = MOST_STEPS) -> T:
        """Run ``main`` to its end, once; more than ``most_steps`` are an error."""
        task = self.create_task(main)
        self._runs = True
        _set_running_loop(self)
        last = self.steps + most_steps
        try:
            while not task.done():
                if self.steps >= last:
                    raise TimeoutError(f"no end after {most_steps} steps")
                self._step()
        finally:
            _set_running_loop(None)
            self._runs = False
            self.close()
        return task.result()

    def _step(self) -> None:
        self._ring()
        while not self._due:
            if not self._timers:
                raise NothingHappensAnyMoreError("somebody waits, but nothing will ever happen")
            self._now = max(self._now, self._timers[0][0])
            self._ring()
        self.before_step()
        self.steps += 1
        handle = self._due.popleft()
        if not handle.cancelled():
            handle._run()

    def _ring(self) -> None:
        while self._timers and (self._timers[0][2].cancelled() or self._timers[0][0] <= self._now):
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled():
                self._due.append(timer)

    def stop_clients(self, seconds: float) -> None:
        """Let ``seconds`` go by in which servers run and clients don't: SIGSTOP, and SIGCONT.

        Then the clients' timers ring before their sockets are read. So uvloop does it, and asyncio
        if the signal interrupts its wait. Each turn of the loop reads one piece.
        """
        end = self._now + seconds
        while (handle := self._next_of_servers(end)) is not None:
            if not handle.cancelled():
                handle._run()
        self._now = end
        self._ring()
        unread = deque(handle for handle in self._due if _is_arrival(handle))
        self._due = deque(handle for handle in self._due if not _is_arrival(handle))
        self.call_soon(self.call_soon, self._read, unread)

    def _next_of_servers(self, end: float) -> asyncio.Handle | None:
        """A server's callback that is due before ``end``; the clock moves to its time."""
        for handle in self._due:
            if _is_at_a_server(handle):
                self._due.remove(handle)
                return handle
        for when, _, timer in sorted(self._timers):
            if _is_at_a_server(timer) and not timer.cancelled() and when < end:
                self._now = max(self._now, when)
                self._ring()
                return self._next_of_servers(end)
        return None

    def _read(self, unread: deque[asyncio.Handle]) -> None:
        if unread:
            self._due.append(unread.popleft())
            self.call_soon(self._read, unread)

    @property
    def timers(self) -> list[asyncio.TimerHandle]:
        """Those that will still ring."""
        return [timer for *_, timer in self._timers if not timer.cancelled()]

    def time(self) -> float:
        return self._now

    def is_running(self) -> bool:
        return self._runs

    def is_closed(self) -> bool:
        return self._ended

    def close(self) -> None:
        self._ended = True

    def get_debug(self) -> bool:
        return False

    # --- what tasks and futures need -------------------------------------------------------

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._due.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

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

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(
            coro, loop=self, name=None if name is None else str(name), context=context
        )
        self.tasks.add(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.complaints.append(context)

    async def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> T:  # type: ignore[override]
        """The function runs on the loop, after a few steps."""
        await self._a_while()
        return func(*args)

    async def shutdown_asyncgens(self) -> None:
        """Nothing watches them here."""

    async def _a_while(self) -> None:
        for _ in range(2):
            await asyncio.sleep(0)

    # --- the network -----------------------------------------------------------------------

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: Any, port: int, **_: Any
    ) -> Listener:
        port = port or next(self._ports)
        context = copy_context()
        context.run(_AT_A_SERVER.set, True)
        self._listeners[port] = protocol_factory, context
        return Listener(port, lambda: self._listeners.pop(port, None))

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: Any, port: int, **_: Any
    ) -> tuple[asyncio.Transport, Any]:
        await self._a_while()
        if port not in self._listeners:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens there")
        accept, context = self._listeners[port]
        ours, theirs = protocol_factory(), accept()
        near = MemoryTransport(self, ours, self._delay, copy_context())
        near.peer = far = MemoryTransport(self, theirs, self._delay, context)
        far.peer = near
        self._transports |= {near, far}
        context.run(theirs.connection_made, far)
        ours.connection_made(near)
        await self._a_while()
        return near, ours

    def forget_connections(self) -> None:
        """Lose all that is sent on the present connections, and tell nobody, as firewalls do."""
        for transport in self._transports:
            transport.is_forgotten = True


class Listener:
    """What :func:`asyncio.start_server` returns; also its only socket."""

    def __init__(self, port: int, close: Callable[[], object]) -> None:
        self.sockets = [self]
        self.close = close
        self._port = port

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", self._port


class MemoryTransport(asyncio.Transport):
    """One end of a connection; what is written arrives at :attr:`peer`, in order."""

    peer: MemoryTransport

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: Any,
        delay: Callable[[], float],
        context: Context,
    ) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._delay = delay
        self._context = context
        """Of the callbacks of this end."""
        self.is_forgotten = False
        """Nothing arrives any more."""
        self._arrival = 0.0
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self._tell_peer(self.peer._receive, bytes(data))

    def _tell_peer(self, callback: Callable[..., object], *args: Any) -> None:
        if self.is_forgotten:
            return
        now = self._loop.time()
        self._arrival = max(self._arrival, now + self._delay())
        if self._arrival > now:
            self._loop.call_at(self._arrival, callback, *args, context=self.peer._context)
        else:
            self._loop.call_soon(callback, *args, context=self.peer._context)

    def _receive(self, data: bytes) -> None:
        if not self._closing:
            self._protocol.data_received(data)

    def _lose(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._protocol.connection_lost(error)

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None, context=self._context)
            self._tell_peer(self.peer._lose, ConnectionResetError(errno.ECONNRESET, "reset"))

    def close(self) -> None:
        self.abort()

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever buffered."""

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "socket" else default

    def setsockopt(self, *_: Any) -> None:
        """It is its own socket, which has no options."""

    def getsockopt(self, *_: Any) -> bytes:
        raise OSError(errno.ENOPROTOOPT, "no options")


def _is_at_a_server(handle: asyncio.Handle) -> bool:
    return bool(handle._context.get(_AT_A_SERVER))  # type: ignore[attr-defined]


def _is_arrival(handle: asyncio.Handle) -> bool:
    """True if the callback reads a client's socket."""
    reads = isinstance(getattr(handle._callback, "__self__", None), MemoryTransport)  # type: ignore[attr-defined]
    return reads and not _is_at_a_server(handle)
