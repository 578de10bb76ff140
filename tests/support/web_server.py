"""The applications of ``examples/web``, each under its server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from aioproducer.testing.ports import free_ports
from aioproducer.testing.processes import ProcessSupervisor
from tests.support.waiting import PATIENCE, until

FOLDER: Final = Path(__file__).parents[2] / "examples" / "web"
GRACE: Final = 10
"""Seconds from SIGTERM to the end of the process, at most: the grace of the examples with their
``close()``."""


def _uvicorn(app: str) -> list[str]:
    return [
        *("-m", "uvicorn", f"{app}:app", "--app-dir", str(FOLDER)),
        *("--loop", "uvloop", "--http", "httptools", "--no-access-log"),
        *("--timeout-graceful-shutdown", "8", "--port"),
    ]


SERVERS: Final[Mapping[str, Sequence[str]]] = {
    "fastapi": _uvicorn("fastapi_app"),
    "litestar": _uvicorn("litestar_app"),
    "django": _uvicorn("django_app"),
    "aiohttp": [str(FOLDER / "aiohttp_app.py")],
    "aiohttp-gunicorn": [
        *("-m", "gunicorn", "aiohttp_app:make_app", "--chdir", str(FOLDER)),
        *("--worker-class", "aiohttp.GunicornUVLoopWebWorker", "--workers", "1"),
        *("--graceful-timeout", "10", "--bind"),
    ],
}
"""Python's arguments by server; the port, or the address to bind, is the last one."""
CONSUMING: Final = "consuming"
"""The application that consumes; it has other paths than those of :data:`SERVERS`."""
_ALL: Final = {**SERVERS, CONSUMING: _uvicorn("consuming_app")}


@dataclass(frozen=True, slots=True)
class WebServer:
    """A running server."""

    url: str
    log: Path
    _process: subprocess.Popen[bytes]
    _supervisor: ProcessSupervisor

    def terminate(self) -> float:
        """Send SIGTERM; returns the time."""
        self._process.terminate()
        return time.monotonic()

    @property
    def has_ended(self) -> bool:
        """True once the process has ended."""
        return self._process.poll() is not None


@asynccontextmanager
async def serve(
    name: str, bootstrap_servers: str, log: Path, **environment: str
) -> AsyncIterator[WebServer]:
    """The application ``name`` of :data:`SERVERS`, or :data:`CONSUMING`, ready for requests.

    Its log has no traceback at the end.
    """
    [port] = free_ports(1)
    last = f"127.0.0.1:{port}" if name == "aiohttp-gunicorn" else str(port)
    arguments = [*_ALL[name]] if name == "aiohttp" else [*_ALL[name], last]
    with ProcessSupervisor() as supervisor, log.open("wb") as output:
        process = supervisor.start(
            [sys.executable, *arguments],
            env={
                **os.environ,
                "BOOTSTRAP_SERVERS": bootstrap_servers,
                "PORT": str(port),
                **environment,
            },
            stdout=output,
            stderr=output,
        )
        server = WebServer(f"http://127.0.0.1:{port}", log, process, supervisor)
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:

            async def answers() -> bool:
                assert not server.has_ended, log.read_text()
                try:
                    return (await client.get(f"{server.url}/health")).is_success
                except httpx.TransportError:
                    return False

            await until(answers, f"{name} answers", PATIENCE)
        yield server
        if not server.has_ended:
            supervisor.stop(process, PATIENCE)
    assert "Traceback" not in log.read_text(), log.read_text()
