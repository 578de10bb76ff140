"""Real brokers with TLS, as our certificates make it: who is let in, and who is not."""

from __future__ import annotations

import asyncio
import ssl
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import Producer as ConfluentProducer

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.auth.tls import TlsContexts, TlsOptions
from aioproducer.auth.tls_errors import explain_tls
from aioproducer.errors import (
    BootstrapError,
    BrokerConnectionError,
    ConfigError,
    SslAuthenticationError,
)
from aioproducer.foundation.secret import Secret
from aioproducer.testing.certificates import Authority, Certificate
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.secured.secured_kafka import SecuredKafka, Stopwatch, failures_of

pytestmark = pytest.mark.kafka


API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000007 ffff")
"""The oldest ApiVersions request: correlation id 7, no client id."""


def produce(cluster: KafkaCluster, listener: str, topic: str, **options: str) -> KafkaError | None:
    """The error with which librdkafka's record ended; None: it was written."""
    producer = ConfluentProducer(
        {
            "bootstrap.servers": cluster.bootstrap_servers_of(listener),
            "security.protocol": "ssl",
            "message.timeout.ms": 20_000,
            "error_cb": lambda error: None,
        }
        | {name.replace("_", "."): value for name, value in options.items()}
    )
    ended: list[KafkaError | None] = []
    producer.produce(topic, b"secured", on_delivery=lambda error, _: ended.append(error))
    assert producer.flush(30) == 0
    (error,) = ended
    return error


async def test_another_client_writes_through_both_listeners(
    cluster: KafkaCluster, authority: Authority, tmp_path: Path
) -> None:
    topic = uuid.uuid4().hex
    await cluster.create_topic(topic)
    trusted, client = tmp_path / "ca.pem", authority.issue("client").write(tmp_path / "client.pem")
    trusted.write_text(authority.pem)
    trust = {"ssl_ca_location": str(trusted)}
    identity = {"ssl_certificate_location": str(client), "ssl_key_location": str(client)}
    written = await asyncio.to_thread(produce, cluster, "TLS", topic, **trust)
    assert written is None
    written = await asyncio.to_thread(produce, cluster, "MTLS", topic, **trust, **identity)
    assert written is None


async def ask(
    cluster: KafkaCluster,
    listener: str,
    options: TlsOptions,
    *,
    host: str = "127.0.0.1",
    question: bytes = API_VERSIONS,
) -> bytes:
    """The first answer of a broker, with our own context; raises as explain_tls() says.

    Without a question that is the alert of a broker that refuses our certificate. A question that
    it no longer reads would make it a reset, perhaps.
    """
    port = cluster.brokers[0].ports[listener]
    secured = False
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=TlsContexts(options).get(), server_hostname=host
        )
        secured = True
        try:
            writer.write(question)
            return await reader.readexactly(8)
        finally:
            writer.transport.abort()
    except Exception as error:
        raise explain_tls(error, "broker 1", host=host, options=options, secured=secured) from error


def options(authority: Authority, client: Certificate | None = None, **others: str) -> TlsOptions:
    return TlsOptions(
        truststore_type="PEM",
        truststore_certificates=authority.pem,
        keystore_type="PEM",
        keystore_key=None if client is None else Secret(client.key_pem()),
        keystore_certificate_chain=None if client is None else client.chain_pem,
        enabled_protocols=(others.get("version", "TLSv1.3"),),
    )


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_what_our_contexts_and_kafka_say_to_each_other(
    cluster: KafkaCluster, authority: Authority, version: str
) -> None:
    client = authority.issue("client")
    trusting = options(authority, version=version)
    answer = await ask(cluster, "TLS", trusting)
    assert answer[4:] == API_VERSIONS[8:12]
    await ask(cluster, "MTLS", options(authority, client, version=version))
    with pytest.raises(SslAuthenticationError, match="does not name the host 'other'"):
        await ask(cluster, "TLS", trusting, host="other")
    with pytest.raises(SslAuthenticationError, match=r"root of its certificate|isn't trusted here"):
        await ask(cluster, "TLS", options(Authority("Another"), version=version))
    with pytest.raises(SslAuthenticationError, match=r"alert .*ssl_keystore_location"):
        await ask(cluster, "MTLS", trusting, question=b"")
    refused = options(authority, Authority("Another").issue("client"), version=version)
    with pytest.raises(SslAuthenticationError, match=r"alert .*ssl_keystore_certificate_chain"):
        await ask(cluster, "MTLS", refused, question=b"")
    with pytest.raises(BrokerConnectionError, match="may not speak TLS"):
        await ask(cluster, "INTERNAL", trusting)


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
