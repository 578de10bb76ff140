"""``aioproducer top``: a process's endpoint for Prometheus, its samples, and their display.

A terminal shows a picture, and anything else gets lines.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Protocol, Self
from urllib.parse import SplitResult, urlsplit

import typer

from aioproducer import loops
from aioproducer.cli import exit_codes
from aioproducer.cli.early_ends import EndSignals, output_may_close
from aioproducer.cli.results import require_output
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import ConfigError, MissingExtraError, ProducerError
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.threads import ThreadForEach
from aioproducer.observability.live.rendering import line, picture
from aioproducer.observability.live.snapshots import PREFIXES, ProducerFigures, Snapshot, figures
from aioproducer.observability.series import Sample

if TYPE_CHECKING:
    from prometheus_client import Metric
    from rich.live import Live

__all__ = [
    "EndpointError",
    "MetricsEndpoint",
    "samples_of",
    "Display",
    "LineDisplay",
    "PictureDisplay",
    "top",
]


_LARGEST: Final = 64 << 20
_REASON: Final = 200
_ACCEPT: Final = "text/plain; version=0.0.4"


class EndpointError(ProducerError):
    """The endpoint did not answer with series."""


class MetricsEndpoint:
    """``url``: as ``http://host:port/metrics``, ``host:port`` or ``:port``.

    Raises ConfigError for any other, and MissingExtraError without prometheus_client.
    """

    def __init__(self, url: str, timeout: float) -> None:
        _parser()
        self._parts = _split(url)
        self._timeout = timeout
        self._threads = ThreadForEach("aioproducer-endpoint")
        self.url = self._parts.geturl()

    async def read(self) -> list[Sample]:
        """The samples of producers as they are now. Raises EndpointError within ``timeout``."""
        call = _Call(self._parts, self._timeout)
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except TimeoutError:
            call.cut()
            reason = f"no answer within {duration(self._timeout)}"
        except OSError as error:
            reason = error.strerror or str(error)
        except http.client.HTTPException as error:
            reason = str(error) or type(error).__name__
        except ValueError as error:
            reason = f"the response is not in Prometheus' format ({error})"
        raise EndpointError(f"{self.url}: {_one_line(reason)}")


def _split(url: str) -> SplitResult:
    whole = url if "://" in url else f"http://{'127.0.0.1' if url.startswith(':') else ''}{url}"
    try:
        parts = urlsplit(whole)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # of the port
        usable = False
    if not usable or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(
            f"{url!r} is not the address of an endpoint such as http://127.0.0.1:9000/metrics"
        )
    return parts if parts.path else parts._replace(path="/metrics")


class _Call:
    """One request, in a thread."""

    def __init__(self, parts: SplitResult, timeout: float) -> None:
        assert parts.hostname is not None
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        self._socket: socket.socket | None = None

    def __call__(self) -> list[Sample]:
        connection = self._connection
        try:
            connection.connect()
            self._socket = connection.sock  # http.client may drop it before the answer's end
            connection.request("GET", self._path, headers={"Accept": _ACCEPT})
            with connection.getresponse() as response:
                if response.status != http.HTTPStatus.OK:
                    raise http.client.HTTPException(f"HTTP {response.status} {response.reason}")
                body = response.read(_LARGEST + 1)
            if len(body) > _LARGEST:
                raise http.client.HTTPException(f"the response has more than {_LARGEST:,} bytes")
            return samples_of(body.decode("utf-8", "replace"))
        finally:
            connection.close()

    def cut(self) -> None:
        """End the thread, which may wait for the next bytes of an endless answer."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def samples_of(text: str) -> list[Sample]:
    """The samples of our series. Raises ValueError if one is not in Prometheus's format."""
    parse = _parser()
    ours = "".join(f"{line}\n" for line in text.splitlines() if line.startswith(PREFIXES))
    return [
        Sample(sample.name, sample.labels, float(sample.value))
        for family in parse(ours)
        for sample in family.samples
    ]


def _parser() -> Callable[[str], Iterable[Metric]]:
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError as error:
        raise MissingExtraError(
            "aioproducer top reads metrics with prometheus_client: "
            "pip install 'aioproducer[cli,prometheus]'"
        ) from error
    return text_string_to_metric_families


def _one_line(text: str) -> str:
    """``text`` of a peer, for a terminal."""
    shown = "".join(each if each.isprintable() else " " for each in text[:_REASON])
    return " ".join(shown.split())


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
            self._terminal.say(f"{message}; still trying")


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
        self._draw(f"{message}; still trying. The last figures were:")

    def _draw(self, note: str) -> None:
        if self._live is not None:
            shown = picture(self._title, self._producers, rows=self._rows, note=note)
            self._live.update(shown, refresh=True)


HELP = f"""\
Show the activity of a process's producers, from its Prometheus endpoint.

Rates and latencies are those of the interval. A terminal shows a live table; otherwise each \
producer gets a line per interval. If the endpoint fails later, the command says so and keeps \
trying.
{
    exit_codes(
        "ended by an interrupt (SIGINT), SIGTERM, SIGHUP or --count",
        "the endpoint has no metrics of producers, or did not answer",
        "wrong use: an option or the address",
    )
}

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
            with output_may_close(), display:
                await _show(watch, first, display)
        except asyncio.CancelledError:
            if not interrupted:
                raise
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
