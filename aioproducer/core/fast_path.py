"""The fast path of a record: one call checks the caller, makes the future, appends the record.

It is called for every record, so ``records/_speedups/fast_path.pyx`` has it for C; the class here
is the reference.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from threading import get_ident
from time import time_ns
from typing import Any, Final

from aioproducer.records import acceleration
from aioproducer.records.acceleration import ACCELERATED, RouteCache

_NO_THREAD: Final = 0


class PythonFastPath:
    """Serves one thread, while its event loop runs."""

    __slots__ = ("_loop", "_routes", "_thread")

    def __init__(self) -> None:
        self.close()

    def open(self, loop: AbstractEventLoop, routes: RouteCache) -> None:
        """Serve the thread that calls this, while ``loop`` runs there."""
        self._thread = get_ident()
        self._loop = loop
        self._routes = routes

    def close(self) -> None:
        """Serve nobody (any more)."""
        self._thread = _NO_THREAD

    def serves(self) -> bool:
        """True if the caller is in the thread and the loop to be served."""
        return get_ident() == self._thread and self._loop.is_running()

    def send(self, topic: Any, value: Any, key: Any, partition: Any) -> Any:
        """The future of a record that took the fast path at the present time; None: it did not."""
        if self.serves():
            builder = self._routes.find(topic, value, key, partition)
            if builder is not None:
                self._routes.last = builder
                future = self._loop.create_future()
                if builder.append(future, time_ns() // 1_000_000, key, value):
                    return future
        return None

    def append(self, token: Any, topic: Any, value: Any, key: Any, partition: Any) -> int:
        """Do :meth:`send` with the caller's ``token``; returns the record's size in bytes, or 0."""
        if self.serves():
            now_ms = time_ns() // 1_000_000
            return self._routes.append(token, now_ms, topic, value, key, partition)
        return 0


FastPath: type[PythonFastPath] = acceleration.speedups.FastPath if ACCELERATED else PythonFastPath
