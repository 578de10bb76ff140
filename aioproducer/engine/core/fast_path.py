"""The fast path of a record: one call checks the caller, makes the future, appends the record.

A record that finds no open batch begins one. Every record without headers and timestamp of its own
asks here first, so ``records/_speedups/fast_path.pyx`` has a compiled form. The class here is the
reference.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import get_ident
from time import time_ns
from typing import Any, Final

from aioproducer.engine.records import acceleration
from aioproducer.engine.records.acceleration import ACCELERATED, RouteCache
from aioproducer.errors import ProducerError
from aioproducer.model import Header

_NO_THREAD: Final = 0


def utf8(field: Any) -> Any:
    """A str as UTF-8; any other field, or a str without such a form, as it is."""
    if type(field) is str:
        with suppress(UnicodeEncodeError):
            return field.encode()
    return field


class PythonFastPath:
    """Serves one thread, while its event loop runs.

    A traced producer's records take it while a decision not to trace holds: see :meth:`skip`.
    """

    __slots__ = (
        "_begin",
        "_clock",
        "_context_of",
        "_headers",
        "_loop",
        "_routes",
        "_skipped_in",
        "_thread",
        "_to_skip",
        "_wall_clock_ns",
    )

    def __init__(self) -> None:
        self.trace(None)
        self.close()

    def open(
        self,
        loop: AbstractEventLoop,
        routes: RouteCache,
        begin: Callable[..., bool],
        clock: Callable[[], float],
        wall_clock_ns: Callable[[], int] = time_ns,
    ) -> None:
        """Serve the calling thread, while ``loop`` runs there.

        ``begin`` takes the fields of a record that no open batch takes, and the time of ``clock``,
        as :meth:`RecordAccumulator.put`. False: the record takes the long way.
        ``wall_clock_ns``: nanoseconds since the epoch, for the timestamps of records.
        """
        self._thread = get_ident()
        self._loop = loop
        self._routes = routes
        self._begin = begin
        self._clock = clock
        self._wall_clock_ns = wall_clock_ns

    def close(self) -> None:
        """Serve no thread."""
        self._thread = _NO_THREAD

    def serves(self) -> bool:
        """True if the caller is in the thread and the loop that are served."""
        return get_ident() == self._thread and self._loop.is_running()

    def trace(self, context_of: Callable[[], object] | None) -> None:
        """Ask for each record whether it is traced in its context; None: no record is."""
        self._context_of = context_of
        self._skipped_in: object = None
        self._to_skip = 0
        self._headers: tuple[Header, ...] = ()

    def skip(self, context: object, records: int, headers: Sequence[Header]) -> None:
        """Trace none of the next ``records``, while the context is this object.

        Each of them gets ``headers``.
        """
        self._headers = tuple(headers)
        self._skipped_in, self._to_skip = context, records

    def take_skipped(self, context: object) -> tuple[Header, ...] | None:
        """The headers of a record that is not traced, which counts; None: a decision is due."""
        if self._to_skip <= 0 or self._skipped_in is not context:
            return None
        self._to_skip -= 1
        return self._headers

    def send(self, topic: Any, value: Any, key: Any, partition: Any) -> Any:
        """The future of a record that took the fast path, with the present time; None: it can't."""
        if self.serves():
            headers: tuple[Header, ...] = ()
            if self._context_of is not None:
                try:
                    if self._to_skip <= 0 or self._context_of() is not self._skipped_in:
                        return None
                except Exception:
                    return None  # the next way asks again, and logs the error
                headers = self._headers
            routes, value, key = self._routes, utf8(value), utf8(key)
            if routes.takes(topic, value, key, partition):
                builder = routes.find(topic, value, key, partition)
                future = self._loop.create_future()
                now_ns = self._wall_clock_ns()
                if builder is not None:
                    routes.last = builder
                    builder.mark(now_ns)
                    if builder.append(future, now_ns // 1_000_000, key, value, headers):
                        routes.came += 1
                        self._to_skip -= 1
                        return future
                now_ms, now = now_ns // 1_000_000, self._clock()
                with suppress(ProducerError):  # the long way raises it again
                    if self._begin(
                        topic, partition, now_ms, key, value, headers, future, now_ns, now
                    ):
                        self._to_skip -= 1
                        return future
        return None

    def append(self, token: Any, topic: Any, value: Any, key: Any, partition: Any) -> int:
        """Do :meth:`send` with the caller's ``token``; returns the record's size in bytes, or 0."""
        if self.serves():
            return self._routes.append(
                token, self._wall_clock_ns(), None, topic, utf8(value), utf8(key), partition
            )
        return 0


FastPath: type[PythonFastPath] = acceleration.speedups.FastPath if ACCELERATED else PythonFastPath
