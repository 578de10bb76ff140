"""Passwords and tokens: they reach the registry, and nobody else."""

from __future__ import annotations

import asyncio
import logging
import pickle
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable
from threading import current_thread, main_thread
from typing import Any

import pytest

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
from tests.support.scripted_registry import Reply, Request, reply, scripted_registry
from tests.unit.auth.showing import shown_of_error

ONE = reply(200, {"id": 1, "version": 1, "subject": "s", "schema": '"string"'})
REFUSED = reply(401, {"error_code": 401, "message": "Unauthorized"})
PASSWORD = "s3cr3t:w/ith@all"
PAIR = b64encode(f"anna:{PASSWORD}".encode()).decode()
BASIC = f"Basic {PAIR}"


async def test_basic_authentication() -> None:
    async with scripted_registry(ONE) as server:
        await SchemaRegistry(server.url, username="anna", password=PASSWORD).latest("s")
        in_url = server.url.replace("//", "//anna:s3cr3t%3Aw%2Fith%40all@")
        registry = SchemaRegistry(in_url)
        await registry.latest("s")
        assert server.authorizations() == [BASIC, BASIC]
        assert {each.headers["host"] for each in server.requests} == {server.url[7:]}
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
    async with scripted_registry(reply(503)) as first, scripted_registry(ONE) as second:
        urls = [first.url.replace("//", "//a:b@"), second.url]
        await SchemaRegistry(urls).latest("s")
        assert first.authorizations()[0] is not None
        assert second.authorizations() == [None]


async def test_a_token_as_text() -> None:
    async with scripted_registry(ONE, REFUSED) as server:
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
    async with scripted_registry(ONE) as server:
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

    async with scripted_registry(ONE) as server:
        registry = SchemaRegistry(server.url, bearer_token=hangs, timeout=0.1)
        with pytest.raises(SchemaRegistryUnavailableError, match=r"no token within 0\.1 s"):
            await registry.latest("s")


async def test_one_new_token_serves_all_that_were_refused() -> None:
    tokens = Tokens()
    valid = "Bearer token-1"

    async def judge(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(ONE if request.headers["authorization"] == valid else REFUSED)

    async with scripted_registry(judge) as server:
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
    async with scripted_registry(ONE) as server:
        with pytest.raises(ProducerError, match=said) as caught:
            await SchemaRegistry(server.url, bearer_token=give).latest("s")
        assert type(caught.value) is error
        assert not server.requests


async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
    """A registry that repeats what it was sent."""
    said = {"error_code": 50001, "message": f"you said {request.headers}"}
    writer.write(reply(status, said))


status = 422


@pytest.mark.parametrize("answered", [401, 422, 500])
async def test_no_error_shows_a_secret(answered: int, caplog: pytest.LogCaptureFixture) -> None:
    global status
    status = answered
    scripts: list[Reply] = [echo, reply(200, b"no"), b"HTTP/1.1 nonsense", b""]
    with caplog.at_level(logging.DEBUG):
        for script in scripts:
            async with scripted_registry(script) as server:
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
    async with scripted_registry(ONE) as server:
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
            assert second.headers == first.headers


def token_of_a_module() -> str:
    return "t0k3n"


def test_without_httpx2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'aioproducer\[schema-registry\]'"):
        SchemaRegistry("http://localhost:8081")
