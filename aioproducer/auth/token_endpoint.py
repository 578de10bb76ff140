"""A POST to a token endpoint, and the token in its answer (RFC 6749, sections 4.4 and 5).

It blocks: :class:`~aioproducer.auth.tokens.TokenSource` calls it in a thread. No secret leaves a
function as an exception's local: whatever holds one returns a value, and its caller raises.
"""

from __future__ import annotations

import logging
import math
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import SplitResult, urlencode, urlsplit

from aioproducer.auth.peer_text import json_object, printable
from aioproducer.auth.token import Token, token_from
from aioproducer.config.addresses import is_loopback
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError, MissingExtraError, TokenEndpointError, TokenError
from aioproducer.foundation.wording import duration

if TYPE_CHECKING:
    import httpx2

__all__ = ["TokenEndpoint"]

logger = logging.getLogger(__name__)

_MOST_OF_AN_ANSWER: Final = 1024 * 1024
_LONGEST: Final = 60.0
"""Seconds for a whole answer, however it trickles in."""
_SUCCESS: Final = frozenset({200, 201})
_REDIRECTS: Final = range(300, 400)
_FINAL: Final = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505}
)
"""Source: ``HttpJwtRetriever`` of Kafka; every other status passes."""
_TOKEN_FIELDS: Final = ("access_token", "id_token")
_LOGS_WITH_SECRETS: Final = (
    "httpx2",
    *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
)
_ERROR_FIELDS: Final = (("error", "error_description"), ("errorCode", "errorSummary"))


class _Answer(NamedTuple):
    status: int
    location: str | None
    body: Secret


class _Trouble(NamedTuple):
    """A request without an answer."""

    reason: str
    final: bool = False


@dataclass(frozen=True)
class TokenEndpoint:
    """An HTTP address that gives tokens, and how long to wait for it.

    As with Kafka an ``http://`` address is taken: a warning says that secrets cross the network in
    the clear, unless it is this machine's own. Redirects are not followed. Proxies of the
    environment (``HTTPS_PROXY``, ``NO_PROXY``) are used.
    """

    url: str = field(repr=False)
    clock: Callable[[], float]
    """Seconds since the epoch."""
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    """Gives the context of each request; by default, with the authorities that the system trusts.
    It may read files."""
    connect_timeout: float = 10.0
    read_timeout: float = 10.0
    option: str = "sasl_oauthbearer_token_endpoint_url"
    """The option that the address is from, for messages."""

    def __post_init__(self) -> None:
        """Raises ConfigError for an address that can't be asked."""
        parts = _split(self.url, self.option)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            logger.warning(
                "%s: %s is not encrypted: anyone on the network path can read the client's secret"
                " and the token; use https",
                self.option,
                self.shown,
            )

    @property
    def shown(self) -> str:
        """The address for messages: without a query, which may hold a secret."""
        return _without_query(self.url) or "?"

    def fetch(
        self, form: Mapping[str, str | Secret], authorization: Secret | None, *secrets: Secret
    ) -> Token:
        """The token for a form; a peer's text that repeats one of ``secrets`` is masked.

        Raises:
            TokenError: the endpoint refuses, is not to be trusted, or gives no token. Final.
            TokenEndpointError: it can't be reached, or fails at present.
            ConfigError: a file of the TLS options can't be used.
        """
        answer = self._post(form, authorization, self.tls())
        if isinstance(answer, _Trouble):
            kind = TokenError if answer.final else TokenEndpointError
            raise kind(f"the token endpoint {self.shown} {answer.reason}")
        if answer.status not in _SUCCESS:
            raise self._refusal(answer, secrets)
        found = self._token_in(answer)
        if isinstance(found, str):
            raise TokenError(f"the token endpoint {self.shown} {found}")
        return found

    def _post(
        self,
        form: Mapping[str, str | Secret],
        authorization: Secret | None,
        context: ssl.SSLContext,
    ) -> _Answer | _Trouble:
        httpx2 = _httpx2()
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # what is not packed can't unpack into gigabytes
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        if authorization is not None:
            headers["Authorization"] = authorization.reveal()
        body = urlencode({name: _text(value) for name, value in form.items()})
        deadline = self.clock() + _LONGEST
        timeout = httpx2.Timeout(self.read_timeout, connect=self.connect_timeout)
        try:
            with (
                _unlogged(),
                httpx2.Client(verify=context, timeout=timeout, follow_redirects=False) as client,
                client.stream("POST", self.url, headers=headers, content=body) as response,
            ):
                return self._read(response, deadline)
        except (
            httpx2.HTTPError,
            httpx2.InvalidURL,
            httpx2.StreamError,
            OSError,
            ValueError,
        ) as error:
            return _trouble_of(error)

    def _read(self, response: httpx2.Response, deadline: float) -> _Answer | _Trouble:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            return _Trouble("compressed its response, which the request forbids", final=True)
        body = bytearray()
        for piece in response.iter_raw():  # as it comes, so that the time is looked at
            body += piece
            if len(body) > _MOST_OF_AN_ANSWER:
                return _Trouble(
                    f"sent a response of more than {_MOST_OF_AN_ANSWER} bytes", final=True
                )
            if self.clock() > deadline:
                return _Trouble(f"did not complete its response within {duration(_LONGEST)}")
        text = Secret(body.decode("utf-8", "replace"))
        location = _without_query(response.headers.get("Location"))
        return _Answer(response.status_code, location, text)

    def _refusal(
        self, answer: _Answer, secrets: tuple[Secret, ...]
    ) -> TokenError | TokenEndpointError:
        told = f"the token endpoint {self.shown} answered with status {answer.status}"
        if answer.status in _REDIRECTS:
            to = f" to {printable(answer.location)}" if answer.location else ""
            return TokenError(f"{told}, a redirect{to}: configure the final address")
        reason = _reason(answer.body, secrets)
        told = f"{told}: {reason}" if reason else told
        if answer.status in _FINAL:
            return TokenError(f"{told}; check the client's credentials, the scope and the address")
        return TokenEndpointError(f"{told}; the producer retries")

    def _token_in(self, answer: _Answer) -> Token | str:
        """The token, or the reason why there is none."""
        parsed = json_object(answer.body.reveal())
        if parsed is None:
            return "answered with something other than a JSON object"
        value = next(
            (text for name in _TOKEN_FIELDS if isinstance(text := parsed.get(name), str) and text),
            None,
        )
        if value is None:
            return "answered without an access_token"
        try:
            token = token_from(value)
        except TokenError:
            return "answered with an access_token that is not a bearer token"
        expires = token.expires
        if expires is None and (lifetime := _lifetime(parsed.get("expires_in"))) is not None:
            expires = self.clock() + lifetime
        scope = parsed.get("scope")
        shown = scope if isinstance(scope, str) else token.scope
        return Token(token.value, expires, token.principal, shown)


class _NotOfOurs(logging.Filter):
    """Drops records of requests to token endpoints, which show the address with its query (INFO)
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


def _split(url: str, name: str) -> SplitResult:
    parts = _parts_of(url)
    if parts is None:
        raise ConfigError(
            f"{name}: the value is not a URL (it is not shown because it may contain a secret)"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{name}: the URL must begin with https:// or http://, and name a host")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"{name}: a user or password in the address is not used; set them as the client's id "
            "and secret"
        )
    return parts


def _parts_of(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # reading it checks it
    except ValueError:
        return None
    return parts


def _text(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value


def _httpx2() -> Any:
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtraError(
            "tokens from an endpoint need httpx2: pip install 'aioproducer[oauth]'"
        ) from error
    return httpx2


def _trouble_of(error: Exception) -> _Trouble:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _Trouble(
                f"can't be trusted ({cause.verify_message}): for your own authority, set its "
                "certificate as ssl_truststore_location, or only for this endpoint as "
                "ssl.truststore.location in sasl_jaas_config",
                final=True,
            )
        cause = cause.__cause__ or cause.__context__
    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return _Trouble(f"can't be reached ({told}); the producer retries")


def _reason(body: Secret, secrets: tuple[Secret, ...]) -> str | None:
    """OAuth's error and its description (RFC 6749, section 5.2), and nothing else of the body."""
    parsed = json_object(body.reveal()) or {}
    for code, description in _ERROR_FIELDS:
        if isinstance(parsed.get(code), str):
            told = [printable(parsed[code], *secrets)]
            if isinstance(parsed.get(description), str):
                told.append(printable(parsed[description], *secrets))
            return ", ".join(told)
    return None


def _without_query(location: str | None) -> str | None:
    parts = _parts_of(location or "")
    if parts is None or not parts.hostname:
        return None
    port = f":{parts.port}" if parts.port is not None else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _lifetime(seconds: object) -> float | None:
    """``expires_in``, which some servers give as text."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float | str):
        return None
    try:
        number = float(seconds)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number > 0 else None
