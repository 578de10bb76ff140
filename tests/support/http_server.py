"""An HTTP server on loopback that answers as it is told, byte by byte."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPMessage, parse_headers, responses
from typing import Any, BinaryIO, TypeAlias
from urllib.parse import parse_qsl


@dataclass
class Request:
    line: str
    headers: HTTPMessage
    body: bytes

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=True))

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Reply: TypeAlias = bytes | Callable[[Request, socket.socket], "Reply"] | None
"""All bytes of an answer, or what returns them or writes them itself."""


@dataclass
class Server:
    """Gives the answers of its script in their order, and the last one again and again."""

    script: list[Reply]
    url: str
    requests: list[Request] = field(default_factory=list)
    connections: list[socket.socket] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.url.partition("//")[2]

    @property
    def token_url(self) -> str:
        return f"{self.url}/realms/x/token"

    def authorizations(self) -> list[str | None]:
        return [each.headers["Authorization"] for each in self.requests]

    def serve(self, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
        with suppress(OSError):
            wire = tls.wrap_socket(connection, server_side=True) if tls else connection
            self.connections.append(wire)
            with wire, wire.makefile("rb") as stream:
                while (request := _read(stream)) and self._answered(request, wire):
                    pass

    def _answered(self, request: Request, wire: socket.socket) -> bool:
        """True if the client knows where the answer ends: the connection stays open."""
        self.requests.append(request)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        while callable(answer):
            answer = answer(request, wire)
        if answer is None:
            return False
        wire.sendall(answer)
        head, _, body = answer.partition(b"\r\n\r\n")
        return b"Content-Length: %d\r\n" % len(body) in head + b"\r\n"


def answer(status: int, body: object = b"", **headers: str) -> bytes:
    """An answer with ``body``, as JSON unless it is bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"Content-Length": str(len(content))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} {responses[status]}\r\n{head}\r\n".encode() + content


def silence(_: Request, wire: socket.socket) -> None:
    """Say nothing until the client leaves."""
    wire.recv(1)


def trickling(
    begin: bytes, piece: bytes, pause: float = 0.005
) -> Callable[[object, socket.socket], None]:
    """Say ``begin``, and ``piece`` again and again, until the client leaves."""

    def trickle(_: object, wire: socket.socket) -> None:
        wire.sendall(begin)
        while True:
            wire.sendall(piece)
            time.sleep(pause)

    return trickle


def passed_on(request: Request, target: str) -> bytes:
    """The answer of the token endpoint ``target``."""
    names = ("Authorization", "Content-Type", "Accept")
    headers = {name: request.headers[name] for name in names if name in request.headers}
    asked = urllib.request.Request(target, request.body, headers)
    try:
        with urllib.request.urlopen(asked, timeout=30) as said:
            return answer(said.status, said.read(), Content_Type="application/json")
    except urllib.error.HTTPError as error:
        return answer(error.code, error.read(), Content_Type="application/json")


@contextmanager
def serving(*script: Reply, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A running server, with a thread for each connection; its end cuts those that are open."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    scheme, port = "https" if tls else "http", listener.getsockname()[1]
    server = Server(list(script), f"{scheme}://127.0.0.1:{port}")

    def accept() -> None:
        with suppress(OSError):
            while True:
                arguments = listener.accept()[0], tls
                threading.Thread(target=server.serve, args=arguments, daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
        for wire in server.connections:
            with suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)


def _read(stream: BinaryIO) -> Request | None:
    """The next request; None: the client left."""
    line = stream.readline().decode("latin-1").rstrip()
    if not line:
        return None
    headers = parse_headers(stream)
    return Request(line, headers, stream.read(int(headers["Content-Length"] or 0)))
