"""PLAIN, GSSAPI without its library, and what holds for every mechanism: no secret is shown."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import sys
from base64 import b64encode

import pytest

from aioproducer.auth.gssapi import Gssapi
from aioproducer.auth.mechanism import Exchange, Mechanism
from aioproducer.auth.passwords import Plain, Scram
from aioproducer.errors import (
    AuthenticationError,
    ConfigError,
    IllegalSaslStateError,
    MissingExtraError,
)
from aioproducer.foundation.secret import Secret
from tests.unit.auth.scram_server import ScramServer
from tests.unit.auth.tokens_for_tests import shown, shown_of_error


async def test_the_message_is_that_of_the_rfc() -> None:
    mechanism: Mechanism = Plain("tim", Secret("tanstaaftanstaaf"))
    exchange: Exchange = await mechanism.begin("broker")
    assert mechanism.name == "PLAIN"
    assert not exchange.blocking
    assert not exchange.complete
    assert exchange.step(b"") == b"\0tim\0tanstaaftanstaaf"
    assert exchange.complete


async def test_names_and_passwords_are_utf_8_and_never_prepared() -> None:
    exchange = await Plain("ümit", Secret("pa ss,=\u2168")).begin("broker")
    assert exchange.step(b"") == b"\0\xc3\xbcmit\0pa ss,=\xe2\x85\xa8"


async def test_each_login_is_an_exchange_of_its_own() -> None:
    mechanism = Plain("tim", Secret("x"))
    first = await mechanism.begin("one")
    assert first.step(b"") == (await mechanism.begin("two")).step(b"")


@pytest.mark.parametrize("challenges", [[b"realm?"], [b"", b""], [b"", b"more"]])
async def test_a_server_has_nothing_to_ask(challenges: list[bytes]) -> None:
    exchange = await Plain("tim", Secret("x")).begin("broker")
    for challenge in challenges[:-1]:
        exchange.step(challenge)
    with pytest.raises(IllegalSaslStateError, match="PLAIN"):
        exchange.step(challenges[-1])


@pytest.mark.parametrize(
    ("username", "password", "said"),
    [
        ("", "x", "the user name is empty"),
        ("tim", "", "the password is empty"),
        ("t\0im", "x", "the user name contains a NUL"),
        ("tim", "hun\0ter2", "the password contains a NUL"),
        ("tim", "hunter2\ud800", "the password contains a surrogate"),
    ],
)
def test_what_can_not_be_sent_is_refused_at_once(username: str, password: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Plain(username, Secret(password))


@pytest.mark.parametrize("name", ["", "kafka/broker", "kafka@broker"])
def test_a_principal_is_no_service_name(name: str) -> None:
    with pytest.raises(ConfigError, match="not a service name"):
        Gssapi(name)


def test_without_the_library_the_error_names_all_that_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(MissingExtraError) as caught:
        Gssapi("kafka")
    for needed in ("aioproducer[gssapi]", "libkrb5-dev", "gcc", "libgssapi-krb5-2"):
        assert needed in str(caught.value)


PASSWORD = Secret("-".join(("correct", "horse", "battery")))
"""Put together here: the file's own lines, which tracebacks quote, do not have it."""
SALTED = hashlib.pbkdf2_hmac("sha256", PASSWORD.reveal().encode(), b"a salt of it", 4096)
CLIENT_KEY = hmac.digest(SALTED, b"Client Key", "sha256")
SERVER_KEY = hmac.digest(SALTED, b"Server Key", "sha256")


def assert_harmless(text: str) -> None:
    assert PASSWORD.reveal() not in text
    assert repr(PASSWORD.reveal().encode())[2:-1] not in text
    for key in (SALTED, CLIENT_KEY, SERVER_KEY):
        assert not any(
            form in text for form in (repr(key)[2:-1], key.hex(), b64encode(key).decode())
        )


def test_the_check_itself_finds_a_leak() -> None:
    for leak in (PASSWORD.reveal(), repr(SALTED), CLIENT_KEY.hex()):
        with pytest.raises(AssertionError):
            assert_harmless(f"a log line with {leak} in it")

    def fail() -> None:
        password = PASSWORD.reveal()
        raise ValueError(len(password))

    with pytest.raises(ValueError, match="21") as caught:
        fail()
    with pytest.raises(AssertionError):
        assert_harmless(shown_of_error(caught.value))


def test_plain_shows_nothing_at_any_stage() -> None:
    mechanism = Plain("user", PASSWORD)
    exchange = asyncio.run(mechanism.begin("broker"))
    assert_harmless(shown(mechanism) + shown(exchange))
    exchange.step(b"")
    assert_harmless(shown(mechanism) + shown(exchange))
    with pytest.raises(AuthenticationError) as caught:
        exchange.step(b"more")
    assert_harmless(shown_of_error(caught.value))


def test_scram_shows_nothing_at_any_stage() -> None:
    server = ScramServer("sha256", "user", PASSWORD.reveal().encode())
    mechanism = Scram("SCRAM-SHA-256", "user", PASSWORD)
    exchange = asyncio.run(mechanism.begin("broker"))
    challenges = [lambda _: b"", server.first, server.final]
    response = b""
    for challenge in challenges:
        assert_harmless(shown(mechanism) + shown(exchange))
        response = exchange.step(challenge(response))
    assert exchange.complete
    assert_harmless(shown(mechanism) + shown(exchange))


@pytest.mark.parametrize("last", [b"", b"e=invalid-proof", b"v=" + b64encode(bytes(32))])
def test_a_failed_scram_login_shows_nothing(last: bytes) -> None:
    server = ScramServer("sha256", "user", PASSWORD.reveal().encode())
    exchange = asyncio.run(Scram("SCRAM-SHA-256", "user", PASSWORD).begin("broker"))
    exchange.step(server.first(exchange.step(b"")))
    with pytest.raises(AuthenticationError) as caught:
        exchange.step(last)
    assert_harmless(shown_of_error(caught.value) + shown(exchange))


@pytest.mark.parametrize("spoilt", ["\0", "\ud800"])
def test_a_refused_password_is_not_in_the_error(spoilt: str) -> None:
    password = Secret(PASSWORD.reveal() + spoilt)
    with pytest.raises(ConfigError) as caught:
        Scram("SCRAM-SHA-256", "user", password)
    assert_harmless(shown_of_error(caught.value))
    with pytest.raises(ConfigError) as caught:
        Plain("user", password)
    assert_harmless(shown_of_error(caught.value))
