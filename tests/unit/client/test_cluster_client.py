"""Requests that callers await: their responses, their errors, their bounds and time limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.engine.client.arguments import TimeLeft, countdown, limit_of
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.requests import ClusterDescription, DescribeRequest
from aioproducer.engine.cluster.snapshot import why_no_answer
from aioproducer.errors import (
    BootstrapError,
    BrokerConnectionError,
    ClientBrokenError,
    ClientClosedError,
    IllegalStateError,
    LeaderNotAvailableError,
    ProducerTimeoutError,
    ProtocolError,
    RebootstrapRequiredError,
    RequestTimeoutError,
    TopicAuthorizationFailedError,
    WrongLoopError,
)
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import BootstrapId, BootstrapServer, Node, NodeId, Peer
from tests.support.clock import Clock
from tests.support.fake_kafka import FakeKafka
from tests.support.waiting import until

METADATA = 3


@asynccontextmanager
async def started(kafka: FakeKafka, **options: object) -> AsyncIterator[ClusterClient]:
    config = ProducerConfig(
        bootstrap_servers=kafka.bootstrap_servers,
        retry_backoff_ms=1,
        retry_backoff_max_ms=2,
        **options,  # type: ignore[arg-type]
    )
    client = ClusterClient(config, "test", "Admin")
    await client.start()
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def fake(brokers: int = 2) -> AsyncIterator[FakeKafka]:
    kafka = FakeKafka(brokers, topics={"orders": 3})
    await kafka.start()
    try:
        yield kafka
    finally:
        await kafka.stop()


async def test_a_description_names_brokers_topics_and_leaders() -> None:
    async with fake() as kafka, started(kafka) as client:
        assert client.node(1) is None
        found = await client.describe(["orders"])
        assert set(found.brokers) == {1, 2}
        assert [each.leader for each in found.topics["orders"].partitions] == [1, 2, 1]
        assert client.node(2) == found.brokers[2]


async def test_a_request_goes_to_the_named_broker() -> None:
    async with fake() as kafka, started(kafka) as client:
        found = await client.describe()
        for number in (1, 2, 2):
            await client.request(DescribeRequest(()), found.brokers[number])
        assert [each.broker for each in kafka.requests(METADATA)][1:] == [1, 2, 2]


async def test_requests_of_many_tasks_get_their_own_responses() -> None:
    async with fake() as kafka, started(kafka) as client:
        kafka.create_topic("bills", 1)
        names = ["orders", "bills"] * 20
        found = await asyncio.gather(*(client.describe([name]) for name in names))
        assert [[*each.topics] for each in found] == [[name] for name in names]


async def test_a_silent_broker_is_a_timeout_that_names_it() -> None:
    async with fake() as kafka, started(kafka) as client:
        found = await client.describe()
        kafka.mute.add(METADATA)
        with pytest.raises(RequestTimeoutError, match=r"broker 1 .* within 0\.05 s"):
            await client.request(DescribeRequest(()), found.brokers[1], timeout=0.05)
        with pytest.raises(BootstrapError, match=r"no broker responded within 0\.05 s"):
            await client.describe(timeout=0.05)


async def test_an_error_names_the_limit_and_not_the_time_that_was_left() -> None:
    async with fake() as kafka, started(kafka) as client:
        found = await client.describe()
        kafka.mute.add(METADATA)
        left = TimeLeft(0.05, 60)
        with pytest.raises(RequestTimeoutError, match="within 60 s"):
            await client.request(DescribeRequest(()), found.brokers[1], timeout=left)
        with pytest.raises(BootstrapError, match="within 60 s"):
            await client.describe(timeout=left)
        with pytest.raises(ProducerTimeoutError, match="describing took longer than 60 s"):
            await client.retry(client.describe, timeout=left, doing="describing")


async def test_a_client_knows_that_a_broker_has_answered() -> None:
    async with fake() as kafka, started(kafka) as client:
        kafka.mute.add(METADATA)
        with pytest.raises(BootstrapError):
            await client.describe(timeout=0.05)
        assert not client.answered
        kafka.mute.clear()
        await client.describe()
        assert client.answered


async def test_a_cancelled_caller_leaves_the_connection_to_others() -> None:
    async with fake(1) as kafka, started(kafka) as client:
        await client.describe()
        kafka.mute.add(METADATA)
        task = asyncio.ensure_future(client.describe())
        await kafka.until_received(METADATA, 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        kafka.mute.clear()


async def test_close_fails_waiting_callers_and_returns() -> None:
    async with fake(1) as kafka, started(kafka) as client:
        await client.describe()
        kafka.mute.add(METADATA)
        task = asyncio.ensure_future(client.describe())
        await kafka.until_received(METADATA, 2)
        await client.close()
        with pytest.raises(ClientClosedError, match="the Admin is closed"):
            await task
        with pytest.raises(ClientClosedError):
            await client.describe()
        await client.close()


async def test_a_client_is_started_once_and_used_after_it() -> None:
    async with fake(1) as kafka:
        config = ProducerConfig(bootstrap_servers=kafka.bootstrap_servers)
        client = ClusterClient(config, "test", "Reader")
        with pytest.raises(IllegalStateError, match="async with Reader"):
            await client.describe()
        await client.start()
        with pytest.raises(IllegalStateError, match="the Reader is started"):
            await client.start()
        await client.close()


async def test_a_client_belongs_to_its_loop() -> None:
    async with fake(1) as kafka, started(kafka) as client:
        with pytest.raises(WrongLoopError, match="the event loop on which it was started"):
            await asyncio.to_thread(asyncio.run, client.describe())


async def test_a_part_that_dies_fails_every_caller() -> None:
    async with fake(1) as kafka, started(kafka) as client:
        await client.describe()
        kafka.mute.add(METADATA)
        task = asyncio.ensure_future(client.describe())
        await kafka.until_received(METADATA, 2)
        client._wakeup.fail(RuntimeError("boom"))
        with pytest.raises(ClientBrokenError, match="RuntimeError: boom"):
            await task
        with pytest.raises(ClientBrokenError):
            await client.describe()


async def test_errors_that_may_pass_are_retried() -> None:
    async with fake(1) as kafka, started(kafka) as client:
        left = [LeaderNotAvailableError("not yet"), RequestTimeoutError("silent")]

        async def attempt() -> str:
            if left:
                raise left.pop()
            return "done"

        assert await client.retry(attempt, timeout=30, doing="the test") == "done"


@pytest.mark.parametrize(
    "error", [TopicAuthorizationFailedError("no"), ProtocolError("no broker"), KeyError("a bug")]
)
async def test_other_errors_are_raised_at_once(error: Exception) -> None:
    async with fake(1) as kafka, started(kafka) as client:
        calls = 0

        async def attempt() -> None:
            nonlocal calls
            calls += 1
            raise error

        with pytest.raises(type(error)):
            await client.retry(attempt, timeout=30, doing="the test")
        assert calls == 1


async def test_retries_end_with_the_last_error_as_the_cause() -> None:
    async with fake(1) as kafka, started(kafka) as client:

        async def attempt() -> None:
            raise LeaderNotAvailableError("orders-0 has no leader")

        with pytest.raises(ProducerTimeoutError, match=r"the test took .* orders-0 has no") as told:
            await client.retry(attempt, timeout=0.05, doing="the test")
        assert isinstance(told.value.__cause__, LeaderNotAvailableError)


# --- another cluster ----------------------------------------------------------------------------


async def test_a_client_may_keep_to_the_first_cluster_that_answered() -> None:
    async with fake() as kafka, started(kafka, metadata_recovery_strategy="same_cluster") as client:
        await client.describe()
        assert client._client.cluster_id == "fake"
        kafka.cluster_id = "another"
        with pytest.raises(RebootstrapRequiredError, match=r"'another' answers now.*'fake'"):
            await client.describe()
        assert client.node(1) is None, "it begins again"
        await until(lambda: not client._client.connection_count(), "every connection ends")
        kafka.cluster_id = "fake"
        assert set((await client.describe()).brokers) == {1, 2}


@pytest.mark.parametrize(
    ("options", "checks"),
    [
        ({}, True),
        ({"metadata_cluster_check_enable": False}, False),
        ({"metadata_recovery_strategy": "none"}, False),
    ],
    ids=str,
)
async def test_a_client_follows_the_cluster_that_its_servers_name(
    options: dict[str, object], checks: bool, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    async with fake() as kafka, started(kafka, **options) as client:

        def hear(cluster: str) -> bool:
            heard.append(cluster)
            return True

        client.on_another_cluster = hear
        await client.describe()
        assert client._client.cluster_id == ("fake" if checks else None)
        kafka.cluster_id = "another"
        found = await asyncio.gather(client.describe(), client.describe())
        assert [set(each.brokers) for each in found] == [{1, 2}] * 2
        assert client._client.cluster_id == ("another" if checks else None)
        assert heard == ["another"]
        [line] = [each for each in caplog.messages if "'another'" in each]
        assert "'fake'" in line


async def test_a_known_broker_does_not_name_the_cluster(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address may be another broker's by now: the bootstrap servers know better."""
    async with fake() as kafka, started(kafka) as client:
        await client.describe()
        kafka.cluster_id = "another"

        async def back(*given: Any) -> Any:
            found = await request(*given)
            kafka.cluster_id = "fake"
            return found

        request = client.request
        monkeypatch.setattr(client, "request", back)
        assert (await client.describe()).cluster_id == "fake"
        assert not [each for each in caplog.messages if "'another'" in each]


async def test_a_client_follows_another_one_to_its_cluster() -> None:
    async with fake() as kafka, started(kafka) as client:
        await client.describe()
        client.follow("fake")
        assert client.node(1) is not None
        client.follow("another")
        assert client.node(1) is None


async def test_the_reason_that_a_client_never_goes_on() -> None:
    async with fake() as kafka:
        config = ProducerConfig(bootstrap_servers=kafka.bootstrap_servers)
        client = ClusterClient(config, "c", "Admin")
        assert client.final_error is None
        await client.start()
        assert client.final_error is None
        await client.close()
        assert "closed" in str(client.final_error)


async def test_an_error_that_asks_for_another_start_may_pass() -> None:
    assert ClusterClient.may_pass(RebootstrapRequiredError("another broker"))


async def test_a_wrong_broker_makes_a_client_begin_again() -> None:
    async with fake() as kafka, started(kafka) as client:
        await client.describe()
        client._client.misrouted(client.clock())
        assert client.node(1) is None


async def test_metadata_that_asks_for_another_start_is_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with fake() as kafka, started(kafka) as client:
        await client.describe()

        async def asks(*_: object) -> ClusterDescription:
            return ClusterDescription(ErrorCode.REBOOTSTRAP_REQUIRED, None, None, {}, {})

        monkeypatch.setattr(client, "request", asks)
        with pytest.raises(RebootstrapRequiredError):
            await client.describe()
        assert client.node(1) is None


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has this clock")
async def test_the_real_clock_counts_the_time_in_which_the_machine_is_suspended() -> None:
    async with fake() as kafka, started(kafka) as client:
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        assert before <= client.real_clock() <= time.clock_gettime(time.CLOCK_BOOTTIME)


SERVERS = [BootstrapServer(BootstrapId(f"-{number}"), "kafka", number) for number in (1, 2, 3)]
ONE, TWO = Node(1, "one", 9092), Node(2, "two", 9092)


def failures(peers: list[Peer], reason: str) -> dict[NodeId, BrokerConnectionError]:
    return {each.id: BrokerConnectionError(f"{each}: {reason}") for each in peers}


def test_equal_reasons_are_told_once() -> None:
    assert why_no_answer(SERVERS, failures([*SERVERS], "refused")) == (
        "bootstrap servers kafka:1, kafka:2 and kafka:3: refused"
    )
    assert why_no_answer([ONE, TWO], {}) == (
        "brokers 1 (one:9092) and 2 (two:9092): no response yet"
    )


def test_different_reasons_have_their_brokers() -> None:
    assert why_no_answer([ONE, TWO], failures([ONE], "refused")) == (
        "broker 1 (one:9092): refused; broker 2 (two:9092): no response yet"
    )
    other: dict[NodeId, BrokerConnectionError] = {
        1: BrokerConnectionError("the connection to broker 1 (one:9092) was lost")
    }
    assert why_no_answer([ONE], other) == "the connection to broker 1 (one:9092) was lost"


def test_a_reason_without_a_colon_keeps_its_broker() -> None:
    closed: dict[NodeId, BrokerConnectionError] = {
        1: BrokerConnectionError(f"{ONE} closed the connection")
    }
    assert why_no_answer([ONE], closed) == "broker 1 (one:9092) closed the connection"


def test_the_time_that_is_left_knows_its_limit() -> None:
    clock = Clock()
    left = countdown(10, clock)
    clock.now += 4
    assert (left(), limit_of(left())) == (6.0, 10.0)
    clock.now += 10
    assert (left(), limit_of(left())) == (0.0, 10.0)


def test_a_part_of_a_part_is_of_the_first_limit() -> None:
    clock = Clock()
    left = countdown(TimeLeft(3, 30), clock)
    clock.now += 1
    assert (left(), limit_of(left())) == (2.0, 30.0)


def test_a_number_is_its_own_limit() -> None:
    assert limit_of(2.5) == 2.5
