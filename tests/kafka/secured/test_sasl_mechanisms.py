"""PLAIN, SCRAM and GSSAPI at a real broker: it lets our users in, and nobody else."""

from __future__ import annotations

import uuid
from importlib.util import find_spec
from pathlib import Path

import pytest

from aioproducer.auth.gssapi import Gssapi
from aioproducer.auth.plain import Plain
from aioproducer.auth.scram import Scram
from aioproducer.config.secret import Secret
from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kerberos import KerberosRealm
from tests.auth.requirement import say_that_there_is_no_kerberos
from tests.kafka.logins import SERVICE
from tests.kafka.sasl_wire import log_in
from tests.kafka.secured.secured_kafka import LET_IN, LIGATURE, PASSWORD, SecuredKafka

pytestmark = pytest.mark.kafka

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
    assert log_in(address, Scram(SHA_256, "fish", Secret(LIGATURE), saslprep=False)) == LET_IN
    refused = log_in(address, Scram(SHA_256, "fish", Secret(LIGATURE)))
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
