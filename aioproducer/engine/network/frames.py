"""Requests to bytes, the requests in flight, and bytes to responses. No I/O.

On the wire every message is a 4-byte length, a header and a payload. Anything invalid is a
:class:`ProtocolError`: nothing after it on the connection could be trusted.

:class:`InFlightRequests` has the requests without their response yet, or not yet written if they
get none (``acks=0``), and finds the request that a correlation id belongs to. ``Exchange.takes``
keeps their number within the limit.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from aioproducer.engine.protocol import Api, request_schema, response_schema
from aioproducer.engine.protocol.codec import skip_tags, text
from aioproducer.engine.records.builder import Buffer
from aioproducer.errors import ProtocolError
from aioproducer.foundation import tuning

if TYPE_CHECKING:
    from aioproducer.errors import ProducerError
    from aioproducer.model import NodeId


LENGTH_BYTES: Final = 4
leading_number: Final = struct.Struct(">i").unpack_from
"""A tuple of the first number: the length of what follows it, or a correlation id."""
MAX_RESPONSE_BYTES: Final = 100 * 1024 * 1024
"""A longer response is refused. It is what Kafka's own brokers take as a request at most."""

MAX_DECODED_AT_ONCE: Final = 64 * 1024
"""Bytes of a response that is decoded in one turn of the event loop: up to 10,000 elements."""

_MAX_OWN_BYTES: Final = 256 * 1024
"""Before a login the peer may be anybody, so its responses are short. Those of Kerberos have up to
64 KiB."""

_MOST_SUBSCRIPTION_BYTES: Final = 1024 * 1024
"""The longest response with a telemetry subscription. A longer one would list more metrics than any
client has, and the event loop would wait for its decoder."""

MAX_THROTTLE: Final = 11.0
"""Seconds; the longest pause that the client keeps.

A broker measures a quota over ``quota.window.num`` windows of ``quota.window.size.seconds``, 11 of
1 s by default. After that time it has forgotten the excess, so a longer pause serves nobody; and a
damaged response could ask for 24 days. If a broker really reads nothing for longer, the next
request waits, and ``request_timeout_ms`` bounds that.
"""

_CORRELATION_ID_BYTES: Final = 4
_START: Final = struct.Struct(">i4si")
"""The length of a request, its API key and version, its correlation id."""
_TLS_ALERT: Final = 0x15
_TLS_HANDSHAKE: Final = 0x16


_NO_PART: Final = memoryview(b"")


UsualResponse: TypeAlias = tuple[Any, float]
"""A response that was read straight from its bytes: the value as :meth:`Request.read` returns it,
and the seconds of the pause that the broker asks for."""


class EncodedPayload:
    """A request in one version, in parts that are one after another on the wire.

    ``read_usual`` reads the usual response, header included; it returns None for one that is not as
    usual. Pure.
    """

    __slots__ = ("api", "parts", "read_usual", "version")

    def __init__(
        self,
        api: Api,
        version: int,
        parts: Sequence[Buffer],
        read_usual: Callable[[bytes], UsualResponse | None] | None = None,
    ) -> None:
        self.api = api
        self.version = version
        self.parts = parts
        self.read_usual = read_usual


def encoded(api: Api, version: int, request: Any) -> EncodedPayload:
    """The payload of a request, a message of :func:`request_schema`."""
    return EncodedPayload(api, version, (request_schema(api).encode(request, version),))


class RequestForm:
    """The part that is the same in all requests of one API and version by one client.

    Source: Kafka's ``RequestHeader``, whose text is never compact.
    """

    __slots__ = ("api", "head", "label", "size", "tail", "version")

    def __init__(self, api: Api, version: int, client_id: str) -> None:
        self.api = api
        self.version = version
        self.head: bytes = struct.pack(">hh", api, version)
        """The header before the correlation id."""
        tags = b"\0" if request_schema(api).flexible(version) else b""
        self.tail: bytes = text(client_id, flexible=False) + tags
        """The header after it."""
        self.size: int = len(self.head) + _CORRELATION_ID_BYTES + len(self.tail)
        """Bytes of the header."""
        self.label: str = f"{api.name} v{version}"
        """Its name in messages, such as ``PRODUCE v13``."""


request_form = lru_cache(maxsize=256)(RequestForm)
"""The form of the requests of an API, in a version, by a client with an id."""


def encode_request(
    parts: Sequence[Buffer], correlation_id: int, form: RequestForm
) -> tuple[Sequence[Buffer], int]:
    """The frame of a request in a few pieces, and its bytes; large parts are not copied."""
    size: int = form.size + sum(map(len, parts))
    pieces = (_START.pack(size, form.head, correlation_id), form.tail, *parts)
    joined = [b"".join(pieces)] if size < tuning.PARTS_COPIED_BELOW else _joined(pieces)
    return joined, LENGTH_BYTES + size


def _joined(parts: Iterable[Buffer]) -> Sequence[Buffer]:
    """``parts`` in fewer pieces."""
    pieces: list[Buffer] = []
    small: list[Buffer] = []
    for part in parts:
        if len(part) < tuning.PARTS_COPIED_BELOW:
            small.append(part)
            continue
        pieces += (b"".join(small), part)
        small.clear()
    if small:
        pieces.append(b"".join(small))
    return pieces


class ResponseCutter:
    """Cuts what arrives into responses, however it comes in pieces.

    The transport writes into :attr:`place`. Usual responses are short, and share one place. The
    rest of a large one has places of its own, so its bytes are copied once, when it is whole.
    """

    def __init__(self) -> None:
        self._shared = memoryview(bytearray(tuning.BYTES_PER_READ))
        self.place = self._shared
        """The memory for what comes next."""
        self.is_large = False
        """True if that is a part of a large response, for :meth:`fill`; else for :meth:`feed`."""
        self._part = _NO_PART
        """The whole of that part."""
        self._kept = bytearray()
        """The memory for the first parts of large responses: new memory costs more than a copy."""
        self._data: bytes = b""
        self._start = 0
        self._length: int | None = None
        """The length of the response that begins at the start; None: its prefix is there."""
        self._held: list[Any] = []
        """The pieces of a response that is not whole."""
        self._held_size = 0
        self._wanted = 0
        self.is_between = True
        """True if no part of a response is held: the next piece begins with a response."""

    @property
    def partial(self) -> bytes:
        """The bytes of a response that is not whole yet."""
        prefix = b"" if self._length is None else self._length.to_bytes(LENGTH_BYTES, "big")
        filled = len(self._part) - len(self.place) if self.is_large else 0
        return prefix + b"".join(self._held) + self._part[:filled]

    @property
    def announced(self) -> int:
        """The length of a response of which some bytes are still to come; 0: there is none."""
        return 0 if self._length is None else self._length

    def fill(self, size: int) -> bytes | None:
        """``size`` bytes of a large response are in :attr:`place`; returns it once it is whole."""
        self._held_size += size
        self.place = self.place[size:]
        if self.place:
            return None
        self._held.append(self._part)
        rest = self._wanted - self._held_size
        if rest:
            self._take_place(rest)
            return None
        whole = b"".join(self._held)
        self._held.clear()
        self._held_size = self._wanted = 0
        self._length = None
        self._part = _NO_PART
        self.place, self.is_large = self._shared, False
        self.is_between = True
        return whole

    def _take_place(self, rest: int) -> None:
        size = min(rest, tuning.RESPONSE_PLACE)
        if self.is_large:
            memory = bytearray(size)
        else:
            if len(self._kept) < size:
                self._kept = bytearray(size)
            memory = self._kept
        self._part = self.place = memoryview(memory)[:size]
        self.is_large = True

    def feed(self, data: bytes) -> None:
        """``data`` has come."""
        if self._start < len(self._data):  # not taken yet
            data = self._data[self._start :] + data
        if self._held:
            self._hold(data)
            if self._held_size < self._wanted:
                return
            data = b"".join(self._held)
            self._held.clear()
            self._held_size = 0
        self._data = data
        self._start = 0

    def take(self) -> bytes | None:
        """The next whole response without its length; None: more has to come.

        Raises :class:`ProtocolError` for a length that can't be.
        """
        data, start, length = self._data, self._start, self._length
        wanted = LENGTH_BYTES
        if length is None and start + LENGTH_BYTES <= len(data):
            length = response_length(data[start : start + LENGTH_BYTES])
            start += LENGTH_BYTES
        if length is not None:
            wanted = length
            if start + length <= len(data):
                self._start = start + length
                self._length = None
                return data[start : start + length]  # no copy, if these are all bytes
        self._length = length
        if start < len(data) or length is not None:
            self._hold(data[start:])
            self._wanted = wanted
        self.is_between = not self._held
        self._data = b""
        self._start = 0
        rest = wanted - self._held_size
        if self._held and rest > tuning.BYTES_PER_READ:
            self._take_place(rest)
        return None

    def _hold(self, data: bytes) -> None:
        """Keep a piece. Small ones are joined, or each byte of a slow peer would be an object."""
        self._held_size += len(data)
        if (
            self._held
            and len(data) < tuning.PIECES_JOINED_BELOW
            and len(self._held[-1]) < tuning.PIECES_JOINED_BELOW
        ):
            self._held[-1] += data
        else:
            self._held.append(data)


def response_length(prefix: bytes) -> int:
    """The length that a response's first four bytes announce. Raises :class:`ProtocolError`."""
    length = int.from_bytes(prefix, "big", signed=True)
    if LENGTH_BYTES <= length <= MAX_RESPONSE_BYTES:
        return length
    if prefix[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and prefix[1] == 3:
        raise ProtocolError(
            "the peer speaks TLS, but the client sent plain text: set "
            "security_protocol to 'SSL' or 'SASL_SSL', or use the broker's "
            "plain-text port"
        )
    if prefix == b"HTTP":
        raise ProtocolError("the peer is an HTTP server, not a Kafka broker: check the port")
    raise ProtocolError(
        f"the peer announced a response of {length} bytes (first bytes {prefix!r}); from "
        f"{LENGTH_BYTES} to {MAX_RESPONSE_BYTES} are possible. Is it a Kafka broker?"
    )


class Decoded(NamedTuple):
    """A response, and the number of unknown bytes after it."""

    response: Any
    left_over: int


def check_own_response(length: int, api: Api | None) -> None:
    """Raise :class:`ProtocolError` for so long a response to a request of a connection's own, about
    versions, a login or the cluster; None: to no request at all."""
    listed = api in (Api.API_VERSIONS, Api.SASL_HANDSHAKE)
    most = MAX_DECODED_AT_ONCE if listed else _MAX_OWN_BYTES
    if length > most:
        what = "no request" if api is None else f"a request of {api.name}"
        raise ProtocolError(
            f"the peer announced a response of {length} bytes to {what}, and at most {most} bytes "
            "are read. Is it a Kafka broker? Check its address and port"
        )


def decode_response(api: Api, version: int, body: bytes) -> Decoded:
    """The response in ``body``, which begins with its header. Raises :class:`ProtocolError`.

    Error codes are numbers. Tagged fields that are not known are skipped (KIP-482), and so are
    bytes after the response, as every other client does: librdkafka's mock cluster ends Metadata
    from version 9 on with a stray byte.
    """
    schema = response_schema(api)
    try:
        response, end = schema.decode(body, response_start(api, version, body), version)
    except Exception as error:
        raise undecodable(api, version, body, error) from error
    return Decoded(response, left_over(api, version, body, end))


def left_over(api: Api, version: int, body: bytes, end: int) -> int:
    """The bytes after a response's end. Raises :class:`ProtocolError` if there is no such end."""
    if end > len(body):
        raise undecodable(api, version, body, EOFError(f"its last field ends at byte {end}"))
    return len(body) - end


def response_start(api: Api, version: int, body: bytes) -> int:
    """The offset after the header. An ApiVersions response never has tags there (KIP-511).

    Raises :class:`ProtocolError` for a response that is too long for its API.
    """
    if len(body) > _MOST_SUBSCRIPTION_BYTES and api is Api.GET_TELEMETRY_SUBSCRIPTIONS:
        raise ProtocolError(f"a telemetry subscription of {len(body)} bytes is refused")
    if api is Api.API_VERSIONS or not response_schema(api).flexible(version):
        return _CORRELATION_ID_BYTES
    return skip_tags(body, _CORRELATION_ID_BYTES)


def undecodable(api: Api, version: int, body: bytes, error: Exception) -> ProtocolError:
    """The error for a response that is no such message."""
    return ProtocolError(
        f"a {response_schema(api).name} (version {version}) of {len(body)} bytes can't be "
        f"understood: {type(error).__name__}: {error}"
    )


_T = TypeVar("_T")


def read_response(response: Any, read: Callable[[Any], _T]) -> _T:
    """The value that ``read`` makes of a response. It only raises :class:`ProtocolError`.

    It reads the response to its end before anybody acts on it, so an answer that is wrong in some
    part has no effect at all.
    """
    try:
        return read(response)
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(
            f"a {type(response).__name__} has impossible values: {error}"
        ) from error


def throttle_seconds(response: Any) -> float | None:
    """The pause that a response asks for by the broker's quota (KIP-219), within bounds.

    None: its version has no such field. ``NetworkClient._on_response`` gives the pause to the
    connection, and ``Exchange.takes`` refuses requests until it is over.
    """
    milliseconds: int | None = getattr(response, "throttle_time_ms", None)
    if not milliseconds:
        return None if milliseconds is None else 0.0
    return min(max(milliseconds / 1000, 0.0), MAX_THROTTLE)


class Completion:
    """The end of a request: a result or an error.

    ``result``: the value of the response by :meth:`Request.read`; None: there is no response.
    ``latency``: seconds from sending to the response.
    """

    __slots__ = ("error", "latency", "node", "request", "result")

    def __init__(
        self,
        request: Any,
        node: NodeId,
        result: Any,
        error: ProducerError | None,
        latency: float,
    ) -> None:
        self.request = request
        self.node = node
        self.result = result
        self.error = error
        self.latency = latency


class InFlightRequest(Completion):
    """One request on the wire, until it is the completion of itself. Times are clock seconds.

    ``read_usual``: see :class:`~aioproducer.engine.network.frames.EncodedPayload`.
    """

    __slots__ = ("answered", "correlation_id", "form", "read_usual", "sent")

    def __init__(
        self,
        request: Any,
        node: NodeId,
        correlation_id: int,
        form: RequestForm,
        sent: float,
        read_usual: Callable[[bytes], UsualResponse | None] | None = None,
        answered: bool = True,
    ) -> None:
        self.request = request  # without a call of the base class: each request costs it
        self.node = node
        self.result = self.error = None
        self.latency = 0.0
        self.correlation_id = correlation_id
        self.form = form
        self.sent = sent
        self.read_usual = read_usual
        self.answered = answered
        """False: there is no response (``acks=0``)."""


class InFlightRequests(deque[InFlightRequest]):
    """The requests of one connection, in the order in which they were sent.

    Kafka answers them in order, so the next response belongs to the first one; any thread may ask
    for their number, which ``Exchange.takes`` limits.
    """

    def take_written(self) -> list[InFlightRequest]:
        """All bytes are written to the socket: take the requests that get no response."""
        written = [each for each in self if not each.answered]
        if written:
            waiting = [each for each in self if each.answered]
            self.clear()
            self.extend(waiting)
        return written

    def take(self, correlation_id: int) -> InFlightRequest:
        """Take the next request. Raises :class:`ProtocolError` if another one was answered."""
        waiting = ((at, each) for at, each in enumerate(self) if each.answered)
        at, expected = next(waiting, (0, None))
        if expected is None:
            raise ProtocolError(
                f"a response has correlation id {correlation_id}, but no request waits"
            )
        if correlation_id != expected.correlation_id:
            raise ProtocolError(
                f"a response has correlation id {correlation_id}, "
                f"but {expected.correlation_id} was next"
            )
        del self[at]
        return expected

    def awaited(self) -> tuple[Api | None, bool]:
        """The API of the next response, None if there is none; True: no caller waits for it."""
        for each in self:
            if each.answered:
                return each.form.api, each.request is None
        return None, True

    def take_all(self) -> list[InFlightRequest]:
        """Take all requests: the connection ended."""
        requests = list(self)
        self.clear()
        return requests
