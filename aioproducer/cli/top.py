"""``aioproducer top``: its options, and what it shows of a process's endpoint."""

from __future__ import annotations

import asyncio
import math
import signal
import sys
import time
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from aioproducer import loops
from aioproducer.cli.metrics_endpoint import EndpointError, MetricsEndpoint
from aioproducer.cli.results import require_output
from aioproducer.cli.signals import EndSignals
from aioproducer.cli.terminal import Terminal, discard
from aioproducer.cli.top_display import Display, LineDisplay, PictureDisplay
from aioproducer.errors import ConfigError
from aioproducer.foundation.logs import duration
from aioproducer.observability.live.figures import figures
from aioproducer.observability.live.snapshot import Snapshot

__all__ = ["top"]

HELP = """\
Show the activity of a process's producers, from its Prometheus endpoint.

Rates and latencies are those of the interval. A terminal shows a live table; otherwise each \
producer gets a line per interval. If the endpoint fails after its first answer, the command says \
so and keeps trying.

\b
Exit codes:
  0  ended by an interrupt (SIGINT), SIGTERM, SIGHUP or --count
  1  the endpoint has no metrics of producers, or did not answer
  2  wrong use: an option or the address

\b
Example:
  aioproducer top http://127.0.0.1:9000/metrics
"""

_TIMEOUT: Final = 5.0
"""Seconds for an answer, at least."""
_SHORTEST: Final = 0.05
_NO_PRODUCERS: Final = (
    "there are no producers: add each to a ProducerCollector, as docs/how-to/metrics.md shows"
)


def top(
    url: Annotated[str, typer.Argument(metavar="URL", help="The endpoint; host:port is enough.")],
    interval: Annotated[
        float,
        typer.Option("--interval", "-i", metavar="SECONDS", help="The time between two readings."),
    ] = 1.0,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", metavar="N", min=1, help="Stop after N intervals."),
    ] = None,
    rows: Annotated[
        int, typer.Option(metavar="N", min=0, help="How many topics and brokers to show.")
    ] = 10,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per producer and interval.")
    ] = False,
) -> int:
    if not _SHORTEST <= interval < math.inf:
        raise ConfigError(f"--interval {interval:g}: give {_SHORTEST} seconds or more")
    require_output()
    watch = Watch(MetricsEndpoint(url, max(_TIMEOUT, interval)), interval, count)
    display: Display
    if as_json or not sys.stdout.isatty():
        display = LineDisplay(Terminal(), as_json=as_json)
    else:
        display = PictureDisplay(
            f"aioproducer top {watch.endpoint.url} · every {duration(interval)}", rows
        )
    return loops.run(_run(watch, display))


top.__doc__ = HELP


@dataclass(frozen=True, slots=True)
class Watch:
    """The endpoint, and how often to read it."""

    endpoint: MetricsEndpoint
    interval: float
    count: int | None
    """Intervals to show; None: until an interrupt."""


async def _run(watch: Watch, display: Display) -> int:
    task = asyncio.current_task()
    assert task is not None
    interrupted = False

    def end(_: signal.Signals) -> None:
        nonlocal interrupted
        interrupted = True
        task.cancel()

    with EndSignals(end, end):
        try:
            first = await _snapshot(watch.endpoint)
            if not len(first):
                raise EndpointError(f"{watch.endpoint.url}: {_NO_PRODUCERS}")
            with display:
                await _show(watch, first, display)
        except asyncio.CancelledError:
            if not interrupted:
                raise
        except BrokenPipeError:
            discard(sys.stdout)
    return 0


async def _snapshot(endpoint: MetricsEndpoint) -> Snapshot:
    return Snapshot(time.monotonic(), await endpoint.read())


async def _show(watch: Watch, before: Snapshot, display: Display) -> None:
    display.show(figures(None, before), is_first=True)
    shown = 0
    while watch.count is None or shown < watch.count:
        await asyncio.sleep(max(0.0, before.at + watch.interval - time.monotonic()))
        try:
            now = await _snapshot(watch.endpoint)
        except EndpointError as error:
            display.show_trouble(str(error))
            await asyncio.sleep(watch.interval)
        else:
            display.show(figures(before, now))
            before = now
        shown += 1
