"""A real schema registry for tests: Apicurio Registry, a Java server that keeps schemas in memory.

It implements the REST API of Confluent's Schema Registry.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from aioproducer.testing.kafka_distribution import (
    KafkaUnavailableError,
    cached_folder,
    copy_jars,
    find_java,
)
from aioproducer.testing.ports import free_ports
from aioproducer.testing.processes import ProcessSupervisor

__all__ = ["SchemaRegistryServer"]

_POM: Final = Path(__file__).parent / "pom-schema-registry.xml"
_SHA256: Final = "0982c4eaa222355c86bd4dfc83495d4929ae319ebe00ef5677f131a2e205065d"
_HOST: Final = "127.0.0.1"
_START_TIMEOUT: Final = 120.0
_JVM_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx192m")
_SETTINGS: Final = {
    "quarkus.http.host": _HOST,
    "quarkus.http.access-log.enabled": "false",
    "quarkus.log.level": "WARN",
    "quarkus.banner.enabled": "false",
    "apicurio.rest.deletion.artifact.enabled": "true",
    "apicurio.rest.deletion.artifact-version.enabled": "true",
}


class SchemaRegistryServer:
    """A running registry; a context manager. Its methods block.

    It starts without schemas, and loses all of them when it is killed.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the registry, which takes seconds. ``settings``: properties of Quarkus and of
        Apicurio.

        Raises KafkaUnavailableError if Java, or the first time Maven, is missing.
        """
        self._java = find_java()
        self._folder = _installed()
        self._settings = {**_SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_ports(1)[0]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close())
        self._supervisor = ProcessSupervisor()
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{_HOST}:{self.port}"

    @property
    def url(self) -> str:
        """The address for ``schema.registry.url``."""
        return self.url_by(self.address)

    def url_by(self, address: str) -> str:
        """The ``url`` with another ``host:port``, such as that of a proxy in front of the
        server."""
        return f"http://{address}/apis/ccompat/v7"

    def start(self) -> None:
        """Start the server again after `kill()`, at the same address. Does nothing if it is
        running."""
        if self._process is not None:
            return
        # A current directory of no importance: the server reads its configuration from there.
        self._process = self._supervisor.start(
            [
                *(self._java.executable, *_JVM_OPTIONS),
                *(f"-D{name}={value}" for name, value in self._settings.items()),
                *(f"-Dquarkus.http.port={self.port}", "-jar", str(_runner(self._folder))),
            ],
            stdout=self._log,
            stderr=self._log,
            env=_environment(),
            cwd=self._folder,
        )
        self._wait_until_it_answers(self._process)

    def kill(self) -> None:
        """Kill the server with SIGKILL; its schemas are lost."""
        process, self._process = self._process, None
        if process is not None:
            self._supervisor.kill(process)

    def close(self) -> None:
        """Stop the server for good. Can be called twice."""
        self._process = None
        self._supervisor.close()
        self._log.close()

    def log(self) -> str:
        """The output of the server."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(urllib.error.URLError, OSError, http.client.HTTPException):
                urllib.request.urlopen(f"{self.url}/subjects", timeout=10).close()
                return
            time.sleep(0.1)
        raise KafkaUnavailableError(f"the schema registry did not start:\n{self.log()[-4000:]}")


def _installed() -> Path:
    digest = hashlib.sha256(_POM.read_bytes()).hexdigest()[:8]
    return cached_folder(f"schema-registry-{digest}", _install)


def _install(folder: Path) -> None:
    copy_jars("the schema registry", _POM, folder, sha256=_SHA256, goal="copy")
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
        archive.unlink()
    _runner(folder)


def _runner(folder: Path) -> Path:
    jars = sorted(folder.glob("*-runner.jar"))
    if not jars:
        raise KafkaUnavailableError(f"no jar to run in {folder}: delete it and start again")
    return jars[0]


def _environment() -> dict[str, str]:
    """The environment without variables that configure the server."""
    prefixes = ("QUARKUS_", "APICURIO_", "REGISTRY_")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
