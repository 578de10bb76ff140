"""The login of a connection: what is asked, what the answers mean, and how it ends."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pytest
from kio.static.primitive import i64Timedelta

from aioproducer.auth.mechanism import Mechanism
from aioproducer.config.secret import Secret
from aioproducer.engine.network.frames import EncodedPayload, decode_response
from aioproducer.engine.network.login import LONGEST_SESSION, MAX_ROUNDS, log_in
from aioproducer.engine.network.versions import BrokerVersions
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    AuthenticationError,
    BrokerConnectionError,
    IllegalSaslStateError,
    NetworkError,
    ProtocolError,
    SaslAuthenticationFailedError,
    TokenEndpointError,
    UnsupportedSaslMechanismError,
)
from aioproducer.errors.broker import ErrorCode
from tests.support.kio_messages import ours, response_module, theirs

VERSIONS = BrokerVersions([(17, 0, 1), (36, 0, 2)])
SECRET = "open sesame"
NUMBER = b"\0\0\0\1"
GRANTED = NUMBER + b"\0" + b"\0\0" + b"\0" + b"\1"
"""SaslAuthenticate v2 up to the lifetime: no tags, no error, no message, and empty bytes."""


class Exchange:
    """Says ``says``, one after the other; complete after the last."""

    blocking = False

    def __init__(self, says: Sequence[bytes]) -> None:
        self.says = list(says)
        self.heard: list[bytes] = []
        self.complete = False
        self.sent_secrets: tuple[Secret, ...] = ()
        self.refusal: str | None = None

    def step(self, challenge: bytes) -> bytes:
        self.heard.append(challenge)
        said = self.says.pop(0)
        self.complete = not self.says
        return said


class Blocking(Exchange):
    blocking = True


class OneExchange(Mechanism):
    name = "TEST-1"

    def __init__(self, exchange: Any) -> None:
        self.exchange = exchange
        self.hosts: list[str] = []

    async def begin(self, host: str) -> Any:
        self.hosts.append(host)
        if isinstance(self.exchange, Exception):
            raise self.exchange
        return self.exchange


class Broker:
    """Answers with ``answers``, messages or their bytes; ``asked``: what kio reads in requests."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    async def ask(self, payload: EncodedPayload) -> Any:
        self.asked.append(theirs(payload))
        answer = self.answers.pop(0)
        if isinstance(answer, bytes):
            return decode_response(payload.api, payload.version, answer).response
        return answer

    async def log_in(self, exchange: Any) -> float | None:
        self.mechanism = OneExchange(exchange)
        return await log_in(self.mechanism, "kafka-7", VERSIONS, self.ask)


def offers(*mechanisms: str, code: ErrorCode = ErrorCode.NONE) -> Any:
    parts: Any = response_module(Api.SASL_HANDSHAKE, 1)
    return ours(parts.SaslHandshakeResponse(error_code=code, mechanisms=mechanisms))


def says(
    data: bytes = b"", code: ErrorCode = ErrorCode.NONE, why: str | None = None, seconds: float = 0
) -> Any:
    parts: Any = response_module(Api.SASL_AUTHENTICATE, 2)
    lifetime = i64Timedelta.parse(datetime.timedelta(seconds=seconds))
    return ours(
        parts.SaslAuthenticateResponse(
            error_code=code, error_message=why, auth_bytes=data, session_lifetime=lifetime
        )
    )


async def test_one_message_is_enough_where_the_mechanism_says_so() -> None:
    broker = Broker(offers("TEST-1"), says())
    assert await broker.log_in(Exchange([b"name and password"])) is None
    handshake, authenticate = broker.asked
    assert handshake.mechanism == "TEST-1"
    assert authenticate.auth_bytes == b"name and password"
    assert broker.mechanism.hosts == ["kafka-7"]


@pytest.mark.parametrize("kind", [Exchange, Blocking])
async def test_challenges_and_responses_alternate_until_the_servers_proof(
    kind: type[Exchange],
) -> None:
    exchange = kind([b"first", b"second", b""])
    broker = Broker(offers(), says(b"challenge"), says(b"proof", seconds=90))
    assert await broker.log_in(exchange) == 90.0
    assert exchange.heard == [b"", b"challenge", b"proof"]
    assert [each.auth_bytes for each in broker.asked[1:]] == [b"first", b"second"]


async def test_an_empty_answer_before_the_end_is_a_challenge_too() -> None:
    exchange = Exchange([b"first", b"second", b""])
    broker = Broker(offers(), says(b"challenge"), *[says(b"")] * 3)
    assert await broker.log_in(exchange) is None, "the exchange was asked, and decides"
    assert exchange.heard == [b"", b"challenge", b""]


@pytest.mark.parametrize("milliseconds", [10**12, 2**63 - 1])
async def test_a_session_is_never_longer_than_a_month(milliseconds: int) -> None:
    broker = Broker(offers(), GRANTED + milliseconds.to_bytes(8, "big") + b"\0")
    assert await broker.log_in(Exchange([b"x"])) == LONGEST_SESSION


@pytest.mark.parametrize("milliseconds", [0, -1, -(2**63)])
async def test_a_session_without_a_lifetime_does_not_end(milliseconds: int) -> None:
    broker = Broker(offers(), GRANTED + milliseconds.to_bytes(8, "big", signed=True) + b"\0")
    assert await broker.log_in(Exchange([b"x"])) is None


async def test_the_mechanisms_of_the_listener_are_named() -> None:
    broker = Broker(offers("PLAIN", "GSSAPI", code=ErrorCode.UNSUPPORTED_SASL_MECHANISM))
    with pytest.raises(UnsupportedSaslMechanismError, match=r"TEST-1 .* PLAIN, GSSAPI"):
        await broker.log_in(Exchange([b"x"]))
    assert not broker.mechanism.hosts, "no token is spent on it"


async def test_a_listener_without_logins_is_a_wrong_security_protocol() -> None:
    broker = Broker(offers(code=ErrorCode.ILLEGAL_SASL_STATE))
    told = r"this listener has no login \(SASL\); set security_protocol='PLAINTEXT', or 'SSL'"
    with pytest.raises(IllegalSaslStateError, match=told) as caught:
        await broker.log_in(Exchange([b""]))
    assert "sasl_mechanism" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.SASL_AUTHENTICATION_FAILED, SaslAuthenticationFailedError),
        (ErrorCode.ILLEGAL_SASL_STATE, IllegalSaslStateError),
    ],
)
async def test_a_refusal_is_final_and_says_what_the_broker_said(
    code: ErrorCode, kind: type[AuthenticationError]
) -> None:
    broker = Broker(offers(), says(code=code, why="Invalid\x1b[31m credentials " + "x" * 9999))
    with pytest.raises(kind, match=r"TEST-1 login refused: .* credentials") as caught:
        await broker.log_in(Exchange([SECRET.encode()]))
    assert SECRET not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1_000


async def test_the_reason_that_came_before_a_refusal_is_told() -> None:
    exchange = Exchange([b"token", b"\1", b""])
    exchange.refusal = "status invalid_token"
    failed = says(code=ErrorCode.SASL_AUTHENTICATION_FAILED, why="no")
    with pytest.raises(SaslAuthenticationFailedError, match="no: status invalid_token"):
        await Broker(offers(), says(b"{}"), failed).log_in(exchange)


async def test_a_broker_that_repeats_the_password_is_not_quoted() -> None:
    exchange = Exchange([SECRET.encode()])
    exchange.sent_secrets = (Secret(SECRET),)
    failed = says(code=ErrorCode.SASL_AUTHENTICATION_FAILED, why=f"no user for {SECRET}!")
    with pytest.raises(SaslAuthenticationFailedError, match="no user for ") as caught:
        await Broker(offers(), failed).log_in(exchange)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([NUMBER + b"\0\0" + b"\0\0\0\1" + b"\xff\xff"], "mechanisms can't be null"),
        ([offers()._replace(mechanisms=(None,))], "has impossible values"),
        ([offers(), GRANTED[:-1] + b"\0" + bytes(9)], "auth_bytes can't be null"),
        ([offers(), says()._replace(session_lifetime_ms=None)], "has impossible values"),
    ],
)
async def test_an_answer_that_cannot_be_true_ends_the_connection_alone(
    answers: list[Any], why: str
) -> None:
    with pytest.raises(ProtocolError, match=why):
        await Broker(*answers).log_in(Exchange([b"x", b""]))


async def test_another_error_passes() -> None:
    broker = Broker(offers(), says(code=ErrorCode.UNKNOWN_SERVER_ERROR))
    with pytest.raises(BrokerConnectionError, match="UNKNOWN_SERVER_ERROR"):
        await broker.log_in(Exchange([b"x"]))


async def test_a_broker_that_never_ends_it_is_left() -> None:
    broker = Broker(offers(), *[says(b"more")] * 99)
    with pytest.raises(SaslAuthenticationFailedError, match=f"within {MAX_ROUNDS} steps"):
        await broker.log_in(Exchange([b"x"] * 99))


async def test_a_fault_in_a_step_ends_the_login_and_shows_no_secret() -> None:
    class Faulty(Exchange):
        def step(self, challenge: bytes) -> bytes:
            raise ZeroDivisionError(SECRET)

    broker = Broker(offers(), says())
    with pytest.raises(AuthenticationError, match="ZeroDivisionError") as caught:
        await broker.log_in(Faulty([]))
    assert SECRET not in repr(caught.value)
    assert caught.value.__cause__ is None


async def test_a_fault_in_a_provider_ends_the_login() -> None:
    with pytest.raises(AuthenticationError, match="KeyError"):
        await Broker(offers()).log_in(KeyError(SECRET))


async def test_a_token_that_cannot_be_had_at_present_is_no_refusal() -> None:
    with pytest.raises(TokenEndpointError) as caught:
        await Broker(offers()).log_in(TokenEndpointError("it is down"))
    assert isinstance(caught.value, NetworkError)
