"""One trace: a web request, the record that it sends, and the consumer of the record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from opentelemetry import propagate, trace
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.trace.sampling import DEFAULT_OFF, DEFAULT_ON, ParentBased
from opentelemetry.trace import SpanKind

from aioproducer import Producer
from aioproducer.model import ConsumerRecord
from aioproducer.observability.otel import instrument
from aioproducer.reader import Reader
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.otel import InMemorySdk, attributes, context_of


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, topics={"orders": 2}) as cluster:
        yield cluster


def application(cluster: MockCluster, sdk: InMemorySdk) -> FastAPI:
    """A web application that sends one record for each request."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> Any:
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            instrument(producer, record_key=True, **sdk.providers)
            app.state.producer = producer
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders/{customer}", status_code=201)
    async def order(customer: str, request: Request) -> dict[str, int]:
        metadata = await request.app.state.producer.send(
            "orders", await request.body(), key=customer
        )
        return {"partition": metadata.partition, "offset": metadata.offset}

    FastAPIInstrumentor.instrument_app(
        app, tracer_provider=sdk.tracers, exclude_spans=["receive", "send"]
    )
    return app


def consume(sdk: InMemorySdk, record: ConsumerRecord) -> None:
    """Process a record in the context of its headers, as an instrumented consumer does."""
    carrier = {key: (value or b"").decode() for key, value in record.headers}
    with sdk.tracer.start_as_current_span(
        f"process {record.topic}", context=propagate.extract(carrier), kind=SpanKind.CONSUMER
    ) as span:
        span.set_attribute("messaging.kafka.offset", record.offset)
        span.set_attribute("messaging.destination.partition.id", str(record.partition))


async def requested(cluster: MockCluster, sdk: InMemorySdk, count: int) -> list[ConsumerRecord]:
    """The records of concurrent requests, read back."""
    app = application(cluster, sdk)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as client,
    ):
        posts = (client.post(f"/orders/c{n}", content=b"%d" % n) for n in range(count))
        assert {each.status_code for each in await asyncio.gather(*posts)} == {201}
    async with Reader("orders", bootstrap_servers=cluster.bootstrap_servers, end="end") as reader:
        return [each async for each in reader]


async def test_one_trace(orders: MockCluster) -> None:
    sdk = InMemorySdk()
    records = await requested(orders, sdk, 20)
    assert len(records) == 20
    for record in records:
        consume(sdk, record)
    servers, sends, consumers = (
        {context_of(span).trace_id: span for span in sdk.spans() if span.kind is kind}
        for kind in (SpanKind.SERVER, SpanKind.PRODUCER, SpanKind.CONSUMER)
    )
    assert len(sdk.spans()) == 60
    assert len(servers) == 20
    assert servers.keys() == sends.keys() == consumers.keys()
    for trace_id, server in servers.items():
        send, consumer = sends[trace_id], consumers[trace_id]
        assert (send.name, consumer.name) == ("send orders", "process orders")
        assert server.parent is None
        assert send.parent is not None
        assert send.parent.span_id == context_of(server).span_id
        assert consumer.parent is not None
        assert consumer.parent.span_id == context_of(send).span_id
        times = [server.start_time, send.start_time, send.end_time, consumer.start_time]
        assert times == sorted(times, key=lambda each: each or 0)
        assert (send.end_time or 0) <= (server.end_time or 0)
        found = attributes(send)
        assert found.items() >= attributes(consumer).items()
        customer = attributes(server)["http.url"].rpartition("/")[2]
        assert found["messaging.kafka.message.key"] == customer


@pytest.mark.parametrize("root", [DEFAULT_OFF, ParentBased(DEFAULT_OFF)])
async def test_consumers_of_unsampled_requests_know_it(orders: MockCluster, root: Any) -> None:
    sdk = InMemorySdk(root)
    records = await requested(orders, sdk, 5)
    always_on = InMemorySdk(DEFAULT_ON)
    for record in records:
        assert dict(record.headers)["traceparent"] is not None
        consume(always_on, record)
    assert sdk.spans() == always_on.spans() == []
    assert not trace.get_current_span().is_recording()
