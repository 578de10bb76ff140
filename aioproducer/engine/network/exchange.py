"""What passes over an open connection: requests, and the responses to them in the same order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from aioproducer.engine.network.frames import (
    LENGTH_BYTES,
    MAX_DECODED_AT_ONCE,
    EncodedPayload,
    InFlightRequest,
    RequestForm,
    ResponseCutter,
    check_own_response,
    encode_request,
    leading_number,
    request_form,
)
from aioproducer.engine.network.transport import leave_to_parent
from aioproducer.errors import ProtocolError
from aioproducer.foundation import tuning
from aioproducer.foundation.runtime.running_clock import RunningClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from aioproducer.engine.network.frames import InFlightRequests, UsualResponse
    from aioproducer.engine.records.builder import Buffer
    from aioproducer.model import NodeId


class Exchange:
    """The protocol of a connection's transport: a :class:`asyncio.BufferedProtocol`.

    For each read of any other protocol, asyncio's own loop takes new memory of 256 KiB, which costs
    more than the rest of a response.

    It passes on each whole response in the callback that brought its end. So no task has to wake up
    for it, which would take another iteration of the event loop.

    ``on_usual`` gets a request, its usual response, the size of that in bytes and the time;
    ``on_other`` gets any other request that was answered, the response as it came, with its header,
    and the time; it returns True for one that is read in steps, until :meth:`read_on`. Both raise
    :class:`ProtocolError` for an impossible response. ``on_written`` is
    called when a request that gets no response was written to the socket. ``last_used``: the time
    of the last request or response, with what the clock left out.
    """

    transport: asyncio.Transport

    def __init__(
        self,
        node: NodeId,
        client_id: str,
        clock: RunningClock,
        in_flight: InFlightRequests,
        last_used: float,
        on_usual: Callable[[InFlightRequest, UsualResponse, int, float], None],
        on_other: Callable[[InFlightRequest, bytes, float], bool | None],
        on_written: Callable[[InFlightRequest], None],
    ) -> None:
        self.in_flight = in_flight
        self.last_used = last_used
        self.usable_until: float = float("-inf")
        """Requests may be sent before this time, on the clock of ``last_used``: the end of the
        login, if the connection is ready."""
        self.throttled_until = 0.0
        """The end of the broker's throttling."""
        self.error: Exception | None = None
        """The error that has ended the stream: nothing is read or written any more."""
        self.ended: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()
        """Gets that error when the transport has closed its socket."""
        self.is_reading = False
        """True while a large response is read in steps: nothing after it is taken meanwhile."""
        self.pieces = 0
        """The number of pieces that have come."""
        self.correlation_id = 0
        """Of the last request."""
        self._rest: deque[memoryview] = deque()
        """The parts of large requests that are written in later turns of the event loop."""
        self._node = node
        self._client_id: str = str(client_id)  # it may be of a subclass, as Settled
        self._clock: RunningClock = clock
        self._responses = ResponseCutter()
        self._on_usual = on_usual
        self._on_other = on_other
        self._on_written = on_written

    # --- requests --------------------------------------------------------------------------

    def takes(self, now: float, most: int, max_idle: float) -> bool:
        """True if a request may be sent now.

        ``most``: requests in flight. ``max_idle``: the seconds without use after which the broker
        may have closed the connection.
        """
        real: float = now + self._clock.lost
        return (
            self.throttled_until <= now
            and len(self.in_flight) < most
            and real - self.last_used < max_idle
            and real < self.usable_until
            and self.error is None
            and not self.transport.is_closing()
        )

    def send(
        self,
        payload: EncodedPayload,
        request: Any,
        now: float,
        answered: bool = True,
    ) -> int:
        """Write a request, and return its size in bytes. ``answered``: the broker will respond.

        ``request``: the sender's own object, which comes back with the response. A request without
        response is in flight until its bytes are written to the socket. The parts of an encoded
        payload must not change while the request is in flight.
        """
        transport = self.transport
        self.last_used = now + self._clock.lost
        number: int
        number = self.correlation_id = (self.correlation_id + 1) & 0x7FFF_FFFF
        form: RequestForm = request_form(payload.api, payload.version, self._client_id)
        size: int
        pieces, size = encode_request(payload.parts, number, form)
        self.in_flight.append(
            InFlightRequest(request, self._node, number, form, now, payload.read_usual, answered)
        )
        if not transport.is_closing():  # else the request ends with the connection, very soon
            if size > tuning.BYTES_PER_WRITE or self._rest:
                self._write_in_turns(pieces)
            else:
                transport.writelines(pieces)
            if not answered:
                self._watch_writing()
        return size

    def _write_in_turns(self, pieces: Sequence[Buffer]) -> None:
        rest, waits, most = self._rest, bool(self._rest), tuning.BYTES_PER_WRITE
        for piece in pieces:
            whole = memoryview(piece)
            rest.extend(whole[at : at + most] for at in range(0, len(whole), most))
        if not waits:
            self._write_next()

    def _write_next(self) -> None:
        """Write a part of the large requests, and the next one after other tasks have run."""
        rest, transport = self._rest, self.transport
        if transport.is_closing():
            rest.clear()
            return
        size: int
        size, part = 0, []
        while rest and size < tuning.BYTES_PER_WRITE:
            size += len(rest[0])
            part.append(rest.popleft())
        transport.writelines(part)
        if rest:
            self.ended.get_loop().call_soon(self._write_next)
        else:
            self._watch_writing()

    def _watch_writing(self) -> None:
        """Have :meth:`resume_writing` called once nothing waits to be written.

        After each write: ``writelines`` of Python 3.12.0 to 3.12.8 and 3.13.0 to 3.13.1 does not
        look at the limits, and a transport that did not pause does not resume.
        """
        transport = self.transport
        if not transport.is_closing():  # else the write has failed, and nothing waits any more
            transport.set_write_buffer_limits(high=0)
            self.resume_writing()

    def abort(self) -> None:
        """Close the socket at once, if it is not closed.

        asyncio's transport can't be aborted any more if the broker ended the connection while bytes
        waited, and they were written at once: it raises AttributeError.
        """
        if not self.ended.done():
            self.transport.abort()

    def pause_writing(self) -> None:
        """Called by the transport: its buffer is above its upper limit."""

    def resume_writing(self) -> None:
        """Called by the transport: its buffer is below its lower limit again."""
        if not self._rest and not self.transport.get_write_buffer_size():
            for request in self.in_flight.take_written():
                self._on_written(request)

    # --- responses -------------------------------------------------------------------------

    @property
    def is_amid_response(self) -> bool:
        """True if a response has come in part."""
        return self._responses.is_large or not self._responses.is_between

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop: the connection is open."""
        self.transport = cast("asyncio.Transport", transport)
        leave_to_parent(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by the transport: the memory for what comes next."""
        return self._responses.place

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the transport: it has put so many bytes there, usually one whole response."""
        self.pieces += 1
        if self.error is not None:
            return
        length: int
        responses: ResponseCutter
        responses, length = self._responses, nbytes - LENGTH_BYTES
        place = responses.place
        try:
            if self.is_reading:  # the transport had these bytes already as it was paused
                responses.feed(bytes(place[:nbytes]))
                return
            if responses.is_large:
                body = responses.fill(nbytes)
                if body is not None:
                    self._receive(body)
                return
            if (
                length >= LENGTH_BYTES
                and responses.is_between
                and leading_number(place) == (length,)
            ):
                self._receive(bytes(place[LENGTH_BYTES:nbytes]))
                return
            responses.feed(bytes(place[:nbytes]))
            self._take_responses()
        except Exception as error:
            self.fail(error)

    def _take_responses(self) -> None:
        """Take the responses that are whole, up to one that is read in steps."""
        responses: ResponseCutter
        responses, in_flight = self._responses, self.in_flight
        while not self.is_reading and (body := responses.take()) is not None:
            self._receive(body)
        if responses.announced > MAX_DECODED_AT_ONCE:
            api, own = in_flight.awaited()
            if own:
                check_own_response(responses.announced, api)

    def read_on(self) -> None:
        """The response that was read in steps has been taken: go on after it."""
        self.is_reading = False
        try:
            self._take_responses()
        except Exception as error:
            self.fail(error)
        if not self.is_reading and not self.transport.is_closing():
            self.transport.resume_reading()

    def _receive(self, body: bytes) -> None:
        """Take a whole response, which begins with its header."""
        in_flight, (number,) = self.in_flight, leading_number(body)
        if in_flight and in_flight[0].correlation_id == number and in_flight[0].answered:
            request: InFlightRequest = in_flight.popleft()
        else:
            request = in_flight.take(number)
        now: float
        now, read_usual = self._clock(), request.read_usual
        if request.request is not None:  # else it is no use that keeps a connection open
            self.last_used = now + self._clock.lost
        response = None if read_usual is None else read_usual(body)
        try:
            if response is None:
                if self._on_other(request, body, now):
                    in_flight.appendleft(request)  # until it has been read
                    self.is_reading = True
                    self.transport.pause_reading()
            else:
                self._on_usual(request, response, LENGTH_BYTES + len(body), now)
        except ProtocolError:
            in_flight.appendleft(request)  # it counts as unanswered
            raise

    def eof_received(self) -> None:
        """Called by the transport: nothing more will come."""
        self.fail(asyncio.IncompleteReadError(self._responses.partial, None))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport: its socket is closed."""
        if self.error is None:
            self.error = exc or asyncio.IncompleteReadError(self._responses.partial, None)
        self.ended.set_exception(self.error)
        self.ended.exception()

    def fail(self, error: Exception) -> None:
        """End the stream, and close the socket. The first error counts."""
        if self.error is None:
            self.error = error
            # The caller may be the transport, and that of TLS can't be aborted within its callback.
            self.ended.get_loop().call_soon(self.abort)
