"""The fast path of a record: one call checks the caller, makes the future, appends the record.

Every record passes here, so ``records/_speedups/fast_path.pyx`` has a compiled form. The class here
is the reference.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from contextlib import suppress
from threading import get_ident
from time import time_ns
from typing import Any, Final

from aioproducer.records import acceleration
from aioproducer.records.acceleration import ACCELERATED, RouteCache

_NO_THREAD: Final = 0


def utf8(field: Any) -> Any:
    """A str as UTF-8; any other field, or a str without such a form, as it is."""
    if type(field) is str:
        with suppress(UnicodeEncodeError):
            return field.encode()
    return field


class PythonFastPath:
    """Serves one thread, while its event loop runs."""

    __slots__ = ("_loop", "_routes", "_thread")

    def __init__(self) -> None:
        self.close()

    def open(self, loop: AbstractEventLoop, routes: RouteCache) -> None:
        """Serve the calling thread, while ``loop`` runs there."""
        self._thread = get_ident()
        self._loop = loop
        self._routes = routes

    def close(self) -> None:
        """Serve no thread."""
        self._thread = _NO_THREAD

    def serves(self) -> bool:
        """True if the caller is in the thread and the loop that are served."""
        return get_ident() == self._thread and self._loop.is_running()

    def send(self, topic: Any, value: Any, key: Any, partition: Any) -> Any:
        """The future of a record that took the fast path, with the present time; None: it can't."""
        if self.serves():
            value, key = utf8(value), utf8(key)
            builder = self._routes.find(topic, value, key, partition)
            if builder is not None:
                self._routes.last = builder
                future = self._loop.create_future()
                if builder.append(future, time_ns() // 1_000_000, key, value):
                    self._routes.taken += 1
                    return future
        return None

    def append(self, token: Any, topic: Any, value: Any, key: Any, partition: Any) -> int:
        """Do :meth:`send` with the caller's ``token``; returns the record's size in bytes, or 0."""
        if self.serves():
            now_ms = time_ns() // 1_000_000
            return self._routes.append(token, now_ms, topic, utf8(value), utf8(key), partition)
        return 0


FastPath: type[PythonFastPath] = acceleration.speedups.FastPath if ACCELERATED else PythonFastPath
