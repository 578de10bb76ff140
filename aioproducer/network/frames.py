"""Requests to bytes and bytes to responses. No I/O.

On the wire every message is a 4-byte length, a header and a payload. Whatever does not fit is a
:class:`ProtocolError`: nothing after it on the connection could be trusted.
"""

from __future__ import annotations

import io
from typing import Any, Final

from kio.serial import entity_reader, entity_writer
from kio.static.protocol import RequestPayload, ResponsePayload

from aioproducer.errors import ProtocolError
from aioproducer.network.array_lengths import check_array_lengths

LENGTH_BYTES: Final = 4
MAX_RESPONSE_BYTES: Final = 100 * 1024 * 1024
"""A longer response is refused. It is what Kafka's own brokers take as a request at most."""

_TLS_ALERT: Final = 0x15
_TLS_HANDSHAKE: Final = 0x16


def encode_request(payload: RequestPayload, correlation_id: int, client_id: str) -> memoryview:
    """The frame of a request, its length in front."""
    frame = io.BytesIO()
    frame.write(bytes(LENGTH_BYTES))
    header_type: Any = payload.__header_schema__
    header = header_type(
        request_api_key=payload.__api_key__,
        request_api_version=payload.__version__,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    entity_writer(header_type)(frame, header)
    entity_writer(type(payload))(frame, payload)
    encoded = frame.getbuffer()
    encoded[:LENGTH_BYTES] = (len(encoded) - LENGTH_BYTES).to_bytes(LENGTH_BYTES, "big")
    return encoded


def response_length(prefix: bytes) -> int:
    """The length that a response's first four bytes announce. Raises :class:`ProtocolError`."""
    length = int.from_bytes(prefix, "big", signed=True)
    if LENGTH_BYTES <= length <= MAX_RESPONSE_BYTES:
        return length
    if prefix[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and prefix[1] == 3:
        raise ProtocolError(
            "the peer speaks TLS, but it was spoken to in plain text: "
            "set security_protocol to 'SSL' or 'SASL_SSL', or use the broker's plain-text port"
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


def decode_response(kind: type[ResponsePayload], body: bytes) -> ResponsePayload:
    """The response in ``body``, header included. Raises :class:`ProtocolError`."""
    try:
        _, used = entity_reader(kind.__header_schema__)(body, 0)
        check_array_lengths(kind, body, used)
        response, length = entity_reader(kind)(body, used)
    except Exception as error:
        raise ProtocolError(
            f"a {kind.__name__} (version {kind.__version__}) of {len(body)} bytes can't be "
            f"understood: {type(error).__name__}: {error}"
        ) from error
    if used + length != len(body):
        raise ProtocolError(
            f"a {kind.__name__} (version {kind.__version__}) has {len(body) - used - length} "
            "bytes left over"
        )
    return response
