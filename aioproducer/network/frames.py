"""Requests to bytes and bytes to responses. No I/O.

On the wire every message is a 4-byte length, a header and a payload. Whatever does not fit is a
:class:`ProtocolError`: nothing after it on the connection could be trusted.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from kio.serial import entity_reader, entity_writer
from kio.serial.readers import Reader
from kio.static.primitive import i32
from kio.static.protocol import RequestPayload, ResponsePayload

from aioproducer.errors import ProtocolError
from aioproducer.network.apis import Api
from aioproducer.network.kio_guards import (
    walk,
    walk_header,
    with_numbers,
    without_unknown_fields,
)

LENGTH_BYTES: Final = 4
MAX_RESPONSE_BYTES: Final = 100 * 1024 * 1024
"""A longer response is refused. It is what Kafka's own brokers take as a request at most."""

_MOST_SUBSCRIPTION_BYTES: Final = 1024 * 1024
"""The longest response with a telemetry subscription. A longer one would list more metrics than any
client has, and the event loop would wait for its decoder."""

_CORRELATION_ID_OFFSET: Final = 4
_CORRELATION_ID_BYTES: Final = 4
_TLS_ALERT: Final = 0x15
_TLS_HANDSHAKE: Final = 0x16


Buffer: TypeAlias = bytes | bytearray | memoryview

_SMALL: Final = 4096
"""Bytes of a piece that is joined with the one before."""
_COPIED_BELOW: Final = 16 * 1024
"""Bytes up to which a part is cheaper to copy than to hand to the socket as a piece of its own."""


class UsualResponse(NamedTuple):
    """A response that was read straight from its bytes."""

    result: Any
    """As :meth:`Request.read` returns it."""
    pause: float
    """The pause that the broker asks for, in seconds."""


class EncodedPayload(NamedTuple):
    """A request that is encoded already, in parts that are one after another on the wire."""

    kind: type[RequestPayload]
    parts: Sequence[Buffer]
    read_usual: Callable[[bytes], UsualResponse | None] | None = None
    """Reads the usual response, header included; None for one that is not as usual. Pure."""


def encode(entity: Any) -> bytes:
    """An entity of kio's as it is on the wire."""
    wire = io.BytesIO()
    entity_writer(type(entity))(wire, entity)
    return wire.getvalue()


class Frame(NamedTuple):
    """A request on the wire, in a few pieces; the large parts are not copied."""

    pieces: Sequence[Buffer]
    size: int
    """Bytes, with the length in front."""


def encode_request(payload: EncodedPayload, correlation_id: int, client_id: str) -> Frame:
    """The frame of a request."""
    before, after = _header(payload.kind, client_id)
    number = correlation_id.to_bytes(_CORRELATION_ID_BYTES, "big")
    size = len(before) + len(number) + len(after) + sum(map(len, payload.parts))
    parts = (size.to_bytes(LENGTH_BYTES, "big"), before, number, after, *payload.parts)
    pieces = [b"".join(parts)] if size < _COPIED_BELOW else _joined(parts)
    return Frame(pieces, LENGTH_BYTES + size)


def _joined(parts: Iterable[Buffer]) -> Sequence[Buffer]:
    """``parts`` in fewer pieces."""
    pieces: list[Buffer] = []
    small: list[Buffer] = []
    for part in parts:
        if len(part) < _COPIED_BELOW:
            small.append(part)
            continue
        pieces += (b"".join(small), part)
        small.clear()
    if small:
        pieces.append(b"".join(small))
    return pieces


@lru_cache(maxsize=256)
def _header(kind: Any, client_id: str) -> tuple[bytes, bytes]:
    """A request's header before and after its correlation id, which no version has elsewhere."""
    header = encode(
        kind.__header_schema__(
            request_api_key=kind.__api_key__,
            request_api_version=kind.__version__,
            correlation_id=i32(0),
            client_id=client_id,
        )
    )
    after = _CORRELATION_ID_OFFSET + _CORRELATION_ID_BYTES
    return header[:_CORRELATION_ID_OFFSET], header[after:]


class ResponseCutter:
    """Cuts what arrives into responses, however it comes in pieces."""

    def __init__(self) -> None:
        self._data = b""
        self._start = 0
        self._length: int | None = None
        """The length of the response that begins at the start; None: its prefix is there."""
        self._held: list[bytes] = []
        """The pieces of a response that is not whole."""
        self._held_size = 0
        self._wanted = 0

    @property
    def partial(self) -> bytes:
        """The bytes of a response that is not whole yet."""
        prefix = b"" if self._length is None else self._length.to_bytes(LENGTH_BYTES, "big")
        return prefix + b"".join(self._held)

    def feed(self, data: bytes) -> None:
        """``data`` has come; what came before has been taken."""
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
        self._data = b""
        self._start = 0
        return None

    def _hold(self, data: bytes) -> None:
        """Keep a piece. Small ones are joined, or each byte of a slow peer would be an object."""
        self._held_size += len(data)
        if self._held and len(data) < _SMALL and len(self._held[-1]) < _SMALL:
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


def correlation_id(body: bytes) -> int:
    """The number of the request that a response belongs to; ``body`` has at least four bytes."""
    return int.from_bytes(body[:4], "big", signed=True)


class Decoded(NamedTuple):
    """A response, and how many bytes came behind it that mean nothing here."""

    response: ResponsePayload
    left_over: int


def decode_response(kind: type[ResponsePayload], body: bytes) -> Decoded:
    """The response in ``body``, which begins with its header. Raises :class:`ProtocolError`.

    An error code that kio does not know stays a number, and so do the times of a response that has
    one out of a ``timedelta``'s range. Tagged fields that kio does not know are
    skipped (KIP-482), and so is what stands behind the response, as every other client does:
    librdkafka's mock cluster ends Metadata from version 9 on with a stray byte.
    """
    if len(body) > _MOST_SUBSCRIPTION_BYTES:
        _refuse_subscription(kind, body)
    try:
        used = walk_header(kind.__header_schema__, body)
        edits = walk(kind, body, used)
        if edits:
            body = without_unknown_fields(body, edits)
        response, length = _decode(kind, body, used)
    except Exception as error:
        raise ProtocolError(
            f"a {kind.__name__} (version {kind.__version__}) of {len(body)} bytes can't be "
            f"understood: {type(error).__name__}: {error}"
        ) from error
    return Decoded(response, len(body) - used - length)


def _refuse_subscription(kind: type[ResponsePayload], body: bytes) -> None:
    if int(kind.__api_key__) == Api.GET_TELEMETRY_SUBSCRIPTIONS:
        raise ProtocolError(f"a telemetry subscription of {len(body)} bytes is refused")


def _decode(kind: type[ResponsePayload], body: bytes, used: int) -> tuple[Any, int]:
    try:
        return _reader(kind)(body, used)
    except (ValueError, OverflowError):
        pass
    try:
        return entity_reader(with_numbers(kind))(body, used)
    except (ValueError, OverflowError):
        return entity_reader(with_numbers(kind, times=True))(body, used)


_T = TypeVar("_T")


def read_response(response: ResponsePayload, read: Callable[[Any], _T]) -> _T:
    """The value that ``read`` makes of a response. Whatever it raises is a :class:`ProtocolError`.

    It reads the response to its end before anybody acts on it, so an answer that is wrong in some
    part has no effect at all.
    """
    try:
        return read(response)
    except ProtocolError:
        raise
    except Exception as error:
        kind = type(response)
        raise ProtocolError(
            f"a {kind.__name__} (version {kind.__version__}) has impossible values: {error}"
        ) from error


@cache
def _reader(kind: type[ResponsePayload]) -> Reader[ResponsePayload]:
    return entity_reader(kind)
