"""The registry that tests start: it listens on loopback, forgets when killed, and ends with us."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from aioproducer.testing import SchemaRegistryServer
from aioproducer.testing.kafka_distribution import KafkaUnavailableError
from tests.support.schema_registry import started

pytestmark = pytest.mark.registry


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with started() as own:
        yield own


def subjects(server: SchemaRegistryServer) -> Any:
    with urllib.request.urlopen(f"{server.url}/subjects", timeout=30) as response:
        return json.load(response)


def register(server: SchemaRegistryServer, subject: str) -> Any:
    request = urllib.request.Request(
        f"{server.url}/subjects/{subject}/versions",
        data=b'{"schema": "\\"string\\""}',
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def test_it_forgets_when_it_is_killed_and_starts_at_its_old_address(
    server: SchemaRegistryServer,
) -> None:
    assert register(server, "orders")["id"] >= 1
    assert subjects(server) == ["orders"]
    server.kill()
    with pytest.raises(OSError, match="refused"):
        subjects(server)
    server.start()
    server.start()  # it runs: nothing happens
    assert subjects(server) == []


def test_it_ends_with_a_process_that_is_killed() -> None:
    started().close()  # skipped here if there is none
    code = (
        "from aioproducer.testing import SchemaRegistryServer\n"
        "server = SchemaRegistryServer()\n"
        "print(server._process.pid, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    assert gone(child)


def gone(pid: int) -> bool:
    with suppress(ProcessLookupError, ChildProcessError):
        descriptor = os.pidfd_open(pid)
        try:
            return bool(select.select([descriptor], [], [], 30)[0])
        finally:
            os.close(descriptor)
    return True


def test_without_java_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(KafkaUnavailableError, match="there is no `java` here"):
        SchemaRegistryServer()


def test_without_maven_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIOPRODUCER_CACHE", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: None if name == "mvn" else f"/usr/bin/{name}")
    with pytest.raises(KafkaUnavailableError, match=r"the schema registry is not in .* `mvn`"):
        SchemaRegistryServer()
