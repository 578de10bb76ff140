"""Requests and the reading of responses, without any I/O."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.config import Secret
from aioproducer.errors import SchemaRegistryError
from aioproducer.schema_registry import Reference, RegisteredSchema, Schema, SchemaRegistry
from aioproducer.schema_registry.model import context_of
from aioproducer.schema_registry.rest import requests
from aioproducer.schema_registry.rest.answers import AnswerCache, Key
from aioproducer.schema_registry.rest.requests import Answer, body_of
from tests.support.scripted_registry import reply, scripted_registry

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
    async with scripted_registry(reply(200, {"id": 1, "schema": '"string"'})) as server:
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
