"""Spans of a consumer's records in a simulated world."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest
from opentelemetry import trace

from aioproducer import Producer
from aioproducer.consumer import Consumer, consumer
from aioproducer.consumer.tracing import TracingSlot
from aioproducer.engine.observer import set_default_of_consumers
from aioproducer.model import AnyRecord, ConsumerRecord
from aioproducer.observability.otel import (
    AioproducerInstrumentor,
    instrument,
    process_span,
    uninstrument,
)
from aioproducer.testing import SimulatedWorld, simulate
from tests.support.otel import InMemorySdk, attributes, context_of

RECORDS = 6


@pytest.fixture
def sdk() -> InMemorySdk:
    return InMemorySdk()


@pytest.fixture
def instrumentor() -> Iterator[AioproducerInstrumentor]:
    found = AioproducerInstrumentor()
    yield found
    found.uninstrument()


def of(world: SimulatedWorld, **options: Any) -> Consumer:
    servers = world.cluster.bootstrap_servers
    return Consumer(
        "orders", group_id="g", bootstrap_servers=servers, auto_offset_reset="earliest", **options
    )


async def sent(world: SimulatedWorld, sdk: InMemorySdk) -> None:
    """Records with the contexts of their spans."""
    producer = Producer(bootstrap_servers=world.cluster.bootstrap_servers)
    instrument(producer, **sdk.providers)
    async with producer:
        for number in range(RECORDS):
            await producer.send("orders", b"%d" % number, partition=number % 2)


def live(life: Any) -> None:
    simulate(life, topics={"orders": 2}, brokers=1)


async def run(reader: Consumer, count: int = RECORDS) -> list[ConsumerRecord]:
    """The records that handlers have finished, each in its own span."""
    found: list[ConsumerRecord] = []
    enough = asyncio.Event()

    async def handle(record: ConsumerRecord) -> None:
        span = trace.get_current_span()
        await asyncio.sleep(0.01)  # others run meanwhile
        assert trace.get_current_span() is span
        found.append(record)
        if len(found) == count:
            enough.set()

    running = asyncio.create_task(reader.run(handle))
    await enough.wait()
    running.cancel()
    await asyncio.wait([running])
    return found


def check_links(sdk: InMemorySdk) -> None:
    """Each record's span links to the one span that sent the record."""
    sends = {
        (found["messaging.destination.partition.id"], found["messaging.kafka.offset"]): span
        for span in sdk.spans("send orders")
        for found in [attributes(span)]
    }
    spans = sdk.spans("process orders")
    assert len(spans) == len(sends) == RECORDS
    for span in spans:
        found = attributes(span)
        (link,) = span.links
        place = found["messaging.destination.partition.id"], found["messaging.kafka.offset"]
        assert link.context.span_id == context_of(sends.pop(place)).span_id
        assert found["messaging.consumer.group.name"] == "g"
        assert span.parent is None


def test_run_makes_a_span_for_each_record(sdk: InMemorySdk) -> None:
    async def life(world: SimulatedWorld) -> None:
        await sent(world, sdk)
        reader = of(world)
        instrument(reader, tracer_provider=sdk.tracers)
        async with reader:
            await run(reader)
        check_links(sdk)

    live(life)


def test_spans_in_a_loop(sdk: InMemorySdk) -> None:
    async def life(world: SimulatedWorld) -> None:
        await sent(world, sdk)
        async with of(world) as reader:
            instrument(reader, tracer_provider=sdk.tracers)
            records = aiter(reader)
            for _ in range(RECORDS):
                with process_span(reader, await anext(records)):
                    await asyncio.sleep(0)
            check_links(sdk)
            uninstrument(reader)
            with process_span(reader, []):
                pass
        assert len(sdk.spans("process orders")) == RECORDS

    live(life)


def test_a_consumer_without_tracing_calls_the_very_handler(
    monkeypatch: pytest.MonkeyPatch, sdk: InMemorySdk
) -> None:
    called: list[Any] = []

    class Workers:
        def __init__(self, *parts: Any) -> None:
            called.append(parts[4])

        async def run(self) -> None:
            """End at once."""

    monkeypatch.setattr(consumer, "Workers", Workers)

    async def handle(record: ConsumerRecord) -> None:
        """Nothing is read."""

    async def life(world: SimulatedWorld) -> None:
        async with of(world) as reader:
            await reader.run(handle)
            instrument(reader, traces=False)
            await reader.run(handle)
            instrument(reader, tracer_provider=sdk.tracers)
            await reader.run(handle)

    live(life)
    assert called[:2] == [handle, handle]
    assert called[2] is not handle


def test_every_consumer_is_instrumented_and_the_end_of_it_is_for_running_ones(
    sdk: InMemorySdk, instrumentor: AioproducerInstrumentor
) -> None:
    own = InMemorySdk()

    async def life(world: SimulatedWorld) -> None:
        await sent(world, sdk)
        instrumentor.instrument(skip_dep_check=True, **sdk.providers)
        reader = of(world)
        async with reader:
            await run(reader)
            check_links(sdk)
            instrumentor.uninstrument()
            assert reader._tracing.tracing is None
        instrumentor.instrument(skip_dep_check=True, **sdk.providers)
        reader = of(world)
        instrument(reader, tracer_provider=own.tracers)
        kept = reader._tracing.tracing
        async with reader:
            assert reader._tracing.tracing is kept
            instrumentor.uninstrument()
            assert reader._tracing.tracing is kept

    live(life)


def test_a_factory_that_fails_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("no idea")

    async def life(world: SimulatedWorld) -> None:
        async with of(world) as reader:
            assert reader._tracing.tracing is None

    set_default_of_consumers(broken)
    try:
        with caplog.at_level(logging.WARNING, "aioproducer"):
            live(life)
    finally:
        set_default_of_consumers(None)
    assert any("is not traced" in line for line in caplog.messages)


class Broken:
    """A tracing that fails in ``where``, and so do its blocks."""

    def __init__(self, where: str) -> None:
        self._where = where

    def _fail_in(self, where: str) -> None:
        if where == self._where:
            raise RuntimeError(f"no idea in {where}")

    def record(self, record: AnyRecord) -> AbstractContextManager[Any]:
        self._fail_in("record")
        return self

    def batch(self, records: Sequence[AnyRecord]) -> AbstractContextManager[Any]:
        self._fail_in("record")
        return self

    def __enter__(self) -> str:
        self._fail_in("__enter__")
        return "span"

    def __exit__(self, *_: object) -> None:
        self._fail_in("__exit__")


@pytest.mark.parametrize("where", ["record", "__enter__", "__exit__"])
@pytest.mark.parametrize("several", [True, False])
def test_an_error_of_a_tracing_is_a_line_in_the_log(
    where: str, several: bool, caplog: pytest.LogCaptureFixture
) -> None:
    record = ConsumerRecord("orders", 0, 0, 0, "CreateTime", None, b"v", ())
    slot = TracingSlot("tests", "g")
    slot.tracing = Broken(where)
    with slot.process([record] if several else record, "untraced") as value:
        assert value == ("span" if where == "__exit__" else "untraced")
    own = KeyError("the application's")
    with pytest.raises(KeyError) as raised, slot.process([record] if several else record):
        raise own
    assert raised.value is own
    lines = [each for each in caplog.records if "failed for a record" in each.message]
    told = [str(each.exc_info[1]) for each in lines if each.exc_info]
    assert told == [f"no idea in {where}"] * 2


def test_a_handler_runs_although_its_tracing_fails() -> None:
    handled: list[ConsumerRecord] = []

    async def life(world: SimulatedWorld) -> None:
        await sent(world, InMemorySdk())
        async with of(world) as reader:
            reader._tracing.tracing = Broken("__enter__")
            handled.extend(await run(reader))

    live(life)
    assert len(handled) == RECORDS
