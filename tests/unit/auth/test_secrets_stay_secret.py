"""No mechanism and no exchange shows a secret, whatever becomes of the login."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64encode

import pytest

from aioproducer.auth.plain import Plain
from aioproducer.auth.scram import Scram
from aioproducer.config.secret import Secret
from aioproducer.errors import AuthenticationError, ConfigError
from tests.unit.auth.scram_server import ScramServer
from tests.unit.auth.showing import shown, shown_of_error

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


@pytest.mark.parametrize("spoilt", ["\0", "\ud800", "\u0007"])
def test_a_refused_password_is_not_in_the_error(spoilt: str) -> None:
    password = Secret(PASSWORD.reveal() + spoilt)
    with pytest.raises(ConfigError) as caught:
        Scram("SCRAM-SHA-256", "user", password)
    assert_harmless(shown_of_error(caught.value))
    if spoilt != "\u0007":
        with pytest.raises(ConfigError) as caught:
            Plain("user", password)
        assert_harmless(shown_of_error(caught.value))
