"""The server of one application: ``python -m benchmarks.web.server FRAMEWORK CLIENT``.

The line on standard output is a free port, when requests are answered there.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import signal
import socket
from collections.abc import Sequence

import uvicorn
import uvloop
from aiohttp import web

_BACKLOG = 1024
_LONGEST_END = 2


class Server(uvicorn.Server):
    """Says where it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            _say(sockets[0])


def _say(listening: socket.socket) -> None:
    print(listening.getsockname()[1], flush=True)


def _serve_asgi(app: object, listening: socket.socket) -> None:
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_LONGEST_END,
    )
    Server(config).run([listening])


async def _serve_aiohttp(app: web.Application, listening: socket.socket) -> None:
    """aiohttp's own server."""
    terminated = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminated.set)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_LONGEST_END)
    await runner.setup()
    await web.SockSite(runner, listening, backlog=_BACKLOG).start()
    _say(listening)
    await terminated.wait()
    await runner.cleanup()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web.server", description=__doc__)
    parser.add_argument("framework", help="a module of benchmarks.web.apps")
    parser.add_argument("client", help="a module of benchmarks.web.clients")
    options = parser.parse_args(arguments)
    client = importlib.import_module(f"benchmarks.web.clients.{options.client}")
    framework = importlib.import_module(f"benchmarks.web.apps.{options.framework}")
    app = framework.make_app(client.connect)
    with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listening:
        if isinstance(app, web.Application):
            uvloop.run(_serve_aiohttp(app, listening))
        else:
            _serve_asgi(app, listening)


if __name__ == "__main__":
    main()
