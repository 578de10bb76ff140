"""An iterator that blocks, read in a thread of its own for an event loop, a little ahead of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Final, Generic, Self, TypeVar

from aioproducer.foundation.logs import duration, plain_logger

logger = plain_logger(__name__)

T = TypeVar("T")

AHEAD: Final = 2
"""The number of items asked for or present, beside the one that was taken last."""
PATIENCE_SECONDS: Final = 30.0
"""The longest time that leaving waits for the thread."""
_INTERRUPT_EVERY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None


class Prefetcher(Generic[T]):
    """``read()`` is called, iterated over and closed in the thread. Used with ``async with``.

    The next item is asked for when there is room for it, so a slow taker stops the reading.
    Leaving before the end calls ``interrupt()`` in another thread, again and again until the first
    one has ended, as the work to interrupt may only begin a moment later. Leaving waits for both
    threads for at most ``patience`` seconds; if it is cancelled meanwhile, they go on ending by
    themselves.
    """

    def __init__(
        self,
        read: Callable[[], Generator[T]],
        interrupt: Callable[[], object],
        name: str,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._read = read
        self._interrupt = interrupt
        self._name = name
        self._patience = patience
        self._there: asyncio.Queue[T | _End] = asyncio.Queue()
        self._room: SimpleQueue[None] = SimpleQueue()
        """An item for each item that may be read; the first one is asked for without."""
        for _ in range(AHEAD - 1):
            self._room.put(None)
        self._stopping = False
        self._ended = False
        self._thread = Thread(target=self._run, name=name, daemon=True)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """The next item; raises the error of reading."""
        if self._ended:
            raise StopAsyncIteration
        item = await self._there.get()
        if not isinstance(item, _End):
            self._room.put(None)
            return item
        self._ended = True
        try:
            raise item.error or StopAsyncIteration
        finally:
            del item  # its traceback has this frame

    async def __aexit__(self, *_: object) -> None:
        if self._ended:
            self._thread.join()  # to say so was the last that it did
            return
        self._stop()
        gone = asyncio.Event()
        interrupter = Thread(
            target=self._interrupt_until_ended, args=(gone,), name=f"{self._name}-stop", daemon=True
        )
        interrupter.start()
        await gone.wait()
        interrupter.join()
        if self._thread.is_alive():
            logger.error(
                "%s did not end within %s and is abandoned", self._name, duration(self._patience)
            )

    def _stop(self) -> None:
        self._stopping = True
        self._room.put(None)

    # --- in the threads --------------------------------------------------------------------

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            with closing(self._read()) as items:
                for item in items:
                    self._tell(self._there.put_nowait, item)
                    del item  # the next one is made meanwhile
                    self._room.get()
                    if self._stopping:
                        break
        except BaseException as raised:
            error = raised
        self._tell(self._there.put_nowait, _End(error))
        del error  # its traceback has this frame

    def _interrupt_until_ended(self, gone: asyncio.Event) -> None:
        deadline = monotonic() + self._patience
        while self._thread.is_alive() and monotonic() < deadline:
            try:
                self._interrupt()
            except Exception:
                logger.debug("%s could not be interrupted", self._name, exc_info=True)
            self._thread.join(_INTERRUPT_EVERY_SECONDS)
        self._tell(gone.set)

    def _tell(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop is closed: nobody is there any more
            self._stop()
