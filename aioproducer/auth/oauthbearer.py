"""OAUTHBEARER: bearer tokens, and the login by one (RFC 7628, KIP-255).

In their order: the token and the forms in which providers give one; the time of its refresh; the
token in a server's answer, or the reason for giving none; the mechanism, with SASL extensions
(KIP-342). ``tokens.py`` fetches and keeps tokens; ``oauth_login.py`` reads the options.

Nothing here verifies a token: brokers do. The claims are read for the time at which it expires.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol, final

from aioproducer.auth.mechanism import Mechanism
from aioproducer.errors import AuthenticationError, ConfigError, TokenError
from aioproducer.foundation.secret import Secret, printable

__all__ = [
    "MOST_CHARACTERS",
    "RefreshRules",
    "Token",
    "base64url",
    "claims_of",
    "extension_fault",
    "json_object",
    "token_from",
    "reason_in",
    "token_in",
    "OAuthBearer",
    "OAuthBearerExchange",
]


MOST_CHARACTERS: Final = 256 * 1024
"""Brokers take a login message of 512 KiB at most (``sasl.server.max.receive.size``)."""

_BEARER: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
"""Source: RFC 6750, section 2.1; brokers refuse everything else."""
_MILLISECONDS_FROM: Final = 1e11
"""An expiry from here on (year 5138, as seconds) is in milliseconds."""
_NO_CLAIMS: Final[Mapping[str, Any]] = MappingProxyType({})
_WITH_EXPIRY: Final = 2
_WITH_PRINCIPAL: Final = 3
_WITH_EXTENSIONS: Final = 4


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token for brokers. ``expires`` is in seconds since the epoch."""

    value: Secret
    expires: float | None = None
    """None: nobody knows, so every login asks the provider again."""
    principal: str | None = None
    """For messages; brokers read it from the token itself."""
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    """SASL extensions (KIP-342), beside those of the configuration."""


def token_from(answer: object) -> Token:
    """The token in a provider's answer; an expiry that is not given is read from a JWT.

    An answer is a ``str``, a :class:`Secret`, a pair or a tuple as confluent-kafka's ``oauth_cb``
    returns (token, expiry, principal, extensions), an object with ``token`` and ``expires_on`` or
    ``expiry`` (azure-core's ``AccessToken``, google-auth's ``Credentials``), or a :class:`Token`.
    An expiry is in seconds since the epoch, in milliseconds (as AWS's signer gives it), or a
    ``datetime``, which is UTC where it names no zone.

    Raises:
        TokenError: it is none of these, or no bearer token; the message shows no piece of it.
    """
    if isinstance(answer, Token):
        value, expires = answer.value, answer.expires
        principal, scope, extensions = answer.principal, answer.scope, answer.extensions
    else:
        value, expiry, principal, extensions = _parts(answer)
        expires, scope = _seconds(expiry), None
    value = Secret(value.reveal().strip())
    problem = _token_fault(value)
    if problem:
        raise TokenError(f"the token provider returned no bearer token: {problem}")
    claims = claims_of(value)
    if expires is None:
        expires = _finite(claims.get("exp"))
    return Token(
        value,
        expires,
        principal or _text_claim(claims, "sub"),
        scope or _text_claim(claims, "scope"),
        dict(extensions),
    )


def claims_of(token: Secret) -> Mapping[str, Any]:
    """The unverified claims of a JWT; empty for a token that is none."""
    parts = token.reveal().split(".")
    if len(parts) != 3:
        return _NO_CLAIMS
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except ValueError:
        return _NO_CLAIMS
    claims = json_object(payload)
    return _NO_CLAIMS if claims is None else claims


def base64url(data: bytes) -> str:
    """``data`` as the parts of a JWT have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object in ``text``; None for any other text."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _parts(answer: object) -> tuple[Secret, object, str | None, Mapping[str, str]]:
    """Value, expiry, principal and extensions, of whichever form."""
    if isinstance(answer, str):
        return Secret(answer), None, None, {}
    if isinstance(answer, Secret):
        return answer, None, None, {}
    if isinstance(held := getattr(answer, "token", None), str):
        expiry = getattr(answer, "expires_on", None)
        return Secret(held), getattr(answer, "expiry", None) if expiry is None else expiry, None, {}
    if not isinstance(answer, tuple) or not _WITH_EXPIRY <= len(answer) <= _WITH_EXTENSIONS:
        raise TokenError(
            f"the token provider returned {_named(answer)}; it must return a str, a pair (token,"
            " seconds since the epoch), an object with .token and .expires_on, or a Token"
        )
    value = answer[0]
    principal = answer[_WITH_EXPIRY] if len(answer) >= _WITH_PRINCIPAL else None
    extensions = answer[_WITH_PRINCIPAL] if len(answer) == _WITH_EXTENSIONS else {}
    if (
        not isinstance(value, str | Secret)
        or not (principal is None or isinstance(principal, str))
        or not isinstance(extensions, Mapping)
    ):
        raise TokenError(
            "the token provider returned a tuple that is not (token, expiry, principal,"
            f" extensions), but {', '.join(map(_named, answer))}"
        )
    return Secret(value) if isinstance(value, str) else value, answer[1], principal, extensions


def _seconds(expiry: object) -> float | None:
    if expiry is None:
        return None
    if isinstance(expiry, datetime):
        zoned = expiry if expiry.tzinfo is not None else expiry.replace(tzinfo=UTC)
        return zoned.timestamp()
    number = _finite(expiry)
    if number is None:
        raise TokenError(
            f"the token provider returned {_named(expiry)} as expiry; it must be seconds since the"
            " epoch, a datetime, or None"
        )
    return number / 1000 if number >= _MILLISECONDS_FROM else number


def _finite(number: object) -> float | None:
    """``number`` as a finite float; None for everything else."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    try:
        converted = float(number)
    except OverflowError:
        return None
    return converted if math.isfinite(converted) else None


def _text_claim(claims: Mapping[str, Any], name: str) -> str | None:
    claim = claims.get(name)
    return claim if isinstance(claim, str) and claim else None


def _token_fault(value: Secret) -> str | None:
    """The reason why ``value`` is no bearer token."""
    length = len(value.reveal())
    if not length:
        return "it is empty"
    if length > MOST_CHARACTERS:
        return f"it has {length} characters, more than the {MOST_CHARACTERS} that brokers accept"
    if not _BEARER.fullmatch(value.reveal()):
        return (
            "it has characters other than letters, digits and '-._~+/=' (return only the token, "
            "without 'Bearer')"
        )
    return None


def _named(value: object) -> str:
    """The type of a value that must not be shown."""
    return "None" if value is None else f"a value of type {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class RefreshRules:
    """``sasl.login.refresh.*``, with Kafka's defaults.

    Source: Kafka's ``ExpiringCredentialRefreshConfig`` and ``ExpiringCredentialRefreshingLogin``.
    """

    window_factor: float = 0.8
    """The part of a token's lifetime after which it is refreshed."""
    window_jitter: float = 0.05
    """The most that chance adds to the factor, so that clients do not refresh all at once."""
    min_period: float = 60.0
    """Seconds between two fetches, at least."""
    buffer: float = 300.0
    """Seconds before the end at which the next token is there."""

    def refresh_at(self, now: float, expires: float, random: Random) -> float:
        """When to fetch the successor of a token that was fetched ``now``.

        Unlike in Kafka the lifetime counts from the fetch, not from the token's ``iat``: providers
        with a cache of their own give the token again whose end has not come.
        """
        lifetime = max(expires - now, 0.0)
        factor = self.window_factor + self.window_jitter * random.random()
        proposed = now + lifetime * factor
        if self.min_period + self.buffer > lifetime:
            return proposed
        if proposed > expires - self.buffer:
            return expires - self.buffer
        return max(proposed, now + self.min_period)


_TOKEN_FIELDS: Final = ("access_token", "id_token")
_ERROR_FIELDS: Final = (("error", "error_description"), ("errorCode", "errorSummary"))
"""OAuth's (RFC 6749, section 5.2), and Okta's."""


def token_in(body: Secret, clock: Callable[[], float]) -> Token | str:
    """The token in a JSON object (RFC 6749, section 5.1), or the reason why there is none.

    It expires at the claim ``exp`` of a JWT, after ``expires_in`` seconds, or at ``expires_on``,
    as Azure's metadata servers give it in seconds since the epoch.
    """
    parsed = json_object(body.reveal())
    if parsed is None:
        return "answered with something other than a JSON object"
    value = next(
        (text for name in _TOKEN_FIELDS if isinstance(text := parsed.get(name), str) and text), None
    )
    if value is None:
        return "answered without an access_token"
    try:
        token = token_from(value)
    except TokenError:
        return "answered with an access_token that is not a bearer token"
    expires = token.expires
    if expires is None and (lifetime := _positive(parsed.get("expires_in"))) is not None:
        expires = clock() + lifetime
    if expires is None:
        expires = _positive(parsed.get("expires_on"))
    scope = parsed.get("scope")
    shown = scope if isinstance(scope, str) else token.scope
    return Token(token.value, expires, token.principal, shown)


def reason_in(body: Secret, *secrets: Secret) -> str | None:
    """The error's code and its description, and nothing else of the body."""
    parsed = json_object(body.reveal()) or {}
    for code, description in _ERROR_FIELDS:
        if isinstance(parsed.get(code), str):
            told = [printable(parsed[code], *secrets)]
            if isinstance(parsed.get(description), str):
                told.append(printable(parsed[description], *secrets))
            return ", ".join(told)
    if type(parsed.get("statusCode")) is int and isinstance(parsed.get("message"), str):
        return printable(parsed["message"], *secrets)  # Azure's App Service
    return None


def _positive(number: object) -> float | None:
    """A number of seconds, which some servers give as text."""
    if isinstance(number, bool) or not isinstance(number, int | float | str):
        return None
    try:
        seconds = float(number)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


_SEPARATOR: Final = "\x01"
_RESERVED: Final = "auth"
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
"""Names and values are those of Kafka's ``OAuthBearerClientInitialResponse`` (RFC 7628)."""
_MOST_OF_A_CHALLENGE: Final = 64 * 1024
_TOLD: Final = ("status", "scope", "openid-configuration")


class _Tokens(Protocol):
    """The part of :class:`~aioproducer.auth.tokens.TokenSource` that a login needs."""

    async def token(self) -> Token: ...

    def discard(self, token: Token) -> None: ...

    async def close(self) -> None: ...


class OAuthBearer(Mechanism):
    """The mechanism; its tokens come from one source for all connections."""

    name = "OAUTHBEARER"

    def __init__(self, tokens: _Tokens, extensions: Mapping[str, str] | None = None) -> None:
        """Raises ConfigError for extensions that brokers refuse."""
        self._tokens = tokens
        self._extensions = dict(extensions or {})
        if problem := extension_fault(self._extensions):
            raise ConfigError(f"SASL extensions of OAUTHBEARER: {problem}")

    async def begin(self, host: str) -> OAuthBearerExchange:
        """See :meth:`aioproducer.auth.mechanism.Mechanism.begin`.

        Raises:
            TokenError: no token can be had. Final.
            TokenEndpointError: none can be had at present.
        """
        token = await self._tokens.token()
        if problem := extension_fault(token.extensions):
            raise TokenError(f"SASL extensions of the token provider: {problem}")
        extensions = {**self._extensions, **token.extensions}
        return OAuthBearerExchange(token, extensions, self._tokens.discard)

    async def close(self) -> None:
        """End a fetch of a token that runs on this event loop."""
        await self._tokens.close()


@final
class OAuthBearerExchange:
    """One login. The token is in no attribute as text, and in no message."""

    blocking: ClassVar[bool] = False

    def __init__(
        self,
        token: Token,
        extensions: Mapping[str, str],
        on_refusal: Callable[[Token], None] = lambda token: None,
    ) -> None:
        self.complete = False
        self.refusal: str | None = None
        self._token = token
        self.sent_secrets = (token.value,)
        self._extensions = extensions
        self._on_refusal = on_refusal
        self._respond = self._first

    def step(self, challenge: bytes) -> bytes:
        """See :meth:`aioproducer.auth.mechanism.Exchange.step`.

        A challenge with an error is answered by ``0x01``, after which the broker fails the login;
        until then :attr:`refusal` has its reason.
        """
        return self._respond(challenge)

    def _first(self, challenge: bytes) -> bytes:
        self._respond = self._verdict
        if challenge:
            self._respond = self._too_many
            raise AuthenticationError(
                "OAUTHBEARER: the broker sent a challenge before the client's message"
            )
        pairs = [f"auth=Bearer {self._token.value.reveal()}"]
        pairs += [f"{name}={value}" for name, value in self._extensions.items()]
        return _SEPARATOR.join(["n,,", *pairs, _SEPARATOR]).encode()

    def _verdict(self, challenge: bytes) -> bytes:
        if not challenge:
            self._respond = self._too_many
            self.complete = True
            return b""
        self._respond = self._after_refusal
        self.refusal = self._reason(challenge)
        self._on_refusal(self._token)
        return _SEPARATOR.encode()

    def _after_refusal(self, challenge: bytes) -> bytes:
        self._respond = self._too_many
        raise AuthenticationError(f"OAUTHBEARER: the broker refused the token: {self.refusal}")

    def _too_many(self, challenge: bytes) -> bytes:
        raise AuthenticationError("OAUTHBEARER: the broker sent a challenge after the login's end")

    def _reason(self, challenge: bytes) -> str:
        """Status and scope of a JSON error (RFC 7628, section 3.2.2); no word of the token."""
        error = json_object(challenge[:_MOST_OF_A_CHALLENGE])
        if error is None:
            return "the broker gave no reason"
        told = [
            f"{name} {printable(error[name], self._token.value)}"
            for name in _TOLD
            if isinstance(error.get(name), str)
        ]
        return ", ".join(told) or "the broker gave no reason"


def extension_fault(extensions: Mapping[str, str]) -> str | None:
    """The first fault of names and values, as brokers check them; values are not shown."""
    for name, value in extensions.items():
        if not isinstance(name, str) or not _EXTENSION_NAME.fullmatch(name):
            return f"the name {str(name)[:100]!r} must be letters only"
        if name == _RESERVED:
            return f"the name {_RESERVED!r} is reserved for the token"
        if not isinstance(value, str) or not _EXTENSION_VALUE.fullmatch(value):
            return f"the value of {name!r} must be printable ASCII, and not empty"
    return None
