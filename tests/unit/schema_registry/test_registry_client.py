"""The calls of a client over a registry in memory: the cache, shared requests, references."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from aioproducer.errors import (
    ClientClosedError,
    IncompatibleSchemaError,
    InvalidSchemaError,
    SchemaNotFoundError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
)
from aioproducer.schema_registry import Reference, RegisteredSchema, Rule, Schema
from aioproducer.schema_registry.rest.answers import Flights
from aioproducer.schema_registry.rest.requests import RegistryRequest
from aioproducer.testing import InMemorySchemaRegistry

INT, LONG = Schema('"int"'), Schema('"long"')


@pytest.fixture
def registry() -> InMemorySchemaRegistry:
    return InMemorySchemaRegistry()


async def test_one_schema_has_one_id_in_all_subjects(registry: InMemorySchemaRegistry) -> None:
    first = await registry.register("a", INT)
    assert (first.id, first.version, first.subject, first.schema) == (1, 1, "a", INT)
    assert (await registry.register("b", INT)).id == 1
    second = await registry.register("a", LONG)
    assert (second.id, second.version) == (2, 2)
    assert await registry.lookup("a", INT) == first
    assert await registry.latest("a") == second
    assert await registry.version("a", 1) == first
    assert (await registry.by_id(2)).schema == LONG
    assert second.guid is not None
    assert (await registry.by_guid(second.guid)).schema == LONG
    assert await registry.subjects() == ("a", "b")
    assert await registry.subjects(prefix="b") == ("b",)
    assert await registry.versions("a") == (1, 2)


async def test_what_is_missing(registry: InMemorySchemaRegistry) -> None:
    await registry.register("a", INT)
    for call, code in [
        (registry.latest("b"), 40401),
        (registry.version("a", 2), 40402),
        (registry.by_id(9), 40403),
        (registry.lookup("a", LONG), 40403),
    ]:
        with pytest.raises(SchemaNotFoundError) as caught:
            await call
        assert caught.value.error_code == code


async def test_answers_are_kept(registry: InMemorySchemaRegistry) -> None:
    for _ in range(3):
        await registry.register("a", INT)
        await registry.lookup("a", INT)
        await registry.latest("a")
        await registry.version("a", 1)
        await registry.by_id(1)
    assert len(registry.requests) == 5
    await registry.register("a", INT, normalize=True)
    await registry.by_id(1, subject="a")
    assert len(registry.requests) == 7, "other calls have other answers"


async def test_failures_are_not_kept(registry: InMemorySchemaRegistry) -> None:
    registry.fail_with(SchemaRegistryUnavailableError("away"))
    with pytest.raises(SchemaRegistryUnavailableError, match="away"):
        await registry.register("a", INT)
    registry.fail_with(None)
    assert (await registry.register("a", INT)).id == 1
    with pytest.raises(SchemaNotFoundError):
        await registry.latest("b")
    await registry.register("b", LONG)
    assert (await registry.latest("b")).schema == LONG


async def test_the_latest_version_is_kept_for_a_time() -> None:
    registry = InMemorySchemaRegistry(latest_ttl=math.inf)
    await registry.register("a", INT)
    assert (await registry.latest("a")).version == 1
    await registry.register("a", LONG)
    assert (await registry.latest("a")).version == 2, "our own registration is known"
    at_once = InMemorySchemaRegistry(latest_ttl=0)
    await at_once.register("a", INT)
    for _ in range(3):
        await at_once.latest("a")
    assert len(at_once.requests) == 4


async def test_the_version_minus_one_is_the_latest() -> None:
    registry = InMemorySchemaRegistry(latest_ttl=0)
    for number, schema in enumerate((INT, LONG), 1):
        await registry.register("a", schema)
        assert (await registry.version("a", -1)).version == number


async def test_callers_share_a_request(registry: InMemorySchemaRegistry) -> None:
    registry.delay(0.01)
    answers = await asyncio.gather(*(registry.register("a", INT) for _ in range(1000)))
    assert len(registry.requests) == 1
    assert set(answers) == {answers[0]}
    registry.fail_with(SchemaRegistryUnavailableError("away"))
    failures = await asyncio.gather(
        *(registry.register("a", LONG) for _ in range(10)), return_exceptions=True
    )
    assert len(registry.requests) == 2
    assert len({id(each) for each in failures}) == 10, "each one has an error of its own"
    assert {str(each) for each in failures} == {"away"}


async def test_a_cancelled_caller_leaves_the_request_to_the_others(
    registry: InMemorySchemaRegistry,
) -> None:
    registry.delay(0.02)
    first = asyncio.create_task(registry.register("a", INT))
    second = asyncio.create_task(registry.register("a", INT))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).id == 1
    assert first.cancelled()
    third = asyncio.create_task(registry.register("b", INT))
    await asyncio.sleep(0)
    third.cancel()
    await asyncio.wait([third])
    assert (await registry.register("b", INT)).id == 1
    assert len(registry.requests) == 2, "a request goes on when nobody waits for it"


async def test_close_ends_what_waits_and_a_later_call_works(
    registry: InMemorySchemaRegistry,
) -> None:
    registry.delay(3600)
    waiting = [asyncio.create_task(registry.register("a", INT)) for _ in range(2)]
    await asyncio.sleep(0)
    await registry.close()
    for each in waiting:
        with pytest.raises(ClientClosedError):
            await each
    await registry.close()
    registry.delay(0)
    async with registry:
        assert (await registry.register("a", INT)).id == 1
    assert (await registry.by_id(1)).schema == INT


async def test_a_request_that_begins_while_others_are_closed_is_shared() -> None:
    flights, calls, may_end = Flights(), 0, asyncio.Event()

    async def call() -> int:
        nonlocal calls
        calls += 1
        this = calls
        try:
            await asyncio.sleep(3600 if this == 1 else 0.01)
        except asyncio.CancelledError:
            await may_end.wait()
            raise
        return this

    closed = asyncio.create_task(flights.share("key", call))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    closing = asyncio.create_task(flights.close())
    await asyncio.sleep(0)
    second = asyncio.create_task(flights.share("key", call))
    await asyncio.sleep(0)
    may_end.set()
    await closing
    assert await flights.share("key", call) == await second == 2
    with pytest.raises(ClientClosedError):
        await closed


def test_a_client_serves_event_loops_one_after_the_other(
    registry: InMemorySchemaRegistry,
) -> None:
    async def abandon() -> None:
        registry.delay(3600)
        asyncio.get_running_loop().create_task(registry.register("a", INT)).add_done_callback(id)
        await asyncio.sleep(0)

    async def use() -> RegisteredSchema:
        registry.delay(0)
        return await registry.register("a", INT)

    asyncio.run(abandon())
    assert asyncio.run(use()).id == 1
    assert asyncio.run(use()).id == 1
    loop = asyncio.new_event_loop()  # one that ends without a word
    registry.delay(3600)
    task = loop.create_task(registry.register("b", INT))
    loop.run_until_complete(asyncio.sleep(0.01))
    for each in (task, *asyncio.all_tasks(loop)):
        each._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    del task, each
    assert asyncio.run(use()).id == 1


async def test_deleted_subjects(registry: InMemorySchemaRegistry) -> None:
    await registry.register("a", INT)
    await registry.register("a", LONG)
    assert await registry.delete_version("a", 2) == 2
    assert (await registry.latest("a")).version == 1, "nothing deleted comes from the cache"
    with pytest.raises(SchemaNotFoundError):
        await registry.version("a", 2)
    assert (await registry.version("a", 2, deleted=True)).schema == LONG
    assert await registry.versions("a", deleted=True) == (1, 2)
    with pytest.raises(SchemaNotFoundError, match="not deleted first"):
        await registry.delete_subject("a", permanent=True)
    assert await registry.delete_subject("a") == (1,)
    assert await registry.subjects() == ()
    assert await registry.subjects(deleted=True) == ("a",)
    assert await registry.delete_subject("a", permanent=True) == (1, 2)
    assert await registry.subjects(deleted=True) == ()
    assert (await registry.register("a", LONG)).version == 1


async def test_an_answer_from_before_a_deletion_is_not_kept(
    registry: InMemorySchemaRegistry,
) -> None:
    await registry.register("a", INT)
    registry.delay(0.02)
    asked = asyncio.create_task(registry.latest("a"))
    await asyncio.sleep(0)
    registry.delay(0)
    await registry.register("a", LONG)
    await asked
    assert (await registry.latest("a")).version == 2


@pytest.mark.parametrize("change", ["register", "delete"])
@pytest.mark.parametrize("closes", [False, True])
async def test_a_call_after_a_change_joins_no_request_from_before_it(
    registry: InMemorySchemaRegistry, monkeypatch: pytest.MonkeyPatch, change: str, closes: bool
) -> None:
    await registry.register("a", INT)
    if change == "delete":
        await registry.register("a", LONG)
    send, may_arrive = registry._memory.request, asyncio.Event()

    async def arrive_late(request: RegistryRequest) -> Any:
        answer = await send(request)
        await may_arrive.wait()
        return answer

    monkeypatch.setattr(registry._memory, "request", arrive_late)
    before = asyncio.create_task(registry.latest("a"))
    await asyncio.sleep(0.01)
    monkeypatch.setattr(registry._memory, "request", send)
    if change == "delete":
        await registry.delete_version("a", 2)
    else:
        await registry.register("a", LONG)
    async with asyncio.timeout(5):
        after = await registry.latest("a")
    if closes:
        await registry.close()
        with pytest.raises(ClientClosedError):
            await before
        return
    may_arrive.set()
    versions = (await before).version, after.version
    assert versions == ((2, 1) if change == "delete" else (1, 2))
    asked = len(registry.requests)
    assert await registry.latest("a") == after
    assert len(registry.requests) == asked, "the late answer has replaced nothing"


def judge(schema: Schema, earlier: Any) -> list[str]:
    return [f"{each.text} is wider" for each in earlier if each == LONG and schema == INT]


async def test_compatibility() -> None:
    registry = InMemorySchemaRegistry(judge=judge)
    await registry.register("a", LONG)
    assert await registry.is_compatible("a", LONG)
    checked = await registry.check_compatibility("a", INT, version="all")
    assert (checked.compatible, checked.messages) == (False, ('"long" is wider',))
    with pytest.raises(IncompatibleSchemaError, match='"long" is wider') as caught:
        await registry.register("a", INT)
    assert (caught.value.status, caught.value.error_code) == (409, 409)
    assert await registry.compatibility() == await registry.compatibility("a") == "BACKWARD"
    await registry.set_compatibility("NONE", "a")
    assert (await registry.compatibility("a"), await registry.compatibility()) == (
        "NONE",
        "BACKWARD",
    )
    assert (await registry.register("a", INT)).version == 2
    await registry.set_compatibility("FULL")
    assert await registry.compatibility("b") == "FULL"


async def test_a_data_contract_survives_the_way_to_the_registry(
    registry: InMemorySchemaRegistry,
) -> None:
    contract = Schema(
        "syntax",
        "PROTOBUF",
        rules=(
            Rule("check", "CONDITION", "WRITE", "CEL", details={"expr": "size(x) > 0"}),
            Rule("up", "TRANSFORM", "UPGRADE", "JSONATA", "migration", disabled=True),
            Rule(
                "hide", "TRANSFORM", "WRITEREAD", "ENCRYPT", "encoding", details={"tags": ["PII"]}
            ),
        ),
        metadata={"properties": {"owner": "anna"}, "tags": {"a.b": ["PII"]}},
    )
    await registry.register("a", contract)
    found = (await registry.by_id(1)).schema
    assert sorted(found.rules, key=lambda each: each.name) == sorted(
        contract.rules, key=lambda each: each.name
    )
    assert (found.metadata, found.schema_type) == (contract.metadata, "PROTOBUF")


async def test_references_are_resolved_with_those_behind_them(
    registry: InMemorySchemaRegistry,
) -> None:
    await registry.register("d", Schema("d"))
    await registry.register("b", b := Schema("b", references=(Reference("D", "d", 1),)))
    await registry.register("c", c := Schema("c", references=(Reference("D", "d", 1),)))
    top = Schema("a", references=(Reference("C", "c", 1), Reference("B", "b", 1)))
    before = len(registry.requests)
    found = await registry.resolve(top)
    assert list(found.items()) == [("D", Schema("d")), ("C", c), ("B", b)]
    assert len(registry.requests) == before + 3, "each one is fetched once"
    await registry.delete_subject("d")
    assert list(await registry.resolve(top)) == ["D", "C", "B"], "a deleted version serves on"
    assert await registry.resolve(INT) == {}
    with pytest.raises(SchemaNotFoundError):
        await registry.resolve(Schema("x", references=(Reference("N", "nowhere", 1),)))


async def test_references_are_of_the_context_of_their_subject(
    registry: InMemorySchemaRegistry,
) -> None:
    await registry.register(":.team:d", INT)
    await registry.register("d", LONG)
    here, there = Reference("D", "d", 1), Reference("E", ":.team:d", 1)
    found = await registry.resolve(Schema("a", references=(here, there)), subject=":.team:a")
    assert found == {"D": INT, "E": INT}
    found = await registry.resolve(Schema("a", references=(here, there)), subject="a")
    assert found == {"D": LONG, "E": INT}
    assert registry.requests[2].startswith("GET /subjects/%3A.team%3Ad/versions/1")


async def test_a_reference_that_leads_nowhere_is_an_invalid_schema(
    registry: InMemorySchemaRegistry,
) -> None:
    with pytest.raises(InvalidSchemaError, match="No schema reference found") as raised:
        await registry.register("a", Schema("a", references=(Reference("D", "d", 1),)))
    assert raised.value.error_code == 42201


async def test_references_of_a_referred_schema_are_of_its_context(
    registry: InMemorySchemaRegistry,
) -> None:
    await registry.register(":.team:d", INT)
    await registry.register("d", LONG)
    referring = Schema("b", references=(Reference("D", "d", 1),))
    await registry.register(":.team:b", referring)
    top = Schema("a", references=(Reference("B", ":.team:b", 1),))
    assert (await registry.resolve(top, subject="a"))["D"] == INT
    assert (await registry.resolve(top, subject=":.other:a"))["D"] == INT


async def test_a_cycle_of_references_ends(
    registry: InMemorySchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def version(subject: str, number: int, *, deleted: bool = False) -> RegisteredSchema:
        other = str(int(subject) + 1) if endless else {"b": "c", "c": "b"}[subject]
        schema = Schema(subject, references=(Reference(other, other, 1),))
        return RegisteredSchema(1, schema)

    monkeypatch.setattr(registry, "version", version)
    endless = False
    with pytest.raises(SchemaRegistryError, match="cycle: b -> c -> b"):
        await registry.resolve(Schema("a", references=(Reference("b", "b", 1),)))
    endless = True
    with pytest.raises(SchemaRegistryError, match="more than 1000 others"):
        await registry.resolve(Schema("a", references=(Reference("1", "1", 1),)))


async def test_an_unknown_path_is_no_missing_schema(registry: InMemorySchemaRegistry) -> None:
    with pytest.raises(SchemaRegistryError, match="check the path") as caught:
        await registry.by_id("nothing/here")  # type: ignore[arg-type]
    assert type(caught.value) is SchemaRegistryError
