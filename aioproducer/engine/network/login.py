"""The SASL login on a connection: SaslHandshake, then SaslAuthenticate until both sides agree.

Source: KIP-43, KIP-152, and KIP-368 for logins that are renewed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, TypeAlias

from aioproducer.auth.mechanism import Exchange, Mechanism
from aioproducer.engine.network.frames import EncodedPayload, encoded, read_response
from aioproducer.engine.network.versions import BrokerVersions
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ProducerError,
    SaslAuthenticationFailedError,
    kafka_error,
)
from aioproducer.errors.broker import explain
from aioproducer.foundation.runtime.threads import ThreadForEach
from aioproducer.foundation.secret import Secret, masked

SendAndReceive: TypeAlias = Callable[[EncodedPayload], Awaitable[Any]]
"""Sends a request on the connection, and returns the response."""

MAX_ROUNDS: Final = 20
"""Steps of one login; SCRAM takes 2, and Kerberos a few."""

RENEWED_AT: Final = (0.85, 0.95)
"""The part of a session's lifetime after which the connection logs in again; by chance, so that
not all connections do so at once. Source: Kafka's ``SaslClientAuthenticator``."""
SOONEST_RENEWAL: Final = 0.1
"""Seconds between the logins of a connection: shorter sessions would leave no time for requests."""

LONGEST_SESSION: Final = 30 * 24 * 3600.0
"""Seconds; longer lifetimes are reduced to this one."""

_SHOWN: Final = 500
"""The most characters of a broker's message in an error."""

_OFFERS: Final = "this listener offers {}; set sasl_mechanism to an offered one"
_NO_LOGIN: Final = (
    "this listener has no login (SASL); set security_protocol='PLAINTEXT', or 'SSL' for TLS, or"
    " take the port of a listener with a login"
)

_STEPS: Final = ThreadForEach("aioproducer-login")
"""Not asyncio's default executor; a KDC that does not answer holds up no other login."""


async def log_in(
    mechanism: Mechanism, host: str, versions: BrokerVersions, send_and_receive: SendAndReceive
) -> float | None:
    """Log in, and return the lifetime of the session in seconds; None: it does not end.

    Raises:
        AuthenticationError: the broker refuses, or can't be trusted.
        NetworkError: no token is available at present.
    """
    request = request_schema(Api.SASL_HANDSHAKE).SaslHandshakeRequest(mechanism=mechanism.name)
    version = versions[Api.SASL_HANDSHAKE]
    answer = await send_and_receive(encoded(Api.SASL_HANDSHAKE, version, request))
    code, offered = read_response(answer, _read_offer)
    if code:
        raise _refused(mechanism, code, _OFFERS.format(offered) if offered else _NO_LOGIN)
    try:
        exchange = await mechanism.begin(host)
    except ProducerError:
        raise
    except Exception as error:
        raise _broken(mechanism, error) from None
    return await _authenticate(mechanism, exchange, versions, send_and_receive)


async def has_changed(mechanism: Mechanism | None, *, since: Mechanism | None) -> bool:
    """True if ``mechanism`` has other credentials now than in the login with ``since``."""
    if mechanism is None or since is None:
        return False
    try:
        return await mechanism.current() is not since
    except ProducerError:
        return False


async def _authenticate(
    mechanism: Mechanism,
    exchange: Exchange,
    versions: BrokerVersions,
    send_and_receive: SendAndReceive,
) -> float | None:
    schema = request_schema(Api.SASL_AUTHENTICATE)
    version = versions[Api.SASL_AUTHENTICATE]
    response = await _step(mechanism, exchange, b"")
    for _ in range(MAX_ROUNDS):
        request = schema.SaslAuthenticateRequest(auth_bytes=response)
        answer = await send_and_receive(encoded(Api.SASL_AUTHENTICATE, version, request))
        code, message, challenge, lifetime = read_response(answer, _read_step)
        if code:
            reasons = ": ".join(str(each) for each in (message, exchange.refusal) if each)
            raise _refused(mechanism, code, reasons, *exchange.sent_secrets)
        if exchange.complete and not challenge:
            return lifetime
        response = await _step(mechanism, exchange, challenge)
        if exchange.complete and not response:
            return lifetime
    raise SaslAuthenticationFailedError(
        f"{mechanism.name}: the broker did not complete the login within {MAX_ROUNDS} steps"
    )


async def _step(mechanism: Mechanism, exchange: Exchange, challenge: bytes) -> bytes:
    try:
        if not exchange.blocking:
            return exchange.step(challenge)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_STEPS, exchange.step, challenge)
    except ProducerError:
        raise
    except Exception as error:
        raise _broken(mechanism, error) from None


def _broken(mechanism: Mechanism, error: Exception) -> AuthenticationError:
    """Without the error's own text, which may hold a secret."""
    return AuthenticationError(f"the {mechanism.name} login failed: {type(error).__name__}")


def _read_offer(answer: Any) -> tuple[int, str]:
    """The error code, and the mechanisms of the listener."""
    return answer.error_code, ", ".join(answer.mechanisms)


def _read_step(answer: Any) -> tuple[int, str | None, bytes, float | None]:
    """The error code and message, the challenge, and the seconds that the session lasts."""
    code, message, challenge, milliseconds = answer
    return code, message, challenge, session_lifetime(milliseconds)


def session_lifetime(milliseconds: int) -> float | None:
    """Seconds that a SaslAuthenticate response gives the session; None: it does not end."""
    return min(milliseconds / 1000, LONGEST_SESSION) if milliseconds > 0 else None


def renewed_after(session: float, random: Random) -> float:
    """Seconds after which a connection whose session lasts ``session`` seconds logs in again."""
    return max(session * random.uniform(*RENEWED_AT), SOONEST_RENEWAL)


def _refused(mechanism: Mechanism, code: int, reason: str, *secrets: Secret) -> ProducerError:
    """The error for a code. A code that does not refuse the login itself is retried soon.

    ``secrets``: the secrets that the broker got, and might repeat.
    """
    reason = masked(reason, *secrets)
    reason = "".join(each if each.isprintable() else " " for each in reason[:_SHOWN])
    refused = f"{mechanism.name} login refused: {explain(code, reason)}"
    error = kafka_error(code, refused)
    return error if isinstance(error, AuthenticationError) else BrokerConnectionError(refused)
