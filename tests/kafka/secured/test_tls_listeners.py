"""Real brokers with a TLS listener, as our certificates make it: other clients write through it."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from aioproducer.auth.tls import TlsContexts, TlsOptions
from aioproducer.auth.tls_errors import explain_tls
from aioproducer.config.secret import Secret
from aioproducer.errors import BrokerConnectionError, SslAuthenticationError
from aioproducer.testing.certificates import Authority, Certificate
from aioproducer.testing.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000007 ffff")
"""The oldest ApiVersions request: correlation id 7, no client id."""


def produce(cluster: KafkaCluster, listener: str, topic: str, **options: str) -> KafkaError | None:
    """The error with which librdkafka's record ended; None: it was written."""
    producer = Producer(
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
        truststore_certificates=authority.pem,
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
