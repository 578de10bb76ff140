"""A POST to a token endpoint, and the token in its answer (RFC 6749, sections 4.4 and 5).

It blocks: :class:`~aioproducer.auth.tokens.TokenSource` calls it in a thread. No secret leaves a
function as an exception's local: whatever holds one returns a value, and its caller raises.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlencode

from aioproducer.auth.http_exchange import (
    FINAL_STATUSES,
    REDIRECTS,
    SUCCESS,
    Answer,
    HttpRequest,
    Limits,
    Trouble,
    split_url,
    without_query,
)
from aioproducer.auth.peer_text import printable
from aioproducer.auth.token import Token
from aioproducer.auth.token_answer import reason_in, token_in
from aioproducer.config.addresses import is_loopback
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError, TokenEndpointError, TokenError

__all__ = ["TokenEndpoint"]

_FORM: Final = Secret("application/x-www-form-urlencoded")


@dataclass(frozen=True)
class TokenEndpoint:
    """An HTTP address that gives tokens, and how long to wait for it.

    Unlike Kafka's client, aioproducer refuses an ``http://`` address unless it is this machine's
    own and no proxy of the environment would get the request: secrets would cross the network
    in the clear. Redirects are not followed. An ``https://`` address is asked through the proxies
    of the environment (``HTTPS_PROXY``, ``NO_PROXY``), which see no secret.
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
        host = parts.hostname or ""
        if parts.scheme == "http" and not is_loopback(host):
            raise ConfigError(
                f"{self.option}: {self.shown} is not encrypted: anyone on the network path could "
                "read the client's secret and the token. Use https"
            )
        if parts.scheme == "http" and _has_proxy(host):
            raise ConfigError(
                f"{self.option}: {self.shown} would be asked through a proxy (HTTP_PROXY or "
                f"ALL_PROXY), which could read the client's secret and the token. Add {host} to "
                "NO_PROXY"
            )

    @property
    def shown(self) -> str:
        """The address for messages: without a query, which may hold a secret."""
        return without_query(self.url) or "?"

    def fetch(
        self, form: Mapping[str, str | Secret], authorization: Secret | None, *secrets: Secret
    ) -> Token:
        """The token for a form; a peer's text that repeats one of ``secrets`` is masked.

        Raises:
            TokenError: the endpoint refuses, is not to be trusted, or gives no token. Final.
            TokenEndpointError: it can't be reached, or fails at present.
            ConfigError: a file of the TLS options can't be used.
        """
        limits = Limits(self.connect_timeout, self.read_timeout)
        answer = self._post(form, authorization).answer(limits, self.tls())
        if isinstance(answer, Trouble):
            kind = TokenError if answer.final else TokenEndpointError
            raise kind(f"the token endpoint {self.shown} {answer.reason}")
        if answer.status not in SUCCESS:
            raise self._refusal(answer, secrets)
        found = token_in(answer.body, self.clock)
        if isinstance(found, str):
            raise TokenError(f"the token endpoint {self.shown} {found}")
        return found

    def _post(self, form: Mapping[str, str | Secret], authorization: Secret | None) -> HttpRequest:
        headers = {"Content-Type": _FORM}
        if authorization is not None:
            headers["Authorization"] = authorization
        body = urlencode({name: _text(value) for name, value in form.items()})
        encrypted = _split(self.url, self.option).scheme == "https"
        return HttpRequest(self.url, headers, Secret(body), through_proxy=encrypted)

    def _refusal(
        self, answer: Answer, secrets: tuple[Secret, ...]
    ) -> TokenError | TokenEndpointError:
        told = f"the token endpoint {self.shown} answered with status {answer.status}"
        if answer.status in REDIRECTS:
            location = without_query(answer.headers.get("location", Secret("")).reveal())
            to = f" to {printable(location)}" if location else ""
            return TokenError(f"{told}, a redirect{to}: configure the final address")
        reason = reason_in(answer.body, *secrets)
        told = f"{told}: {reason}" if reason else told
        if answer.status in FINAL_STATUSES:
            return TokenError(f"{told}; check the client's credentials, the scope and the address")
        return TokenEndpointError(f"{told}; the producer retries")


def _split(url: str, name: str) -> SplitResult:
    parts = split_url(url)
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


def _has_proxy(host: str) -> bool:
    """True if the environment, or the system, names a proxy for ``http://`` and the host."""
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    return bool(proxies.get("http") or proxies.get("all")) and not proxy_bypass(host)


def _text(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value
