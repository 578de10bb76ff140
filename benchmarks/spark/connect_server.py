"""A server of Spark Connect, whose sessions' executors are those of a cluster."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from aioproducer.testing.ports import free_ports
from aioproducer.testing.processes import ProcessSupervisor
from benchmarks.spark import sessions
from benchmarks.spark.standalone import HOST, SETTINGS

_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_TIMEOUT: Final = 120.0


@contextmanager
def connect_server(master: str, log: Path, more: Mapping[str, str] | None = None) -> Iterator[str]:
    """Its address (``sc://…``), on loopback; when this process dies, so does the server.

    Raises:
        RuntimeError: it does not start; with the end of its log.
    """
    [port] = free_ports(1, HOST)
    settings = {
        **sessions.SETTINGS,
        **SETTINGS,
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        **(more or {}),
    }
    arguments = [word for each in settings.items() for word in ("--conf", "=".join(each))]
    submit = str(sessions.INSTALLED / "bin" / "spark-submit")
    with ProcessSupervisor() as supervisor, log.open("ab") as output:
        server = supervisor.start(
            [submit, "--master", master, "--class", _SERVER, *arguments, "spark-internal"],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=sessions.environment(),
        )
        _wait(server, port, log)
        yield f"sc://{HOST}:{port}"


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            socket.create_connection((HOST, port), 1).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"no server of Spark Connect: {log.read_text(errors='replace')[-3000:]}"
                ) from None
            time.sleep(0.1)
