"""Lines for the user on standard error. That nobody reads them is no error."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection
from typing import TextIO

from aioproducer.errors.client import shown

__all__ = ["Terminal", "discard"]

_TOLD_OTHERWISE = (
    "aioproducer.sender.completer",
    "aioproducer.sender.expiry",
)
"""Loggers of failed records: each record's error is told by `DeliveryCounter`."""


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
