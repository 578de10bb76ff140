"""OAUTHBEARER: a login by a bearer token (RFC 7628, KIP-255) with SASL extensions (KIP-342)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar, Final, Protocol, final

from aioproducer.auth.mechanism import Mechanism
from aioproducer.auth.peer_text import json_object, printable
from aioproducer.auth.token import Token
from aioproducer.errors import AuthenticationError, ConfigError, TokenError

__all__ = ["OAuthBearer", "OAuthBearerExchange"]

_SEPARATOR: Final = "\x01"
_RESERVED: Final = "auth"
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
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
        if problem := _fault(self._extensions):
            raise ConfigError(f"SASL extensions of OAUTHBEARER: {problem}")

    async def begin(self, host: str) -> OAuthBearerExchange:
        """See :meth:`aioproducer.auth.mechanism.Mechanism.begin`.

        Raises:
            TokenError: no token can be had. Final.
            TokenEndpointError: none can be had at present.
        """
        token = await self._tokens.token()
        if problem := _fault(token.extensions):
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


def _fault(extensions: Mapping[str, str]) -> str | None:
    """The first fault of names and values, as brokers check them; values are not shown."""
    for name, value in extensions.items():
        if not isinstance(name, str) or not _EXTENSION_NAME.fullmatch(name):
            return f"the name {str(name)[:100]!r} must be letters only"
        if name == _RESERVED:
            return f"the name {_RESERVED!r} is reserved for the token"
        if not isinstance(value, str) or not _EXTENSION_VALUE.fullmatch(value):
            return f"the value of {name!r} must be printable ASCII, and not empty"
    return None
