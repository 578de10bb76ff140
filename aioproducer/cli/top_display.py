"""The figures of ``aioproducer top``: a picture on a terminal, or lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self

from aioproducer.cli.terminal import Terminal
from aioproducer.observability.live.figures import ProducerFigures
from aioproducer.observability.live.rendering import line, picture

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["Display", "LineDisplay", "PictureDisplay"]


class Display(Protocol):
    """Shows figures while its context lasts."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, producers: Sequence[ProducerFigures], *, is_first: bool = False) -> None:
        """Show the figures of an interval; the first ones have no interval."""

    def show_trouble(self, message: str) -> None:
        """Show that the endpoint has failed."""


class LineDisplay:
    """A line per producer and interval on standard output; trouble is said once."""

    def __init__(self, terminal: Terminal, *, as_json: bool) -> None:
        self._terminal = terminal
        self._as_json = as_json
        self._in_trouble = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, producers: Sequence[ProducerFigures], *, is_first: bool = False) -> None:
        """See :class:`Display`."""
        if is_first:
            return
        if self._in_trouble:
            self._in_trouble = False
            self._terminal.say("the endpoint answers again")
        for each in producers:
            print(json.dumps(each.as_dict()) if self._as_json else line(each), flush=True)

    def show_trouble(self, message: str) -> None:
        """See :class:`Display`."""
        if not self._in_trouble:
            self._in_trouble = True
            self._terminal.say(f"{message}; trying on")


class PictureDisplay:
    """A picture on a terminal, drawn anew for each interval."""

    def __init__(self, title: str, rows: int) -> None:
        self._title = title
        self._rows = rows
        self._producers: Sequence[ProducerFigures] = ()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        console = Console(markup=False, highlight=False)
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, producers: Sequence[ProducerFigures], *, is_first: bool = False) -> None:
        """See :class:`Display`."""
        self._producers = producers
        self._draw("")

    def show_trouble(self, message: str) -> None:
        """See :class:`Display`."""
        self._draw(f"{message}; trying on. The last figures were:")

    def _draw(self, note: str) -> None:
        if self._live is not None:
            shown = picture(self._title, self._producers, rows=self._rows, note=note)
            self._live.update(shown, refresh=True)
