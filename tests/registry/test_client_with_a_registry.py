"""The client, judged by a real registry, which forgets when killed, and ends with us."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from aioproducer.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    SchemaNotFoundError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
)
from aioproducer.schema_registry import Reference, Schema, SchemaRegistry
from aioproducer.testing import SchemaRegistryServer
from aioproducer.testing.kafka_distribution import KafkaUnavailableError
from tests.support.schema_registry import started

pytestmark = pytest.mark.registry


def record(name: str, **fields: object) -> Schema:
    listed = [{"name": each, "type": kind} for each, kind in fields.items()]
    return Schema(json.dumps({"type": "record", "name": name, "fields": listed}))


ORDER = record("Order", id="long")
WIDER = Schema(
    json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "note", "type": "string", "default": ""},
            ],
        }
    )
)


@pytest.fixture
def registry(registry_server: SchemaRegistryServer) -> SchemaRegistry:
    return SchemaRegistry(registry_server.url)


@pytest.fixture
def subject() -> str:
    return f"orders/{uuid4().hex} ä-value"


async def test_a_schema_and_its_versions(registry: SchemaRegistry, subject: str) -> None:
    first = await registry.register(subject, ORDER)
    second = await registry.register(subject, WIDER)
    assert first.id != second.id
    again = SchemaRegistry(str(registry).split(" at ")[1].rstrip(">"))
    assert (await again.register(subject, ORDER)).id == first.id
    assert (await again.lookup(subject, WIDER)).version == 2
    latest = await again.latest(subject)
    assert (latest.id, latest.version, latest.subject) == (second.id, 2, subject)
    assert json.loads(latest.schema.text) == json.loads(WIDER.text)
    assert (await again.version(subject, 1)).id == first.id
    found = await again.by_id(first.id)
    assert (found.schema.schema_type, json.loads(found.schema.text)) == (
        "AVRO",
        json.loads(ORDER.text),
    )
    assert await again.versions(subject) == (1, 2)
    assert subject in await again.subjects()


@pytest.mark.parametrize(
    "schema",
    [
        Schema('{"type": "object", "properties": {"id": {"type": "integer"}}}', "JSON"),
        Schema('syntax = "proto3";\nmessage Order {\n  int64 id = 1;\n}\n', "PROTOBUF"),
    ],
    ids=["JSON", "PROTOBUF"],
)
async def test_other_types(registry: SchemaRegistry, subject: str, schema: Schema) -> None:
    registered = await registry.register(subject, schema)
    found = await registry.by_id(registered.id)
    assert found.schema.schema_type == schema.schema_type
    assert (await registry.lookup(subject, schema)).id == registered.id


async def test_references(registry: SchemaRegistry, subject: str) -> None:
    await registry.register(f"{subject}-price", record("Price", cents="long"))
    price = Reference("Price", f"{subject}-price", 1)
    line = Schema(record("Line", price="Price").text, references=(price,))
    await registry.register(f"{subject}-line", line)
    order = Schema(
        record("Order", line="Line", price="Price").text,
        references=(Reference("Line", f"{subject}-line", 1), price),
    )
    registered = await registry.register(subject, order)
    found = (await registry.by_id(registered.id)).schema
    assert set(found.references) == set(order.references)
    assert list(await registry.resolve(found)) == ["Price", "Line"]
    nowhere = Schema(ORDER.text, references=(Reference("N", f"{subject}-nowhere", 1),))
    with pytest.raises(SchemaRegistryError):
        await registry.register(subject, nowhere)


async def test_what_is_incompatible_is_refused_with_the_registry_s_own_message(
    registry: SchemaRegistry, subject: str
) -> None:
    await registry.register(subject, ORDER)
    await registry.set_compatibility("BACKWARD", subject)
    assert await registry.compatibility(subject) == "BACKWARD"
    other = record("Order", id="long", price="double")
    assert await registry.is_compatible(subject, WIDER)
    assert not await registry.is_compatible(subject, other)
    with pytest.raises(IncompatibleSchemaError, match="Incompatible artifact") as caught:
        await registry.register(subject, other)
    assert caught.value.status == 409
    assert "price" in str(caught.value)
    assert (await registry.register(subject, WIDER)).id


async def test_errors(registry: SchemaRegistry, subject: str) -> None:
    with pytest.raises(SchemaNotFoundError):
        await registry.latest(subject)
    with pytest.raises(SchemaNotFoundError):
        await registry.by_id(2**31 - 1)
    await registry.register(subject, ORDER)
    with pytest.raises(SchemaNotFoundError):
        await registry.lookup(subject, WIDER)
    with pytest.raises(SchemaNotFoundError):
        await registry.version(subject, 2)
    with pytest.raises(InvalidSchemaError):
        await registry.register(subject, Schema('{"type": "nonsense"}'))


async def test_deleted(registry: SchemaRegistry, subject: str) -> None:
    await registry.register(subject, ORDER)
    await registry.register(subject, WIDER)
    assert await registry.delete_version(subject, 1) == 1
    assert await registry.versions(subject) == (2,)
    assert await registry.delete_subject(subject)
    with pytest.raises(SchemaNotFoundError):
        await registry.latest(subject)
    assert subject not in await registry.subjects()


async def test_normalisation(registry: SchemaRegistry, subject: str) -> None:
    spaced = Schema(ORDER.text.replace('"long"', '{"type":  "long"}'))
    first = await registry.register(subject, ORDER, normalize=True)
    assert (await registry.lookup(subject, spaced, normalize=True)).version == 1
    assert (await registry.register(subject, spaced, normalize=True)).id == first.id


async def test_killed_and_restarted() -> None:
    server = await asyncio.to_thread(started)
    with server:
        registry = SchemaRegistry(server.url)
        await registry.register("a", ORDER)
        await asyncio.to_thread(server.kill)
        assert (await registry.register("a", ORDER)).id, "known answers need no server"
        with pytest.raises(SchemaRegistryUnavailableError, match="can't be reached"):
            await registry.register("b", ORDER)
        await asyncio.to_thread(server.start)
        assert (await registry.register("b", ORDER)).id
        assert await registry.subjects() == ("b",)


async def test_slow(registry_server: SchemaRegistryServer, subject: str) -> None:
    """A registry that takes long is left for another one; a request that waits stalls nothing."""
    gate = asyncio.Event()
    async with held_up(registry_server.port, gate) as port:
        slow = registry_server.url_by(f"127.0.0.1:{port}")
        alone = SchemaRegistry(slow, timeout=0.3)
        with pytest.raises(SchemaRegistryUnavailableError, match=r"within 0\.3 s"):
            await alone.register(subject, ORDER)
        both = SchemaRegistry([slow, registry_server.url], timeout=0.3)
        assert (await both.register(subject, ORDER)).id
        patient = SchemaRegistry(slow, timeout=60)
        waiting = [asyncio.create_task(patient.latest(subject)) for _ in range(5)]
        other = SchemaRegistry(registry_server.url)
        assert (await other.latest(subject)).version == 1
        gate.set()
        assert {each.version for each in await asyncio.gather(*waiting)} == {1}


@asynccontextmanager
async def held_up(port: int, gate: asyncio.Event) -> AsyncIterator[int]:
    """A proxy before ``port`` that passes nothing until the gate is open."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await gate.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, to_upstream = await asyncio.open_connection("127.0.0.1", port)
        pumps = [pump(reader, to_upstream), pump(upstream, writer)]
        await asyncio.gather(*pumps, return_exceptions=True)

    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with started() as own:
        yield own


def subjects(server: SchemaRegistryServer) -> Any:
    with urllib.request.urlopen(f"{server.url}/subjects", timeout=30) as response:
        return json.load(response)


def register(server: SchemaRegistryServer, subject: str) -> Any:
    request = urllib.request.Request(
        f"{server.url}/subjects/{subject}/versions",
        data=b'{"schema": "\\"string\\""}',
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def test_it_forgets_when_it_is_killed_and_starts_at_its_old_address(
    server: SchemaRegistryServer,
) -> None:
    assert register(server, "orders")["id"] >= 1
    assert subjects(server) == ["orders"]
    server.kill()
    with pytest.raises(OSError, match="refused"):
        subjects(server)
    server.start()
    server.start()  # it runs: nothing happens
    assert subjects(server) == []


def test_it_ends_with_a_process_that_is_killed() -> None:
    started().close()  # skipped here if there is none
    code = (
        "from aioproducer.testing import SchemaRegistryServer\n"
        "server = SchemaRegistryServer()\n"
        "print(server._process.pid, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    assert gone(child)


def gone(pid: int) -> bool:
    with suppress(ProcessLookupError, ChildProcessError):
        descriptor = os.pidfd_open(pid)
        try:
            return bool(select.select([descriptor], [], [], 30)[0])
        finally:
            os.close(descriptor)
    return True


def test_without_java_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(KafkaUnavailableError, match="there is no `java` here"):
        SchemaRegistryServer()


def test_without_maven_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIOPRODUCER_CACHE", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: None if name == "mvn" else f"/usr/bin/{name}")
    with pytest.raises(KafkaUnavailableError, match=r"the schema registry is not in .* `mvn`"):
        SchemaRegistryServer()
