"""Requests by HTTP: connections, failover between registries, retries, limits.

The connections are those of one event loop, while requests are in flight. Requests come in bursts:
when records of new topics are sent. The last one to end closes the connections, so that none
outlives its event loop, and none is used that the registry has closed.

No secret leaves a function as an exception's local: a function that holds one returns a value, and
its caller raises.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aioproducer.errors import (
    ConfigError,
    MissingExtraError,
    SchemaRegistryAuthenticationError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
)
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.threads import ThreadForEach
from aioproducer.foundation.secret import Secret, printable
from aioproducer.foundation.version import __version__
from aioproducer.schema_registry.rest.addresses import (
    RegistryAddress,
    registry_addresses,
    secrets_in,
)
from aioproducer.schema_registry.rest.authentication import Credentials
from aioproducer.schema_registry.rest.requests import (
    RETRIED,
    Answer,
    RegistryRequest,
    body_of,
    registry_message,
)

if TYPE_CHECKING:
    import httpx2

__all__ = [
    "Session",
    "Sessions",
    "imported_httpx2",
    "HttpSettings",
    "HttpTransport",
    "http_settings",
    "http_transport",
]


_CONNECTIONS: Final = 20


class Sessions:
    """Gives requests the session of their event loop. Threads may share the object."""

    def __init__(self, tls: Callable[[], ssl.SSLContext] | None, proxy: str | None = None) -> None:
        """``tls`` gives the context of new connections, and may read files; None: without TLS."""
        self._tls = tls
        self._proxy = proxy
        self._sessions: dict[asyncio.AbstractEventLoop, Session] = {}

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """The session of this event loop.

        Raises:
            ConfigError: a file of the TLS options can't be used.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            context = None
            if self._tls is not None:
                threads = ThreadForEach("aioproducer-registry-tls")
                context = await loop.run_in_executor(threads, self._tls)
            self._forget_ended_loops()
            if loop not in self._sessions:
                self._sessions[loop] = Session(context, self._proxy)
        session = self._sessions[loop]
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            if not session.users:
                del self._sessions[loop]
                await session.client.aclose()

    def _forget_ended_loops(self) -> None:
        for loop in [each for each in list(self._sessions) if each.is_closed()]:
            self._sessions.pop(loop, None)


class Session:
    """One client, and the number of requests that use it."""

    def __init__(self, context: ssl.SSLContext | None, proxy: str | None) -> None:
        module = imported_httpx2()
        self.users = 0
        self.slots = asyncio.Semaphore(_CONNECTIONS)
        """A request waits here for a connection: the time for a response begins afterwards."""
        self.client: httpx2.AsyncClient = module.AsyncClient(
            # Without an address that needs TLS no certificate is trusted, and none is loaded.
            verify=context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            proxy=proxy,
            timeout=None,  # each request has its own
            follow_redirects=False,  # credentials stay with the host that they are meant for
            limits=module.Limits(
                max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS
            ),
        )


def imported_httpx2() -> Any:
    """The module. Raises MissingExtraError."""
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtraError(
            "the schema registry's client needs httpx2: pip install 'aioproducer[schema-registry]'"
        ) from error
    return httpx2


_LARGEST_BODY: Final = 16 * 1024 * 1024
_FOR_A_STEP: Final = 0.4
"""The part of the time for a request in which it has a TCP connection, and then one of TLS."""
_ACCEPTED: Final = (
    "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json"
)
_USER_AGENT: Final = f"aioproducer/{__version__}"
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, kw_only=True)
class HttpSettings:
    """The registries, and the limits and retries of requests to them."""

    addresses: tuple[RegistryAddress, ...]
    credentials: Credentials = field(repr=False)
    headers: Mapping[str, Secret] = field(default_factory=dict)
    timeout: float = 10.0
    """Seconds for one request to one registry. Retries begin only within this time."""
    retries: int = 3
    """Further rounds, after every registry has failed once."""
    backoff: float = 0.1
    """Seconds before the first retry; they double."""
    longest_backoff: float = 2.0

    def with_retries(
        self, retries: int | None, backoff: float | None, longest_backoff: float | None
    ) -> HttpSettings:
        """The settings with other retries; what is None stays."""
        return replace(
            self,
            retries=self.retries if retries is None else retries,
            backoff=self.backoff if backoff is None else backoff,
            longest_backoff=self.longest_backoff if longest_backoff is None else longest_backoff,
        )


def http_settings(
    urls: Sequence[Secret],
    credentials: Credentials,
    headers: Mapping[str, Secret],
    timeout: float,
) -> HttpSettings:
    """Checked settings. Raises ConfigError."""
    if not 0 < timeout < math.inf:
        raise ConfigError("timeout: the seconds for a request must be a positive number")
    return HttpSettings(
        addresses=registry_addresses(urls, with_credentials=credentials.given),
        credentials=credentials,
        headers=_checked_headers(headers),
        timeout=timeout,
    )


def _checked_headers(headers: Mapping[str, Secret]) -> Mapping[str, Secret]:
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise ConfigError(f"headers: {name!r} is not the name of a header")
        if not re.fullmatch(r"[\t\x20-\x7e]*", value.reveal()):
            raise ConfigError(f"headers: the value of {name} contains characters outside of ASCII")
    return headers


def http_transport(
    settings: HttpSettings, tls: Callable[[], ssl.SSLContext], proxy: str | None = None
) -> HttpTransport:
    """A transport with connections of its own; ``tls`` is asked if an address needs it."""
    encrypted = any(each.encrypted for each in settings.addresses)
    return HttpTransport(settings, Sessions(tls if encrypted else None, proxy), Random())


class _Trouble(NamedTuple):
    """A request without a response that can be used."""

    reason: str
    error: type[SchemaRegistryError] = SchemaRegistryUnavailableError
    sent: bool = True
    """The registry may have carried the request out."""


class HttpTransport:
    """Asks the registry that answered last; one that fails is asked after all others."""

    def __init__(self, settings: HttpSettings, sessions: Sessions, random: Random) -> None:
        """Nothing is sent yet. Raises MissingExtraError."""
        imported_httpx2()
        self._settings = settings
        self._sessions = sessions
        self._backoff = ExponentialBackoff(settings.backoff, settings.longest_backoff, random)
        self._preferred = settings.addresses
        """All addresses; the first one is asked first."""

    def __repr__(self) -> str:
        return f"<HttpTransport to {self.shown}>"

    @property
    def shown(self) -> str:
        """The addresses for messages."""
        return ", ".join(each.url for each in self._settings.addresses)

    def session(self) -> AbstractAsyncContextManager[object]:
        """Connections stay open meanwhile: for several requests in a row."""
        return self._sessions.session()

    async def request(self, request: RegistryRequest) -> Any:
        """The response's body, which JSON was read from.

        Raises:
            SchemaRegistryUnavailableError: no registry answered, after the retries.
            SchemaRegistryError: a registry refused the request, or its response can't be used.
        """
        time = asyncio.get_running_loop().time
        end_of_retries = time() + self._settings.timeout
        failures: dict[RegistryAddress, Answer | _Trouble] = {}
        async with self._sessions.session() as session:
            for failed_rounds in range(1, self._settings.retries + 2):
                wait = self._backoff.delay(failed_rounds)
                for address in self._preferred:
                    outcome = await self._attempt(session, address, request)
                    if self._is_final(outcome, request):
                        return self._read(outcome, address, request)
                    self._ask_last(address)
                    failures[address] = outcome
                    if isinstance(outcome, Answer):
                        wait = max(wait, outcome.retry_after or 0.0)
                if failed_rounds > self._settings.retries or time() + wait > end_of_retries:
                    break
                await asyncio.sleep(wait)
        raise self._unavailable(request, failures)

    async def _attempt(
        self, session: Session, address: RegistryAddress, request: RegistryRequest
    ) -> Answer | _Trouble:
        """One request to one registry; once more if a token was refused that can be renewed."""
        credentials, timeout = self._settings.credentials, self._settings.timeout
        authorization = address.authorization or await credentials.authorization(timeout)
        outcome = await self._exchange(session, address.url, request, authorization)
        refused = isinstance(outcome, Answer) and outcome.status == 401
        if refused and credentials.renewable:
            credentials.renew(authorization)
            authorization = await credentials.authorization(timeout)
            outcome = await self._exchange(session, address.url, request, authorization)
        return outcome

    async def _exchange(
        self,
        session: Session,
        url: str,
        request: RegistryRequest,
        authorization: Secret | None,
    ) -> Answer | _Trouble:
        headers = {name: value.reveal() for name, value in self._settings.headers.items()}
        headers |= {
            "User-Agent": _USER_AGENT,
            "Accept": _ACCEPTED,
            "Accept-Encoding": "identity",
        }  # nothing unpacks into more
        content = None
        if request.body is not None:
            headers["Content-Type"] = _CONTENT_TYPE
            content = json.dumps(request.body).encode()
        if authorization is not None:
            headers["Authorization"] = authorization.reveal()
        timeout = self._settings.timeout
        # A connection that is cancelled in its handshake stays open: the handshake ends before.
        steps = imported_httpx2().Timeout(timeout, connect=timeout * _FOR_A_STEP)
        try:
            async with (
                session.slots,
                asyncio.timeout(timeout),
                session.client.stream(
                    request.method,
                    url + request.path,
                    headers=headers,
                    content=content,
                    timeout=steps,
                ) as response,
            ):
                return await _answer_of(response)
        except Exception as error:
            return _trouble_of(error, timeout)

    def _is_final(self, outcome: Answer | _Trouble, request: RegistryRequest) -> bool:
        """No other attempt is made."""
        if isinstance(outcome, Answer):
            return outcome.status not in RETRIED or not request.repeatable
        if outcome.error is not SchemaRegistryUnavailableError:
            return True
        return outcome.sent and not request.repeatable

    def _read(
        self, outcome: Answer | _Trouble, address: RegistryAddress, request: RegistryRequest
    ) -> Any:
        url = address.url + request.path
        asked = f"{request.method} {url}"
        if isinstance(outcome, Answer):
            return body_of(outcome, asked, url, *self._secrets(address))
        told = f"{asked}: the schema registry {outcome.reason}"
        if outcome.error is SchemaRegistryUnavailableError:
            told = f"{told}; it may have executed the request"
        raise outcome.error(told, url=url)

    def _unavailable(
        self, request: RegistryRequest, failures: Mapping[RegistryAddress, Answer | _Trouble]
    ) -> SchemaRegistryUnavailableError:
        told, status, number = [], None, None
        for address, outcome in failures.items():
            if isinstance(outcome, _Trouble):
                told.append(f"{address.url} {outcome.reason}")
                continue
            message, code = registry_message(outcome, *self._secrets(address))
            status, number = outcome.status, code
            answered = f"{address.url} answered with status {outcome.status}"
            told.append(f"{answered}: {message}" if message else answered)
        return SchemaRegistryUnavailableError(
            f"{request.method} {request.path}: no schema registry is available: {'; '.join(told)}",
            url=self._settings.addresses[0].url + request.path,
            status=status,
            error_code=number,
        )

    def _secrets(self, address: RegistryAddress) -> tuple[Secret, ...]:
        header = address.authorization or self._settings.credentials.last
        held = () if header is None else secrets_in(header)
        return (*held, *self._settings.headers.values())

    def _ask_last(self, failed: RegistryAddress) -> None:
        others = tuple(each for each in self._preferred if each != failed)
        self._preferred = (*others, failed)


async def _answer_of(response: httpx2.Response) -> Answer | _Trouble:
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.strip().lower() != "identity":
        return _Trouble("compressed its response, which the request forbids", SchemaRegistryError)
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > _LARGEST_BODY:
            return _Trouble(
                f"sent a response of more than {_LARGEST_BODY} bytes", SchemaRegistryError
            )
    return Answer(
        response.status_code,
        bytes(body),
        response.headers.get("Location"),
        _seconds(response.headers.get("Retry-After")),
    )


def _seconds(text: str | None) -> float | None:
    """``Retry-After`` in seconds; a date is not looked at."""
    return float(text) if text is not None and re.fullmatch("[0-9]{1,6}", text) else None


def _trouble_of(error: Exception, timeout: float) -> _Trouble:
    httpx2 = imported_httpx2()
    if isinstance(error, httpx2.ConnectTimeout):
        within = f"{duration(timeout * _FOR_A_STEP)}"
        return _Trouble(f"can't be reached (no connection within {within})", sent=False)
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return _Trouble(f"did not answer within {duration(timeout)}")
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _Trouble(
                f"can't be trusted ({cause.verify_message}): for your own authority, pass an "
                "ssl_context, or set schema.registry.ssl.truststore.location",
                SchemaRegistryAuthenticationError,
            )
        cause = cause.__cause__ or cause.__context__
    told = f"{type(error).__name__}: {printable(error)}" if str(error) else type(error).__name__
    if isinstance(
        error, httpx2.LocalProtocolError | httpx2.InvalidURL | httpx2.UnsupportedProtocol
    ):
        return _Trouble(f"can't be asked ({told})", SchemaRegistryError, sent=False)
    if isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        return _Trouble(f"can't be reached ({told})", sent=False)
    return _Trouble(f"broke the connection ({told})")
