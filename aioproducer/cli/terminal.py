"""Lines for the user on standard error, and the progress bar of a long file.

That nobody reads them is no error. The bar is shown when a terminal is there, and only after a
moment.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Self, TextIO

from aioproducer.errors.client import shown

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = [
    "CONNECTIONS",
    "Terminal",
    "discard",
    "FileProgress",
]


_TOLD_OTHERWISE = (
    "aioproducer.sender.completer",
    "aioproducer.sender.expiry",
)
"""Loggers of failed records: each record's error is told by `DeliveryCounter`."""
CONNECTIONS = ("aioproducer.network.client",)
"""The logger of failed connections, for a command whose last error has them."""


class Terminal:
    """Standard error, be it a terminal, a pipe, a file, broken or closed."""

    def __init__(self, *, verbose: bool = False) -> None:
        self.verbose = verbose
        self.print_line: Callable[[str], None] = _write_line
        """The function that writes a line; a progress bar puts itself in between."""

    @property
    def is_interactive(self) -> bool:
        """True if somebody sees a progress bar."""
        return sys.stderr is not None and sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Print one line, with the name of the program before it."""
        line = shown(text, kept="\n")
        self.print_line(f"aioproducer: {line}")

    def prompt(self) -> None:
        """Show that a line is waited for."""
        _write("> ")

    def confirm(self, question: str) -> bool:
        """True if the person at standard input answers yes."""
        _write(f"{shown(question)} [y/N] ")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def show_log(self, told_otherwise: Collection[str] = _TOLD_OTHERWISE) -> None:
        """Say what the library logs: warnings once each, but for loggers whose news the command
        tells in its own way; everything when verbose."""
        logger = logging.getLogger("aioproducer")
        logger.addHandler(_LogHandler(self, told_otherwise))
        logger.setLevel(logging.INFO if self.verbose else logging.WARNING)
        logger.propagate = False


class _LogHandler(logging.Handler):
    def __init__(self, terminal: Terminal, told_otherwise: Collection[str]) -> None:
        super().__init__()
        self._terminal = terminal
        self._told_otherwise = told_otherwise
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        client = getattr(record, "client_id", "")
        text = record.getMessage().removeprefix(f"[{client}] ")
        if not self._terminal.verbose:
            repeated = getattr(record, "repeats", 0)
            if record.name in self._told_otherwise or text in self._said or repeated:
                return
            self._said.add(text)
        self._terminal.say(text)


def _write_line(line: str) -> None:
    _write(f"{line}\n")


def _write(text: str) -> None:
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Let the rest of ``stream`` go nowhere: nobody reads it, or it can't be written.

    Else Python fails to write it at the exit, with the code 120 in place of ours.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


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
