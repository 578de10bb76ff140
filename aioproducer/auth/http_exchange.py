"""One HTTP request to a server that gives tokens, and its answer; a cloud's metadata server.

Only the cloud's own machines reach its metadata server, so that needs no secret.

The calls block: :class:`~aioproducer.auth.tokens.TokenSource` runs them in a thread. No secret
leaves a function as an exception's local: whatever holds one returns a value, and its caller
raises.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import time as own_clock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import SplitResult, urlsplit

from aioproducer.auth.oauthbearer import Token, reason_in, token_in
from aioproducer.errors import MissingExtraError, TokenEndpointError, TokenError
from aioproducer.foundation.logs import duration
from aioproducer.foundation.secret import Secret

if TYPE_CHECKING:
    import httpx2

__all__ = [
    "own_clock",
    "DEFAULT_LIMITS",
    "FINAL_STATUSES",
    "REDIRECTS",
    "SUCCESS",
    "Answer",
    "HttpRequest",
    "Limits",
    "Trouble",
    "load_http",
    "split_url",
    "without_query",
    "MetadataServer",
]


SUCCESS: Final = frozenset({200, 201})
REDIRECTS: Final = range(300, 400)
FINAL_STATUSES: Final = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505}
)
"""Source: ``HttpJwtRetriever`` of Kafka; every other status passes."""
_MOST_OF_AN_ANSWER: Final = 1024 * 1024
_LONGEST: Final = 60.0
"""Seconds for a whole exchange, however it trickles: the handshake, the headers, the body."""
_ALWAYS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # what is not packed can't unpack into gigabytes
    "Cache-Control": "no-cache",
}
_LOGS_WITH_SECRETS: Final = (
    "httpx2",
    *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
)


class Answer(NamedTuple):
    """A server's answer; ``headers`` are by their names in lower case."""

    status: int
    headers: Mapping[str, Secret]
    body: Secret


class Trouble(NamedTuple):
    """A request without an answer."""

    reason: str
    final: bool = False


@dataclass(frozen=True)
class Limits:
    """Seconds that a request may take, beside those for its whole answer."""

    connect: float = 10.0
    read: float = 10.0


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True)
class HttpRequest:
    """A request: a POST if it has a body. Redirects are not followed.

    A POST to an ``https://`` address goes through the proxies of the environment (``HTTPS_PROXY``,
    ``NO_PROXY``), which see no secret. Every other request goes to its server directly: a proxy
    would read what is not encrypted, and only this machine reaches the server that a GET asks.
    """

    url: str
    headers: Mapping[str, Secret]
    body: Secret | None = None

    def answer(self, limits: Limits, context: ssl.SSLContext | None) -> Answer | Trouble:
        """Ask the server. ``context`` None is for ``http://``."""
        httpx2 = _httpx2()
        headers = {**_ALWAYS, **{name: value.reveal() for name, value in self.headers.items()}}
        timeout = httpx2.Timeout(limits.read, connect=limits.connect)
        options = {
            "verify": False if context is None else context,
            "timeout": timeout,
            "follow_redirects": False,
            "trust_env": self.body is not None and urlsplit(self.url).scheme == "https",
        }
        method = "GET" if self.body is None else "POST"
        content = None if self.body is None else self.body.reveal()
        deadline = _Deadline()
        try:
            with (
                _unlogged(),
                deadline,
                httpx2.Client(**options) as client,
                client.stream(
                    method,
                    self.url,
                    headers=headers,
                    content=content,
                    extensions={"trace": deadline.watch},
                ) as response,
            ):
                return deadline.trouble or _read(response, deadline)
        except (
            httpx2.HTTPError,
            httpx2.InvalidURL,
            httpx2.StreamError,
            OSError,
            ValueError,
        ) as error:
            return deadline.trouble or _trouble_of(error)


class _Deadline:
    """Ends the connections of one exchange after :data:`_LONGEST`, wherever it waits by then.

    The library's own timeouts are for single bytes: a server that sends one now and then, or one
    ``100 Continue`` after the other, would hold the thread for ever.
    """

    def __init__(self) -> None:
        self.trouble: Trouble | None = None
        """Set when the time is over."""
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(_LONGEST, self._end)
        self._timer.name = "aioproducer-token-deadline"
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        for each in self._sockets:
            each.close()

    def watch(self, event: str, info: Mapping[str, Any]) -> None:
        """Called for each step of the exchange: ``httpcore2``'s extension ``trace``."""
        if event.endswith("connect_tcp.complete"):
            # TLS takes the socket over: a copy of it is the same connection.
            self._sockets.append(info["return_value"].get_extra_info("socket").dup())
            if self.trouble is not None:
                self._end()

    def _end(self) -> None:
        self.trouble = Trouble(f"did not complete its response within {duration(_LONGEST)}")
        for each in list(self._sockets):
            with suppress(OSError):  # the server has ended it
                each.shutdown(socket.SHUT_RDWR)


def _read(response: httpx2.Response, deadline: _Deadline) -> Answer | Trouble:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return Trouble("compressed its response, which the request forbids", final=True)
    body = bytearray()
    for piece in response.iter_raw():
        body += piece
        if len(body) > _MOST_OF_AN_ANSWER:
            return Trouble(f"sent a response of more than {_MOST_OF_AN_ANSWER} bytes", final=True)
    if deadline.trouble is not None:
        return deadline.trouble  # without a length, the end looks like that of a response
    headers = {name.lower(): Secret(value) for name, value in response.headers.items()}
    return Answer(response.status_code, headers, Secret(body.decode("utf-8", "replace")))


class _NotOfOurs(logging.Filter):
    """Drops records of requests for tokens, which show the address with its query (INFO)
    and the answer's headers (DEBUG); requests of others are logged on."""

    def __init__(self) -> None:
        super().__init__()
        self.mine = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(self.mine, "asks", False)


_NOT_OF_OURS: Final = _NotOfOurs()


@contextmanager
def _unlogged() -> Iterator[None]:
    """This thread's requests go unlogged."""
    for name in _LOGS_WITH_SECRETS:
        logging.getLogger(name).addFilter(_NOT_OF_OURS)  # once, however often it is added
    _NOT_OF_OURS.mine.asks = True
    try:
        yield
    finally:
        _NOT_OF_OURS.mine.asks = False


def load_http() -> None:
    """Import the library of requests."""
    with suppress(ImportError):  # a request says what is missing
        import httpx2  # noqa: F401


def _httpx2() -> Any:
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtraError(
            "tokens from an endpoint need httpx2: pip install 'aioproducer[oauth]'"
        ) from error
    return httpx2


def _trouble_of(error: Exception) -> Trouble:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Trouble(
                f"can't be trusted ({cause.verify_message}): for your own authority, set its "
                "certificate as ssl_truststore_location, or only for this endpoint as "
                "ssl.truststore.location in sasl_jaas_config",
                final=True,
            )
        cause = cause.__cause__ or cause.__context__
    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Trouble(f"can't be reached ({told}); the producer retries")


def split_url(url: str) -> SplitResult | None:
    """The parts of an address; None for a text that is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # reading it checks it
    except ValueError:
        return None
    return parts


def without_query(url: str | None) -> str | None:
    """An address for messages: its query may hold a secret."""
    parts = split_url(url or "")
    if parts is None or not parts.hostname:
        return None
    port = f":{parts.port}" if parts.port is not None else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


_SCHEMES: Final = ("http", "https")


@dataclass(frozen=True)
class MetadataServer:
    """GETs to one address.

    An ``http://`` address needs no warning: its packets do not leave the cloud's host.
    """

    name: str
    """For messages: ``Azure's instance metadata service``."""
    url: str = field(repr=False)
    headers: Mapping[str, Secret]
    refused: str
    """What to do if it gives no token."""
    unreachable: str
    """What to check if nothing answers."""
    clock: Callable[[], float]
    """Seconds since the epoch."""
    limits: Limits
    passing: frozenset[int] = frozenset()
    """Statuses that pass, beside those that always do."""

    @property
    def shown(self) -> str:
        """Name and address for messages, without a query."""
        return f"{self.name} at {without_query(self.url) or '?'}"

    def token(self) -> Token:
        """The token in its answer. Raises as :meth:`get`."""
        found = token_in(self.get().body, self.clock)
        if isinstance(found, str):
            raise TokenError(f"{self.shown} {found}; {self.refused}")
        return found

    def get(self) -> Answer:
        """Its answer, which has a status of success.

        Raises:
            TokenError: it refuses, or the address is none. Final.
            TokenEndpointError: it can't be reached, or fails at present.
        """
        parts = split_url(self.url)
        if parts is None or parts.scheme not in _SCHEMES or not parts.hostname:
            raise TokenError(f"{self.name} has no address that begins with http://")
        context = ssl.create_default_context() if parts.scheme == "https" else None
        answer = HttpRequest(self.url, self.headers).answer(self.limits, context)
        if isinstance(answer, Trouble):
            if answer.final:
                raise TokenError(f"{self.shown} {answer.reason}")
            raise TokenEndpointError(f"{self.shown} {answer.reason}; {self.unreachable}")
        if answer.status not in SUCCESS:
            raise self._refusal(answer)
        return answer

    def _refusal(self, answer: Answer) -> TokenError | TokenEndpointError:
        told = f"{self.shown} answered with status {answer.status}"
        if reason := reason_in(answer.body, *self.headers.values()):
            told = f"{told}: {reason}"
        final = answer.status in FINAL_STATUSES or answer.status in REDIRECTS
        if final and answer.status not in self.passing:
            return TokenError(f"{told}; {self.refused}")
        return TokenEndpointError(f"{told}; the producer retries")
