"""SIGINT, SIGTERM and SIGHUP: the first asks politely, the second gives up, the third kills."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from typing import Final, Self

__all__ = ["EndSignals"]

_SIGNALS: Final = tuple(
    signal.Signals[name]
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
)


class EndSignals:
    """A context in which these signals call ``first``, then ``second``, and then do as ever.

    A signal that the parent had ignored (``nohup``, a job in the background) stays ignored.
    """

    def __init__(
        self, first: Callable[[signal.Signals], None], second: Callable[[signal.Signals], None]
    ) -> None:
        self._calls = [first, second]
        self._undo: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._watch(loop, number)
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()

    def _watch(self, loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
        try:
            loop.add_signal_handler(number, self._on_signal, number)
        except NotImplementedError:  # the loops of Windows
            before = signal.signal(
                number, lambda *_: loop.call_soon_threadsafe(self._on_signal, number)
            )
            self._undo.append(partial(signal.signal, number, before))
        else:
            self._undo.append(partial(loop.remove_signal_handler, number))

    def _on_signal(self, number: signal.Signals) -> None:
        if not self._calls:
            return  # it arrived while it was let go
        call = self._calls.pop(0)
        if not self._calls:
            self._let_go()
        call(number)

    def _let_go(self) -> None:
        while self._undo:
            self._undo.pop()()
