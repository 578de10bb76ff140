"""Requests from bytes and responses to bytes, by the tables of :mod:`aioproducer.engine.protocol`.

A handler reads the attributes of a request, and returns the fields of its response as a mapping.
The mapping may name fields that only other versions of the response have; a field that no version
has is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from aioproducer.engine.network.frames import decode_response, request_form
from aioproducer.engine.protocol import Api, request_schema, response_schema
from aioproducer.engine.protocol.codec import skip_tags

Fields: TypeAlias = Mapping[str, Any]

SIZE_BYTES: Final = 4
THROTTLE: Final = "throttle_time_ms"
_HEADER_BYTES: Final = 8
_CLIENT_ID: Final = 10
"""The offset of the client's id, after its length."""


class UnreadableRequestError(ValueError):
    """The bytes are no request that this model answers; a broker closes the connection."""


class Request(NamedTuple):
    """A request of a client."""

    api: int
    version: int
    correlation_id: int
    client_id: str | None
    body: Any
    """A message; :mod:`aioproducer.engine.protocol` says which attributes it has."""


def header_of(frame: bytes) -> tuple[int, int, int]:
    """The API key, the version and the correlation id of the request in ``frame``."""
    if len(frame) < _HEADER_BYTES:
        raise UnreadableRequestError(f"a request of {len(frame)} bytes has no header")
    return (
        int.from_bytes(frame[0:2], "big", signed=True),
        int.from_bytes(frame[2:4], "big", signed=True),
        int.from_bytes(frame[4:8], "big", signed=True),
    )


def read_request(frame: bytes) -> Request:
    """The request in ``frame``, without the size in front. Raises UnreadableRequestError."""
    api, version, correlation_id = header_of(frame)
    try:
        schema = request_schema(Api(api))
        size = int.from_bytes(frame[_HEADER_BYTES:_CLIENT_ID], "big", signed=True)
        begin = _CLIENT_ID + max(size, 0)
        client_id = None if size < 0 else frame[_CLIENT_ID:begin].decode()
        if schema.flexible(version):
            begin = skip_tags(frame, begin)
        body, _ = schema.decode(frame, begin, version)
    except Exception as error:
        raise UnreadableRequestError(f"request {api} of version {version}: {error!r}") from error
    return Request(api, version, correlation_id, client_id, body)


def write_response(
    api: int, version: int, correlation_id: int, values: Fields, *, throttle_ms: int = 0
) -> bytes:
    """The frame of a response, its size in front."""
    schema = response_schema(Api(api))
    if THROTTLE in schema.root.kind._fields:
        values = {THROTTLE: throttle_ms, **values}
    tags = b"\0" if schema.flexible(version) and api != Api.API_VERSIONS else b""
    payload = schema.encode(schema.of(values, version), version)
    return _framed(correlation_id.to_bytes(4, "big") + tags + payload)


def write_request(
    api: int, version: int, correlation_id: int, client_id: str, values: Fields
) -> bytes:
    """The frame of a request, its size in front: the counterpart for scripted conversations."""
    schema = request_schema(Api(api))
    form = request_form(Api(api), version, client_id)
    payload = schema.encode(schema.of(values, version), version)
    return _framed(form.head + correlation_id.to_bytes(4, "big") + form.tail + payload)


def read_response(api: int, version: int, frame: bytes) -> tuple[int, Any]:
    """The correlation id and the body of the response in ``frame``, without the size in front."""
    body = decode_response(Api(api), version, frame).response
    return int.from_bytes(frame[:4], "big"), body


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(SIZE_BYTES, "big") + content
