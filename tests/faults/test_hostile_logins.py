"""Servers that want the password, or that do not know it: each is refused, and told why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import AuthenticationError, BootstrapError, Producer, ProducerError
from aioproducer.errors import SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from tests.support.fake_kafka.logins import (
    LOGIN,
    PASSWORD,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Conversation,
    FakeLogins,
    Said,
    ScramConversation,
    Scripted,
    scram_server,
    wrong_signature,
)

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka
    from tests.support.fake_kafka import FakeKafka

SOON = 5.0
"""Seconds; nothing in these tests waits for a timeout of the producer's that is longer."""
PLAIN = LOGIN | {"sasl_mechanism": "PLAIN"}


async def refused(kafka: FakeKafka, within: float = SOON, **options: Any) -> ProducerError:
    """The error of the first record."""
    began = monotonic()
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers, **(LOGIN | options))
    async with asyncio.timeout(60), producer:
        with pytest.raises(ProducerError) as caught:
            await producer.send("orders", b"v")
        assert monotonic() - began < within
    assert PASSWORD not in str(caught.value)
    assert PASSWORD.encode() not in b"".join(kafka.logins.said if kafka.logins else [])
    assert kafka.requests(0) == [], "no record left"
    return caught.value


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_an_honest_server_lets_the_producer_in(
    start_kafka: StartKafka, mechanism: str
) -> None:
    logins = FakeLogins((mechanism,))
    kafka = await start_kafka(1, {"orders": 1}, logins=logins)
    options = LOGIN | {"sasl_mechanism": mechanism}
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
        await producer.send("orders", b"v")
    assert kafka.values("orders") == [b"v"]
    sent = b"".join(logins.said)
    assert (PASSWORD.encode() in sent) == (mechanism == "PLAIN")


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_every_version_of_the_login(start_kafka: StartKafka, version: int) -> None:
    logins = FakeLogins()
    kafka = await start_kafka(1, {"orders": 1}, logins=logins)
    kafka.versions[SASL_AUTHENTICATE] = (0, version)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **LOGIN) as producer:
        await producer.send("orders", b"v")
    assert kafka.values("orders") == [b"v"]


async def test_plain_where_scram_is_configured_gets_no_password(start_kafka: StartKafka) -> None:
    logins = FakeLogins(("PLAIN",))
    error = await refused(await start_kafka(1, {"orders": 1}, logins=logins))
    assert isinstance(error, UnsupportedSaslMechanismError)
    assert "this listener offers PLAIN" in str(error)
    assert [login.mechanism for login in logins.begun] == ["SCRAM-SHA-256"] * len(logins.begun)


async def test_a_weaker_digest_is_not_taken_instead(start_kafka: StartKafka) -> None:
    kafka = await start_kafka(1, {"orders": 1}, logins=FakeLogins(("SCRAM-SHA-256",)))
    error = await refused(kafka, sasl_mechanism="SCRAM-SHA-512")
    assert isinstance(error, UnsupportedSaslMechanismError)


def other_nonce(said: bytes) -> bytes:
    return b"r=another" + said[said.index(b",s=") :]


def cut_nonce(said: bytes) -> bytes:
    return said[:6] + said[said.index(b",s=") :]


HOSTILE: dict[str, tuple[Callable[[str], Conversation], str]] = {
    "a wrong signature": (
        lambda _: ScramConversation(scram_server(), final=wrong_signature),
        "signature is wrong",
    ),
    "no signature": (
        lambda _: ScramConversation(scram_server(), final=lambda said: b""),
        "last message is unusable",
    ),
    "done before it proved itself": (lambda _: Scripted([Said(b"")]), "first message is unusable"),
    "the client's own message": (
        lambda _: Scripted([Said(b"n,,n=alice,r=x")]),
        "first message is unusable",
    ),
    "one iteration": (
        lambda _: ScramConversation(scram_server(iterations=1)),
        "asks for 1 iterations",
    ),
    "thousands of millions of iterations": (
        lambda _: ScramConversation(
            scram_server(), first=lambda said: said.replace(b"i=4096", b"i=4000000000")
        ),
        "asks for 4000000000 iterations",
    ),
    "another nonce": (
        lambda _: ScramConversation(scram_server(), first=other_nonce),
        "nonce does not extend",
    ),
    "a part of the nonce": (
        lambda _: ScramConversation(scram_server(), first=cut_nonce),
        "nonce does not extend",
    ),
    "the same nonce": (
        lambda _: ScramConversation(scram_server(nonce="")),
        "nonce does not extend",
    ),
    "200,000 bytes": (lambda _: Scripted([Said(b"r=" + b"x" * 200_000)]), "first message"),
    "its own error": (lambda _: Scripted([Said(b"e=unknown-user")]), "unknown-user"),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_server_that_proves_nothing_is_refused(start_kafka: StartKafka, what: str) -> None:
    make, told = HOSTILE[what]
    logins = FakeLogins(make=make)
    error = await refused(await start_kafka(1, {"orders": 1}, logins=logins))
    assert isinstance(error, SaslAuthenticationFailedError)
    assert told in str(error)
    assert len(str(error)) < 1_000
    assert len(logins.begun) == 1, "an account is locked by trying again at once"


async def test_a_server_that_challenges_plain_is_refused_after_one_message(
    start_kafka: StartKafka,
) -> None:
    logins = FakeLogins(("PLAIN",), make=lambda _: Scripted([Said(b"who are you?")]))
    kafka = await start_kafka(1, {"orders": 1}, logins=logins)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **PLAIN) as producer:
        with pytest.raises(AuthenticationError, match="challenge"):
            await producer.send("orders", b"v")
    assert sum(PASSWORD.encode() in frame for frame in logins.said) == 1


@pytest.mark.parametrize("api", [SASL_HANDSHAKE, SASL_AUTHENTICATE])
async def test_a_login_that_is_not_answered_ends_after_the_request_timeout(
    start_kafka: StartKafka, api: int
) -> None:
    logins = FakeLogins(mute={api})
    kafka = await start_kafka(1, {"orders": 1}, logins=logins)
    error = await refused(
        kafka,
        request_timeout_ms=200,
        max_block_ms=700,
        delivery_timeout_ms=1_000,
    )
    assert isinstance(error, BootstrapError)
    assert "did not complete the SCRAM-SHA-256 login within 0.2 s" in str(error)
    assert "Is it a Kafka broker" not in str(error), "it said its versions, so it is one"


@pytest.mark.parametrize("api", [SASL_HANDSHAKE, SASL_AUTHENTICATE])
async def test_close_is_bounded_while_a_login_is_not_answered(
    start_kafka: StartKafka, api: int
) -> None:
    logins = FakeLogins(mute={api})
    kafka = await start_kafka(1, {"orders": 1}, logins=logins)
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers, **LOGIN)
    await producer.start()
    future = producer.send("orders", b"v")
    await kafka.until_received(api)
    began = monotonic()
    assert await producer.close(0.2) == 1
    assert monotonic() - began < SOON
    assert isinstance(future.exception(), ProducerError)


async def test_a_listener_without_logins_gets_no_password_and_no_records(
    start_kafka: StartKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may have taken the login out of what the broker says it speaks."""
    kafka = await start_kafka(1, {"orders": 1})
    sent: list[bytes] = []
    read = asyncio.StreamReader.readexactly

    async def spy(reader: asyncio.StreamReader, number: int) -> bytes:
        data = await read(reader, number)
        sent.append(data)
        return data

    monkeypatch.setattr(asyncio.StreamReader, "readexactly", spy)
    error = await refused(kafka, sasl_mechanism="PLAIN", max_block_ms=400)
    assert "SASL_HANDSHAKE" in str(error)
    assert sent
    assert PASSWORD.encode() not in b"".join(sent)
