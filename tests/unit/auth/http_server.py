"""A tiny HTTP server on loopback that answers as it is told, byte by byte."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

Script = Callable[[socket.socket], None]


@dataclass
class Request:
    head: str
    body: str

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body, keep_blank_values=True, strict_parsing=True))

    def header(self, name: str) -> str | None:
        for line in self.head.split("\r\n")[1:]:
            found, _, value = line.partition(":")
            if found.lower() == name.lower():
                return value.strip()
        return None


@dataclass
class Server:
    port: int
    script: Script
    requests: list[Request] = field(default_factory=list)
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/realms/x/token"


def answer(status: int, body: bytes | object = b"", **headers: str) -> Script:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"Content-Length": str(len(content)), "Connection": "close"}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())

    def send(connection: socket.socket) -> None:
        connection.sendall(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + content)

    return send


def raw(*pieces: bytes) -> Script:
    def send(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return send


@contextlib.contextmanager
def serving(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serves one connection after the other; the client's end of one may come at any byte."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(listener.getsockname()[1], script, scheme="https" if tls else "http")

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                wire = tls.wrap_socket(connection, server_side=True) if tls else connection
                with wire:
                    server.requests.append(_read(wire))
                    server.script(wire)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def _read(connection: socket.socket) -> Request:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    request = Request(head.decode(), "")
    while len(body) < int(request.header("Content-Length") or 0):
        body += _some(connection)
    request.body = body.decode()
    return request


def _some(connection: socket.socket) -> bytes:
    if not (data := connection.recv(65536)):
        raise ConnectionError("the client left")
    return data
