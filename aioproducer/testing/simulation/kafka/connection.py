"""A connection to a broker: bytes to requests, one request at a time, responses in order.

Sources: Kafka's ``SocketServer.Processor``, which mutes a channel until the response is sent, and
``RequestChannel``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from aioproducer.engine.protocol import Api
from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Answer, Closing, Login, Parked, Silence
from aioproducer.testing.simulation.kafka.faults import RequestFaults
from aioproducer.testing.simulation.kafka.messages import (
    SIZE_BYTES,
    Fields,
    Request,
    UnreadableRequestError,
    header_of,
    read_request,
    write_response,
)
from aioproducer.testing.simulation.kafka.requests.apis import RANGES
from aioproducer.testing.simulation.kafka.requests.versions import ranges_of

_MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024
"""Source: the broker's ``socket.request.max.bytes``."""
_LEAST_REQUEST_BYTES: Final = 8


class Server(Protocol):
    """The brokers' services for their connections."""

    faults: RequestFaults

    def begin(self, connection: ModelConnection, request: Request, now: float) -> Answer:
        """Begin a request."""

    def run(self, now: float) -> None:
        """Let every connection go on as far as it can."""

    def in_flight(self, connection: ModelConnection, api: int, number: int) -> None:
        """So many requests of one kind are unanswered."""


class ModelConnection:
    """One connection; the other side calls :meth:`receive` and :meth:`lost`.

    ``respond`` gets whole frames, in the order of the requests; ``close``: the broker has ended the
    connection.
    """

    def __init__(
        self,
        server: Server,
        broker: int,
        login: Login,
        respond: Callable[[bytes], None],
        close: Callable[[], None],
    ) -> None:
        self.broker = broker
        self.login = login
        self.open = True
        self._server = server
        self._respond = respond
        self._close = close
        self._buffer = bytearray()
        self._frames: deque[bytes] = deque()
        self._unanswered: deque[int] = deque()
        """The APIs of the requests that came in."""
        self._current: Request | None = None
        self._parked: Parked | None = None
        """The request that waits; no other is begun before its answer."""
        self._muted_until = 0.0

    # --- the other side --------------------------------------------------------------------

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> None:
        """Take a piece of the stream."""
        if not self.open:
            return
        self._buffer += data
        while len(self._buffer) >= SIZE_BYTES:
            size = int.from_bytes(self._buffer[:SIZE_BYTES], "big", signed=True)
            if not _LEAST_REQUEST_BYTES <= size <= _MAX_REQUEST_BYTES:
                self.end()
                return
            if len(self._buffer) < SIZE_BYTES + size:
                break
            frame = bytes(self._buffer[SIZE_BYTES : SIZE_BYTES + size])
            del self._buffer[: SIZE_BYTES + size]
            self._frames.append(frame)
            api = header_of(frame)[0]
            self._unanswered.append(api)
            self._server.in_flight(self, api, self._unanswered.count(api))
        self._server.run(now)

    def lost(self, now: float) -> None:
        """The connection has ended. A request that was begun is done all the same."""
        self.open = False
        self._frames.clear()
        self._server.run(now)

    # --- the broker ------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """True if nothing happens here any more."""
        return not self.open and self._parked is None

    def end(self) -> None:
        """The broker ends the connection, and forgets what waits."""
        self._parked = None
        self._frames.clear()
        if self.open:
            self.open = False
            self._close()

    def advance(self, now: float) -> bool:
        """Begin or complete one request; False: none can be."""
        if self._parked is not None:
            answer = self._parked.complete(now)
            if answer is None:
                return False
            self._parked = None
            self._take(answer, now)
            return True
        if not self._frames or now < self._muted_until:
            return False
        self._begin(self._frames.popleft(), now)
        return True

    def next_time(self, now: float) -> float | None:
        """The time at which something happens here by itself."""
        if self._parked is not None:
            times = (self._parked.deadline, *self._parked.retries_at)
            return min((each for each in times if each is not None and each > now), default=None)
        return self._muted_until if self._frames else None

    def _begin(self, frame: bytes, now: float) -> None:
        try:
            api, version, correlation_id = header_of(frame)
            lowest, highest = RANGES.get(api, (0, -1))
            if not lowest <= version <= highest:
                if api != Api.API_VERSIONS:
                    raise UnreadableRequestError(f"no request {api} of version {version}")
                self._refuse_version(correlation_id)
                return
            self._current = read_request(frame)
        except UnreadableRequestError:
            self.end()
            return
        self._take(self._server.begin(self, self._current, now), now)

    def _refuse_version(self, correlation_id: int) -> None:
        """The answer to a newer client, in the layout of version 0 (KIP-511)."""
        fields = {
            "error_code": ErrorCode.UNSUPPORTED_VERSION,
            "api_keys": ranges_of({Api.API_VERSIONS: RANGES[Api.API_VERSIONS]}),
        }
        self._send(Api.API_VERSIONS, write_response(Api.API_VERSIONS, 0, correlation_id, fields))

    def _take(self, answer: Answer, now: float) -> None:
        request = self._current
        assert request is not None
        if isinstance(answer, Parked):
            self._parked = answer
        elif answer is Silence.CLOSED:
            self.end()
        elif answer is Silence.UNANSWERED:
            self._unanswered.popleft()
        elif isinstance(answer, Closing):
            self._answer(request, answer.fields, now)
            self.end()
        else:
            self._answer(request, answer, now)

    def _answer(self, request: Request, fields: Fields, now: float) -> None:
        throttle_ms = self._server.faults.throttle_ms(request.api, self.broker)
        self._muted_until = now + throttle_ms / 1000
        self._send(
            request.api,
            write_response(
                request.api,
                request.version,
                request.correlation_id,
                fields,
                throttle_ms=throttle_ms,
            ),
        )

    def _send(self, api: int, frame: bytes) -> None:
        self._unanswered.popleft()
        if self._server.faults.loses_response(api, self.broker):
            self.end()
        elif self.open:
            self._respond(frame)
