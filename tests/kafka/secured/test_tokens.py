"""Tokens of real OAuth 2 servers and of clouds, without secrets and with them, at a real Kafka.

The brokers verify the tokens, which a real OAuth 2 server has signed. The grant JWT bearer is not
among them: this server wants a client's secret beside the assertion, which Kafka's clients do not
send. The clouds' servers run on loopback, and librdkafka asks the same ones where it can.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from aioproducer import Producer, ProducerConfig
from aioproducer.auth.azure import azure_token_provider
from aioproducer.auth.oauthbearer import claims_of
from aioproducer.auth.token_endpoint import ClientCredentials, SignedAssertion, TokenEndpoint
from aioproducer.auth.tokens import TokenSource
from aioproducer.errors import TokenError
from aioproducer.foundation.secret import Secret
from aioproducer.testing.oauth2_server import OAuth2Server
from tests.kafka.secured.secured_kafka import ISSUER, SHORT_ISSUER, TOKEN_SECONDS, SecuredKafka
from tests.support.http_server import Server, answer, serving
from tests.support.waiting import until
from tests.unit.auth.tokens_for_tests import jwt

pytestmark = pytest.mark.kafka


async def test_client_credentials(oauth2_server: OAuth2Server) -> None:
    endpoint = TokenEndpoint(oauth2_server.token_url, time.time)
    provider = ClientCredentials(endpoint, "me", Secret("secret"), "kafka")
    token = await TokenSource(provider, clock=time.time).token()
    assert token.principal == "me"
    claims = claims_of(token.value)
    assert claims["iss"] == oauth2_server.issuer_url
    assert claims["aud"] == "kafka"
    assert token.expires == claims["exp"] == claims["iat"] + TOKEN_SECONDS


async def test_a_client_assertion(oauth2_server: OAuth2Server, tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    file = tmp_path / "key.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    claims = (("iss", "me"), ("sub", "me"), ("aud", oauth2_server.token_url))
    assertion = SignedAssertion(file, time.time, claims=claims, seconds=(60, 0), include_jti=True)
    endpoint = TokenEndpoint(oauth2_server.token_url, time.time)
    provider = ClientCredentials(endpoint, "me", scope="kafka", assertion=assertion)
    token = await TokenSource(provider, clock=time.time).token()
    assert claims_of(token.value)["iss"] == oauth2_server.issuer_url
    assert token.expires is not None


QUERY = "api-version=2025-04-07&resource=api://kafka&client_id=client-1"
IMDS_PATH = "/metadata/identity/oauth2/token"


class Cloud:
    """The server on loopback: it has a token signed for each request."""

    def __init__(self, world: SecuredKafka, server: Server, issuer: str) -> None:
        self._url = f"{world.tokens.of(issuer)}/token"
        self.server = server
        self.down = False
        self.form: Callable[[str, float], Any] = self.as_imds
        """The answer for a token and its end."""

    def __call__(self, *_: object) -> bytes:
        if self.down:
            return answer(503, {"error": "busy"})
        token = self._signed()
        made = self.form(token, claims_of(Secret(token))["exp"])
        kind = "text/xml" if isinstance(made, bytes) else "application/json; charset=utf-8"
        return answer(200, made, Content_Type=kind)

    def _signed(self) -> str:
        body = b"grant_type=client_credentials&client_id=cloud&client_secret=x&scope=kafka"
        with urllib.request.urlopen(self._url, body, 30) as response:
            return str(json.load(response)["access_token"])

    @property
    def address(self) -> str:
        return self.server.url

    @staticmethod
    def as_imds(token: str, ends: float) -> dict[str, str]:
        left = str(int(ends - time.time()))
        return {"access_token": token, "expires_in": left, "expires_on": str(int(ends))}

    @staticmethod
    def as_sts(token: str, ends: float) -> bytes:
        expiration = datetime.fromtimestamp(ends, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"""<GetWebIdentityTokenResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<GetWebIdentityTokenResult><WebIdentityToken>{token}</WebIdentityToken>
<Expiration>{expiration}</Expiration></GetWebIdentityTokenResult>
</GetWebIdentityTokenResponse>""".encode()


def serving_tokens(world: SecuredKafka, issuer: str) -> Iterator[Cloud]:
    with serving(answer(500)) as server:
        cloud = Cloud(world, server, issuer)
        server.script = [cloud]
        yield cloud


@pytest.fixture
def cloud(world: SecuredKafka) -> Iterator[Cloud]:
    yield from serving_tokens(world, ISSUER)


@pytest.fixture
def short(world: SecuredKafka) -> Iterator[Cloud]:
    """Its tokens end after ten seconds, and its listener's sessions after two."""
    yield from serving_tokens(world, SHORT_ISSUER)


@pytest.fixture(autouse=True)
def no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AZURE_", "AWS_", "IDENTITY_", "MSI_", "GCE_")):
            monkeypatch.delenv(name)


def of_azure(world: SecuredKafka, **options: Any) -> dict[str, Any]:
    return world.login(
        "OAUTHBEARER",
        **{
            "sasl_oauthbearer_metadata_authentication_type": "azure",
            "sasl_oauthbearer_config": "resource=api://kafka",
            **options,
        },
    )


async def delivered(world: SecuredKafka, **options: Any) -> None:
    topic = await world.topic()
    async with Producer(**options) as producer:
        await producer.send(topic, b"value")
    assert await world.written(topic) == [b"value"]


async def test_imds(world: SecuredKafka, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", cloud.address)
    provider = azure_token_provider("api://kafka", client_id="client-2")
    await delivered(world, **world.login("OAUTHBEARER", sasl_oauthbearer_token_provider=provider))
    [request] = cloud.server.requests
    assert request.headers["Metadata"] == "true"


async def test_app_service(
    world: SecuredKafka, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{cloud.address}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "header-1")
    options = of_azure(world, sasl_oauthbearer_config="resource=api://app-service")
    await delivered(world, **options)
    [request] = cloud.server.requests
    assert request.headers["X-IDENTITY-HEADER"] == "header-1"


async def test_workload_identity(
    world: SecuredKafka, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "azure-identity-token"
    file.write_text(jwt({"sub": "system:serviceaccount:default:kafka"}))
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(file))
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant-1")
    monkeypatch.setenv("AZURE_CLIENT_ID", "client-1")
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", cloud.address)
    options = of_azure(world, sasl_oauthbearer_config="resource=api://workload")
    await delivered(world, **options)
    [request] = cloud.server.requests
    assert request.form["client_assertion"] == file.read_text()


async def test_aws_sts(world: SecuredKafka, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    cloud.form = cloud.as_sts
    parameters = f"region=eu-west-1,audience=kafka,sts_endpoint={cloud.address}"
    await delivered(
        world,
        **world.login(
            "OAUTHBEARER",
            sasl_oauthbearer_metadata_authentication_type="aws_iam",
            sasl_oauthbearer_config=parameters,
        ),
    )
    [request] = cloud.server.requests
    assert request.form["Action"] == "GetWebIdentityToken"


async def test_librdkafka_and_we_ask_the_same(world: SecuredKafka, cloud: Cloud) -> None:
    topic = await world.topic()
    config: dict[str, Any] = {
        "bootstrap.servers": world.cluster.bootstrap_servers_of("LOGIN"),
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(world.trusted),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.metadata.authentication.type": "azure_imds",
        "sasl.oauthbearer.token.endpoint.url": f"{cloud.address}{IMDS_PATH}",
        "sasl.oauthbearer.config": f"query={QUERY}",
    }

    def theirs() -> int:
        producer = confluent_kafka.Producer(config)
        producer.produce(topic, b"theirs")
        return producer.flush(60)

    assert await asyncio.to_thread(theirs) == 0
    asked = len(cloud.server.requests)
    async with Producer(ProducerConfig.from_librdkafka(config)) as producer:
        await producer.send(topic, b"ours")
    assert await world.written(topic) == [b"theirs", b"ours"]
    first, second = cloud.server.requests[0], cloud.server.requests[asked]
    assert first.line == second.line
    assert first.headers["Metadata"] == second.headers["Metadata"] == "true"


async def test_sessions_and_tokens_end_while_imds_is_down_for_a_while(
    world: SecuredKafka,
    short: Cloud,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", short.address)
    topic = await world.topic()
    options = of_azure(
        world,
        listener="SHORT",
        sasl_oauthbearer_config="resource=api://short",
        sasl_login_refresh_window_factor=0.5,
    )
    sent: list[asyncio.Future[Any]] = []
    async with Producer(**options) as producer:

        async def flow() -> None:
            while True:
                sent.append(producer.send(topic, b"%d" % len(sent)))
                await producer.drain()
                await asyncio.sleep(0.005)

        await producer.check(60, topics=[topic])
        flowing = asyncio.create_task(flow())
        short.down = True
        await until(lambda: "is valid for another" in caplog.text, "the old token serves on")
        short.down = False
        asked = len(short.server.requests)
        await until(lambda: len(short.server.requests) >= asked + 2, "two tokens later")
        flowing.cancel()
        await asyncio.gather(*sent)
        assert producer.metrics()["producer-metrics"]["record-error-total"] == 0
    assert await world.written(topic) == [b"%d" % number for number in range(len(sent))]


async def test_a_machine_without_identity(
    world: SecuredKafka, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", cloud.address)
    cloud.server.script = [
        answer(400, {"error": "invalid_request", "error_description": "Identity not found"})
    ]
    options = of_azure(world, sasl_oauthbearer_config="resource=api://nobody")
    async with Producer(**options) as producer:
        with pytest.raises(TokenError, match="'Identity not found'; assign a managed identity"):
            await producer.check(60)


async def test_the_command_line(world: SecuredKafka, cloud: Cloud) -> None:
    topic = await world.topic()
    options = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": world.trusted,
        "ssl.truststore.type": "PEM",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.metadata.authentication.type": "azure",
        "sasl.oauthbearer.config": "resource=api://shell",
    }
    address = world.cluster.bootstrap_servers_of("LOGIN")
    run = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "aioproducer", "produce", topic, "--bootstrap-servers", address]
        + [part for name, value in options.items() for part in ("-X", f"{name}={value}")],
        input=b"from a shell\n",
        capture_output=True,
        timeout=120,
        env={**os.environ, "AZURE_POD_IDENTITY_AUTHORITY_HOST": cloud.address},
    )
    assert run.returncode == 0, run.stderr
    assert await world.written(topic) == [b"from a shell"]
