"""Logins through the command line, a Java client's properties, and the blocking shell."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aioproducer import ProducerConfig, sync
from aioproducer.errors import SaslAuthenticationFailedError
from tests.kafka.secured.secured_kafka import PASSWORD, SecuredKafka, join

pytestmark = pytest.mark.kafka

MODULES = "org.apache.kafka.common.security"
PROVIDERS = [
    "config.providers=env",
    "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider",
]


def trust_of(world: SecuredKafka) -> list[str]:
    return [f"ssl.truststore.location={world.trusted}", "ssl.truststore.type=PEM"]


def secured(world: SecuredKafka, mechanism: str, *lines: str) -> list[str]:
    return [
        "security.protocol=SASL_SSL",
        f"sasl.mechanism={mechanism}",
        *trust_of(world),
        *lines,
    ]


def mutual(world: SecuredKafka) -> list[str]:
    identity = world.identity("shell")
    return [
        "security.protocol=SSL",
        *trust_of(world),
        f"ssl.keystore.location={identity['ssl_keystore_location']}",
        "ssl.keystore.type=PEM",
    ]


def oauth(world: SecuredKafka) -> list[str]:
    return secured(
        world,
        "OAUTHBEARER",
        f"sasl.oauthbearer.token.endpoint.url={world.tokens.token_url}",
        "sasl.oauthbearer.client.credentials.client.id=shell",
        "sasl.oauthbearer.client.credentials.client.secret=${env:SHELL_SECRET}",
    )


def oauth_by_jaas(world: SecuredKafka) -> list[str]:
    """As clients before Kafka 4.1 have it."""
    return secured(
        world,
        "OAUTHBEARER",
        f"sasl.oauthbearer.token.endpoint.url={world.tokens.token_url}",
        "sasl.login.callback.handler.class="
        f"{MODULES}.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
        f"sasl.jaas.config={MODULES}.oauthbearer.OAuthBearerLoginModule required "
        "clientId='shell' clientSecret='a secret';",
    )


def kerberos(world: SecuredKafka) -> list[str]:
    options = world.kerberos()
    assert world.realm is not None
    keytab, name = options["sasl_kerberos_keytab"], options["sasl_kerberos_principal"]
    return secured(
        world,
        "GSSAPI",
        "sasl.kerberos.service.name=kafka",
        "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
        f' storeKey=true keyTab="{keytab}" principal="{name}@{world.realm.realm}";',
    )


PROPERTIES: dict[str, tuple[str, Callable[[SecuredKafka], list[str]]]] = {
    "PLAIN": (
        "LOGIN",
        lambda world: secured(
            world, "PLAIN", "sasl.username=alice", "sasl.password=${env:PLAIN_SECRET}"
        ),
    ),
    "PLAIN by JAAS": (
        "LOGIN",
        lambda world: secured(
            world,
            "PLAIN",
            f"sasl.jaas.config={MODULES}.plain.PlainLoginModule required "
            'username="alice" password="alice-secret";',
        ),
    ),
    "SCRAM by JAAS": (
        "LOGIN",
        lambda world: secured(
            world,
            "SCRAM-SHA-256",
            f"sasl.jaas.config={MODULES}.scram.ScramLoginModule required "
            f'username="alice" password="{PASSWORD}";',
        ),
    ),
    "OAUTHBEARER": ("LOGIN", oauth),
    "OAUTHBEARER by JAAS": ("LOGIN", oauth_by_jaas),
    "GSSAPI by JAAS": ("LOGIN", kerberos),
    "MTLS": ("MTLS", mutual),
}
KINDS = [
    pytest.param(kind, marks=pytest.mark.kerberos if kind.startswith("GSSAPI") else ())
    for kind in PROPERTIES
]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_java_clients_properties_serve_as_they_are(
    kind: str, world: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the blocking shell; each is a file of the form that Java's tools take."""
    listener, lines_of = PROPERTIES[kind]
    if kind.startswith("GSSAPI"):
        join(world.realm, monkeypatch)
    monkeypatch.setenv("PLAIN_SECRET", "alice-secret")
    monkeypatch.setenv("SHELL_SECRET", "a secret")
    topic = await world.topic()
    file = tmp_path / "client.properties"
    servers = world.cluster.bootstrap_servers_of(listener)
    lines = [f"bootstrap.servers={servers}", *PROVIDERS, *lines_of(world)]
    file.write_text("\n".join(lines))

    def write() -> None:
        with sync.Producer(ProducerConfig.from_properties(file)) as producer:
            producer.send(topic, b"by properties").result(30)

    await asyncio.to_thread(write)
    assert await world.written(topic) == [b"by properties"]


async def command(
    world: SecuredKafka, topic: str, listener: str, *arguments: str
) -> tuple[int, str]:
    """``aioproducer produce`` with a line of input; its exit code, and what it said."""
    servers = world.cluster.bootstrap_servers_of(listener)
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "aioproducer", "produce", topic, "-b", servers, *arguments],
        input=b"by command\n",
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PLAIN_SECRET": "alice-secret", "WRONG_SECRET": "guessed"},
    )
    return ended.returncode, (ended.stdout + ended.stderr).decode()


async def test_the_command_line(world: SecuredKafka, tmp_path: Path) -> None:
    """The programs run side by side: most of their time is their start."""
    topic = await world.topic()
    file = tmp_path / "client.properties"
    file.write_text("\n".join(PROPERTIES["SCRAM by JAAS"][1](world)))
    plain = [f"--property={line}" for line in PROPERTIES["PLAIN"][1](world)]
    tls = [f"--property={line}" for line in PROPERTIES["MTLS"][1](world)]
    wrong = [line.replace("PLAIN_SECRET", "WRONG_SECRET") for line in plain]
    *written, refused = await asyncio.gather(
        command(world, topic, "LOGIN", "--command-config", str(file)),
        command(world, topic, "LOGIN", *plain),
        command(world, topic, "MTLS", *tls),
        command(world, topic, "LOGIN", *wrong),
    )
    assert written == [(0, "")] * 3
    assert await world.written(topic) == [b"by command"] * 3
    code, said = refused
    assert code == 1
    assert "PLAIN login refused: SASL_AUTHENTICATION_FAILED" in said
    assert "Invalid username or password" in said
    assert "guessed" not in said


async def test_the_blocking_shell_with_tls_and_scram(world: SecuredKafka) -> None:
    topic = await world.topic()
    options: dict[str, Any] = world.login("SCRAM-SHA-512", "alice", PASSWORD)

    def write() -> None:
        with sync.Producer(**options) as producer:
            for number in range(100):
                producer.send(topic, b"%d" % number)
        with (
            sync.Producer(**{**options, "sasl_password": "guessed"}) as producer,
            pytest.raises(SaslAuthenticationFailedError),
        ):
            producer.send(topic, b"never").result(30)

    await asyncio.to_thread(write)
    assert await world.written(topic) == [b"%d" % number for number in range(100)]
