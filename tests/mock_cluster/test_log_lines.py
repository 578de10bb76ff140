"""The log lines of whole lives: few, with fields for formatters, and counted where they repeat."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from aioproducer import Producer, sync
from aioproducer.errors import TopicAuthorizationFailedError
from aioproducer.testing.mock_cluster import MockCluster
from aioproducer.testing.mock_cluster.cluster import DISCONNECT
from tests.mock_cluster.started import PATIENCE
from tests.support.waiting import until

TOPIC_AUTHORIZATION_FAILED, PRODUCE = 29, 0


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=3, topics={"orders": 3}) as cluster:
        yield cluster


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [
        f"{each.levelname} {each.getMessage()}"
        for each in caplog.records
        if each.levelno >= level and each.name.startswith("aioproducer")
    ]


async def test_a_life_is_told_in_few_lines(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aioproducer")
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, client_id="shop")
    async with producer:
        for _ in range(20):
            await producer.send_many("orders", [b"1"] * 500)
    told = lines(caplog)
    assert [each.split(":")[0].split(" 0.")[0] for each in told] == [
        "INFO [shop] Started",
        told[1],
        told[2],
        "INFO [shop] Closed",
    ]
    assert "bootstrap servers 127.0.0.1:" in told[0]
    assert told[1].startswith("INFO [shop] Connected to cluster mockCluster")
    assert told[1].endswith("with the brokers 1, 2, 3")
    assert told[2].startswith("INFO [shop] Producer id ")
    assert told[3] == "INFO [shop] Closed: 10000 records delivered, 0 failed"


def test_the_blocking_producer_tells_the_same(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aioproducer")
    with sync.Producer(bootstrap_servers=cluster.bootstrap_servers, client_id="wsgi") as producer:
        producer.send("orders", b"1").result(PATIENCE)
    told = lines(caplog)
    assert len(told) == 4
    assert all("[wsgi] " in each for each in told)


async def test_ten_thousand_refused_batches_make_few_lines(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Each batch is refused for lack of authorization; the count of records is told."""
    caplog.set_level(logging.INFO, "aioproducer")
    batches = 10_000
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, batch_size=1)
    async with producer:
        await producer.send("orders", b"first", partition=0)
        cluster.push_request_errors(PRODUCE, *[TOPIC_AUTHORIZATION_FAILED] * batches)
        report = await producer.send_many("orders", [b"1"] * batches, partition=0)
        assert isinstance(report.first_failure, TopicAuthorizationFailedError)
    told = lines(caplog)
    assert len(told) <= 12
    errors: list[Any] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert errors
    sums = sum(each.records + getattr(each, "repeated_records", 0) for each in errors)
    assert sums == report.failed
    assert {(each.topic, each.partition, each.error) for each in errors} == {
        ("orders", 0, "TopicAuthorizationFailedError")
    }


async def test_no_failure_of_the_past_is_told_after_the_recovery(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Of three bootstrap servers one is asked again; the repeats of all are over then."""
    caplog.set_level(logging.INFO, "aioproducer")
    for broker in cluster.broker_ids:
        cluster.set_broker_down(broker)
    options: dict[str, Any] = {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 5}
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, **options)
    async with producer:
        sent = producer.send("orders", b"1")
        await until(lambda: any("more times" in each for each in lines(caplog)), "repeats")
        for broker in cluster.broker_ids:
            cluster.set_broker_up(broker)
        await sent
        recovered = len(lines(caplog))
    assert not [each for each in lines(caplog)[recovered:] if each.startswith("WARNING")]


async def test_a_lost_connection_of_many_topics_makes_few_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topics = {f"topic-{number}": 1 for number in range(200)}
    caplog.set_level(logging.INFO, "aioproducer")
    with MockCluster(brokers=1, topics=topics) as cluster:
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await asyncio.gather(*(producer.send(topic, b"1") for topic in topics))
            cluster.push_request_errors(PRODUCE, *[DISCONNECT] * 3)
            await asyncio.gather(*(producer.send(topic, b"1") for topic in topics))
    assert len(lines(caplog)) <= 20, lines(caplog)
    retries: list[Any] = [each for each in caplog.records if "Retrying" in each.getMessage()]
    assert sum(each.records + getattr(each, "repeated_records", 0) for each in retries) >= 200


async def test_a_partition_that_is_not_there_fails_a_pending_record_with_a_line(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The application's partitioner is asked once the topic is known; nobody awaits the future."""
    producer = Producer(
        bootstrap_servers=cluster.bootstrap_servers, partitioner=lambda *_: 99, client_id="shop"
    )
    async with producer:
        producer.send("orders", b"1", key=b"customer-7")
        await producer.flush()
        metrics = producer.metrics()["producer-metrics"]
        assert metrics["record-error-total"] == 1
    (told,) = lines(caplog, logging.ERROR)
    assert told.startswith("ERROR [shop] 1 pending record for orders failed: the partitioner")


async def test_brokers_that_are_down_under_load_make_few_lines(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aioproducer")
    producer = Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        reconnect_backoff_ms=1,
        reconnect_backoff_max_ms=5,
    )
    async with producer:
        await producer.send_many("orders", [b"1"] * 300)
        for broker in cluster.broker_ids:
            cluster.set_broker_down(broker)
        futures = []
        for number in range(150):
            futures.append(producer.send("orders", b"1", partition=number % 3))
            await asyncio.sleep(0.02)
        for broker in cluster.broker_ids:
            cluster.set_broker_up(broker)
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
    told = lines(caplog)
    assert len(told) <= 45, told
    attempts = sum(
        1 + getattr(each, "repeats", 0) for each in caplog.records if "failed" in each.getMessage()
    )
    assert attempts > 100, "hundreds of attempts were made, and counted"
    assert any("again, after" in each for each in told)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_debug_tells_requests_and_costs_no_error(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "aioproducer")
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send("orders", b"1", partition=0)
    text = "\n".join(lines(caplog, logging.DEBUG))
    for part in ("MetadataRequest to bootstrap server", "ProduceRequest to broker", "answered by"):
        assert part in text


class JsonLines(logging.Formatter):
    """A formatter as applications have it: all attributes that are no standard ones."""

    STANDARD = frozenset(vars(logging.makeLogRecord({})))

    def format(self, record: logging.LogRecord) -> str:
        more = {name: value for name, value in vars(record).items() if name not in self.STANDARD}
        return json.dumps({"message": record.getMessage(), **more})


async def test_formatters_get_the_fields(cluster: MockCluster) -> None:
    """The standard library's, and structlog's with its ExtraAdder."""
    logger = logging.getLogger("aioproducer")
    plain, structured = io.StringIO(), io.StringIO()
    handlers = [logging.StreamHandler(plain), logging.StreamHandler(structured)]
    handlers[0].setFormatter(JsonLines())
    handlers[1].setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    level = logger.level
    logger.setLevel(logging.INFO)
    for each in handlers:
        logger.addHandler(each)
    try:
        producer = Producer(bootstrap_servers=cluster.bootstrap_servers, client_id="shop")
        async with producer:
            await producer.send("orders", b"1", partition=0)
            cluster.push_request_errors(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send("orders", b"1", partition=0)
    finally:
        logger.setLevel(level)
        for each in handlers:
            logger.removeHandler(each)
    for stream in (plain, structured):
        told = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert {each["client_id"] for each in told} == {"shop"}
        (failed,) = (each for each in told if each.get("error"))
        assert failed["error"] == "TopicAuthorizationFailedError"
        assert failed["reason"].startswith("orders-0 on broker")
        assert (failed["topic"], failed["partition"], failed["records"]) == ("orders", 0, 1)
        assert any(each.get("cluster_id") for each in told)
        assert any(each.get("version") for each in told)
