"""Spans of real producers: from a web request or a call to the delivery, each ended once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import (
    DEFAULT_OFF,
    DEFAULT_ON,
    ParentBased,
    ParentBasedTraceIdRatio,
)
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags

from aioproducer import (
    DeliveryTimeoutError,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    Producer,
    ProducerClosedError,
    ProducerRecord,
    RecordTooLargeError,
    SerializationError,
    sync,
)
from aioproducer.model import ConsumerRecord
from aioproducer.observability.otel import AioproducerInstrumentor, instrument, uninstrument
from aioproducer.reader import Reader
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.mock_cluster.started import started
from tests.support.otel import InMemorySdk, attributes, context_of
from tests.support.read_back import ReadRecord, read_topic

PRODUCE = 0
TOPIC_AUTHORIZATION_FAILED = 29
NOT_ENOUGH_REPLICAS = 19
PATIENCE = 60.0


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, topics={"orders": 2}) as cluster:
        yield cluster


@pytest.fixture
def sdk() -> InMemorySdk:
    return InMemorySdk()


async def traced(orders: MockCluster, sdk: InMemorySdk, **options: Any) -> Producer:
    """A producer that knows the topic, and is traced from now on."""
    producer = await started(orders, **options)
    instrument(producer, record_key=True, **sdk.providers)
    return producer


def written(cluster: MockCluster) -> list[ReadRecord]:
    """All records but the first ones."""
    return [each for each in read_topic(cluster, "orders") if each.value != b"first"]


def parent_of(record: ReadRecord) -> str:
    """The span id in the record's headers."""
    (value,) = [value for key, value in record.headers or () if key == "traceparent"]
    assert value is not None
    return value.decode().split("-")[2]


def span_id(span: ReadableSpan) -> str:
    return f"{context_of(span).span_id:016x}"


async def test_a_span_for_each_record(orders: MockCluster, sdk: InMemorySdk) -> None:
    producer = await traced(orders, sdk)
    headers: list[Any] = [None, {"a": b"1"}, [("a", b"1")], (("a", b"1"), ("a", None)), {}]
    with sdk.tracer.start_as_current_span("request") as request:
        futures = [
            producer.send("orders", b"%d" % number, key=f"k{number}", headers=each)
            for number, each in enumerate(headers)
        ]
        record = ProducerRecord("orders", None, "gone", headers={"b": b"2"})
        futures.append(producer.send(record))
    delivered = await asyncio.gather(*futures)
    await producer.close()
    spans = sdk.spans("send orders")
    assert len(spans) == len(futures)
    by_offset = {(each.partition, each.offset): each for each in written(orders)}
    for span in spans:
        found = attributes(span)
        place = (int(found["messaging.destination.partition.id"]), found["messaging.kafka.offset"])
        read = by_offset.pop(place)
        assert parent_of(read) == span_id(span)
        assert found["messaging.kafka.message.key"] == (read.key or b"").decode()
        assert found.get("messaging.kafka.message.tombstone", False) is (read.value is None)
        assert span.parent == request.get_span_context()
        assert span.kind is SpanKind.PRODUCER
        leader = orders.broker_address(_leader_of(span))
        assert (found["server.address"], found["server.port"]) == leader
    assert by_offset == {}
    assert [each.serialized_value_size for each in delivered][-1] == -1


def _leader_of(span: ReadableSpan) -> int:
    return {"0": 1, "1": 2}[attributes(span)["messaging.destination.partition.id"]]


async def test_a_span_lasts_until_the_delivery(orders: MockCluster, sdk: InMemorySdk) -> None:
    producer = await traced(orders, sdk)
    orders.set_broker_rtt(ALL_BROKERS, 200)
    future = producer.send("orders", b"v")
    assert sdk.spans() == []
    await future
    (span,) = sdk.spans()
    assert (span.end_time or 0) - (span.start_time or 0) > 150_000_000
    await producer.close()


async def test_a_retry_is_no_error(orders: MockCluster, sdk: InMemorySdk) -> None:
    producer = await traced(orders, sdk)
    orders.push_request_errors(PRODUCE, NOT_ENOUGH_REPLICAS)
    await producer.send("orders", b"v")
    (span,) = sdk.spans()
    assert span.status.status_code is StatusCode.UNSET
    assert "error.type" not in attributes(span)
    await producer.close()


async def test_an_error_of_a_broker(orders: MockCluster, sdk: InMemorySdk) -> None:
    producer = await traced(orders, sdk)
    orders.push_request_errors(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError):
        await producer.send("orders", b"v", partition=1)
    (span,) = sdk.spans()
    found = attributes(span)
    assert span.status.status_code is StatusCode.ERROR
    assert found["error.type"] == "TOPIC_AUTHORIZATION_FAILED"
    assert found["messaging.destination.partition.id"] == "1"
    assert "messaging.kafka.offset" not in found
    assert "server.address" in found
    await producer.close()


async def test_a_record_that_is_not_delivered_in_time(
    orders: MockCluster, sdk: InMemorySdk
) -> None:
    producer = await traced(orders, sdk, delivery_timeout_ms=400, request_timeout_ms=300)
    orders.set_broker_down(ALL_BROKERS)
    with pytest.raises(DeliveryTimeoutError):
        await producer.send("orders", b"v")
    (span,) = sdk.spans()
    assert attributes(span)["error.type"] == "DeliveryTimeoutError"
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description
    await producer.close(0)


async def test_no_span_is_open_after_close(orders: MockCluster, sdk: InMemorySdk) -> None:
    producer = await traced(orders, sdk)
    orders.set_broker_down(ALL_BROKERS)
    futures = [producer.send("orders", b"%d" % n) for n in range(10)]
    futures += [producer.send(f"unknown-{n}", b"v") for n in range(10)]
    many = asyncio.create_task(producer.send_many("orders", [b"v"] * 10))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await producer.close(0)
    outcomes = await asyncio.gather(*futures, many, return_exceptions=True)
    assert all(isinstance(each, Exception) for each in outcomes[:20])
    spans = sdk.spans()
    assert len(spans) == sdk.started == 21
    assert {attributes(span)["error.type"] for span in spans} == {"ProducerClosedError"}
    with pytest.raises(ProducerClosedError):
        producer.send("orders", b"late")


@pytest.mark.parametrize("shell", ["values", "iterator"])
async def test_whole_records_of_a_send_many(
    orders: MockCluster, sdk: InMemorySdk, shell: str
) -> None:
    """They carry the call's context, but for one that has its own."""
    producer = await traced(orders, sdk)
    mine = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    records = [
        ProducerRecord("orders", b"bare"),
        ProducerRecord("orders", b"mapping", headers={"a": b"1"}),
        ProducerRecord("orders", b"pairs", headers=[("a", b"1")]),
        ProducerRecord("orders", b"own", headers={"traceparent": mine}),
    ]
    values: Any = records if shell == "values" else iter(records)
    report = await producer.send_many("orders", values)
    await producer.close()
    assert report.delivered == 4
    (span,) = sdk.spans()
    parents = {record.value: parent_of(record) for record in written(orders)}
    assert parents.pop(b"own") == "b7ad6b7169203331"
    assert set(parents.values()) == {span_id(span)}
    assert len(parents) == 3


@pytest.mark.parametrize("shell", ["values", "iterator", "blocking"])
async def test_the_own_context_of_whole_records(
    orders: MockCluster, sdk: InMemorySdk, shell: str
) -> None:
    """A record keeps it in a send_many() as it does in a send()."""
    given: list[Any] = [
        None,
        {"a": b"1"},
        {"baggage": b"mine=1"},
        {"tracestate": b"mine=1"},
        [["traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"], ["a", "1"]],
        {"traceparent": b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    ]
    records = [ProducerRecord("orders", b"%d" % n, headers=each) for n, each in enumerate(given)]
    producer = await traced(orders, sdk)
    token = context.attach(baggage.set_baggage("tenant", "7"))
    try:
        await asyncio.gather(*(producer.send(record) for record in records))
        if shell == "blocking":
            with sync.Producer(bootstrap_servers=orders.bootstrap_servers) as blocking:
                instrument(blocking, **sdk.providers)
                blocking.send_many("orders", iter(records))
        else:
            await producer.send_many("orders", records if shell == "values" else iter(records))
    finally:
        context.detach(token)
    await producer.close()
    found: dict[bytes | None, list[list[str]]] = {record.value: [] for record in records}
    for each in written(orders):
        found[each.value].append(sorted(key for key, _ in each.headers or ()))
    alone, together = zip(*found.values(), strict=True)
    assert alone == (
        ["baggage", "traceparent"],
        ["a", "baggage", "traceparent"],
        ["baggage", "traceparent"],
        ["tracestate"],
        ["a", "traceparent"],
        ["traceparent"],
    )
    assert together == alone


async def test_refused_calls_leave_no_span_open(orders: MockCluster, sdk: InMemorySdk) -> None:
    wrong: Any
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, transactional_id="tests"
    ) as producer:
        instrument(producer, **sdk.providers)
        with pytest.raises(IllegalStateError):
            await producer.send_many("orders", [b"v"])
        with pytest.raises(IllegalStateError):
            producer.send("orders", b"v")
        async with producer.transaction():
            for wrong in ({"a": object()}, 5):
                with pytest.raises(SerializationError):
                    await producer.send_many("orders", [b"v"], headers=wrong)
                with pytest.raises(SerializationError):
                    producer.send("orders", b"v", headers=wrong)
            for wrong in (None, 5, ["orders"], "no topic"):
                with pytest.raises(InvalidTopicError):
                    producer.send(wrong, b"v")
    assert sdk.spans()
    assert len(sdk.spans()) == sdk.started


async def test_requests(orders: MockCluster, sdk: InMemorySdk) -> None:
    producer = await started(orders)
    instrument(producer, request_spans=True, **sdk.providers)
    orders.push_request_errors(PRODUCE, NOT_ENOUGH_REPLICAS)
    await asyncio.gather(*(producer.send("orders", b"v", partition=0) for _ in range(5)))
    await producer.close()
    sends, requests = sdk.spans("send orders"), sdk.spans()
    carriers = {context_of(span).span_id: span for span in requests if span not in sends}
    assert len(carriers) == 2
    host, port = orders.broker_address(_leader_of(sends[0]))
    for span in carriers.values():
        assert span.name == f"produce {host}:{port}"
        assert attributes(span)["messaging.batch.message_count"] == 5
    (link,) = {link.context.span_id for span in sends for link in span.links}
    assert link in carriers


async def test_an_unsampled_request(orders: MockCluster) -> None:
    """Its records take the fast path, with the caller's context in their headers."""
    sdk = InMemorySdk(DEFAULT_ON)
    producer = await traced(orders, sdk)
    unsampled = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(0))
    with trace.use_span(NonRecordingSpan(unsampled)):
        for n in range(50):
            producer.send("orders", b"%d" % n)
        producer.send("orders", b"with headers", headers={"a": b"1"})
        await producer.send_many("orders", [b"many"])
    await producer.close()
    assert sdk.spans() == []
    for record in written(orders):
        assert dict(record.headers or ())["traceparent"] == (
            f"00-{0xABC:032x}-{0xDEF:016x}-00".encode()
        )


async def test_a_ratio(orders: MockCluster) -> None:
    sdk = InMemorySdk(ParentBasedTraceIdRatio(0.05))
    producer = await traced(orders, sdk)
    count = 4_000
    for n in range(count):
        producer.send("orders", b"%d" % n)
        await producer.drain()
    await producer.close()
    sampled = [record for record in written(orders) if record.headers]
    spans = sdk.spans()
    assert abs(len(spans) - 200) < 4.75 * (count * 0.05 * 0.95) ** 0.5
    assert sorted(map(parent_of, sampled)) == sorted(map(span_id, spans))


# --- instrumentation -----------------------------------------------------------------------


async def test_records_after_the_end_of_the_instrumentation_have_no_context(
    orders: MockCluster, sdk: InMemorySdk
) -> None:
    instrumentor = AioproducerInstrumentor()
    instrumentor.instrument(skip_dep_check=True, **sdk.providers)
    unsampled = NonRecordingSpan(SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(0)))
    try:
        async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
            with trace.use_span(unsampled):
                await producer.send("orders", b"before")
                instrumentor.uninstrument()
                await producer.send("orders", b"after")
    finally:
        instrumentor.uninstrument()
    headers = {record.value: record.headers for record in written(orders)}
    assert headers[b"before"]
    assert not headers[b"after"]


async def test_all_producers(orders: MockCluster, sdk: InMemorySdk) -> None:
    instrumentor = AioproducerInstrumentor()
    instrumentor.instrument(skip_dep_check=True, record_key=True, **sdk.providers)
    try:
        async with Producer(bootstrap_servers=orders.bootstrap_servers, client_id="one") as one:
            await one.send("orders", b"v")
            instrumentor.instrument(skip_dep_check=True, **sdk.providers)
            instrument(one, record_key=False, **sdk.providers)
            await one.send("orders", b"v", key=b"k")
            found = [attributes(span) for span in sdk.spans()]
            assert [each["messaging.client.id"] for each in found] == ["one", "one"]
            assert "messaging.kafka.message.key" not in found[1]
            assert _clients(sdk) == {"one"}
            uninstrument(one)
            await one.send("orders", b"v")
            assert len(sdk.spans()) == 2
            assert _clients(sdk) == set()
        assert len(sdk.spans()) == 2
        async with Producer(bootstrap_servers=orders.bootstrap_servers, client_id="two") as two:
            await two.send("orders", b"v")
            assert len(sdk.spans()) == 3
            instrumentor.uninstrument()
            await two.send("orders", b"v")
            await two.send_many("orders", [b"v"])
            assert len(sdk.spans()) == 3
    finally:
        instrumentor.uninstrument()
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as three:
        await three.send("orders", b"v")
    assert len(sdk.spans()) == 3


def _clients(sdk: InMemorySdk) -> set[str]:
    metric = sdk.metrics().get("aioproducer.record_send")
    points = () if metric is None else metric.data.data_points
    return {point.attributes["messaging.client.id"] for point in points}


async def test_metrics_of_a_run(orders: MockCluster, sdk: InMemorySdk) -> None:
    producer = await traced(orders, sdk, client_id="tests")
    await producer.send_many("orders", [b"%d" % n for n in range(100)], partition=1)
    metrics = sdk.metrics()
    (sent,) = metrics["messaging.client.sent.messages"].data.data_points
    assert sent.value == 100
    assert sent.attributes["messaging.destination.partition.id"] == "1"
    assert sent.attributes["server.port"] == orders.broker_address(2)[1]
    (point,) = metrics["aioproducer.record_send"].data.data_points
    assert (point.value, point.attributes) == (102, {"messaging.client.id": "tests"})
    assert "aioproducer.record_latency_p99" in metrics
    await producer.close()
    assert "aioproducer.record_send" not in sdk.metrics()


# --- the blocking shell --------------------------------------------------------------------


def test_threads_have_contexts_of_their_own(orders: MockCluster, sdk: InMemorySdk) -> None:
    with sync.Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        instrument(producer, **sdk.providers)

        def request(name: str) -> None:
            with sdk.tracer.start_as_current_span(name):
                futures = [producer.send("orders", name.encode(), key=name) for _ in range(20)]
                producer.send_many("orders", [name.encode()] * 5)
                for future in futures:
                    future.result(PATIENCE)

        threads = [threading.Thread(target=request, args=(f"request-{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert _clients(sdk)
    requests = {context_of(span).span_id: span.name for span in sdk.spans() if not span.parent}
    sends = sdk.spans("send orders")
    assert len(sends) == 4 * 21
    names = {span_id(span): requests[span.parent.span_id] for span in sends if span.parent}
    records = written(orders)
    assert len(records) == 100
    assert all(names[parent_of(record)].encode() == record.value for record in records)


def test_failed_records_of_threads(orders: MockCluster, sdk: InMemorySdk) -> None:
    with sync.Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        instrument(producer, **sdk.providers)
        producer.send("orders", b"v").result(PATIENCE)
        with pytest.raises(RecordTooLargeError):
            producer.send("orders", b"x" * 2_000_000).result(PATIENCE)
        orders.push_request_errors(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(KafkaError):
            producer.send("orders", b"v").result(PATIENCE)
    kinds = [attributes(span).get("error.type") for span in sdk.spans()]
    assert kinds == [None, "RecordTooLargeError", "TOPIC_AUTHORIZATION_FAILED"]


async def test_metrics_alone_leave_the_fast_path_as_it_is(
    orders: MockCluster, sdk: InMemorySdk
) -> None:
    producer = await started(orders)
    instrument(producer, traces=False, **sdk.providers)
    assert producer._core.tracing is None
    await producer.send("orders", b"v")
    assert "messaging.client.sent.messages" in sdk.metrics()
    await producer.close()
    assert sdk.spans() == []
    assert written(orders)[0].headers is None


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
