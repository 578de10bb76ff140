"""The server of one application: ``python -m benchmarks.web.server MODULE``, on a free port.

The line on standard output is the port, when requests are answered.
"""

from __future__ import annotations

import argparse
import importlib
import socket
from collections.abc import Sequence

import uvicorn

_BACKLOG = 1024
_LONGEST_END = 2


class Server(uvicorn.Server):
    """Says where it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            print(sockets[0].getsockname()[1], flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web.server", description=__doc__)
    parser.add_argument("module", help="holds the application, named app")
    options = parser.parse_args(arguments)
    config = uvicorn.Config(
        importlib.import_module(options.module).app,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_LONGEST_END,
    )
    with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listening:
        Server(config).run([listening])


if __name__ == "__main__":
    main()
