"""Every mechanism of a login at a real broker: of producers, readers and admins, and by itself."""

from __future__ import annotations

import asyncio
import unicodedata
import uuid
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from aioproducer import Producer, TopicPartition
from aioproducer.admin import Admin
from aioproducer.auth.gssapi import Gssapi
from aioproducer.auth.passwords import Plain, Scram
from aioproducer.errors import AuthenticationError, TopicAuthorizationFailedError
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation.secret import Secret
from aioproducer.reader import Reader
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kerberos import KerberosRealm
from tests.auth.requirement import say_that_there_is_no_kerberos
from tests.kafka.logins import SERVICE
from tests.kafka.sasl_wire import log_in
from tests.kafka.secured.secured_kafka import LET_IN, LIGATURE, PASSWORD, SecuredKafka, join

pytestmark = pytest.mark.kafka


MARKS = {"GSSAPI": pytest.mark.kerberos}
LOGINS: dict[str, Callable[[SecuredKafka], dict[str, Any]]] = {
    "PLAIN": lambda world: world.plain(),
    "SCRAM-SHA-256": lambda world: world.login("SCRAM-SHA-256", "a=b,c", PASSWORD),
    "SCRAM-SHA-512": lambda world: world.login("SCRAM-SHA-512", "bob", "bob-secret"),
    "OAUTHBEARER": lambda world: world.oauth(),
    "GSSAPI": lambda world: world.kerberos(),
    "TLS": lambda world: world.tls(),
    "MTLS": lambda world: world.tls("MTLS", **world.identity()),
}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=MARKS.get(kind, ())) for kind in LOGINS])
async def test_records_and_transactions_are_written(
    kind: str, world: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await world.topic()
    if kind == "GSSAPI":
        join(world.realm, monkeypatch)
    options = LOGINS[kind](world)
    async with Producer(**options) as producer:
        found = await producer.check(30, topics=[topic], transactional_id="mine")
        assert found.topics[topic].may_write
        futures = [producer.send(topic, b"%d" % number) for number in range(100)]
        await asyncio.gather(*futures)
    async with Producer(**options, transactional_id=uuid.uuid4().hex) as producer:
        async with producer.transaction():
            producer.send(topic, b"committed")
        with pytest.raises(KeyError):
            await aborted(producer, topic)
    assert await world.written(topic) == [*(b"%d" % number for number in range(100)), b"committed"]


async def aborted(producer: Producer, topic: str) -> None:
    async with producer.transaction():
        await producer.send(topic, b"aborted")
        raise KeyError


SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


@pytest.fixture
def address(world: SecuredKafka) -> str:
    return world.cluster.bootstrap_servers_of("CLEAR")


def test_plain(address: str) -> None:
    assert log_in(address, Plain("alice", Secret("alice-secret"))) == LET_IN
    refused = log_in(address, Plain("alice", Secret("guessed")))
    assert refused.error is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Invalid username or password" in refused.said


@pytest.mark.parametrize("name", [SHA_256, SHA_512])
def test_scram(name: str, address: str) -> None:
    for username in ("alice", "a=b,c"):
        mechanism = Scram(name, username, Secret(PASSWORD))
        assert log_in(address, mechanism) == LET_IN
        assert log_in(address, mechanism) == LET_IN  # with the key that is kept
    for refused in (
        log_in(address, Scram(name, "alice", Secret("guessed"))),
        log_in(address, Scram(name, "nobody", Secret(PASSWORD))),
    ):
        assert not refused.complete
        assert refused.error is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_user_of_kafkas_own_tool(address: str) -> None:
    assert log_in(address, Scram(SHA_512, "bob", Secret("bob-secret"))) == LET_IN


def test_a_user_is_no_delegation_token(address: str) -> None:
    mechanism = Scram(SHA_512, "bob", Secret("bob-secret"), tokenauth=True)
    refused = log_in(address, mechanism)
    assert refused.error is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_kafka_stores_passwords_as_they_are(address: str) -> None:
    """So SASLprep, where it changes a password, keeps its user out."""
    assert log_in(address, Scram(SHA_256, "fish", Secret(LIGATURE))) == LET_IN
    prepared = unicodedata.normalize("NFKC", LIGATURE)
    refused = log_in(address, Scram(SHA_256, "fish", Secret(prepared)))
    assert refused.error is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.kerberos
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_gssapi(
    host: str, address: str, realm: KerberosRealm | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if realm is None or find_spec("gssapi") is None:
        say_that_there_is_no_kerberos("it needs MIT's KDC and the package gssapi")
    monkeypatch.setenv("KRB5_CONFIG", str(realm.configuration))
    name = uuid.uuid4().hex
    keytab = realm.add_principal(name)
    mechanism = Gssapi(SERVICE, principal=name, keytab=str(keytab))
    assert log_in(address, mechanism, host) == LET_IN
    assert log_in(address, mechanism, host) == LET_IN


@pytest.mark.kerberos
async def test_kafkas_own_client_logs_in_by_gssapi(
    address: str,
    cluster: KafkaCluster,
    realm: KerberosRealm | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The listener is as Java clients expect it."""
    if realm is None:
        say_that_there_is_no_kerberos("it needs MIT's KDC")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", realm.java_option)
    name = uuid.uuid4().hex
    keytab = realm.add_principal(name)
    settings = tmp_path / "client.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n"
        f"sasl.kerberos.service.name={SERVICE}\n"
        "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
        f' storeKey=true keyTab="{keytab}" principal="{name}@{realm.realm}";\n'
    )
    asked = await cluster.tool(
        "org.apache.kafka.tools.BrokerApiVersionsCommand",
        *("--bootstrap-server", address, "--command-config", str(settings)),
    )
    assert asked.returncode == 0, asked.stderr
    assert "Produce(0)" in asked.stdout


async def test_logins_and_permissions_of_readers(world: SecuredKafka) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    await world.cluster.create_topic(topic, 2)
    world.deny(ResourceType.TOPIC, topic, AclOperation.READ)
    async with Producer(**world.plain()) as producer:
        await producer.send_many(topic, [b"%d" % number for number in range(100)])
    async with Reader(topic, end="end", **world.plain()) as reader:
        found = [record.value async for record in reader]
    assert sorted(found, key=lambda value: int(value or b"-1")) == [b"%d" % n for n in range(100)]
    async with Reader(topic, **world.plain("limited")) as limited:
        with pytest.raises(TopicAuthorizationFailedError, match=topic):
            await anext(aiter(limited))
    with pytest.raises(AuthenticationError, match="PLAIN login refused"):
        await Reader(topic, **world.login("PLAIN", "alice", "guessed-it")).start()


async def test_another_mechanism(world: SecuredKafka) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    await world.cluster.create_topic(topic, 1)
    async with Producer(**world.plain()) as producer:
        await producer.send(topic, b"value")
    async with Reader(
        topic, end="end", **world.login("SCRAM-SHA-512", "bob", "bob-secret")
    ) as reader:
        assert [record.value async for record in reader] == [b"value"]


async def test_logins_and_permissions_of_admins(world: SecuredKafka) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    denied = (AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS)
    world.deny(ResourceType.TOPIC, topic, *denied)
    async with Admin(**world.plain()) as admin:
        await admin.create_topic(topic, 2, 1)
        assert len((await admin.wait_for_leaders(topic))[topic].partitions) == 2
    async with Admin(**world.plain("limited")) as limited:
        assert topic in await limited.list_topics()
        with pytest.raises(TopicAuthorizationFailedError, match=f"'{topic}': .* ALTER for the top"):
            await limited.add_partitions(topic, 3)
        with pytest.raises(TopicAuthorizationFailedError, match=f"{topic}-0: .* DELETE for the to"):
            await limited.delete_records({TopicPartition(topic, 0): -1})
        with pytest.raises(TopicAuthorizationFailedError, match="DESCRIBE_CONFIGS for the topic"):
            await limited.describe_configs(topic)
    async with Admin(**world.login("PLAIN", "alice", "guessed-it")) as stranger:
        with pytest.raises(AuthenticationError):
            await stranger.list_topics()
