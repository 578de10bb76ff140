"""The processes of a server, each with its own producers: whichever is asked answers for all.

Every process listens on a socket in a common folder and answers with its series as they are now.
A process that has ended refuses the connection, and its socket is removed.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple

from aioproducer.errors import ConfigError
from aioproducer.foundation.logs import plain_logger
from aioproducer.observability.prometheus.messages import MalformedMessageError, from_bytes
from aioproducer.observability.series import Family

__all__ = ["OtherWorkers", "WorkerSocket", "WorkersSeries"]

logger = plain_logger(__name__)

_PREFIX: Final = "aioproducer-"
_SUFFIX: Final = ".sock"
_BOUND: Final = 1.0
"""Seconds for all other processes together."""
_WRITE_BOUND: Final = 5.0
_LARGEST: Final = 64 << 20
"""Bytes of one process's answer."""
_CHUNK: Final = 1 << 20
_PAUSE: Final = 0.1
"""Seconds until a connection that could not be taken is tried again."""
_PATIENCE: Final = 16
"""Connections that may wait for this process's answer."""


class WorkersSeries(NamedTuple):
    """The answers of the other processes."""

    families: dict[str, list[Family]]
    """By process id."""
    silent: int
    """Processes that did not answer in time."""


class WorkerSocket:
    """Answers with ``series()``, in a thread of its own.

    Raises ConfigError if ``folder`` can't have a socket.
    """

    def __init__(self, folder: Path, series: Callable[[], bytes]) -> None:
        self._series = series
        self.path = folder / f"{_PREFIX}{os.getpid()}{_SUFFIX}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.unlink(missing_ok=True)  # of an ended process that had this id
            self._listener.bind(str(self.path))
            self.path.chmod(0o600)
            self._listener.listen(_PATIENCE)
        except OSError as error:
            self._listener.close()
            raise ConfigError(
                f"workers={str(folder)!r} can't have the socket of this process: {error}. Name a "
                "folder with a short path that this process may write to"
            ) from error
        Thread(target=self._serve, name="aioproducer-series", daemon=True).start()

    def close(self) -> None:
        """End, and remove the socket."""
        self.path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """Close the socket of the parent process in its child."""
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._listener.fileno() < 0:
                    return  # closed
                time.sleep(_PAUSE)  # such as without a free file descriptor
                continue
            with connection, suppress(OSError):
                connection.settimeout(_WRITE_BOUND)
                connection.sendall(self._answer())

    def _answer(self) -> bytes:
        """The series; empty if they can't be read now, and the asker counts a silent process."""
        try:
            return self._series()
        except Exception:
            logger.warning("This process can't share its series with the others", exc_info=True)
            return b""


class OtherWorkers:
    """The sockets of the other processes in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ask(self) -> WorkersSeries:
        """The series of all processes that answer within a second."""
        deadline = time.monotonic() + _BOUND
        answers: dict[str, bytearray] = {}
        ended: set[str] = set()
        with selectors.DefaultSelector() as selector, ExitStack() as stack:
            for process, path in self._sockets():
                answers[process] = bytearray()
                connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                if _connected(connection, path):
                    selector.register(connection, selectors.EVENT_READ, process)
                elif not path.exists():
                    del answers[process]
            while selector.get_map() and (left := deadline - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    if _read(key.fileobj, answers[key.data]):  # type: ignore[arg-type]
                        selector.unregister(key.fileobj)
                        ended.add(key.data)
        return _understood(answers, ended)

    def _sockets(self) -> Iterator[tuple[str, Path]]:
        own = str(os.getpid())
        for path in sorted(self._folder.glob(f"{_PREFIX}*{_SUFFIX}")):
            process = path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
            if process != own:
                yield process, path


def _connected(connection: socket.socket, path: Path) -> bool:
    """True if a process listens. The socket of a process that has ended is removed."""
    connection.setblocking(False)
    try:
        connection.connect(str(path))
    except ConnectionRefusedError:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return False
    except OSError:
        return False
    return True


def _read(connection: socket.socket, answer: bytearray) -> bool:
    """Read what is there; True at the end of the answer."""
    try:
        chunk = connection.recv(_CHUNK)
    except BlockingIOError:
        return False
    except OSError:
        chunk = b""
    answer += chunk
    return not chunk or len(answer) > _LARGEST


def _understood(answers: dict[str, bytearray], ended: set[str]) -> WorkersSeries:
    families = {}
    for process in ended:
        with suppress(MalformedMessageError):
            families[process] = from_bytes(bytes(answers[process]))
    return WorkersSeries(families, len(answers) - len(families))
