"""A forked child has dead sockets: what it does with its copies never reaches the parent's peer."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioproducer.testing.certificates import Authority

PATIENCE = 30.0

PARENT = """
    import asyncio, os, ssl, sys, time, warnings

    from aioproducer.engine.network.transport import leave_to_parent

    warnings.simplefilter("ignore", DeprecationWarning)
    port, authority, loop_name = int(sys.argv[1]), sys.argv[2], sys.argv[3]

    def frame(body):
        return len(body).to_bytes(4, "big") + body

    class Stream(asyncio.Protocol):
        def __init__(self, take):
            self.take, self.data = take, b""

        def connection_made(self, transport):
            self.transport = transport
            leave_to_parent(self)

        def data_received(self, data):
            self.data += data
            size = int.from_bytes(self.data[:4], "big")
            if len(self.data) >= 4 + size:
                self.take(self.data[4:])
                self.data = b""

    async def main():
        context = ssl.create_default_context(cafile=authority) if authority else None
        loop, answers = asyncio.get_running_loop(), asyncio.Queue()
        stream = Stream(answers.put_nowait)
        transport, _ = await loop.create_connection(
            lambda: stream, "127.0.0.1", port, ssl=context
        )
        transport.write(frame(b"before"))
        assert await answers.get() == b"before"
        for end in ("close", "abort", "exit"):
            child = os.fork()
            if child == 0:
                transport.write(frame(b"from the child"))
                if end != "exit":
                    getattr(transport, end)()
                sys.exit(0)
            while not (ended := os.waitpid(child, os.WNOHANG))[0]:
                await asyncio.sleep(0.01)
            assert ended[1] == 0
            transport.write(frame(end.encode()))
            assert await answers.get() == end.encode()
        child = os.fork()
        if child == 0:
            time.sleep(60)
        transport.close()  # the peer sees the end, although the child lives
        print(child, flush=True)

    if loop_name == "uvloop":
        import uvloop
        uvloop.run(main())
    else:
        asyncio.run(main())
"""


class EchoServer(threading.Thread):
    """Answers one connection with its own bytes, until that ends."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__(daemon=True)
        self.context = context
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.received = b""

    def run(self) -> None:
        connection, _ = self.listening.accept()
        if self.context is not None:
            connection = self.context.wrap_socket(connection, server_side=True)
        with connection:
            while data := connection.recv(1000):
                self.received += data
                connection.sendall(data)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(params=["plain", "tls"])
def server(request: pytest.FixtureRequest, authority: Authority) -> Iterator[EchoServer]:
    tls = request.param == "tls"
    server = EchoServer(authority.issue("127.0.0.1").server_context() if tls else None)
    server.start()
    yield server
    server.listening.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "uvloop":
        pytest.importorskip("uvloop")
    return name


def test_the_parent_has_its_connection_alone(
    server: EchoServer, authority: Authority, loop: str, tmp_path: Path
) -> None:
    """Children that end do not disturb it, and one that lives does not keep it open."""
    trusted = ""
    if server.context is not None:
        trusted = str(tmp_path / "ca.pem")
        Path(trusted).write_text(authority.pem)
    command = [sys.executable, "-c", textwrap.dedent(PARENT), str(server.port), trusted, loop]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline() or b"0")
        try:
            assert process.wait(PATIENCE) == 0
            server.join(PATIENCE)
            assert not server.is_alive()
        finally:
            if child:
                os.kill(child, signal.SIGKILL)
    bodies = (b"before", b"close", b"abort", b"exit")
    assert server.received == b"".join(bytes((0, 0, 0, len(body))) + body for body in bodies)
