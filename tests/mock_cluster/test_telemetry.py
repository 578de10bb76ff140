"""Metrics that brokers ask for, on the wire: librdkafka's brokers check their encoding."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from typing import Any, Literal
from uuid import UUID

import pytest

from aioproducer import IllegalStateError, Producer, ProducerClosedError, ProducerTimeoutError, sync
from aioproducer.engine.telemetry import payload_maker
from aioproducer.errors import InvalidRequestError, UnsupportedVersionError
from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.mock_cluster import MockCluster, MockClusterArgumentError
from aioproducer.testing.mock_cluster.cluster import DISCONNECT
from tests.support.waiting import until

ASK, PUSH, PRODUCE = 71, 72, 0
ASSIGNED = UUID(int=298 << 64 | 129)
"""The mock cluster's id for every client."""
SOON = 100
"""Milliseconds from push to push."""
PATIENCE = 30.0


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """A broker that asks for all metrics."""
    with MockCluster(brokers=1, topics={"orders": 1}) as cluster:
        cluster.set_requested_metrics([""])
        cluster.set_push_interval(SOON)
        cluster.start_request_tracking()
        yield cluster


def requests(cluster: MockCluster) -> list[int]:
    """The requests of telemetry, in their order."""
    return [each.api_key for each in cluster.requests() if each.api_key in (ASK, PUSH)]


async def subscribed(producer: Producer) -> None:
    await producer.send("orders", b"value")
    assert await producer.client_instance_id(PATIENCE) == ASSIGNED


async def pushes(cluster: MockCluster, count: int) -> None:
    await until(lambda: requests(cluster).count(PUSH) >= count, f"{count} pushes")


async def test_pushes_follow_the_subscription(cluster: MockCluster) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await subscribed(producer)
        await pushes(cluster, 3)
    assert requests(cluster)[0] == ASK
    assert requests(cluster).count(ASK) == 1
    assert requests(cluster)[-1] == PUSH


async def test_the_last_push_comes_behind_the_last_record(cluster: MockCluster) -> None:
    cluster.set_push_interval(60_000)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await subscribed(producer)
        cluster.clear_requests()
        sent = producer.send("orders", b"the last one")
    assert sent.result().offset == 1
    assert [each.api_key for each in cluster.requests()] == [PRODUCE, PUSH]


async def test_nothing_is_asked_while_it_is_off(cluster: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers, enable_metrics_push=False
    ) as producer:
        await producer.send("orders", b"value")
        with pytest.raises(IllegalStateError, match="enable_metrics_push is False"):
            await producer.client_instance_id()
    assert requests(cluster) == []


async def test_no_connection_is_opened_for_telemetry_and_a_short_life_asks_nothing(
    cluster: MockCluster,
) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await asyncio.sleep(0.05)
        assert cluster.requests() == []
        await producer.send("orders", b"value")
    assert requests(cluster) == []


async def test_a_caller_that_wants_the_id_opens_a_connection(cluster: MockCluster) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        first, second = await asyncio.gather(
            producer.client_instance_id(PATIENCE), producer.client_instance_id(PATIENCE)
        )
        assert first == second == ASSIGNED
    assert requests(cluster).count(ASK) == 1


async def test_the_first_request_comes_by_itself(cluster: MockCluster) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send("orders", b"value")
        await pushes(cluster, 1)
        assert await producer.client_instance_id(0) == ASSIGNED


async def test_the_id_is_not_there_in_time(cluster: MockCluster) -> None:
    cluster.push_broker_request_errors(1, ASK, (0, 60_000))
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for timeout in (0, 0.05):
            with pytest.raises(ProducerTimeoutError, match="client instance id within"):
                await producer.client_instance_id(timeout)


async def test_close_ends_the_wait_for_the_id(cluster: MockCluster) -> None:
    cluster.push_broker_request_errors(1, ASK, (0, 60_000))
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
    await producer.start()
    waiting = asyncio.create_task(producer.client_instance_id())
    await until(lambda: ASK in requests(cluster), "the request")
    began = time.monotonic()
    await producer.close()
    with pytest.raises(ProducerClosedError):
        await waiting
    assert time.monotonic() - began < 10
    with pytest.raises(ProducerClosedError):
        await producer.client_instance_id()


async def test_brokers_that_do_not_support_it(cluster: MockCluster) -> None:
    cluster.set_api_version(ASK, -1, -1)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        with pytest.raises(
            UnsupportedVersionError, match="the brokers do not accept client metrics"
        ):
            await producer.client_instance_id(PATIENCE)
        await producer.send("orders", b"value")
        with pytest.raises(
            UnsupportedVersionError, match="the brokers do not accept client metrics"
        ):
            await producer.client_instance_id(PATIENCE)
    assert requests(cluster) == []


async def test_a_broker_that_refuses(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.push_request_errors(ASK, int(ErrorCode.INVALID_REQUEST))
    caplog.set_level(logging.INFO, "aioproducer.telemetry")
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(2):
            with pytest.raises(InvalidRequestError, match="INVALID_REQUEST"):
                await producer.client_instance_id(PATIENCE)
        await producer.send("orders", b"value")
    assert requests(cluster) == [ASK]
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "no longer pushed to the brokers: no telemetry subscription" in record.getMessage()


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([ErrorCode.UNKNOWN_SUBSCRIPTION_ID], [ASK, PUSH, ASK, PUSH]),
        ([ErrorCode.UNSUPPORTED_COMPRESSION_TYPE], [ASK, PUSH, ASK, PUSH]),
        ([ErrorCode.THROTTLING_QUOTA_EXCEEDED], [ASK, PUSH, PUSH]),
        ([ErrorCode.TELEMETRY_TOO_LARGE], [ASK, PUSH, PUSH]),
        ([ErrorCode.COORDINATOR_NOT_AVAILABLE], [ASK, PUSH, ASK, PUSH]),
        ([DISCONNECT], [ASK, PUSH, PUSH]),
    ],
)
async def test_refused_pushes_are_followed_by_others(
    errors: list[int], expected: list[int], cluster: MockCluster
) -> None:
    cluster.push_request_errors(PUSH, *map(int, errors))
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await subscribed(producer)

        async def enough() -> bool:
            await producer.send("orders", b"value")  # it opens connections, telemetry does not
            return len(requests(cluster)) > len(expected)

        await until(enough, "the requests")
    assert requests(cluster)[: len(expected)] == expected


async def test_an_error_that_no_repetition_mends_is_the_end(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.push_request_errors(PUSH, int(ErrorCode.INVALID_RECORD))
    caplog.set_level(logging.INFO, "aioproducer.telemetry")
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await subscribed(producer)
        await until(lambda: len(caplog.records) == 2, "the end")
        await asyncio.sleep(3 * SOON / 1000)
        assert await producer.client_instance_id() == ASSIGNED
    assert requests(cluster) == [ASK, PUSH]
    assert "INVALID_RECORD" in caplog.records[1].getMessage()


async def test_a_payload_that_can_not_be_made_ends_telemetry_alone(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(payload_maker, "first_available", broken)
    caplog.set_level(logging.INFO, "aioproducer.telemetry")
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await subscribed(producer)
        await until(lambda: len(caplog.records) == 2, "the end")
        assert (await producer.send("orders", b"value")).offset == 1
    assert requests(cluster) == [ASK]
    assert "boom" in caplog.records[1].getMessage()


async def test_a_subscription_without_metrics_is_asked_for_again(cluster: MockCluster) -> None:
    cluster.set_requested_metrics([])
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await subscribed(producer)
        await until(lambda: requests(cluster).count(ASK) >= 3, "requests for the subscription")
        assert PUSH not in requests(cluster)
        cluster.set_requested_metrics(["org.apache.kafka.producer.node."])
        await pushes(cluster, 2)


async def test_another_broker_takes_over(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    mock_cluster.set_requested_metrics([""])
    mock_cluster.set_push_interval(SOON)
    mock_cluster.start_request_tracking()
    async with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        for partition in range(3):
            await producer.send("orders", b"value", partition=partition)
        await subscribed(producer)
        await pushes(mock_cluster, 2)
        (first,) = {each.broker_id for each in mock_cluster.requests() if each.api_key == PUSH}
        mock_cluster.set_broker_down(first)
        mock_cluster.clear_requests()

        def others() -> set[int]:
            return {each.broker_id for each in mock_cluster.requests() if each.api_key == PUSH}

        await until(lambda: others() - {first}, "a push to another broker")
        mock_cluster.set_broker_up(first)


def test_an_interval_that_no_broker_has(cluster: MockCluster) -> None:
    with pytest.raises(MockClusterArgumentError, match="milliseconds must be 1 to"):
        cluster.set_push_interval(0)


# --- close() ----------------------------------------------------------------------------------


async def test_a_silent_broker_holds_up_close_for_a_second_at_most(cluster: MockCluster) -> None:
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
    await producer.start()
    cluster.set_push_interval(60_000)
    await subscribed(producer)
    cluster.push_broker_request_errors(1, PUSH, (0, 60_000))
    began = time.monotonic()
    assert await producer.close() == 0
    assert 0.9 < time.monotonic() - began < 10
    assert requests(cluster) == [ASK, PUSH]


async def test_close_at_once_pushes_nothing(cluster: MockCluster) -> None:
    cluster.set_push_interval(60_000)
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
    await producer.start()
    await subscribed(producer)
    await producer.close(0)
    assert requests(cluster) == [ASK]


async def test_a_cancelled_close_ends_without_the_last_push(cluster: MockCluster) -> None:
    cluster.set_push_interval(60_000)
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
    await producer.start()
    await subscribed(producer)
    cluster.push_broker_request_errors(1, PUSH, (0, 60_000))
    closing = asyncio.create_task(producer.close())
    await until(lambda: PUSH in requests(cluster), "the last push")
    began = time.monotonic()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert time.monotonic() - began < 0.9


async def test_close_without_connection_waits_for_nothing(cluster: MockCluster) -> None:
    cluster.set_push_interval(60_000)
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
    await producer.start()
    await subscribed(producer)
    cluster.set_broker_down(1)
    await until(lambda: not producer.metrics()["producer-metrics"]["connection-count"], "the end")
    began = time.monotonic()
    await producer.close()
    assert time.monotonic() - began < 0.9


async def test_the_last_push_waits_for_the_one_in_flight(cluster: MockCluster) -> None:
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
    await producer.start()
    cluster.push_broker_request_errors(1, PUSH, (0, 200))
    await subscribed(producer)
    await pushes(cluster, 1)
    await producer.close()
    assert requests(cluster) == [ASK, PUSH, PUSH]


# --- other shells and processes ---------------------------------------------------------------


def test_the_blocking_shell(cluster: MockCluster) -> None:
    with sync.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        assert producer.client_instance_id(PATIENCE) == ASSIGNED
        producer.send("orders", b"value").result(PATIENCE)
    assert requests(cluster)[-1] == PUSH
    with pytest.raises(ProducerClosedError):
        producer.client_instance_id()


async def test_a_forked_child_pushes_nothing(cluster: MockCluster) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await subscribed(producer)
        cluster.set_push_interval(60_000)
        child = os.fork()
        if not child:
            os._exit(0)
        await asyncio.to_thread(os.waitpid, child, 0)
        await pushes(cluster, 2)


async def test_a_transactional_producer(cluster: MockCluster) -> None:
    cluster.set_push_interval(60_000)
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="t"
    ) as producer:
        async with producer.transaction():
            await producer.send("orders", b"value")
        assert await producer.client_instance_id(PATIENCE) == ASSIGNED
    assert requests(cluster) == [ASK, PUSH]


@pytest.mark.parametrize("acks", ["1", "all"])
async def test_one_request_at_a_time_to_a_broker(
    acks: Literal["1", "all"], cluster: MockCluster
) -> None:
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        acks=acks,
        max_in_flight_requests_per_connection=1,
    ) as producer:
        await subscribed(producer)
        sent = 0
        while requests(cluster).count(PUSH) < 3:
            await asyncio.gather(*(producer.send("orders", b"value") for _ in range(50)))
            sent += 50
        assert producer.metrics()["producer-metrics"]["record-send-total"] == sent + 1


async def test_info_is_logged_once(cluster: MockCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.push_request_errors(PUSH, *[int(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)] * 3)
    caplog.set_level(logging.INFO, "aioproducer.telemetry")
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await subscribed(producer)
        await pushes(cluster, 6)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert str(ASSIGNED) in record.getMessage()
    told: Any = record
    assert (told.client_id, told.client_instance_id) == (producer.client_id, str(ASSIGNED))


async def test_a_changing_interval_is_no_news(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aioproducer.telemetry")
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await subscribed(producer)
        await pushes(cluster, 1)
        cluster.set_push_interval(SOON + 50)
        cluster.push_request_errors(PUSH, int(ErrorCode.UNKNOWN_SUBSCRIPTION_ID))
        await until(lambda: requests(cluster).count(ASK) == 2, "another subscription")
        await pushes(cluster, 3)
    assert len(caplog.records) == 1
