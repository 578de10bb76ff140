"""OAUTHBEARER: the forms in which providers give a token, the bytes of a login, hostile answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.auth.mechanism import Exchange, Mechanism
from aioproducer.auth.oauthbearer import (
    MOST_CHARACTERS,
    OAuthBearer,
    OAuthBearerExchange,
    Token,
    claims_of,
    token_from,
)
from aioproducer.errors import AuthenticationError, ConfigError, TokenError
from aioproducer.foundation.secret import Secret
from tests.unit.auth.tokens_for_tests import NOW, everything_in, jwt


class AccessToken(NamedTuple):
    """As azure-core has it: a tuple, too."""

    token: str
    expires_on: int


class Credentials:
    """As google-auth has them: the expiry is UTC without saying so."""

    def __init__(self, token: str | None, expiry: datetime | None) -> None:
        self.token = token
        self.expiry = expiry

    def __repr__(self) -> str:
        return f"Credentials(…, {self.expiry})"  # the same in every process


NAIVE = datetime.fromtimestamp(NOW, UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("answer", "expires"),
    [
        ("abc", None),
        (Secret("abc"), None),
        (" abc\n", None),
        (("abc", NOW), NOW),
        (("abc", int(NOW)), NOW),
        (("abc", None), None),
        (("abc", NOW, "me"), NOW),
        (("abc", NOW, "me", {"logicalCluster": "lkc-1"}), NOW),
        (("abc", NOW * 1000), NOW),
        ((Secret("abc"), NOW), NOW),
        (AccessToken("abc", int(NOW)), NOW),
        (Credentials("abc", NAIVE), NOW),
        (Credentials("abc", NAIVE.replace(tzinfo=UTC)), NOW),
        (
            Credentials(
                "abc", (NAIVE + timedelta(hours=2)).replace(tzinfo=timezone(timedelta(hours=2)))
            ),
            NOW,
        ),
        (Credentials("abc", None), None),
        (Token(Secret("abc"), NOW), NOW),
    ],
    ids=lambda each: type(each).__name__,
)
def test_forms_of_an_answer(answer: object, expires: float | None) -> None:
    token = token_from(answer)
    assert token.value.reveal() == "abc"
    assert token.expires == expires


def test_confluents_four_parts() -> None:
    token = token_from(("abc", NOW, "me", {"logicalCluster": "lkc-1"}))
    assert token.principal == "me"
    assert token.extensions == {"logicalCluster": "lkc-1"}


def test_claims_of_a_jwt_fill_in_what_is_not_given() -> None:
    token = token_from(jwt({"exp": NOW, "sub": "me", "scope": "kafka"}))
    assert (token.expires, token.principal, token.scope) == (NOW, "me", "kafka")
    assert token_from((jwt({"exp": NOW}), NOW - 5)).expires == NOW - 5


@pytest.mark.parametrize(
    "claims", [{}, {"exp": "soon"}, {"exp": True}, {"exp": None}, {"exp": 10**400}, [], 7, None]
)
def test_claims_without_a_usable_expiry(claims: object) -> None:
    assert token_from(jwt(claims)).expires is None


@pytest.mark.parametrize(
    "answer",
    [
        None,
        7,
        b"abc",
        ("abc",),
        ("abc", "tomorrow"),
        ("abc", True),
        ("abc", float("nan")),
        ("abc", 1, 2, 3, 4),
        ("abc", NOW, 7),
        ("abc", NOW, None, "x=y"),
        (None, NOW),
        ["abc", NOW],
        Credentials(None, None),
        "",
        "  ",
        "Bearer abc",
        "abc\x01auth=Bearer other",
        "abc\ndef",
        "ab=c",
        "tökén",
        "a" * (MOST_CHARACTERS + 1),
    ],
    ids=lambda answer: repr(answer)[:30],
)
def test_answers_that_are_no_token(answer: object) -> None:
    with pytest.raises(TokenError):
        token_from(answer)


@pytest.mark.parametrize(
    "answer", ["s3cr3t t0ken", ("s3cr3t t0ken", NOW), ("s3cr3t", "s3cr3t"), ["s3cr3t"]], ids=repr
)
def test_an_errors_text_has_no_piece_of_the_answer(answer: object) -> None:
    with pytest.raises(TokenError) as caught:
        token_from(answer)
    assert "s3cr3t" not in str(caught.value)


def test_a_token_shows_no_value() -> None:
    token = token_from((jwt({"sub": "me"}, "s3cr3t"), NOW))
    assert "s3cr3t" not in f"{token!r} {token}"


@given(st.text() | st.from_regex(r"[\w-]*\.[\w-]*\.[\w-]*"))
def test_no_text_breaks_the_reader_of_claims(text: str) -> None:
    assert isinstance(claims_of(Secret(text)), Mapping)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_claims_break_the_reader(claims: Any) -> None:
    token = token_from(jwt({"exp": claims, "sub": claims, "scope": claims}))
    assert token.expires is None or isinstance(token.expires, float)
    assert token.principal is None or isinstance(token.principal, str)


def test_claims_nested_without_end() -> None:
    assert claims_of(Secret(f"e30.{'W1tbW1tb' * 20_000}.c2ln")) == {}


def test_everything_in_finds_a_secret_in_a_frame() -> None:
    with pytest.raises(TokenError) as caught:
        token_from("s3cr3t t0ken")
    assert "s3cr3t" in everything_in(caught.value), "the tool of the other tests sees nothing"


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
