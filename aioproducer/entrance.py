"""The entrance of records: one call that checks the caller, makes the future, takes the short way.

It is called for every record, so ``records/compiled/entrance.pyx`` has it for C; the class here
is the reference.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from threading import get_ident
from time import time_ns
from typing import Any, Final

from aioproducer.records import acceleration
from aioproducer.records.acceleration import ACCELERATED, ShortWay

_NO_THREAD: Final = 0


class PythonEntrance:
    """Serves one thread, while its event loop runs."""

    __slots__ = ("_loop", "_short_way", "_thread")

    def __init__(self) -> None:
        self.close()

    def open(self, loop: AbstractEventLoop, short_way: ShortWay) -> None:
        """Serve the thread that calls this, while ``loop`` runs there."""
        self._thread = get_ident()
        self._loop = loop
        self._short_way = short_way

    def close(self) -> None:
        """Serve nobody (any more)."""
        self._thread = _NO_THREAD

    def serves(self) -> bool:
        """True if the caller is in the thread and the loop to be served."""
        return get_ident() == self._thread and self._loop.is_running()

    def send(self, topic: Any, value: Any, key: Any, partition: Any) -> Any:
        """The future of a record that went the short way at the present time; None: it did not."""
        if self.serves():
            builder = self._short_way.find(topic, value, key, partition)
            if builder is not None:
                self._short_way.last = builder
                future = self._loop.create_future()
                if builder.append(future, time_ns() // 1_000_000, key, value):
                    return future
        return None

    def append(self, token: Any, topic: Any, value: Any, key: Any, partition: Any) -> int:
        """Do :meth:`send` with the caller's ``token``; returns the record's size in bytes, or 0."""
        if self.serves():
            now_ms = time_ns() // 1_000_000
            return self._short_way.append(token, now_ms, topic, value, key, partition)
        return 0


Entrance: type[PythonEntrance] = acceleration.compiled.Entrance if ACCELERATED else PythonEntrance
