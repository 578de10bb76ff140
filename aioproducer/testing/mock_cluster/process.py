"""Starts `server.py` with the librdkafka it needs, and talks to it."""

from __future__ import annotations

import contextlib
import ctypes.util
import importlib.util
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from aioproducer.errors import MissingExtraError, ProducerError, UsageError
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.threads import free_lock

__all__ = ["MockClusterProcess", "MockClusterError", "MockClusterArgumentError"]

_SERVER: Final = Path(__file__).with_name("server.py")
_INSTALL: Final = 'pip install "aioproducer[testing]"'
_API_VERSIONS_KEY: Final = 18
_INT64_MAX: Final = 2**63 - 1


class MockClusterError(ProducerError):
    """The mock cluster's process has crashed, or does not answer."""


class MockClusterArgumentError(UsageError, ValueError):
    """A broker, topic, partition, API or number that the mock cluster does not have."""


class MockClusterProcess:
    """The child process and the pipes to it: one request, one response. Safe for threads.

    The child ends itself when its standard input does, so it never outlives this process.
    """

    def __init__(self, brokers: int, timeout: float, port: int = 0) -> None:
        """Start it; blocks until it listens. Raises `MissingExtraError`, `MockClusterError`.

        ``port``: see `MockCluster`; 0 if the system chooses.
        """
        library = _find_librdkafka()
        self._timeout = timeout
        self._lock = free_lock()
        self._unread = b""
        self._failure: str | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  close() closes it
        try:
            # Of a session of its own, so that Ctrl-C in the terminal does not reach it.
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", _SERVER, library, str(brokers), str(port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                bufsize=0,
                start_new_session=True,
            )
        except BaseException:
            self._stderr.close()
            raise
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._requests, self._answers = self._child.stdin, self._child.stdout
        self._readable = select.poll()
        self._readable.register(self._answers, select.POLLIN)
        try:
            greeting = self._read("the start")
            if "failed" in greeting:
                raise MissingExtraError(f"{greeting['failed']}; {_INSTALL}")
            if "port_in_use" in greeting:
                raise MockClusterError(
                    f"the mock cluster can't listen at {greeting['port_in_use']}"
                )
            self.bootstrap_servers: str = greeting["bootstrap_servers"]
            self.librdkafka_version: str = greeting["version"]
            self.implemented_versions: Mapping[int, tuple[int, int]] = self._ask_api_versions()
        except BaseException:
            self.close()
            raise

    @property
    def process_id(self) -> int:
        return self._child.pid

    def wait(self) -> NoReturn:
        """Block until the child ends, then raise `MockClusterError`."""
        self._child.wait()
        raise MockClusterError(self._describe_end())

    def unreported_crash(self) -> str | None:
        """The error of the child's end, unless a command has raised it already."""
        if self._failure is not None or self._child.poll() is None:
            return None
        return self._describe_end()

    def close(self) -> None:
        """End the child; it has nothing to save. Can be called twice."""
        self._child.kill()
        self._child.wait()
        for file in (self._requests, self._answers, self._stderr):
            file.close()

    def call(self, *calls: tuple[object, ...]) -> list[object]:
        """Call functions of librdkafka, each a name and its arguments.

        Raises `MockClusterArgumentError` for the first that returned an error.
        """
        results = self._exchange(calls)
        for (function, *arguments), result in zip(calls, results, strict=True):
            if isinstance(result, str):
                text = ", ".join(map(repr, arguments))
                raise MockClusterArgumentError(f"librdkafka: {function}({text}) → {result}")
        return results

    def has_partition(self, topic: str, partition: int) -> bool:
        """True if the topic exists, created by us or by a client's request, with the partition."""
        # librdkafka cannot be asked, and most of its functions create what they do not find. This
        # one does not, and the offset is too large for it to delete anything.
        probe = ("partition_delete_records", topic, partition, _INT64_MAX)
        return self._exchange([probe]) == ["OFFSET_OUT_OF_RANGE"]

    def _exchange(self, calls: object) -> list[object]:
        with self._lock:
            if self._failure is not None:
                raise MockClusterError(self._failure)
            what = f"the command {str(calls)[:200]}"
            # An exception between request and response would leave the response to a later request.
            self._failure = f"{what} was interrupted; start another mock cluster"
            line = json.dumps(calls).encode() + b"\n"
            try:
                while line:
                    line = line[self._requests.write(line) or 0 :]
            except BrokenPipeError:
                self._fail(what)
            answer = self._read(what)
            self._failure = None
        if isinstance(answer, dict):
            raise MockClusterArgumentError(f"{what}: {answer['failed']}")
        return list(answer)

    def _read(self, what: str) -> Any:
        deadline = time.monotonic() + self._timeout
        while b"\n" not in self._unread:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not self._readable.poll(remaining * 1000):
                self._fail(what, timed_out=True)
            received = os.read(self._answers.fileno(), 1 << 20)
            if not received:
                self._fail(what)
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def _fail(self, what: str, *, timed_out: bool = False) -> NoReturn:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(0.0 if timed_out else 1.0)
        self._failure = f"{self._describe_end()}, at {what}"
        raise MockClusterError(self._failure)

    def _describe_end(self) -> str:
        code = self._child.poll()
        self._child.kill()
        self._child.wait()
        if code is None:
            reason = f"did not answer within {duration(self._timeout)} and was killed"
        elif code < 0:
            reason = f"crashed by {signal.Signals(-code).name}"
        else:
            reason = f"ended with exit code {code}"
        self._stderr.seek(0)
        written = self._stderr.read(2000).decode(errors="replace").strip()
        return f"the mock cluster's process {reason}" + (f" ({written})" if written else "")

    def _ask_api_versions(self) -> dict[int, tuple[int, int]]:
        """The versions that the brokers implement; librdkafka's interface has no such call."""
        host, _, port = self.bootstrap_servers.split(",")[0].rpartition(":")
        with (
            socket.create_connection((host, int(port)), self._timeout) as connection,
            connection.makefile("rb") as answer,
        ):
            correlation_id, no_client_id = 0, -1
            header = struct.pack(">hhih", _API_VERSIONS_KEY, 0, correlation_id, no_client_id)
            connection.sendall(struct.pack(">i", len(header)) + header)
            (size,) = struct.unpack(">i", answer.read(4))
            _, _, count, rows = struct.unpack(f">ihi{size - 10}s", answer.read(size))
        versions = struct.iter_unpack(">hhh", rows[: 6 * count])
        return {api_key: (first, last) for api_key, first, last in versions}


def _find_librdkafka() -> str:
    """The library inside the confluent-kafka wheel, or else the system's."""
    package = importlib.util.find_spec("confluent_kafka")
    if package is None or not package.submodule_search_locations:
        raise MissingExtraError(f"the mock cluster needs confluent-kafka: {_INSTALL}")
    home = Path(package.submodule_search_locations[0])
    for directory in (home.with_name("confluent_kafka.libs"), home / ".dylibs"):
        for path in sorted(directory.glob("librdkafka[-.]*")):
            return str(path)
    system = ctypes.util.find_library("rdkafka")
    if system is None:
        raise MissingExtraError(
            f"there is no librdkafka in or around {home}, and none of the system's: "
            f"install the wheel of confluent-kafka: {_INSTALL}"
        )
    return system
