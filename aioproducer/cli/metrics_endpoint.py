"""A process's endpoint for Prometheus, read once: HTTP → samples."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from aioproducer.errors import ConfigError, MissingExtraError, ProducerError
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.threads import ThreadForEach
from aioproducer.observability.live.snapshot import PREFIXES
from aioproducer.observability.series import Sample

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["EndpointError", "MetricsEndpoint", "samples_of"]

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
            reason = f"the answer is not in the format of Prometheus ({error})"
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
            f"{url!r} is no address of metrics: give one as http://127.0.0.1:9000/metrics"
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
                raise http.client.HTTPException(f"the answer has more than {_LARGEST:,} bytes")
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
