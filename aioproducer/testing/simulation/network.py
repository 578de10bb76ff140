"""A network in memory: connections that take time, break, stall, and are cut inside of a frame."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

from aioproducer.testing.simulation.loop import Agenda, SimulatedLoop

FIRST_PORT: Final = 10_001
READ_AT_ONCE: Final = 256 * 1024
"""Bytes that a loop reads from a socket in one iteration."""
LIMITS: Final = 16 * 1024, 64 * 1024
"""The limits of a transport's buffer, as asyncio sets them."""
MOST_DROPS: Final = 200
"""The pieces of a response that drips."""
CAPACITY: Final = 1 << 20
"""Bytes that the sockets and the network of one direction hold."""
_TCP_INFO: Final = struct.Struct("=24xI24xII8xI48xQQ8xI")
"""Linux's ``struct tcp_info`` up to ``tcpi_notsent_bytes``. Of it, :meth:`getsockopt` gives these:
segments without an acknowledgement; milliseconds since data came and since some was acknowledged;
microseconds of a round trip; acknowledged and received bytes; bytes that were not sent."""


class Receiver(Protocol):
    """The end of a direction, which gets what arrives."""

    def arrived(self, data: bytes) -> None:
        """The next bytes."""

    def ended(self, error: OSError | None) -> None:
        """Nothing more comes; None: the other side has closed it."""


class Direction:
    """The bytes from one end of a connection to the other, in order."""

    receiver: Receiver

    def __init__(
        self,
        agenda: Agenda,
        delay: Callable[[], float],
        drip: Callable[[], tuple[int, float] | None] = lambda: None,
    ) -> None:
        self.on_room: Callable[[], object] = lambda: None
        """Called when bytes have left it."""
        self.on_put: Callable[[bytes], object] = lambda _: None
        """Called with the bytes that are put into it."""
        self.on_write: Callable[[bytes | bytearray | memoryview], object] = lambda _: None
        """Called with all bytes that a transport writes, before those with room are put into it."""
        self.on_read: Callable[[], object] = lambda: None
        """Called when the process reads from its socket what has arrived."""
        self._agenda = agenda
        self._delay = delay
        self._drip = drip
        self.passed = 0
        """Bytes that have arrived."""
        self.passed_at = agenda.now
        """The moment at which the last ones did."""
        self._arrives_at = 0.0
        self._under_way: deque[bytes] = deque()
        self._size = 0
        self._due = 0
        """Chunks that would have arrived, but the direction is stalled."""
        self._stalled = False
        self._closing: list[OSError | None] = []
        self._over = False

    @property
    def room(self) -> int:
        """Bytes that it takes now."""
        return max(0, CAPACITY - self._size)

    def put(self, data: bytes) -> None:
        """Send bytes; they arrive after a delay, and after what was sent before."""
        if data and not self._over and not self._closing:
            self.on_put(data)
            self._size += len(data)
            drip = self._drip()
            if drip is None:
                self._under_way.append(data)
                self._schedule(self._arrive)
            else:
                self._put_in_drops(data, *drip)

    def _put_in_drops(self, data: bytes, size: int, pause: float) -> None:
        size = max(size, len(data) // MOST_DROPS)
        for at in range(0, len(data), size):
            self._under_way.append(data[at : at + size])
            self._arrives_at = max(self._arrives_at, self._agenda.now) + pause
            self._schedule(self._arrive)

    def close(self, error: OSError | None = None) -> None:
        """Tell the receiver of the end, after what was sent before."""
        if not self._over and not self._closing:
            self._closing = [error]
            self._schedule(self._arrive)

    def _schedule(self, call: Callable[[], object]) -> None:
        self._arrives_at = max(self._arrives_at, self._agenda.now + self._delay())
        self._agenda.call_at(self._arrives_at, call)

    def _arrive(self) -> None:
        self._due += 1
        if not self._stalled:
            self._hand_over()

    def _hand_over(self) -> None:
        while self._due and not self._over and not self._stalled:
            self._due -= 1
            if self._under_way:
                data = self._under_way.popleft()
                self._size -= len(data)
                self.passed += len(data)
                self.passed_at = self._agenda.now
                self.receiver.arrived(data)
                self.on_room()
            else:
                self._over = True
                self.receiver.ended(*self._closing)

    def stall(self) -> None:
        """Let nothing arrive any more, until :meth:`release`."""
        self._stalled = True

    def release(self) -> None:
        """End a stall; what would have arrived meanwhile arrives now."""
        self._stalled = False
        self._hand_over()

    def cut(self, kept: int) -> None:
        """End it with a reset: of what is under way, the first ``kept`` bytes still arrive."""
        if self._over:
            return
        rest = b"".join(self._under_way)[:kept]
        self._under_way.clear()
        self._over = True
        if rest:
            self.receiver.arrived(rest)
        self.receiver.ended(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    @property
    def under_way(self) -> int:
        """Bytes that have not arrived."""
        return self._size


class Connection:
    """Both directions of a connection between a client and ``address``."""

    def __init__(
        self,
        address: tuple[str, int],
        agenda: Agenda,
        delay: Callable[[], float],
        drip: Callable[[], tuple[int, float] | None] = lambda: None,
    ) -> None:
        self.address = address
        self.requests = Direction(agenda, delay)
        """From the client."""
        self.responses = Direction(agenda, delay, drip)
        """To the client."""

    def cut(self, kept_requests: int = 0, kept_responses: int = 0) -> None:
        """Reset the connection; so many bytes under way still arrive."""
        self.requests.cut(kept_requests)
        self.responses.cut(kept_responses)

    def stall(self) -> None:
        """Lose both directions without a sign, as a firewall does that forgets a connection."""
        self.requests.stall()
        self.responses.stall()


class Accepting(Protocol):
    """The listener at an address."""

    def __call__(self, connection: Connection) -> Receiver:
        """The receiver of the requests. Raises :class:`OSError` to refuse the connection."""


class SimulatedNetwork:
    """The network of a :class:`SimulatedLoop`.

    ``delay``: seconds that bytes are under way, asked for each piece of them.
    """

    def __init__(self, loop: SimulatedLoop, delay: Callable[[], float] = lambda: 0.0) -> None:
        self.delay = delay
        self.connections: dict[Connection, None] = {}
        """The connections that have not ended."""
        self.silent: set[tuple[str, int]] = set()
        """The addresses that do not answer who connects."""
        self.dripping: dict[tuple[str, int], tuple[int, float]] = {}
        """The addresses whose responses come in so many bytes at once, and the seconds between."""
        self.has_descriptors = True
        """False: the process has no file descriptor for another connection."""
        self.on_connection: Callable[[Connection], object] = lambda _: None
        """Called with each connection of a client, before any byte is put into it."""
        self._loop = loop
        self._listeners: dict[tuple[str, int], Accepting] = {}
        self._served: set[tuple[str, int]] = set()
        """The addresses that have, or had, a listener."""
        self._ports = count(FIRST_PORT)
        loop.network = self

    def accept(self, address: tuple[str, int], accepting: Accepting) -> None:
        """Let ``accepting`` serve an address."""
        self._listeners[address] = accepting
        self._served.add(address)

    def swap(self, one: tuple[str, int], other: tuple[str, int]) -> None:
        """Exchange two addresses; open connections stay where they are."""
        listeners = self._listeners
        listeners[one], listeners[other] = listeners[other], listeners[one]

    def close(self, address: tuple[str, int]) -> None:
        """Refuse connections to an address; open ones stay."""
        self._listeners.pop(address, None)

    async def connect(
        self, protocol_factory: Callable[[], Any], host: str, port: int
    ) -> tuple[asyncio.Transport, Any]:
        """Open a connection, which takes a round trip.

        Raises:
            ConnectionRefusedError: nobody listens any more at the address.
            NotImplementedError: the address is of the machine, or of a real network.
        """
        loop, address = self._loop, (host, port)
        if address not in self._served:
            raise NotImplementedError(
                f"nothing serves {host}:{port} in the simulated world: make producers inside of "
                "the life, with world.cluster.bootstrap_servers"
            )
        if not self.has_descriptors:
            raise OSError(errno.EMFILE, "Too many open files")
        answer: asyncio.Future[None] = loop.create_future()
        socket = _Answer(loop, answer)
        loop.outside.call_later(self.delay() + self.delay(), lambda: self._answer(address, socket))
        await answer
        if address not in self._listeners:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        drip = partial(self.dripping.get, address)
        connection = Connection(address, loop.outside, self._delayed, drip)
        transport = SimulatedTransport(loop, connection.requests, connection.responses)
        transport.on_end = lambda: self.connections.pop(connection, None)
        connection.requests.receiver = self._listeners[address](connection)
        self.connections[connection] = None
        self.on_connection(connection)
        protocol = protocol_factory()
        transport.open(protocol)
        return transport, protocol

    def _delayed(self) -> float:
        return self.delay()

    def _answer(self, address: tuple[str, int], socket: _Answer) -> None:
        if address not in self.silent:
            self._loop.pollable(socket)

    def listen(self, protocol_factory: Callable[[], Any], host: str, port: int) -> Listener:
        """Accept connections in the process itself."""
        address = host, port or next(self._ports)

        def accept(connection: Connection) -> Receiver:
            transport = SimulatedTransport(self._loop, connection.responses, connection.requests)
            transport.open(protocol_factory())
            return transport

        self.accept(address, accept)
        return Listener(address, lambda: self.close(address))


class _Answer:
    """The readiness of a socket that connects."""

    def __init__(self, loop: SimulatedLoop, answer: asyncio.Future[None]) -> None:
        self._loop = loop
        self._answer = answer

    def ready(self) -> list[asyncio.Handle]:
        return [asyncio.Handle(self._set, (), self._loop)]

    def _set(self) -> None:
        if not self._answer.done():
            self._answer.set_result(None)


class Listener:
    """The value of :func:`asyncio.start_server`; also its only socket."""

    def __init__(self, address: tuple[str, int], close: Callable[[], object]) -> None:
        self.sockets = [self]
        self._address = address
        self._close = close

    def close(self) -> None:
        """Accept no more connections."""
        self._close()

    async def wait_closed(self) -> None:
        """It is closed at once."""

    def getsockname(self) -> tuple[str, int]:
        """The address."""
        return self._address


class SimulatedTransport(asyncio.Transport):
    """One end of a connection in a simulated loop, and its socket."""

    def __init__(self, loop: SimulatedLoop, sends: Direction, receives: Direction) -> None:
        super().__init__()
        self.on_end: Callable[[], object] = lambda: None
        """Called when this end is closed."""
        self._loop = loop
        self._sends = sends
        self._receives = receives
        self._received: deque[bytes] = deque()
        self._end: list[OSError | None] = []
        """The end of the stream, once it has come."""
        self._unsent = bytearray()
        self._paused = False
        self._protocol_paused = False
        self._limits = LIMITS
        self._closing = False
        """No more data is read or written, but what was written before."""
        self._lost = False
        self._gone = False
        """It was closed as its last bytes were written: asyncio's refuses to abort it then."""
        self._protocol: Any = None
        receives.receiver = self
        sends.on_room = self._has_room

    def open(self, protocol: Any) -> None:
        """Begin to serve ``protocol``."""
        self._protocol = protocol
        protocol.connection_made(self)

    # --- the socket ------------------------------------------------------------------------

    def arrived(self, data: bytes) -> None:
        """Bytes wait in the socket."""
        self._received.append(data)
        self._loop.pollable(self)

    def ended(self, error: OSError | None) -> None:
        """The end of the stream waits in the socket."""
        self._end = [error]
        if error is not None:
            self._sends.on_room = lambda: None
        self._loop.pollable(self)

    def _has_room(self) -> None:
        if self._unsent:
            self._loop.pollable(self)

    def ready(self) -> list[asyncio.Handle]:
        """The callbacks for what the socket has."""
        due: list[Callable[[], object]] = []
        if (self._received or self._end) and not self._paused:
            due.append(self._read)
        if self._unsent:
            due.append(self._write)
        return [asyncio.Handle(each, (), self._loop) for each in due]

    def _read(self) -> None:
        if self._closing or self._paused:
            return
        if self._received:
            pieces = [self._received.popleft()]
            size = len(pieces[0])
            while self._received and size + len(self._received[0]) <= READ_AT_ONCE:
                pieces.append(self._received.popleft())
                size += len(pieces[-1])
            self._receives.on_read()
            self._hand_over(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            if self._received or self._end:
                self._loop.pollable(self)
        elif self._end:
            [error] = self._end
            if error is not None:
                self._lose(error)
            elif not self._protocol.eof_received():
                self.close()

    def _hand_over(self, data: bytes) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(data)
            return
        while data:
            place = memoryview(self._protocol.get_buffer(-1))
            size = min(len(place), len(data))
            place[:size] = data[:size]
            data = data[size:]
            self._protocol.buffer_updated(size)

    def _write(self) -> None:
        room = self._sends.room
        if room and self._unsent and not self._lost:
            self._sends.put(bytes(self._unsent[:room]))
            del self._unsent[:room]
            if self._protocol_paused and len(self._unsent) <= self._limits[0]:
                self._protocol_paused = False
                self._protocol.resume_writing()
        if self._closing and not self._unsent:
            self._lose(None, at_once=True)

    # --- the transport ---------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        self._sends.on_write(data)
        if not self._unsent:
            room = self._sends.room
            self._sends.put(bytes(data[:room]))
            data = data[room:]
        if data:
            self._unsent += data
            if len(self._unsent) > self._limits[1] and not self._protocol_paused:
                self._protocol_paused = True
                self._protocol.pause_writing()

    def abort(self) -> None:
        if self._gone:
            raise AttributeError("'NoneType' object has no attribute 'call_soon'")
        self._unsent.clear()
        self._lose(None, ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._unsent:
                self._lose(None)

    def _lose(
        self,
        error: OSError | None,
        for_peer: OSError | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """End the connection here; the other end gets what was written, and then the end.

        ``at_once``: the last bytes were written after ``close()``. asyncio's transport tells its
        protocol in the same callback then, and can't be aborted any more.
        """
        if self._lost:
            return
        self._lost = self._closing = True
        self._unsent.clear()
        self._sends.close(for_peer)
        if at_once:
            self._gone = True
            self._protocol.connection_lost(error)
        else:
            self._loop.call_soon(self._protocol.connection_lost, error)
        self.on_end()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        if self._received or self._end:
            self._loop.pollable(self)

    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        high = LIMITS[1] if high is None else high
        self._limits = (high // 4 if low is None else low), high

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "socket" else default

    # --- the options of the socket ---------------------------------------------------------

    def setsockopt(self, *_: Any) -> None:
        """It has no options."""

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        """Linux's ``TCP_INFO``, without a round-trip time. Other options raise :class:`OSError`.

        The other side acknowledges bytes as soon as they arrive.
        """
        if (level, option) != (socket.IPPROTO_TCP, getattr(socket, "TCP_INFO", None)):
            raise OSError(errno.ENOPROTOOPT, "Protocol not available")
        sends, receives, now = self._sends, self._receives, self._loop.time()
        data, acknowledged = (round((now - each.passed_at) * 1e3) for each in (receives, sends))
        info = _TCP_INFO.pack(
            sends.under_way,
            data,
            acknowledged,
            0,
            sends.passed,
            receives.passed,
            len(self._unsent),
        )
        return info[:size]
