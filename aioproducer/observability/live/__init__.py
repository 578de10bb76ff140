"""A live view of producers in a terminal.

::

    snapshots.py  series of one moment, and the figures of the time between two
    rendering.py  figures → tables of rich, and lines
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final, Self

from aioproducer.errors import ConfigError, MissingExtraError
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.observability.live.rendering import picture
from aioproducer.observability.live.snapshots import Snapshot, figures
from aioproducer.observability.series import SeriesOptions, SeriesSource
from aioproducer.observability.watched import WatchedProducers

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = [
    "LiveView",
]


_EARLY: Final = 0.9
"""A refresh before this part of the interval shows the last figures again."""


class LiveView:
    """Shows the activity of producers in a terminal while the ``with`` block runs.

    A thread draws the view, so you can use it in blocking code and with asyncio, and no event loop
    waits for it. Lines that you print or log with ``console`` appear above the view. Without a
    terminal, only the final figures are printed.

    Args:
        producers: ``Producer`` and ``sync.Producer`` objects.
        interval: Seconds between two updates. Rates and latencies are those of the interval.
        rows: The number of topics and brokers per producer that get their own lines.
        console: The rich console to draw on. Default: standard error.

    Raises:
        ConfigError: ``interval`` is not above 0.
        MissingExtraError: rich is not installed (``aioproducer[cli]``).
    """

    def __init__(
        self,
        *producers: SeriesSource,
        interval: float = 1.0,
        rows: int = 10,
        console: Console | None = None,
    ) -> None:
        if not 0 < interval < math.inf:
            raise ConfigError(f"interval={interval!r} must be a number of seconds above 0")
        try:
            from rich.console import Console
            from rich.live import Live
        except ImportError as error:
            raise MissingExtraError(
                "the live view needs rich: pip install 'aioproducer[cli]'"
            ) from error

        self._watched = WatchedProducers(SeriesOptions())
        for producer in producers:
            self._watched.add(producer)
        self._interval = interval
        self._rows = rows
        self._lock = free_lock()
        self._base: Snapshot | None = None
        """The begin of the interval of the present picture."""
        self._now: Snapshot | None = None
        self._ends = False
        self._picture: RenderableType = ""
        self._live = Live(
            console=console or Console(stderr=True, markup=False, highlight=False),
            refresh_per_second=1 / interval,
            get_renderable=self._draw,
        )

    def add(self, producer: SeriesSource) -> None:
        """Show ``producer`` as well."""
        self._watched.add(producer)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True  # one more picture, as things are now
        self._live.stop()

    def _draw(self) -> RenderableType:
        """The present picture; rich also asks for it when a line is printed above it."""
        with self._lock:
            now, last = time.monotonic(), self._now
            if last is None or self._ends or now - last.at >= _EARLY * self._interval:
                samples = (sample for each in self._watched.families() for sample in each.samples)
                if not self._ends:
                    self._base = last
                self._now = Snapshot(now, samples)
                self._picture = picture(
                    f"aioproducer · every {duration(self._interval)}",
                    figures(self._base, self._now),
                    rows=self._rows,
                )
            return self._picture
