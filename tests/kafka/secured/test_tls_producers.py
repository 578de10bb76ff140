"""Producers and a broker's TLS: what lets them in, and what keeps them out, in which words."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.errors import BootstrapError, ConfigError, SslAuthenticationError
from aioproducer.testing.certificates import Authority
from tests.kafka.secured.secured_kafka import SecuredKafka, Stopwatch, failures_of

pytestmark = pytest.mark.kafka

AT_ONCE = 20.0
"""Seconds; far from the minute that there is."""


def own_context(world: SecuredKafka) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=world.authority.pem)
    client = world.authority.issue("client").write(world.directory / "own.pem")
    context.load_cert_chain(client)
    return context


def pem_texts(world: SecuredKafka) -> dict[str, Any]:
    client = world.authority.issue("client")
    return {
        "ssl_truststore_location": None,
        "ssl_truststore_certificates": world.authority.pem,
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": client.key_pem("key-secret"),
        "ssl_keystore_certificate_chain": client.chain_pem,
        "ssl_key_password": "key-secret",
    }


def pkcs12(world: SecuredKafka) -> dict[str, Any]:
    file = world.directory / "client.p12"
    file.write_bytes(world.authority.issue("client").pkcs12("store-secret"))
    return {
        "ssl_keystore_location": str(file),
        "ssl_keystore_type": "PKCS12",
        "ssl_keystore_password": "store-secret",
    }


GOOD: dict[str, Callable[[SecuredKafka], dict[str, Any]]] = {
    "own context": lambda world: world.tls("MTLS", ssl_context=own_context(world)),
    "PEM texts": lambda world: world.tls("MTLS", **pem_texts(world)),
    "PKCS12": lambda world: world.tls("MTLS", **pkcs12(world)),
    "any host": lambda world: world.tls("ELSEWHERE", ssl_endpoint_identification_algorithm=""),
    "TLS 1.2": lambda world: world.tls(ssl_enabled_protocols=["TLSv1.2"]),
}


async def test_each_way_to_configure_tls_writes(world: SecuredKafka) -> None:
    topic = await world.topic()
    for name, options in GOOD.items():
        async with Producer(**options(world)) as producer:
            await producer.send(topic, name.encode())
    assert await world.written(topic) == [name.encode() for name in GOOD]


def of_another(world: SecuredKafka) -> dict[str, Any]:
    file = Path(world.directory, "another.pem")
    file.write_text(Authority("Another").pem)
    return world.tls(ssl_truststore_location=str(file))


FINAL: dict[str, tuple[Callable[[SecuredKafka], dict[str, Any]], str]] = {
    "expired": (lambda world: world.tls("EXPIRED"), "has expired"),
    "another host": (
        lambda world: world.tls("ELSEWHERE"),
        "does not name the host '127.0.0.1'.*ssl_endpoint_identification_algorithm",
    ),
    "another authority": (of_another, "isn't trusted here.*ssl_truststore_location='.*another.pem"),
    "the system's authorities": (
        lambda world: world.tls(ssl_truststore_location=None, ssl_truststore_type="JKS"),
        "isn't trusted here.*set the broker's own with ssl_truststore_location",
    ),
    "no certificate": (lambda world: world.tls("MTLS"), "set ssl_keystore_location"),
}


@pytest.mark.parametrize("kind", FINAL)
async def test_a_refusal_of_tls_is_told_at_once(kind: str, world: SecuredKafka) -> None:
    options, words = FINAL[kind]
    configured = options(world)
    watch = Stopwatch()
    for error in await failures_of(configured, "orders"):
        assert isinstance(error, SslAuthenticationError)
        assert configured["bootstrap_servers"] in str(error)
        with pytest.raises(SslAuthenticationError, match=words):
            raise error
    assert watch.seconds < AT_ONCE


async def test_a_key_that_comes_to_be_readable_is_used(world: SecuredKafka) -> None:
    topic = await world.topic()
    file = world.directory / "rotated.pem"
    client = world.authority.issue("client")
    client.write(file, "another-secret")
    options = world.tls(
        "MTLS",
        ssl_keystore_location=str(file),
        ssl_keystore_type="PEM",
        ssl_key_password="key-secret",
    )
    watch = Stopwatch()
    for client_that_starts in (Producer(**options).start(), Admin(**options).start()):
        with pytest.raises(ConfigError, match=r"rotated.pem': ssl_key_password is wrong"):
            await client_that_starts
    assert watch.seconds < AT_ONCE
    client.write(file, "key-secret")
    async with Producer(**options) as producer:
        await producer.send(topic, b"let in")
    assert await world.written(topic) == [b"let in"]


async def test_tls_and_plain_text_that_meet_are_told_within_the_bound(world: SecuredKafka) -> None:
    plain = {"bootstrap_servers": world.cluster.bootstrap_servers_of("TLS")}
    watch = Stopwatch()
    *of_tls, of_plain, of_plain_check = (
        error
        for pair in await asyncio.gather(
            failures_of(world.tls("PLAINTEXT"), "orders", seconds=1.5),
            failures_of(plain, "orders", seconds=1.5),
        )
        for error in pair
    )
    assert watch.seconds < AT_ONCE
    for error in of_tls:
        assert isinstance(error, BootstrapError)
        assert "the port may not speak TLS (see security_protocol)" in str(error)
        assert world.cluster.bootstrap_servers_of("PLAINTEXT") in str(error)
    for error in (of_plain, of_plain_check):
        assert isinstance(error, BootstrapError)
        assert "TLS" in str(error)
        assert "security_protocol" in str(error)
        assert plain["bootstrap_servers"] in str(error)
