"""Logins at a real broker with our mechanisms, over a blocking connection of the tests' own."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from io import BytesIO
from typing import TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v6.request import MetadataRequest
from kio.schema.metadata.v6.response import MetadataResponse
from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from aioproducer.auth.mechanism import Mechanism

_Request = SaslHandshakeRequest | SaslAuthenticateRequest | MetadataRequest
_Response = TypeVar("_Response", SaslHandshakeResponse, SaslAuthenticateResponse, MetadataResponse)


@dataclass(frozen=True)
class Login:
    """What became of a login."""

    complete: bool
    """By our side's judgement."""
    error: ErrorCode
    said: str
    brokers: int = 0
    """What the broker tells to those it lets in."""


def log_in(address: str, mechanism: Mechanism, host: str = "localhost") -> Login:
    """Drive one exchange as a connection does, and ask for the brokers after it."""
    at, _, port = address.partition(":")
    exchange = asyncio.run(mechanism.begin(host))
    with socket.create_connection((at, int(port)), 30) as connection:
        handshake = SaslHandshakeRequest(mechanism=mechanism.name)
        greeted = _ask(connection, handshake, SaslHandshakeResponse)
        if greeted.error_code is not ErrorCode.none:
            return Login(False, greeted.error_code, str(greeted.mechanisms))
        response = exchange.step(b"")
        while True:
            told = _ask(
                connection, SaslAuthenticateRequest(auth_bytes=response), SaslAuthenticateResponse
            )
            if told.error_code is not ErrorCode.none:
                return Login(exchange.complete, told.error_code, told.error_message or "")
            if exchange.complete:
                assert told.auth_bytes == b""
                break
            response = exchange.step(told.auth_bytes)
            if exchange.complete and not response:
                break
        metadata = _ask(
            connection,
            MetadataRequest(topics=(), allow_auto_topic_creation=False),
            MetadataResponse,
        )
        return Login(exchange.complete, ErrorCode.none, "", len(metadata.brokers))


def _ask(connection: socket.socket, request: _Request, response_type: type[_Response]) -> _Response:
    frame = BytesIO()
    header = RequestHeader(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=i32(0),
        client_id="aioproducer-testing",
    )
    entity_writer(RequestHeader)(frame, header)
    if isinstance(request, SaslHandshakeRequest):
        entity_writer(SaslHandshakeRequest)(frame, request)
    elif isinstance(request, SaslAuthenticateRequest):
        entity_writer(SaslAuthenticateRequest)(frame, request)
    else:
        entity_writer(MetadataRequest)(frame, request)
    payload = frame.getvalue()
    connection.sendall(len(payload).to_bytes(4, "big") + payload)
    answer = _read(connection, int.from_bytes(_read(connection, 4), "big"))
    _, header_size = entity_reader(ResponseHeader)(answer, 0)
    response, _ = entity_reader(response_type)(answer, header_size)
    return response


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        data += piece
    return data
