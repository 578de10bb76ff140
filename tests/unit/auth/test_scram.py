"""SCRAM: the vectors, a server of our own, and servers that lie."""

from __future__ import annotations

import asyncio
import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.auth.mechanism import Exchange, Mechanism
from aioproducer.auth.passwords import MAX_ITERATIONS, Scram, ScramExchange
from aioproducer.errors import (
    AuthenticationError,
    ConfigError,
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
)
from aioproducer.foundation.secret import Secret
from tests.unit.auth.scram_server import ScramServer

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
DIGESTS: Final = {SHA_256: "sha256", SHA_512: "sha512"}
CLIENT_NONCE: Final = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST: Final = (
    f"r={CLIENT_NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
)
# Section 3 of RFC 7677; the same login with SHA-512 as scramp 1.5.0 computes it.
VECTORS: Final = {
    SHA_256: (
        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
    SHA_512: (
        "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==",
        "ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==",
    ),
}


def begin(mechanism: Scram) -> ScramExchange:
    return asyncio.run(mechanism.begin("broker"))


def log_in(mechanism: Scram, server: ScramServer) -> ScramExchange:
    exchange = begin(mechanism)
    proof = exchange.step(server.first(exchange.step(b"")))
    assert not exchange.complete
    assert exchange.step(server.final(proof)) == b""
    return exchange


def the_vectors(name: str) -> ScramExchange:
    """A login that has sent its first message."""
    mechanism = Scram(name, "user", Secret("pencil"), new_nonce=lambda: CLIENT_NONCE)
    exchange = begin(mechanism)
    assert exchange.step(b"") == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    return exchange


@pytest.mark.parametrize("name", [SHA_256, SHA_512])
def test_the_vectors(name: str) -> None:
    exchange = the_vectors(name)
    proof, signature = VECTORS[name]
    nonce = SERVER_FIRST.split(b",")[0].decode()
    assert exchange.step(SERVER_FIRST) == f"c=biws,{nonce},p={proof}".encode()
    assert not exchange.complete
    assert exchange.step(f"v={signature}".encode()) == b""
    assert exchange.complete


def test_the_shapes_of_a_login() -> None:
    mechanism: Mechanism = Scram(SHA_256, "user", Secret("pencil"))
    exchange: Exchange = asyncio.run(mechanism.begin("broker"))
    assert mechanism.name == SHA_256
    assert exchange.blocking


@given(
    name=st.sampled_from([SHA_256, SHA_512]),
    username=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1),
    password=st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1),
    salt=st.binary(min_size=1, max_size=40),
)
def test_every_user_logs_in(name: str, username: str, password: str, salt: bytes) -> None:
    server = ScramServer(DIGESTS[name], username, password.encode(), salt=salt)
    assert log_in(Scram(name, username, Secret(password)), server).complete


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_without_saslprep_every_string_is_taken_as_kafka_takes_it(text: str) -> None:
    server = ScramServer("sha256", text, text.encode())
    assert log_in(Scram(SHA_256, text, Secret(text)), server).complete


def test_a_delegation_token_says_that_it_is_one() -> None:
    server = ScramServer("sha512", "token-id", b"aGVsbG8=")
    log_in(Scram(SHA_512, "token-id", Secret("aGVsbG8="), tokenauth=True), server)
    assert server.extensions == ["tokenauth=true"]
    log_in(Scram(SHA_512, "token-id", Secret("aGVsbG8=")), server)
    assert server.extensions == []


def test_nonces_are_never_the_same() -> None:
    mechanism = Scram(SHA_256, "user", Secret("pencil"))
    assert len({begin(mechanism).step(b"") for _ in range(50)}) == 50


@pytest.mark.parametrize(
    ("name", "username", "password", "said"),
    [
        ("SCRAM-SHA-1", "user", "x", "'SCRAM-SHA-1' is not a SCRAM mechanism"),
        (SHA_256, "", "x", "the user name is empty"),
        (SHA_256, "user", "", "the password is empty"),
        (SHA_256, "us\0er", "x", "the user name contains a NUL"),
        (SHA_256, "user", "hunter\ud8002", "the password contains a surrogate"),
    ],
)
def test_what_can_not_be_used_is_refused_at_once(
    name: str, username: str, password: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        Scram(name, username, Secret(password))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"", "it is empty"),
        (b"\xff", "not UTF-8"),
        (b"r=" + b"x" * 5000, "5002 bytes, more than 4096"),
        (b"hello", "does not have the form r="),
        (SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="), "does not have the form"),
        (SERVER_FIRST.replace(b"gQ==", b"gQ="), "does not have the form"),
        (SERVER_FIRST.replace(b"i=4096", b"i=-1"), "does not have the form"),
        (SERVER_FIRST.replace(b"i=4096", b"i=" + b"9" * 4000), "does not have the form"),
        (SERVER_FIRST.replace(b"i=4096", "i=٤٠٩٦".encode()), "does not have the form"),
        (SERVER_FIRST + b"\n", "does not have the form"),
        (b"m=new," + SERVER_FIRST, "requires an extension"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "4095 iterations; the client accepts 4096"),
        (SERVER_FIRST.replace(b"i=4096", b"i=0"), "0 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=1000001"), "1000001 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=99999999999999999999"), "iterations"),
        (SERVER_FIRST.replace(CLIENT_NONCE.encode(), b"another"), "nonce does not extend"),
        (SERVER_FIRST.replace(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b""), "nonce does not extend"),
        (b"e=unknown-user", "the server refused the login: unknown-user"),
        (b"v=" + VECTORS[SHA_256][1].encode(), "does not have the form"),
    ],
)
def test_a_hostile_first_message_ends_the_login(
    message: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And before anything is computed from the password."""
    exchange = the_vectors(SHA_256)
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", None)
    with pytest.raises(SaslAuthenticationFailedError, match=said) as caught:
        exchange.step(message)
    assert str(caught.value).startswith("SCRAM-SHA-256: ")
    assert not exchange.complete
    with pytest.raises(IllegalSaslStateError):
        exchange.step(SERVER_FIRST)


def wrong(signature: str) -> bytes:
    right = b64decode(signature)
    return b"v=" + b64encode(right[:-1] + bytes([right[-1] ^ 1]))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"", "it is empty"),
        (b"ok", "does not have the form v="),
        (b"v=", "the server's signature is wrong"),
        (b"v=" + b64encode(bytes(32)), "the server's signature is wrong"),
        (wrong(VECTORS[SHA_256][1]), "the server's signature is wrong"),
        (f"v={VECTORS[SHA_512][1]}".encode(), "the server's signature is wrong"),
        (f"v={VECTORS[SHA_256][1]}\n".encode(), "does not have the form"),
        (b"e=invalid-proof", "the server refused the login: invalid-proof"),
        (b"e=channel-bindings-dont-match,x=y", "refused the login: channel-bindings-dont-match$"),
        (b"e=\x1b[31mred\nline", "refused the login: a reason that can't be shown"),
        (b"e=" + b"x" * 200, "refused the login: a reason that can't be shown"),
    ],
)
def test_a_hostile_last_message_ends_the_login(message: bytes, said: str) -> None:
    exchange = the_vectors(SHA_256)
    exchange.step(SERVER_FIRST)
    with pytest.raises(SaslAuthenticationFailedError, match=said):
        exchange.step(message)
    assert not exchange.complete
    with pytest.raises(IllegalSaslStateError):
        exchange.step(f"v={VECTORS[SHA_256][1]}".encode())
    assert not exchange.complete


def test_a_server_that_speaks_first_or_goes_on_is_refused() -> None:
    exchange = begin(Scram(SHA_256, "user", Secret("pencil")))
    with pytest.raises(IllegalSaslStateError):
        exchange.step(SERVER_FIRST)
    done = log_in(
        Scram(SHA_256, "user", Secret("pencil")), ScramServer("sha256", "user", b"pencil")
    )
    with pytest.raises(IllegalSaslStateError):
        done.step(b"")


def test_the_servers_iterations_may_be_many() -> None:
    server = ScramServer("sha256", "user", b"pencil", iterations=16_384)
    assert log_in(Scram(SHA_256, "user", Secret("pencil")), server).complete
    assert MAX_ITERATIONS >= 16_384


def test_extensions_of_the_server_are_skipped() -> None:
    exchange = the_vectors(SHA_256)
    assert exchange.step(SERVER_FIRST + b",x=1,later=\xc3\xbc").startswith(b"c=biws,r=")


messages = st.one_of(
    st.binary(max_size=200),
    st.tuples(st.binary(max_size=10), st.integers(0, len(SERVER_FIRST))).map(
        lambda each: SERVER_FIRST[: each[1]] + each[0] + SERVER_FIRST[each[1] :]
    ),
    st.from_regex(rb"\A(r=rOprNGfwEbeRWgbNEkqO[a-z]*,s=[a-zA-Z0-9/+=]*,i=[0-9]{1,4}|[ev]=.*)\Z"),
)


@given(st.lists(messages, max_size=4))
def test_arbitrary_bytes_of_a_server_are_an_authentication_error_or_a_response(
    challenges: list[bytes],
) -> None:
    exchange = the_vectors(SHA_256)
    for challenge in challenges:
        with suppress(AuthenticationError):
            assert isinstance(exchange.step(challenge), bytes)
        assert not exchange.complete


Derive = Callable[[str, bytes, bytes, int], bytes]


@pytest.fixture
def derivations(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, int]]:
    """The salt and the iterations of every key that the client derives."""
    derive: Derive = hashlib.pbkdf2_hmac
    counted: list[tuple[bytes, int]] = []

    def count(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        counted.append((salt, iterations))
        return derive(name, password, salt, iterations)

    monkeypatch.setattr("aioproducer.auth.passwords.hashlib.pbkdf2_hmac", count)
    return counted


def test_a_second_login_derives_no_key(derivations: list[tuple[bytes, int]]) -> None:
    server = ScramServer("sha256", "user", b"pencil")
    derivations.clear()
    mechanism = Scram(SHA_256, "user", Secret("pencil"))
    for _ in range(3):
        assert log_in(mechanism, server).complete
    assert derivations == [(server.salt, 4096)]


def test_other_credentials_are_derived_anew(derivations: list[tuple[bytes, int]]) -> None:
    servers = [
        ScramServer("sha256", "user", b"pencil", salt=salt, iterations=iterations)
        for salt in (b"one", b"two")
        for iterations in (4096, 4097)
    ]
    derivations.clear()
    mechanism = Scram(SHA_256, "user", Secret("pencil"))
    for server in [*servers, *servers]:
        assert log_in(mechanism, server).complete
    assert derivations == [(server.salt, server.iterations) for server in servers]


def test_few_keys_are_kept_and_none_that_no_server_proved(
    derivations: list[tuple[bytes, int]],
) -> None:
    mechanism = Scram(SHA_256, "user", Secret("pencil"))
    servers = [ScramServer("sha256", "user", b"pencil", salt=b"%d" % n) for n in range(20)]
    for server in servers:
        log_in(mechanism, server)
    derivations.clear()
    for n in range(20):
        exchange = begin(mechanism)
        liar = ScramServer("sha256", "user", b"pen", salt=b"liar %d" % n)
        exchange.step(liar.first(exchange.step(b"")))
        with pytest.raises(SaslAuthenticationFailedError):
            exchange.step(b"v=" + b64encode(bytes(32)))
    derivations.clear()
    log_in(mechanism, servers[-1])
    assert derivations == []
    log_in(mechanism, servers[0])
    assert derivations == [(b"0", 4096)]
