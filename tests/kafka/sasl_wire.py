"""Logins at a real broker with our mechanisms, over a blocking connection of the tests' own."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from typing import Any

from aioproducer.auth.mechanism import Mechanism
from aioproducer.engine.network.frames import (
    decode_response,
    encode_request,
    encoded,
    request_form,
)
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors.broker import ErrorCode

VERSIONS = {Api.SASL_HANDSHAKE: 1, Api.SASL_AUTHENTICATE: 1, Api.METADATA: 6}


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
        greeted = _ask(connection, Api.SASL_HANDSHAKE, mechanism=mechanism.name)
        if greeted.error_code:
            return Login(False, ErrorCode(greeted.error_code), str(greeted.mechanisms))
        response = exchange.step(b"")
        while True:
            told = _ask(connection, Api.SASL_AUTHENTICATE, auth_bytes=response)
            if told.error_code:
                code = ErrorCode(told.error_code)
                return Login(exchange.complete, code, told.error_message or "")
            if exchange.complete:
                assert told.auth_bytes == b""
                break
            response = exchange.step(told.auth_bytes)
            if exchange.complete and not response:
                break
        metadata = _ask(connection, Api.METADATA, topics=(), allow_auto_topic_creation=False)
        return Login(exchange.complete, ErrorCode.NONE, "", len(metadata.brokers))


def _ask(connection: socket.socket, api: Api, **fields: Any) -> Any:
    version = VERSIONS[api]
    payload = encoded(api, version, request_schema(api).of(fields, version))
    form = request_form(api, version, "aioproducer-testing")
    connection.sendall(b"".join(encode_request(payload.parts, 0, form)[0]))
    answer = _read(connection, int.from_bytes(_read(connection, 4), "big"))
    return decode_response(api, version, answer).response


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        data += piece
    return data
