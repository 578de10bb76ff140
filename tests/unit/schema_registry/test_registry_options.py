"""The options of a client and Java's properties; passwords and tokens reach the registry alone."""

from __future__ import annotations

import asyncio
import logging
import pickle
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import pytest

from aioproducer.config import Secret
from aioproducer.errors import (
    ConfigError,
    MissingExtraError,
    ProducerError,
    SchemaRegistryAuthenticationError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
    TokenError,
)
from aioproducer.schema_registry import SchemaRegistry
from aioproducer.schema_registry.rest.origins import (
    Properties,
    RegistryProperties,
    registry_properties,
)
from aioproducer.testing.certificates import Authority
from tests.support.http_server import Reply, Request, Server, answer, serving
from tests.unit.auth.tokens_for_tests import shown_of_error

ONE = answer(200, {"id": 1, "version": 1, "subject": "s", "schema": '"string"'})
URL = "schema.registry.url"
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="anna" password="s3cr3t";'
)


async def asked(properties: dict[str, Any], server: Server) -> Request:
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
    with serving(ONE) as server:
        request = await asked(properties, server)
        assert request.headers.get("authorization") == authorization


async def test_the_properties_of_a_producer_are_not_looked_at(tmp_path: Path) -> None:
    with serving(ONE) as server:
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
        with serving(ONE) as server:
            request = await asked(
                {
                    "bearer.auth.credentials.source": "OAUTHBEARER",
                    "bearer.auth.issuer.endpoint.url": endpoint.token_url,
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
        assert endpoint.requests[0].headers["Authorization"] == basic("me:s3cr3t")


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
            f"{prefix}truststore.type": "PEM",
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
    with serving(ONE, tls=server_context) as server:
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
    with serving(ONE) as proxy:
        host, _, port = proxy.address.partition(":")
        registry = SchemaRegistry.from_properties(
            {URL: "http://registry.example:8081", "proxy.host": host, "proxy.port": port}
        )
        assert (await registry.latest("s")).id == 1
        assert proxy.requests[0].target == (
            "http://registry.example:8081/subjects/s/versions/latest"
        )


@pytest.mark.parametrize(
    ("no_proxy", "asked"), [("", ["CONNECT localhost:1 HTTP/1.1"]), ("localhost", [])]
)
async def test_the_proxy_of_the_environment_is_asked(
    no_proxy: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(answer(403)) as proxy:
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("NO_PROXY", no_proxy)
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        registry = SchemaRegistry.from_properties(
            {URL: "https://localhost:1", "max.retries": "0"}  # nobody listens there
        )
        with pytest.raises(SchemaRegistryUnavailableError):
            await registry.latest("s")
        assert [each.line for each in proxy.requests] == asked


async def test_retries_can_be_switched_off() -> None:
    with serving(answer(503)) as server:
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
    with serving(ONE) as server:
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


REFUSED = answer(401, {"error_code": 401, "message": "Unauthorized"})
PASSWORD = "s3cr3t:w/ith@all"
PAIR = b64encode(f"anna:{PASSWORD}".encode()).decode()
BASIC = f"Basic {PAIR}"


async def test_basic_authentication() -> None:
    with serving(ONE) as server:
        await SchemaRegistry(server.url, username="anna", password=PASSWORD).latest("s")
        in_url = server.url.replace("//", "//anna:s3cr3t%3Aw%2Fith%40all@")
        registry = SchemaRegistry(in_url)
        await registry.latest("s")
        assert server.authorizations() == [BASIC, BASIC]
        assert {each.headers["host"] for each in server.requests} == {server.address}
    assert "s3cr3t" not in repr(registry)
    error = await error_of(registry)
    assert "s3cr3t" not in f"{error} {error.url} {shown_of_error(error)}"


async def error_of(registry: SchemaRegistry) -> SchemaRegistryError:
    """The error, whose traceback begins here."""
    try:
        await registry.latest("another")
    except SchemaRegistryError as error:
        return error
    pytest.fail("it was answered")


async def test_each_address_has_its_own_credentials() -> None:
    with serving(answer(503)) as first, serving(ONE) as second:
        urls = [first.url.replace("//", "//a:b@"), second.url]
        await SchemaRegistry(urls).latest("s")
        assert first.authorizations()[0] is not None
        assert second.authorizations() == [None]


async def test_a_token_as_text() -> None:
    with serving(ONE, REFUSED) as server:
        registry = SchemaRegistry(server.url, bearer_token="t0k3n")
        await registry.latest("s")
        with pytest.raises(SchemaRegistryAuthenticationError, match="Unauthorized"):
            await registry.latest("t")
        assert server.authorizations() == ["Bearer t0k3n", "Bearer t0k3n"], "it is not asked again"


class Tokens:
    """Gives ``token-1``, ``token-2``, …"""

    def __init__(self) -> None:
        self.given = 0
        self.threads: set[bool] = set()

    def plain(self) -> str:
        self.given += 1
        self.threads.add(current_thread() is main_thread())
        return f"token-{self.given}"

    async def coroutine(self) -> str:
        await asyncio.sleep(0)
        return self.plain()

    def returns_awaitable(self) -> Awaitable[str]:
        return self.coroutine()


@pytest.mark.parametrize("way", ["plain", "coroutine", "returns_awaitable"])
async def test_a_token_of_a_function_is_asked_for_again_when_it_is_refused(way: str) -> None:
    tokens = Tokens()
    with serving(ONE) as server:
        registry = SchemaRegistry(server.url, bearer_token=getattr(tokens, way))
        await registry.version("s", 1)
        await registry.version("s", 2)
        assert server.authorizations() == ["Bearer token-1"] * 2
        server.script = [REFUSED, ONE]
        await registry.version("s", 3)
        assert server.authorizations()[2:] == ["Bearer token-1", "Bearer token-2"]
        server.script = [REFUSED]
        with pytest.raises(SchemaRegistryAuthenticationError):
            await registry.version("s", 4)
        assert len(server.requests) == 6, "a new token that is refused is the end"
    assert tokens.threads == {way != "plain"}, "a plain function does not hold up the loop"


async def test_a_function_that_hangs_is_left_in_time() -> None:
    async def hangs() -> str:
        await asyncio.Event().wait()
        return ""

    with serving(ONE) as server:
        registry = SchemaRegistry(server.url, bearer_token=hangs, timeout=0.1)
        with pytest.raises(SchemaRegistryUnavailableError, match=r"no token within 0\.1 s"):
            await registry.latest("s")


async def test_one_new_token_serves_all_that_were_refused() -> None:
    tokens = Tokens()
    valid = "Bearer token-1"

    def judge(request: Request, _: object) -> bytes:
        return ONE if request.headers["authorization"] == valid else REFUSED

    with serving(judge) as server:
        registry = SchemaRegistry(server.url, bearer_token=tokens.coroutine)
        await registry.version("s", 0)
        valid = "Bearer token-2"
        await asyncio.gather(*(registry.version("s", number) for number in range(1, 9)))
        assert tokens.given == 2


def fails_with(error: BaseException) -> Callable[[], str]:
    def fail() -> str:
        raise error

    return fail


@pytest.mark.parametrize(
    ("give", "error", "said"),
    [
        (lambda: "two words", SchemaRegistryAuthenticationError, "not a token"),
        (lambda: "ünï", SchemaRegistryAuthenticationError, "not a token"),
        (lambda: "a\r\nX: y", SchemaRegistryAuthenticationError, "not a token"),
        (lambda: "", SchemaRegistryAuthenticationError, "not a token"),
        (lambda: None, SchemaRegistryAuthenticationError, "not a token"),
        (fails_with(ZeroDivisionError("by 0")), SchemaRegistryAuthenticationError, "by 0"),
        (fails_with(OSError("away")), SchemaRegistryUnavailableError, "OSError: away"),
        (fails_with(TimeoutError("late")), SchemaRegistryUnavailableError, "late"),
        (fails_with(TokenError("no")), TokenError, "no"),
    ],
)
async def test_a_function_that_gives_no_token(
    give: Any, error: type[ProducerError], said: str
) -> None:
    with serving(ONE) as server:
        with pytest.raises(ProducerError, match=said) as caught:
            await SchemaRegistry(server.url, bearer_token=give).latest("s")
        assert type(caught.value) is error
        assert not server.requests


def echo(request: Request, _: object) -> bytes:
    """A registry that repeats what it was sent."""
    said = {"error_code": 50001, "message": f"you said {request.headers}"}
    return answer(status, said)


status = 422


@pytest.mark.parametrize("answered", [401, 422, 500])
async def test_no_error_shows_a_secret(answered: int, caplog: pytest.LogCaptureFixture) -> None:
    global status
    status = answered
    scripts: list[Reply] = [echo, answer(200, b"no"), b"HTTP/1.1 nonsense", b""]
    with caplog.at_level(logging.DEBUG):
        for script in scripts:
            with serving(script) as server:
                for registry in (
                    SchemaRegistry(server.url, username="anna", password=PASSWORD, timeout=0.3),
                    SchemaRegistry(server.url, bearer_token="s3cr3t-token", timeout=0.3),
                    SchemaRegistry(server.url, bearer_token=lambda: "s3cr3t-token", timeout=0.3),
                    SchemaRegistry(server.url, headers={"X-Key": "s3cr3t-key"}, timeout=0.3),
                ):
                    shown = shown_of_error(await error_of(registry))
                    shown += repr(registry) + repr(vars(registry))
                    for secret in ("s3cr3t", PAIR):
                        assert secret not in shown
    for secret in ("s3cr3t", PAIR):
        assert secret not in caplog.text


async def test_credentials_without_tls_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    SchemaRegistry("http://anna:s3cr3t@registry.example:8081")
    SchemaRegistry("http://registry.example", bearer_token="s3cr3t")
    assert caplog.text.count("is not encrypted") == 2
    assert "s3cr3t" not in caplog.text
    caplog.clear()
    SchemaRegistry("http://registry.example")
    SchemaRegistry("https://anna:s3cr3t@registry.example")
    SchemaRegistry("http://anna:s3cr3t@localhost:8081")
    assert not caplog.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"url": ""}, "no address"),
        ({"url": []}, "no address"),
        ({"url": [5]}, "must begin with"),
        ({"url": "registry:8081"}, "must begin with"),
        ({"url": "ftp://x"}, "must begin with"),
        ({"url": "http://"}, "must begin with"),
        ({"url": "http://a:b@c:s3cr3t"}, "not a URL"),
        ({"url": "http://x?token=s3cr3t"}, "have a query"),
        ({"url": "mock://scope"}, "InMemorySchemaRegistry"),
        ({"url": "http://x/ä"}, "ASCII"),
        ({"username": "a"}, "belong together"),
        ({"password": "s3cr3t"}, "belong together"),
        ({"username": "a:b", "password": "s3cr3t"}, "not allow a colon"),
        ({"username": "a", "password": "s3cr3t", "bearer_token": "x"}, "exclude"),
        ({"url": "http://a:s3cr3t@x", "bearer_token": "s3cr3t"}, "other credentials"),
        ({"bearer_token": "s3cr3t two"}, "not a token"),
        ({"timeout": 0}, "positive"),
        ({"timeout": float("nan")}, "positive"),
        ({"latest_ttl": -1}, "negative"),
        ({"headers": {"a b": "s3cr3t"}}, "name of a header"),
        ({"headers": {"a": "s3cr3t\r\nX: y"}}, "ASCII"),
    ],
)
def test_arguments_that_cannot_be_used(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        SchemaRegistry(**{"url": "http://localhost", **arguments})
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__traceback__ is not None
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)  # without this frame
    assert "s3cr3t" not in shown_of_error(error)


async def test_a_client_survives_a_pickle() -> None:
    with serving(ONE) as server:
        for registry in (
            SchemaRegistry(server.url, username="anna", password=PASSWORD, latest_ttl=5.0),
            SchemaRegistry(server.url, bearer_token=token_of_a_module),
            SchemaRegistry(server.url.replace("//", "//anna:x@"), headers={"X-Key": "s3cr3t"}),
        ):
            await registry.latest("s")
            twin = pickle.loads(pickle.dumps(registry))
            assert (await twin.latest("s")).id == 1
            assert twin.latest_ttl == registry.latest_ttl
            first, second = server.requests[-2:]
            assert second.headers.items() == first.headers.items()


def token_of_a_module() -> str:
    return "t0k3n"


def test_without_httpx2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'aioproducer\[schema-registry\]'"):
        SchemaRegistry("http://localhost:8081")
