"""PLAIN, SCRAM and GSSAPI at a real broker: it lets our users in, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen
from typing import TypeAlias

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kio.schema.errors import ErrorCode

from aioproducer.auth.gssapi import Gssapi
from aioproducer.auth.plain import Plain
from aioproducer.auth.scram import Scram
from aioproducer.config.secret import Secret
from aioproducer.testing.certificates import Authority, kafka_broker_properties
from aioproducer.testing.kafka_cluster import DEFAULT_JVM_OPTIONS, KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from aioproducer.testing.kerberos import KerberosRealm, KerberosUnavailableError
from aioproducer.testing.processes import free_ports
from tests.auth.requirement import say_that_there_is_no_kerberos
from tests.kafka.logins import LISTENER, SERVICE, settings_of
from tests.kafka.sasl_wire import Login, log_in

pytestmark = pytest.mark.kafka

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
PASSWORD = "alice's, own=secret"
SECURED = "SECURED"
"""The listener with TLS; for SCRAM-SHA-512."""
LIGATURE = "\ufb01sh"
Place: TypeAlias = dict[str, str]
LET_IN = Login(True, ErrorCode.none, "", 1)


@pytest.fixture(scope="module")
def realm() -> Iterator[KerberosRealm | None]:
    """None where the machine lacks a KDC: PLAIN and SCRAM are seen all the same."""
    with ExitStack() as stack:
        try:
            realm = stack.enter_context(KerberosRealm())
        except KerberosUnavailableError:
            yield None
        else:
            yield realm


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def cluster(
    kafka_distribution: KafkaDistribution, realm: KerberosRealm | None, authority: Authority
) -> Iterator[KafkaCluster]:
    jvm_options = (
        DEFAULT_JVM_OPTIONS if realm is None else (*DEFAULT_JVM_OPTIONS, realm.java_option)
    )
    with KafkaCluster(
        listeners={LISTENER: "SASL_PLAINTEXT", SECURED: "SASL_SSL"},
        config={
            **settings_of(plain={"alice": "alice-secret"}, realm=realm),
            **kafka_broker_properties(authority.issue("broker"), listener=SECURED),
            f"listener.name.{SECURED.lower()}.sasl.enabled.mechanisms": SHA_512,
            f"listener.name.{SECURED.lower()}.scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
        },
        format_options=("--add-scram", "SCRAM-SHA-512=[name=bob,password=bob-secret]"),
        jvm_options=jvm_options,
    ) as cluster:
        add_users(cluster)
        yield cluster


def add_users(cluster: KafkaCluster) -> None:
    """Return when the broker lets the last of them in."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for name, password, iterations in (
        ("alice", PASSWORD, 4096),
        ("a=b,c", PASSWORD, 16384),
        ("fish", LIGATURE, 4096),
        ("last", PASSWORD, 4096),
    ):
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            user = UserScramCredentialUpsertion(
                name, ScramCredentialInfo(mechanism, iterations), password.encode()
            )
            for altered in admin.alter_user_scram_credentials([user]).values():
                altered.result(30)
    last = Scram(SHA_512, "last", Secret(PASSWORD))
    deadline = time.monotonic() + 30
    while log_in(cluster.bootstrap_servers_of(LISTENER), last) != LET_IN:
        assert time.monotonic() < deadline


@pytest.fixture(scope="module")
def address(cluster: KafkaCluster) -> str:
    return cluster.bootstrap_servers_of(LISTENER)


def test_plain(address: str) -> None:
    assert log_in(address, Plain("alice", Secret("alice-secret"))) == LET_IN
    refused = log_in(address, Plain("alice", Secret("guessed")))
    assert refused.error is ErrorCode.sasl_authentication_failed
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
        assert refused.error is ErrorCode.sasl_authentication_failed


def test_a_user_of_kafkas_own_tool(address: str) -> None:
    assert log_in(address, Scram(SHA_512, "bob", Secret("bob-secret"))) == LET_IN


def test_a_user_is_no_delegation_token(address: str) -> None:
    mechanism = Scram(SHA_512, "bob", Secret("bob-secret"), tokenauth=True)
    refused = log_in(address, mechanism)
    assert refused.error is ErrorCode.sasl_authentication_failed


def test_kafka_stores_passwords_as_they_are(address: str) -> None:
    """So SASLprep, where it changes a password, keeps its user out."""
    assert log_in(address, Scram(SHA_256, "fish", Secret(LIGATURE), saslprep=False)) == LET_IN
    refused = log_in(address, Scram(SHA_256, "fish", Secret(LIGATURE)))
    assert refused.error is ErrorCode.sasl_authentication_failed


def test_the_command_line_says_who_may_write(orders: str, address: str) -> None:
    """A wrong password is the broker's refusal, and is nowhere to be read."""
    options = (f"sasl.mechanism={SHA_512}", "security.protocol=SASL_PLAINTEXT")
    login = ("sasl.username=bob", "sasl.password=${env:PASSWORD}")
    command = [sys.executable, "-m", "aioproducer", "check", orders, "-b", address]
    for text in (*options, *login):
        command += ["-X", text]
    for password, code in (("bob-secret", 0), ("guessed-it", 1)):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PASSWORD": password},
        )
        assert done.returncode == code, done.stderr
        assert password not in done.stdout + done.stderr
        if code:
            assert "SCRAM-SHA-512 login refused: SASL_AUTHENTICATION_FAILED" in done.stderr
        else:
            assert f"topic        {orders}: 2 partitions, you may write\n" in done.stdout


@pytest.fixture
async def orders(cluster: KafkaCluster) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    await cluster.create_topic(name, 2)
    return name


@pytest.fixture
def place(cluster: KafkaCluster, authority: Authority, orders: str, tmp_path: Path) -> Place:
    """The variables of the example."""
    (tmp_path / "authority.pem").write_text(authority.pem)
    return {
        "KAFKA_SERVERS": cluster.bootstrap_servers_of(SECURED),
        "KAFKA_AUTHORITY": str(tmp_path / "authority.pem"),
        "KAFKA_TOPIC": orders,
    }


def secured_application(place: Place, port: int, password: str) -> Popen[str]:
    """The example, as a process of its own."""
    return Popen(
        [sys.executable, Path(__file__).parents[2] / "examples" / "secured.py"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={
            **os.environ,
            "PORT": str(port),
            **place,
            "KAFKA_USERNAME": "bob",
            "KAFKA_PASSWORD": password,
        },
    )


def test_the_example_tells_its_health(place: Place) -> None:
    [port] = free_ports(1)
    with secured_application(place, port, "bob-secret") as process:
        assert process.stderr is not None
        try:
            while "Uvicorn running" not in (line := process.stderr.readline()):
                assert line, "uvicorn ended"
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
                assert client.get("/health").json()["brokers"] == 1
                posted = client.post("/orders/anna", content=b"1", timeout=30)
                assert (posted.status_code, posted.json()) == (201, {"offset": 0})
        finally:
            process.terminate()
        assert "bob-secret" not in process.stderr.read()


def test_the_example_does_not_start_with_a_wrong_password(place: Place) -> None:
    with secured_application(place, 0, "guessed-it") as process:
        _, told = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "SCRAM-SHA-512 login refused: SASL_AUTHENTICATION_FAILED" in told
    assert "Application startup failed" in told
    assert "guessed-it" not in told


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
