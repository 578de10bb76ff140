"""Logins at the model, by the client's own mechanisms; sessions that end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from aioproducer.auth.mechanism import Mechanism
from aioproducer.auth.plain import Plain
from aioproducer.auth.scram import Scram
from aioproducer.config.secret import Secret
from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka import ClusterOptions, KafkaModel
from aioproducer.testing.simulation.kafka.messages import read_response, write_request
from tests.support.conversations.lines import NOW
from tests.unit.testing.simulation.test_kafka_connections import Client

HANDSHAKE, AUTHENTICATE, METADATA = 17, 36, 3

USER, PASSWORD = "user", "pencil"


def kafka(lifetime_ms: int = 0) -> KafkaModel:
    options = ClusterOptions(credentials={USER: PASSWORD}, session_lifetime_ms=lifetime_ms)
    return KafkaModel(1, random=Random(1), options=options)


def ask(client: Client, api: int, version: int, now: float = NOW, **values: Any) -> Any:
    """The response; None: there is none."""
    before = len(client.responses)
    client.connection.receive(write_request(api, version, 1, "client", values), now)
    if len(client.responses) == before:
        return None
    return read_response(api, version, client.responses[-1][4:])[1]


def metadata(client: Client, now: float = NOW) -> Any:
    return ask(
        client,
        METADATA,
        12,
        now,
        topics=(),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


def log_in(client: Client, mechanism: Mechanism, now: float = NOW) -> Any:
    """The last answer to a login."""
    assert not ask(client, HANDSHAKE, 1, now, mechanism=mechanism.name).error_code
    exchange = asyncio.run(mechanism.begin("broker"))
    said = b""
    while True:
        told = ask(client, AUTHENTICATE, 2, now, auth_bytes=exchange.step(said))
        if told.error_code or exchange.complete:
            return told
        said = told.auth_bytes
        if mechanism.name != "PLAIN" and said.startswith(b"v="):
            exchange.step(said)
            assert exchange.complete, "the broker has proved that it knows the password"
            return told


MECHANISMS: dict[str, Callable[[str], Mechanism]] = {
    "PLAIN": lambda password: Plain(USER, Secret(password)),
    "SCRAM-SHA-256": lambda password: Scram("SCRAM-SHA-256", USER, Secret(password)),
    "SCRAM-SHA-512": lambda password: Scram("SCRAM-SHA-512", USER, Secret(password)),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_right_password_lets_in(name: str) -> None:
    client = Client(kafka())
    assert not log_in(client, MECHANISMS[name](PASSWORD)).error_code
    assert len(metadata(client).brokers) == 1


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_wrong_password_ends_the_connection(name: str) -> None:
    client = Client(kafka())
    told = log_in(client, MECHANISMS[name]("wrong"))
    assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.closed


def test_requests_before_the_login_end_the_connection() -> None:
    client = Client(kafka())
    assert metadata(client) is None
    assert client.closed


def test_an_unknown_mechanism_is_answered_with_the_known_ones() -> None:
    client = Client(kafka())
    told = ask(client, HANDSHAKE, 1, mechanism="GSSAPI")
    assert told.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert "PLAIN" in told.mechanisms
    assert client.closed


def test_a_session_that_is_not_renewed_ends_with_the_next_request() -> None:
    client = Client(kafka(lifetime_ms=3000))
    assert log_in(client, MECHANISMS["PLAIN"](PASSWORD)).session_lifetime_ms == 3000
    assert metadata(client, NOW + 2.9) is not None
    assert metadata(client, NOW + 3.1) is None
    assert client.closed


def test_a_renewed_session_goes_on() -> None:
    client = Client(kafka(lifetime_ms=3000))
    for now in (NOW, NOW + 2, NOW + 4):
        assert not log_in(client, MECHANISMS["SCRAM-SHA-256"](PASSWORD), now).error_code
    assert metadata(client, NOW + 6) is not None
