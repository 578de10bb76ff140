"""Requests by HTTP: failover, retries, limits; and nothing that a server answers can hurt."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer import __version__
from aioproducer.config import Secret
from aioproducer.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    SchemaNotFoundError,
    SchemaRegistryAuthenticationError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
)
from aioproducer.schema_registry import Reference, RegisteredSchema, Schema, SchemaRegistry
from aioproducer.schema_registry.model import context_of
from aioproducer.schema_registry.rest import requests
from aioproducer.schema_registry.rest.answers import AnswerCache, Key
from aioproducer.schema_registry.rest.authentication import Credentials
from aioproducer.schema_registry.rest.http import HttpTransport, Sessions, http_settings
from aioproducer.schema_registry.rest.requests import Answer, RegistryRequest, body_of
from aioproducer.testing.certificates import Authority
from aioproducer.testing.ports import ReservedPort, free_ports
from tests.support.http_server import Reply, answer, serving, silence, trickling
from tests.support.waiting import until

GUID = UUID("0b7b6c5e-6f0a-4b5e-9f5a-0d6d2b1f6a11")


def test_paths() -> None:
    assert requests.path("subjects") == "/subjects"
    assert requests.path("subjects", ":.ctx:a/b?#", deleted=True) == (
        "/subjects/%3A.ctx%3Aa%2Fb%3F%23?deleted=true"
    )
    assert requests.path("schemas", "ids", 7, subject="a b&c", deleted=False) == (
        "/schemas/ids/7?subject=a%20b%26c"
    )


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/..",
        "../a",
        "a/../../b",
        "a\\..\\b",
        "%2e%2e",
        "%2E",
        "a%2f..%2fb",
        "\ud800",
    ],
)
async def test_no_name_climbs_out_of_its_place(name: str) -> None:
    for parts in (("subjects", name, "versions"), ("config", name), ("subjects", "s", name)):
        with pytest.raises(SchemaRegistryError, match="can't be a name in a schema registry"):
            requests.path(*parts)
    with serving(answer(200, {"id": 1, "schema": '"string"'})) as server:
        registry = SchemaRegistry(server.url)
        calls: list[Callable[[], Awaitable[object]]] = [
            partial(registry.latest, name),
            partial(registry.versions, name),
            partial(registry.delete_subject, name),
            partial(registry.register, name, Schema('"string"')),
            partial(registry.compatibility, name),
        ]
        for call in calls:
            with pytest.raises(SchemaRegistryError, match="can't be a name in a schema registry"):
                await call()
        assert server.requests == [], "nothing was sent"


@pytest.mark.parametrize("name", ["orders-value", ":.ctx:a", "a/b", "a..b", "...", "1.", ".a", "%"])
def test_names_with_dots_and_slashes_are_names(name: str) -> None:
    assert requests.path("subjects", name).count("/") == 2


def test_the_whole_of_a_response() -> None:
    response = {
        "subject": "s",
        "version": 3,
        "id": 7,
        "guid": str(GUID),
        "schemaType": "JSON",
        "schema": "{}",
        "references": [{"name": "n", "subject": "r", "version": 1}],
        "metadata": {"properties": {"a": "b"}},
        "ruleSet": {"domainRules": [{"name": "r", "type": "CEL", "expr": "x"}]},
        "ts": 5,
        "a new field": [None],
    }
    found = requests.registered(response)
    assert (found.id, found.version, found.subject, found.guid) == (7, 3, "s", GUID)
    assert found.schema.references == (Reference("n", "r", 1),)
    assert found.schema.metadata == {"properties": {"a": "b"}}
    rule = found.schema.rules[0]
    assert (rule.name, rule.type, rule.phase, rule.details) == ("r", "CEL", "domain", {"expr": "x"})
    assert (
        requests.registered({**response, "ruleSet": None, "ruleset": response["ruleSet"]}) == found
    )


@pytest.mark.parametrize(
    "response",
    [
        None,
        [],
        "text",
        {},
        {"id": 1},
        {"id": 1.5, "schema": "x"},
        {"id": 1, "schema": 5},
        {"id": 1, "schema": "x", "schemaType": "XML"},
        {"id": 1, "schema": "x", "guid": "no"},
        {"id": 1, "schema": "x", "version": "1"},
        {"id": 1, "schema": "x", "references": {}},
        {"id": 1, "schema": "x", "references": [5]},
        {"id": 1, "schema": "x", "references": [{"name": "n", "subject": "s"}]},
        {"id": 1, "schema": "x", "ruleSet": []},
        {"id": 1, "schema": "x", "ruleSet": {"domainRules": [5]}},
        {"id": 1, "schema": "x", "metadata": "x"},
    ],
)
def test_a_response_that_is_none(response: Any) -> None:
    with pytest.raises(SchemaRegistryError, match="schema registry"):
        requests.registered(response)


@pytest.mark.parametrize(
    ("read", "response"),
    [
        (requests.names, ["a", 5]),
        (requests.names, {}),
        (requests.numbers, [True]),
        (requests.number, "1"),
        (requests.level, {"compatibilityLevel": "SOMETIMES"}),
        (requests.level, {}),
        (requests.compatibility_check, {}),
        (requests.compatibility_check, {"is_compatible": "yes"}),
        (requests.compatibility_check, {"is_compatible": True, "messages": "x"}),
    ],
)
def test_other_responses_that_are_none(read: Any, response: Any) -> None:
    with pytest.raises(SchemaRegistryError, match="schema registry"):
        read(response)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "schema",
                    "version",
                    "subject",
                    "references",
                    "guid",
                    "ruleSet",
                    "schemaType",
                    "metadata",
                    "name",
                    "domainRules",
                    "is_compatible",
                ]
            ),
            inner,
        )
    ),
)


@given(JSON)
def test_any_json_is_a_schema_or_a_clear_error(response: Any) -> None:
    for read in (
        requests.registered,
        requests.names,
        requests.numbers,
        requests.number,
        requests.level,
        requests.compatibility_check,
    ):
        try:
            found = read(response)
        except SchemaRegistryError:
            continue
        if isinstance(found, RegisteredSchema):
            assert isinstance(found.id, int)
            assert isinstance(found.schema.text, str)


@given(st.integers(100, 599), st.binary() | JSON.map(lambda each: json.dumps(each).encode()))
def test_any_answer_is_json_or_a_clear_error(status: int, body: bytes) -> None:
    refusal = None
    try:
        body_of(Answer(status, body), "GET http://r/subjects", "http://r/subjects")
    except SchemaRegistryError as error:
        refusal = error
    assert refusal is None or str(refusal).startswith("GET http://r/subjects: ")
    assert refusal is None or refusal.status == status


def test_a_message_is_printable_and_short_and_holds_no_secret() -> None:
    message = "line 1\nline 2\x1b[31m t0k3n " + "x" * 100_000
    body = json.dumps({"error_code": 409, "message": message}).encode()
    with pytest.raises(SchemaRegistryError) as caught:
        body_of(Answer(409, body), "POST x", "x", Secret("t0k3n"))
    shown = str(caught.value)
    assert "line 1\n  line 2\\x1b[31m ********" in shown, "a second line begins none"
    assert len(shown) < 9000


@pytest.mark.parametrize(
    ("subject", "context"),
    [("s", ""), (":.a:s", ":.a:"), (":.:s", ":.:"), (":x", ""), (":.open", ""), ("", "")],
)
def test_contexts(subject: str, context: str) -> None:
    assert context_of(subject) == context


def test_the_cache_is_bounded_and_keeps_what_is_used() -> None:
    cache = AnswerCache(3)

    def put(number: int, good_until: float = 10.0) -> None:
        with cache.awaiting(Key("id", None, (number,))) as awaited:
            cache.put(awaited, number, good_until)

    def kept(now: float = 0.0) -> list[int]:
        return [n for n in range(6) if cache.get(Key("id", None, (n,)), now) is not None]

    for number in range(3):
        put(number)
    assert cache.get(Key("id", None, (0,)), 9.9) == 0
    put(3)
    assert kept() == [0, 2, 3]
    assert kept(10.0) == []
    put(4)
    with cache.awaiting(Key("id", None, (5,))) as awaited:
        cache.forget(lambda key: key.rest != (4,))
        cache.put(awaited, 5, 10.0)
    assert kept() == [4]


def test_schemas_are_values() -> None:
    one = Schema("x", metadata={"a": {"b": ["c"]}})
    assert one == Schema("x", metadata={"a": {"b": ["c"]}})
    assert hash(one) == hash(Schema("x"))
    assert one != Schema("x")


SCHEMA = Schema('"string"')
ONE = answer(200, {"id": 1, "version": 1, "subject": "s", "schema": '"string"'})
NOBODY_HAS_TO_WAIT = 30.0


def quick(*urls: str, seconds: float = 10.0) -> SchemaRegistry:
    """A client that retries at once."""
    return SchemaRegistry.from_properties(
        {
            "schema.registry.url": ",".join(urls),
            "retries.wait.ms": "1",
            "http.read.timeout.ms": int(seconds * 1000),
        }
    )


async def test_a_request_is_one_of_the_api() -> None:
    with serving(answer(200, {"id": 7})) as server:
        registry = SchemaRegistry(f"{server.url}/base/", headers={"X-Tenant": "me"})
        found = await registry.register("a/b ä", SCHEMA, normalize=True)
    assert (found.id, found.subject, found.schema) == (7, "a/b ä", SCHEMA)
    request = server.requests[0]
    path = "/base/subjects/a%2Fb%20%C3%A4/versions?normalize=true"
    assert request.line == f"POST {path} HTTP/1.1"
    assert request.json == {"schema": '"string"'}
    assert request.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
    assert "application/vnd.schemaregistry.v1+json" in request.headers["accept"]
    assert request.headers["x-tenant"] == "me"
    assert "authorization" not in request.headers
    assert request.headers["user-agent"] == f"aioproducer/{__version__}"


@pytest.mark.parametrize(
    ("status", "body", "error", "said"),
    [
        (401, {"error_code": 401, "message": "who?"}, SchemaRegistryAuthenticationError, "who?"),
        (403, b"<html>", SchemaRegistryAuthenticationError, "status 403"),
        (404, {"error_code": 40401, "message": "no s"}, SchemaNotFoundError, "no s"),
        (404, {"error_code": 404, "message": "HTTP 404"}, SchemaRegistryError, "check the path"),
        (404, b"<html>", SchemaRegistryError, "check the path"),
        (409, {"error_code": 409, "message": "[{oldType}]"}, IncompatibleSchemaError, "oldType"),
        (422, {"error_code": 42201, "message": "bad"}, InvalidSchemaError, "42201: bad"),
        (400, {"error_code": "x", "message": 5}, SchemaRegistryError, "status 400"),
        (418, [1], SchemaRegistryError, "status 418"),
        (501, b"", SchemaRegistryUnavailableError, "status 501"),
    ],
)
async def test_a_refusal_has_the_registry_s_own_message(
    status: int, body: object, error: type[SchemaRegistryError], said: str
) -> None:
    with serving(answer(status, body)) as server:
        with pytest.raises(SchemaRegistryError) as caught:
            await SchemaRegistry(server.url).latest("s")
        assert type(caught.value) is error
        assert said in str(caught.value)
        assert caught.value.status == status
        assert caught.value.url == f"{server.url}/subjects/s/versions/latest"
        assert len(server.requests) == 1, "it is not asked again"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_a_failure_of_the_moment_is_retried(status: int) -> None:
    with serving(answer(status), answer(status, b"x"), ONE) as server:
        assert (await quick(server.url).latest("s")).id == 1
        assert len(server.requests) == 3


async def test_retries_end() -> None:
    busy = answer(503, {"error_code": 50302, "message": "no leader"})
    with serving(busy) as server:
        registry = quick(server.url)
        with pytest.raises(SchemaRegistryUnavailableError, match="503: no leader") as caught:
            await registry.latest("s")
        assert (caught.value.status, caught.value.error_code) == (503, 50302)
        assert caught.value.retriable
        assert len(server.requests) == 4
        server.script = [ONE]
        assert (await registry.latest("s")).id == 1, "a failure is not kept"


async def test_a_registry_that_asks_for_patience_is_not_asked_sooner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def no_time_passes(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    with serving(answer(429, Retry_After="7"), ONE) as server:
        with monkeypatch.context() as patch:
            patch.setattr("aioproducer.schema_registry.rest.http.asyncio.sleep", no_time_passes)
            await SchemaRegistry(server.url).latest("s")
        assert 7.0 in slept
        server.script = [answer(429, Retry_After="86400"), ONE]
        with pytest.raises(SchemaRegistryUnavailableError):
            await SchemaRegistry(server.url).latest("s")
        assert len(server.requests) == 3, "there is no time for a retry"


async def test_a_delete_is_sent_once() -> None:
    """A second one would find nothing: the first may have been carried out."""
    for broken in (answer(500), b""):
        with serving(broken, answer(200, [1])) as server:
            with pytest.raises(SchemaRegistryUnavailableError):
                await SchemaRegistry(server.url).delete_subject("s")
            assert len(server.requests) == 1


async def test_a_delete_that_was_not_sent_goes_to_the_next_registry() -> None:
    refused = ReservedPort("127.0.0.1", port := free_ports(1)[0])
    with serving(answer(200, [1])) as server:
        registry = SchemaRegistry([f"http://127.0.0.1:{port}", server.url])
        assert await registry.delete_subject("s") == (1,)
    refused.release()


async def test_a_registry_that_failed_is_asked_last() -> None:
    with serving(answer(503)) as bad, serving(ONE) as good:
        registry = SchemaRegistry(f"{bad.url},{good.url}")
        await registry.version("s", 1)
        await registry.version("s", 2)
        assert (len(bad.requests), len(good.requests)) == (1, 2)
        good.script, bad.script = [answer(503)], [ONE]
        await registry.version("s", 3)
        await registry.version("s", 4)
        assert (len(bad.requests), len(good.requests)) == (3, 3)


async def test_every_registry_is_named_with_its_reason() -> None:
    refused = ReservedPort("127.0.0.1", port := free_ports(1)[0])
    with serving(answer(503, {"error_code": 1, "message": "tired"})) as tired:
        registry = quick(f"http://127.0.0.1:{port}", tired.url)
        with pytest.raises(SchemaRegistryUnavailableError) as caught:
            await registry.latest("s")
        assert f"http://127.0.0.1:{port} can't be reached (ConnectError" in str(caught.value)
        assert f"{tired.url} answered with status 503: tired" in str(caught.value)
    refused.release()


async def test_a_silent_registry_is_left_in_time_for_the_next_one() -> None:
    with serving(silence) as silent, serving(ONE) as good:
        registry = SchemaRegistry([silent.url, good.url], timeout=0.2)
        assert (await registry.latest("s")).id == 1
        alone = SchemaRegistry(silent.url, timeout=0.2)
        with pytest.raises(SchemaRegistryUnavailableError, match=r"within 0\.2 s"):
            await asyncio.wait_for(alone.latest("s"), NOBODY_HAS_TO_WAIT)


OK = b"HTTP/1.1 200 OK\r\n"
ENDLESS = trickling(
    OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"[" * 0x10000 + b"\r\n", 0
)
HOSTILE: dict[str, Reply] = {
    "nothing": b"",
    "a cut body": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
    "garbage": bytes(range(256)) * 4,
    "a greeting of SSH": b"SSH-2.0-OpenSSH_9.9\r\n",
    "a giant length": b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n[]",
    "a negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n[]",
    "no status": b"HTTP/1.1\r\n\r\n",
    "cut chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\nabc",
    "wrong chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
    "a trickle": trickling(OK + b"Content-Length: 1000000\r\n\r\n", b" "),
    "endless headers": trickling(OK, b"X-More: " + b"x" * 1000 + b"\r\n", 0),
    "endless news": trickling(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 0),
    "an endless body": ENDLESS,
    "packed": answer(200, b"\x1f\x8b\x08\x00", Content_Encoding="gzip"),
    "no JSON": answer(200, b"<html>Welcome</html>"),
    "not UTF-8": answer(200, b'{"id": "\xff\xfe"}'),
    "deep": answer(200, b"[" * 100_000),
    "a long number": answer(200, b'{"id": ' + b"9" * 100_000 + b"}"),
    "half a surrogate": answer(200, b'{"id": 1, "schema": 5, "subject": "\\ud800"}'),
    "null": answer(200, b"null"),
    "empty": answer(200, b""),
    "a list": answer(200, b"[]"),
    "no content": answer(204, b""),
    "no number": answer(200, {"id": "1", "schema": "x"}),
    "no boolean for a number": answer(200, {"id": True, "schema": "x"}),
    "a redirect": answer(302, b"", Location="http://127.0.0.1:1/evil?secret=1"),
    "a redirect to nowhere": answer(307, b"", Location="http://[/\x01"),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
async def test_no_answer_crashes_or_hangs(hostile: Reply) -> None:
    with serving(hostile) as server:
        registry = quick(server.url, seconds=0.3)
        with pytest.raises(SchemaRegistryError) as caught:
            await asyncio.wait_for(registry.latest("s"), NOBODY_HAS_TO_WAIT)
        assert type(caught.value) in (SchemaRegistryError, SchemaRegistryUnavailableError)
        assert len(str(caught.value)) < 1000
        server.script = [ONE]
        assert (await registry.latest("s")).id == 1, "it is over"


async def test_a_large_body_ends_at_the_limit() -> None:
    with (
        serving(ENDLESS) as server,
        pytest.raises(SchemaRegistryError, match="more than 16777216 bytes"),
    ):
        await SchemaRegistry(server.url).latest("s")


async def test_a_redirect_is_not_followed_and_named_without_its_query() -> None:
    with serving(ONE) as other:
        away = answer(
            302, b"", Location=f"{other.url.replace('//', '//me:s3cr3t@')}/subjects?token=s3cr3t"
        )
        with (
            serving(away) as server,
            pytest.raises(SchemaRegistryError, match="a redirect to") as caught,
        ):
            await SchemaRegistry(server.url, bearer_token="t0k3n").latest("s")
        assert not other.requests
        assert "s3cr3t" not in str(caught.value)


async def test_requests_at_the_same_time_share_connections() -> None:
    with serving(ONE) as server:
        registry = SchemaRegistry(server.url)
        await asyncio.gather(*(registry.version("s", number) for number in range(100)))
        assert len(server.requests) == 100
        assert len(server.connections) <= 20


async def test_a_request_that_waits_for_a_connection_loses_no_time() -> None:
    seconds = 0.5
    with serving(ONE) as server:
        sessions = Sessions(None)
        settings = http_settings([Secret(server.url)], Credentials(), {}, seconds)
        transport = HttpTransport(settings.with_retries(0, None, None), sessions, Random())
        async with sessions.session() as session:
            for _ in range(20):
                await session.slots.acquire()
            waiting = asyncio.create_task(transport.request(RegistryRequest("GET", "/subjects")))
            await asyncio.sleep(seconds * 1.2)
            assert not server.requests
            session.slots.release()
            await waiting


def test_one_registry_serves_one_event_loop_after_the_other() -> None:
    registry: list[SchemaRegistry] = []

    async def ask() -> int:
        with serving(ONE) as server:
            if not registry:
                registry.append(SchemaRegistry([server.url]))
            found = await asyncio.gather(registry[0].version("s", 1), registry[0].latest("s"))
            return found[0].id

    assert asyncio.run(ask()) == 1

    async def abandon() -> None:
        with serving(silence) as server:
            made = SchemaRegistry(server.url)
            task = asyncio.create_task(made.latest("s"))
            await until(lambda: server.requests)
            task.cancel()
            registry[:] = [made]

    asyncio.run(abandon())  # its request ends with the event loop
    with pytest.raises(SchemaRegistryUnavailableError):
        asyncio.run(registry[0].latest("s"))


async def test_tls_with_an_authority_of_one_s_own() -> None:
    authority = Authority()
    certificate = authority.issue("registry", hosts=("127.0.0.1",))
    with serving(ONE, tls=certificate.server_context()) as server:
        trusting = SchemaRegistry(
            server.url, ssl_context=ssl.create_default_context(cadata=authority.pem)
        )
        assert (await trusting.latest("s")).id == 1
        with pytest.raises(SchemaRegistryAuthenticationError, match="can't be trusted") as caught:
            await SchemaRegistry(server.url).latest("s")
        assert "truststore" in str(caught.value)


async def test_a_plain_server_behind_https_is_an_error() -> None:
    with serving(ONE) as server:
        registry = quick(server.url.replace("http:", "https:"), seconds=0.5)
        with pytest.raises(SchemaRegistryUnavailableError, match=r"connection within 0\.2 s"):
            await registry.latest("s")


async def test_token_functions_that_hang_hold_up_no_other_registry() -> None:
    gate = threading.Event()

    def hang() -> str:
        gate.wait()
        return "slow"

    async def asked(give: Callable[[], str]) -> Secret | None:
        return await Credentials(bearer_token=give).authorization(30)

    hanging = [asyncio.create_task(asked(hang)) for _ in range(65)]
    try:
        await asyncio.sleep(0)
        assert await asked(lambda: "quick") == Secret("Bearer quick")
    finally:
        gate.set()
    assert set(await asyncio.gather(*hanging)) == {Secret("Bearer slow")}
