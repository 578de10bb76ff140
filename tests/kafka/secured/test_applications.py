"""What users start logs in: an application, commands, shells, confluent-kafka's interface."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any, TypeAlias

import httpx
import pytest

from aioproducer import ProducerConfig, sync
from aioproducer.compat.confluent import KafkaError, Producer
from aioproducer.errors import SaslAuthenticationFailedError
from aioproducer.testing.ports import free_ports
from tests.kafka.secured.secured_kafka import ISSUER, PASSWORD, SecuredKafka, join

pytestmark = pytest.mark.kafka


EXAMPLE = Path(__file__).parents[3] / "examples" / "secured.py"
Place: TypeAlias = dict[str, str]


@pytest.fixture
async def orders(world: SecuredKafka) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    await world.cluster.create_topic(name, 2)
    return name


@pytest.fixture
def place(world: SecuredKafka, orders: str) -> Place:
    """The variables of the example."""
    return {
        "KAFKA_SERVERS": world.cluster.bootstrap_servers_of("LOGIN"),
        "KAFKA_AUTHORITY": str(world.trusted),
        "KAFKA_TOPIC": orders,
    }


def secured_application(place: Place, port: int, password: str) -> Popen[str]:
    """The example, as a process of its own."""
    login = {"KAFKA_USERNAME": "bob", "KAFKA_PASSWORD": password}
    return Popen(
        [sys.executable, EXAMPLE],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PORT": str(port), **place, **login},
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


@pytest.mark.parametrize(("password", "code"), [("bob-secret", 0), ("guessed-it", 1)])
def test_the_command_line_says_who_may_write(
    world: SecuredKafka, orders: str, password: str, code: int
) -> None:
    """A wrong password is the broker's refusal, and is nowhere to be read."""
    address = world.cluster.bootstrap_servers_of("CLEAR")
    command = [sys.executable, "-m", "aioproducer", "check", orders, "-b", address]
    for text in (
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=SCRAM-SHA-512",
        "sasl.username=bob",
        "sasl.password=${env:PASSWORD}",
    ):
        command += ["-X", text]
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


def options(world: SecuredKafka, **login: Any) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in login.items()}
    return {
        "bootstrap.servers": world.cluster.bootstrap_servers_of("LOGIN"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(world.trusted),
        **named,
    }


def publish(producer: Producer, topic: str, value: str) -> list[KafkaError | None]:
    """The errors of one record."""
    errors: list[KafkaError | None] = []
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return errors


async def test_a_password_can_be_replaced(world: SecuredKafka) -> None:
    topic, heard = await world.topic(), list[KafkaError]()

    def program() -> None:
        scram = {"sasl_mechanisms": "SCRAM-SHA-512", "sasl_username": "bob"}
        named = options(world, **scram, sasl_password="wrong", message_timeout_ms=20_000)
        producer = Producer({**named, "error_cb": heard.append})
        deadline = time.monotonic() + 15
        while KafkaError._AUTHENTICATION not in heard:
            assert time.monotonic() < deadline, heard
            producer.poll(0.1)
        errors: list[KafkaError | None] = []
        producer.produce(topic, "by bob", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(1) == 1  # it waits for a login that succeeds
        producer.set_sasl_credentials("bob", "bob-secret")
        assert producer.flush(30) == 0
        assert errors == [None]
        producer.close()
        named = options(world, sasl_mechanism="SCRAM-SHA-256", sasl_username="alice")
        with Producer({**named, "sasl.password": PASSWORD}) as producer:
            assert publish(producer, topic, "by alice") == [None]

    await asyncio.to_thread(program)
    assert await world.written(topic) == [b"by bob", b"by alice"]
    assert "wrong" not in str(heard)


async def test_oauth_cb_logs_in_all_connections(world: SecuredKafka) -> None:
    topic, asked = await world.topic(), list[tuple[Any, str]]()

    def token(config: Any) -> tuple[str, float]:
        asked.append((config, threading.current_thread().name))
        body = b"grant_type=client_credentials&client_id=alice&client_secret=x&scope=kafka"
        with urllib.request.urlopen(f"{world.tokens.of(ISSUER)}/token", body, 30) as response:
            answer = json.load(response)
        return answer["access_token"], time.time() + answer["expires_in"]

    def program() -> str:
        named = options(world, sasl_mechanisms="OAUTHBEARER", sasl_oauthbearer_config="mine")
        with Producer({**named, "oauth_cb": token}) as producer:
            assert [config for config, _ in asked] == ["mine"]
            assert publish(producer, topic, "v") == [None]
            assert producer.list_topics(timeout=30).topics[topic].error is None
        return threading.current_thread().name

    caller = await asyncio.to_thread(program)
    assert len(asked) == 1
    assert asked[0][1] != caller
    assert await world.written(topic) == [b"v"]
