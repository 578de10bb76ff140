"""The progress bar of a long file: shown when a terminal is there, and only after a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from aioproducer.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["FileProgress"]

_MOMENT = 0.5
_INTERVAL = 0.1


class FileProgress:
    """Drawn by a timer of the loop. ``state`` gives bytes read and records delivered."""

    def __init__(
        self, terminal: Terminal, total: int | None, state: Callable[[], tuple[int, int]]
    ) -> None:
        self._terminal = terminal
        self._print_line = terminal.print_line
        self._total = total
        self._state = state
        self._progress: Progress | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._total and self._terminal.is_interactive:
            self._timer = asyncio.get_running_loop().call_later(_MOMENT, self._show)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._progress is not None:
            self._update(self._progress)
            self._progress.stop()
            self._terminal.print_line = self._print_line

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        console = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
        self._progress = progress = Progress(
            TextColumn("{task.fields[records]:,} records"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            auto_refresh=False,
        )
        self._task = progress.add_task("", total=self._total, records=0)
        progress.start()
        self._terminal.print_line = console.print
        self._tick()

    def _tick(self) -> None:
        if self._progress is not None:
            self._update(self._progress)
            self._timer = asyncio.get_running_loop().call_later(_INTERVAL, self._tick)

    def _update(self, progress: Progress) -> None:
        done, records = self._state()
        progress.update(self._task, completed=done, records=records, refresh=True)
