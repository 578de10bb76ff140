"""Tokens of Google Cloud without a secret: for its Managed Service for Apache Kafka.

Requests to the documented HTTP endpoint use the client of OAuth's token endpoints; google-auth
would add the package ``requests`` for two GETs. The documentation shows its credentials, for
machines outside of Google Cloud.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from aioproducer.auth.http_exchange import DEFAULT_LIMITS, Answer, Limits, MetadataServer, own_clock
from aioproducer.auth.oauthbearer import Token, base64url
from aioproducer.errors import TokenError
from aioproducer.foundation.secret import Secret

__all__ = ["gcp_token_provider"]

_HOST: Final = "metadata.google.internal"
_ACCOUNT: Final = "computeMetadata/v1/instance/service-accounts/default"
_SCOPES: Final = urlencode({"scopes": "https://www.googleapis.com/auth/cloud-platform"})
_FLAVOR: Final = Secret("Google")
_HEADER: Final = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
_LIFETIME: Final = 3600.0
"""Seconds, for a token whose expiry the server does not tell: brokers want one."""
_LONGEST_EMAIL: Final = 1000


def gcp_token_provider() -> Callable[[], Token]:
    """Return a token provider for OAUTHBEARER with the service account of this machine or pod.

    The metadata server of Compute Engine, GKE, Cloud Run and the like provides the account's access
    token, which Google's brokers take in the form of a JWT (``GcpLoginCallbackHandler`` of Google's
    ``managed-kafka-auth-login-handler``). ``GCE_METADATA_HOST`` names another server.

    All providers of a process share one token. A provider raises ``TokenError`` if there is no
    service account, and ``TokenEndpointError`` if the server does not answer.
    """
    return GcpIdentity()


@dataclass(frozen=True)
class GcpIdentity:
    """The token provider that :func:`gcp_token_provider` returns."""

    clock: Callable[[], float] = own_clock
    """Seconds since the epoch. A client sets this one and the limits to its own."""
    limits: Limits = DEFAULT_LIMITS

    def __call__(self) -> Token:
        """Ask for a token. Raises TokenError or TokenEndpointError."""
        account = self._email()
        token = self._server(f"token?{_SCOPES}").token()
        return _kafka_token(token, account, self.clock())

    def _email(self) -> str:
        server = self._server("email")
        answer = server.get()
        _check_flavor(server, answer)
        email = _email_in(answer)
        if email is None:
            raise TokenError(
                f"{server.shown} answered without a service account's email; {server.refused}"
            )
        return email

    def _server(self, path: str) -> MetadataServer:
        host = os.environ.get("GCE_METADATA_HOST") or _HOST
        return MetadataServer(
            "Google's metadata server",
            f"http://{host}/{_ACCOUNT}/{path}",
            {"Metadata-Flavor": _FLAVOR},
            "attach a service account with the role roles/managedkafka.client to this machine",
            "is this a machine of Google Cloud? Elsewhere, provide tokens of google-auth with"
            " sasl_oauthbearer_token_provider",
            self.clock,
            self.limits,
        )


def _check_flavor(server: MetadataServer, answer: Answer) -> None:
    """Google's servers always send this header; a proxy or another cloud's server does not."""
    if answer.headers.get("metadata-flavor") != _FLAVOR:
        raise TokenError(
            f"{server.shown} answered without the header 'Metadata-Flavor: Google', so it is not"
            " a metadata server"
        )


def _email_in(answer: Answer) -> str | None:
    email = answer.body.reveal().strip()
    characters = email.isascii() and email.isprintable()
    is_one = characters and "@" in email and len(email) <= _LONGEST_EMAIL
    return email if is_one else None


def _kafka_token(token: Token, account: str, now: float) -> Token:
    """The token in the form that Google's brokers take."""
    expires = now + _LIFETIME if token.expires is None else token.expires
    claims = {
        "exp": int(expires),
        "iat": int(now),
        "iss": "Google",
        "scope": "kafka",
        "sub": account,
    }
    parts = (json.dumps(_HEADER), json.dumps(claims), token.value.reveal())
    value = ".".join(base64url(part.encode()) for part in parts)
    return Token(Secret(value), expires, account, "kafka")
