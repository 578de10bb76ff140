"""A client by Java's properties, as it asks a server."""

from __future__ import annotations

import pickle
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from aioproducer.config import Secret
from aioproducer.errors import ConfigError, SchemaRegistryUnavailableError
from aioproducer.schema_registry import SchemaRegistry
from aioproducer.schema_registry.rest.origins import (
    Properties,
    RegistryProperties,
    registry_properties,
)
from aioproducer.testing.certificates import Authority
from tests.support.scripted_registry import Request, ScriptedRegistry, reply, scripted_registry
from tests.unit.auth.http_server import answer, serving
from tests.unit.auth.showing import shown_of_error

ONE = reply(200, {"id": 1, "version": 1, "subject": "s", "schema": '"string"'})
URL = "schema.registry.url"
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="anna" password="s3cr3t";'
)


async def asked(properties: dict[str, Any], server: ScriptedRegistry) -> Request:
    registry = SchemaRegistry.from_properties({URL: server.url, **properties})
    await registry.latest("s")
    return server.requests[-1]


def read(properties: dict[str, Any]) -> RegistryProperties:
    return registry_properties(Properties.of(properties).values)


def basic(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("properties", "authorization"),
    [
        ({}, None),
        ({"basic.auth.user.info": "a:b:c"}, basic("a:b:c")),
        (
            {"schema.registry.basic.auth.user.info": "a:b", "basic.auth.user.info": "x:y"},
            basic("a:b"),
        ),
        (
            {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "a:b"},
            basic("a:b"),
        ),
        ({"basic.auth.credentials.source": "URL", "basic.auth.user.info": "a:b"}, None),
        (
            {"basic.auth.credentials.source": "SASL_INHERIT", "sasl.jaas.config": JAAS},
            basic("anna:s3cr3t"),
        ),
        ({"bearer.auth.token": "t"}, "Bearer t"),
        ({"schema.registry.bearer.auth.token": Secret("t")}, "Bearer t"),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "t"}, "Bearer t"),
        ({"basic.auth.user.info": "a:${env:REGISTRY_PASSWORD}"}, basic("a:from the environment")),
    ],
)
async def test_credentials(
    properties: dict[str, Any], authorization: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "from the environment")
    async with scripted_registry(ONE) as server:
        request = await asked(properties, server)
        assert request.headers.get("authorization") == authorization


async def test_the_properties_of_a_producer_are_not_looked_at(tmp_path: Path) -> None:
    async with scripted_registry(ONE) as server:
        file = tmp_path / "client.properties"
        file.write_text(
            f"{URL}={server.url.replace('//', '//anna:s3cr3t@')}\n"
            "bootstrap.servers=kafka:9092\nssl.truststore.location=/brokers.p12\n"
            "sasl.jaas.config=${env:NO_SUCH_VARIABLE}\nauto.register.schemas=false\n"
            "request.header.X-Tenant=me\nurl.randomize=true\nmissing.cache.size=5\n"
            "bearer.auth.logical.cluster=lsrc-1\nbearer.auth.identity.pool.id=pool-1\n"
        )
        registry = SchemaRegistry.from_properties(str(file))
        await registry.latest("s")
        headers = server.requests[0].headers
        assert headers["authorization"] == basic("anna:s3cr3t")
        assert headers["x-tenant"] == "me"
        assert (headers["target-sr-cluster"], headers["confluent-identity-pool-id"]) == (
            "lsrc-1",
            "pool-1",
        )
        assert "s3cr3t" not in repr(registry)


async def test_tokens_of_an_endpoint() -> None:
    with serving(answer(200, {"access_token": "t0k3n", "expires_in": 60})) as endpoint:
        async with scripted_registry(ONE) as server:
            request = await asked(
                {
                    "bearer.auth.credentials.source": "OAUTHBEARER",
                    "bearer.auth.issuer.endpoint.url": endpoint.url,
                    "bearer.auth.client.id": "me",
                    "bearer.auth.client.secret": "s3cr3t",
                    "bearer.auth.scope": "schemas",
                },
                server,
            )
        assert request.headers["authorization"] == "Bearer t0k3n"
        assert endpoint.requests[0].form == {
            "grant_type": "client_credentials",
            "scope": "schemas",
        }
        assert endpoint.requests[0].header("Authorization") == basic("me:s3cr3t")


@pytest.mark.parametrize("store", ["PEM file", "PEM text", "PKCS12"])
async def test_tls_with_certificates_of_both_sides(store: str, tmp_path: Path) -> None:
    authority = Authority()
    server_context = authority.issue("registry", hosts=("127.0.0.1",)).server_context(
        trusts=authority
    )
    client = authority.issue("client")
    prefix = "schema.registry.ssl."
    if store == "PKCS12":
        (tmp_path / "key.p12").write_bytes(client.pkcs12("s3cr3t"))
        properties = {
            f"{prefix}keystore.location": str(tmp_path / "key.p12"),
            f"{prefix}keystore.password": "s3cr3t",
            f"{prefix}truststore.certificates": authority.pem,
        }
    elif store == "PEM text":
        properties = {
            f"{prefix}keystore.type": "PEM",
            f"{prefix}keystore.key": client.key_pem(),
            f"{prefix}keystore.certificate.chain": client.chain_pem,
            f"{prefix}truststore.type": "PEM",
            f"{prefix}truststore.certificates": authority.pem,
        }
    else:
        (tmp_path / "trust.pem").write_text(authority.pem)
        properties = {
            f"{prefix}keystore.location": str(client.write(tmp_path / "key.pem")),
            f"{prefix}truststore.location": str(tmp_path / "trust.pem"),
            f"{prefix}enabled.protocols": "TLSv1.3",
        }
    async with scripted_registry(ONE, tls=server_context) as server:
        await asked(properties, server)
        trust = {name: each for name, each in properties.items() if "truststore" in name}
        with pytest.raises(SchemaRegistryUnavailableError):
            await asked({**trust, "max.retries": "0"}, server)


def test_numbers() -> None:
    found = read(
        {
            URL: "https://a,https://b",
            "http.connect.timeout.ms": 1500,
            "http.read.timeout.ms": "2500",
            "max.retries": "5",
            "retries.wait.ms": "20",
            "retries.max.wait.ms": "40",
            "latest.cache.ttl.sec": "-1",
            "schema.registry.proxy.host": "proxy",
            "schema.registry.proxy.port": "3128",
        }
    )
    http = found.http
    assert [each.url for each in http.addresses] == ["https://a", "https://b"]
    assert (http.timeout, http.retries, http.backoff, http.longest_backoff) == (2.5, 5, 0.02, 0.04)
    assert found.latest_ttl == float("inf")
    assert found.proxy == "http://proxy:3128"
    defaults = read({URL: "http://a", "latest.cache.ttl.sec": 60})
    assert (defaults.http.timeout, defaults.http.retries) == (10.0, 3)
    assert (defaults.latest_ttl, defaults.proxy) == (60.0, None)


async def test_a_proxy_is_asked() -> None:
    async with scripted_registry(ONE) as proxy:
        host, _, port = proxy.url[7:].partition(":")
        registry = SchemaRegistry.from_properties(
            {URL: "http://registry.example:8081", "proxy.host": host, "proxy.port": port}
        )
        assert (await registry.latest("s")).id == 1
        assert proxy.requests[0].target == (
            "http://registry.example:8081/subjects/s/versions/latest"
        )


async def test_retries_can_be_switched_off() -> None:
    async with scripted_registry(reply(503)) as server:
        with pytest.raises(SchemaRegistryUnavailableError):
            await asked({"max.retries": "0"}, server)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"schema.registry.urls": "x"}, "did you mean 'schema.registry.url'"),
        ({"schema.registry.basic.auth.userinfo": "s3cr3t"}, r"registry\.basic\.auth\.user\.info"),
        ({"basic.auth.user.inf": "s3cr3t"}, r"did you mean 'basic\.auth\.user\.info'"),
        ({"schema.registry.zzz": "s3cr3t"}, "unknown property 'schema.registry.zzz'"),
        ({"schema.registry.ssl.truststore": "s3cr3t"}, "not supported"),
        ({"schema.registry.ssl.truststore.password": "s3cr3t"}, "ssl_truststore_location"),
        ({"basic.auth.user.info": "s3cr3t"}, "user:password"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "requires basic"),
        ({"basic.auth.credentials.source": "s3cr3t"}, "must be URL"),
        ({"basic.auth.credentials.source": "SASL_INHERIT"}, "requires sasl.jaas.config"),
        (
            {
                "basic.auth.credentials.source": "SASL_INHERIT",
                "sasl.jaas.config": 'X required password="s3cr3t";',
            },
            "needs username",
        ),
        ({"bearer.auth.credentials.source": "CUSTOM"}, "a function as bearer_token"),
        (
            {"bearer.auth.credentials.source": "OAUTHBEARER"},
            "requires bearer.auth.issuer.endpoint.url",
        ),
        ({"bearer.auth.token": "${env:NO_SUCH_VARIABLE}"}, "NO_SUCH_VARIABLE, which is not set"),
        ({"max.retries": "many"}, "max.retries must be"),
        ({"latest.cache.ttl.sec": "-2"}, "latest.cache.ttl.sec must be"),
        ({"proxy.host": "x"}, "needs proxy.port"),
        ({URL: ""}, "no address"),
        ({URL: "http://a:s3cr3t@x", "bearer.auth.token": "s3cr3t"}, "other credentials"),
    ],
)
def test_properties_that_cannot_be_used(properties: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        SchemaRegistry.from_properties({URL: "http://localhost:8081", **properties})
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__traceback__ is not None
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)  # without this frame
    assert "s3cr3t" not in shown_of_error(error)


async def test_a_pickle_has_the_placeholder_and_not_its_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "s3cr3t")
    async with scripted_registry(ONE) as server:
        registry = SchemaRegistry.from_properties(
            {URL: server.url, "basic.auth.user.info": "anna:${env:REGISTRY_PASSWORD}"}
        )
        pickled = pickle.dumps(registry)
        assert b"s3cr3t" not in pickled
        monkeypatch.setenv("REGISTRY_PASSWORD", "another")
        assert (await pickle.loads(pickled).latest("s")).id == 1
        assert server.requests[0].headers["authorization"] == basic("anna:another")


def test_the_url_is_required() -> None:
    with pytest.raises(ConfigError, match=r"schema\.registry\.url is required"):
        SchemaRegistry.from_properties({})
