"""The grants by which a token endpoint gives a client a token: token providers that block.

Source: Kafka's ``ClientCredentialsJwtRetriever``, ``JwtBearerJwtRetriever`` (KIP-1139) and
``FileJwtRetriever``.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote_plus

from aioproducer.auth.assertions import read_secret_file
from aioproducer.auth.token import Token, token_from
from aioproducer.auth.token_endpoint import TokenEndpoint
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError, TokenError

__all__ = ["ClientCredentials", "JwtBearer", "TokenFile"]

_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_OF_A_CLIENT: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class _Assertion(Protocol):
    """A signed assertion, made or read anew for each request."""

    def create(self) -> Secret: ...


@dataclass(frozen=True)
class ClientCredentials:
    """``grant_type=client_credentials`` with a secret (HTTP Basic), or with a client assertion.

    ``urlencode_header``: encode id and secret before Basic does, as RFC 6749, section 2.3.1 wants
    it (``sasl.oauthbearer.header.urlencode``).
    """

    endpoint: TokenEndpoint
    client_id: str | None = None
    client_secret: Secret | None = None
    scope: str | None = None
    urlencode_header: bool = False
    assertion: _Assertion | None = None

    def __post_init__(self) -> None:
        """Raises ConfigError where neither a secret nor an assertion is given."""
        if self.assertion is None and not (self.client_id and self.client_secret):
            raise ConfigError(
                "client credentials need sasl_oauthbearer_client_credentials_client_id and"
                " …_client_secret, or an assertion (sasl_oauthbearer_assertion_…)"
            )

    def __call__(self) -> Token:
        """Ask the endpoint. Raises TokenError or TokenEndpointError."""
        form: dict[str, str | Secret] = {"grant_type": "client_credentials", **_scope(self.scope)}
        if self.assertion is not None:
            assertion = self.assertion.create()
            form["client_assertion_type"] = _ASSERTION_OF_A_CLIENT
            form["client_assertion"] = assertion
            if self.client_id:
                form["client_id"] = self.client_id.strip()
            return self.endpoint.fetch(form, None, assertion)
        secret = self.client_secret or Secret("")
        authorization = _basic(self.client_id or "", secret, self.urlencode_header)
        bare = Secret(authorization.reveal().removeprefix("Basic "))
        return self.endpoint.fetch(form, authorization, secret, bare)


@dataclass(frozen=True)
class JwtBearer:
    """``grant_type=jwt-bearer`` (RFC 7523): the assertion stands for the one who asks."""

    endpoint: TokenEndpoint
    assertion: _Assertion
    scope: str | None = None

    def __call__(self) -> Token:
        """Ask the endpoint. Raises TokenError or TokenEndpointError."""
        assertion = self.assertion.create()
        form = {"grant_type": _JWT_BEARER, "assertion": assertion, **_scope(self.scope)}
        return self.endpoint.fetch(form, None, assertion)


@dataclass(frozen=True)
class TokenFile:
    """A file that holds a token, and that others write anew; it is read at each fetch."""

    path: Path

    def __call__(self) -> Token:
        """Read the file. Raises TokenError or TokenEndpointError."""
        token = _token_or_none(read_secret_file(self.path, "token"))
        if token is None:
            raise TokenError(f"the token file {self.path} contains no bearer token")
        return token


def _token_or_none(text: Secret) -> Token | None:
    try:
        return token_from(text)
    except TokenError:
        return None


def _scope(scope: str | None) -> Mapping[str, str | Secret]:
    return {"scope": scope.strip()} if scope and scope.strip() else {}


def _basic(client_id: str, secret: Secret, urlencode: bool) -> Secret:
    pair = [client_id.strip(), secret.reveal().strip()]
    if urlencode:
        pair = [quote_plus(text) for text in pair]
    return Secret(f"Basic {base64.b64encode(':'.join(pair).encode()).decode()}")
