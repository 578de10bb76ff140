"""aioproducer.auth.oauthbearer: the bytes of a login, and hostile answers to it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.auth.mechanism import Exchange, Mechanism
from aioproducer.auth.oauthbearer import OAuthBearer, OAuthBearerExchange, Token
from aioproducer.config.secret import Secret
from aioproducer.errors import AuthenticationError, ConfigError, TokenError
from tests.unit.auth.tokens_for_tests import everything_in

TOKEN = Token(Secret("s3cr3t.t0ken"))


class OneToken:
    def __init__(self, token: Token = TOKEN) -> None:
        self._token = token
        self.discarded: list[Token] = []
        self.closed = False

    async def token(self) -> Token:
        return self._token

    def discard(self, token: Token) -> None:
        self.discarded.append(token)

    async def close(self) -> None:
        self.closed = True


async def test_closing_ends_the_fetch_of_a_token() -> None:
    tokens = OneToken()
    await OAuthBearer(tokens).close()
    assert tokens.closed


async def begun(tokens: OneToken | None = None, **extensions: str) -> OAuthBearerExchange:
    return await OAuthBearer(tokens or OneToken(), extensions).begin("broker")


async def test_a_login_that_succeeds() -> None:
    mechanism: Mechanism = OAuthBearer(OneToken())
    assert mechanism.name == "OAUTHBEARER"
    exchange: Exchange = await mechanism.begin("broker")
    assert not exchange.blocking
    assert exchange.step(b"") == b"n,,\x01auth=Bearer s3cr3t.t0ken\x01\x01"
    assert not exchange.complete
    assert exchange.step(b"") == b""
    assert exchange.complete


async def test_extensions_of_the_configuration_and_of_the_token() -> None:
    tokens = OneToken(Token(Secret("t"), extensions={"logicalCluster": "lkc-2", "pool": "p"}))
    exchange = await begun(tokens, logicalCluster="lkc-1", identityPoolId="pool-1")
    assert exchange.step(b"") == (
        b"n,,\x01auth=Bearer t\x01logicalCluster=lkc-2\x01identityPoolId=pool-1\x01pool=p\x01\x01"
    )


@pytest.mark.parametrize(
    "extensions",
    [
        {"auth": "Bearer other"},
        {"under_score": "x"},
        {"": "x"},
        {"a1": "x"},
        {"name": ""},
        {"name": "s3cr3t\x01"},
        {"name": "s3cr3té"},
        {"name": 7},
    ],
    ids=repr,
)
async def test_extensions_that_brokers_refuse(extensions: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        OAuthBearer(OneToken(), extensions)
    assert "s3cr3t" not in str(caught.value)
    with pytest.raises(TokenError):
        await begun(OneToken(Token(Secret("t"), extensions=extensions)))


async def test_a_refusal_is_acknowledged_and_its_reason_kept() -> None:
    tokens = OneToken()
    exchange = await begun(tokens)
    exchange.step(b"")
    challenge = json.dumps({"status": "invalid_token", "scope": "kafka", "x": "y"}).encode()
    assert exchange.step(challenge) == b"\x01"
    assert not exchange.complete
    assert exchange.refusal == "status 'invalid_token', scope 'kafka'"
    assert tokens.discarded == [TOKEN]
    with pytest.raises(AuthenticationError, match="refused the token: status 'invalid_token'"):
        exchange.step(b"")
    assert not exchange.complete


async def test_a_reason_that_repeats_the_token_is_masked() -> None:
    exchange = await begun()
    exchange.step(b"")
    exchange.step(json.dumps({"status": f"bad: {TOKEN.value.reveal()}\r\n\x1b[2J"}).encode())
    assert exchange.refusal == "status 'bad: ********\\r\\n\\x1b[2J'"
    with pytest.raises(AuthenticationError) as caught:
        exchange.step(b"x")
    assert "s3cr3t" not in everything_in(caught.value)


async def test_a_broker_that_speaks_first() -> None:
    exchange = await begun()
    with pytest.raises(AuthenticationError, match="before the client's message") as caught:
        exchange.step(b"hello")
    assert "s3cr3t" not in everything_in(caught.value)
    with pytest.raises(AuthenticationError):
        exchange.step(b"")


async def test_a_challenge_after_the_end() -> None:
    exchange = await begun()
    exchange.step(b"")
    exchange.step(b"")
    with pytest.raises(AuthenticationError):
        exchange.step(b"")


@given(st.binary(min_size=1) | st.from_regex(rb'\{"status":.{0,50}\}', fullmatch=True))
def test_no_answer_completes_a_login_or_breaks_it(challenge: bytes) -> None:
    exchange = OAuthBearerExchange(TOKEN, {})
    exchange.step(b"")
    assert exchange.step(challenge) == b"\x01"
    assert not exchange.complete
    assert exchange.refusal


@pytest.mark.parametrize("challenge", [b"[" * 100_000, b'{"status":' * 10_000, b"9" * 50_000])
def test_answers_that_are_deep_or_long(challenge: bytes) -> None:
    exchange = OAuthBearerExchange(TOKEN, {})
    exchange.step(b"")
    assert exchange.step(challenge) == b"\x01"
    assert exchange.refusal == "the broker gave no reason"
