"""SIGINT, SIGTERM and SIGHUP: the first asks politely, the second gives up, the third kills."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Final, Self

__all__ = ["EndSignals"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndSignals:
    """A context in which these signals call ``first``, then ``second``, and then do as ever.

    A signal that the parent had ignored (``nohup``, a job in the background) stays ignored.
    """

    def __init__(
        self, first: Callable[[signal.Signals], None], second: Callable[[signal.Signals], None]
    ) -> None:
        self._calls = [first, second]
        self._watched: list[signal.Signals] = []

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self._on_signal, number)
                self._watched.append(number)
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()

    def _on_signal(self, number: signal.Signals) -> None:
        call = self._calls.pop(0)
        if not self._calls:
            self._let_go()
        call(number)

    def _let_go(self) -> None:
        loop = asyncio.get_running_loop()
        while self._watched:
            loop.remove_signal_handler(self._watched.pop())
