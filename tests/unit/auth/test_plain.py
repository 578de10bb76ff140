"""PLAIN: the one message of RFC 4616, and what can't be in it."""

from __future__ import annotations

import pytest

from aioproducer.auth.mechanism import Exchange, Mechanism
from aioproducer.auth.plain import Plain
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError, IllegalSaslStateError


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
