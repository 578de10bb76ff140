"""``Producer.health()`` beside what is done to brokers, on both shells and from any thread."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pytest

from aioproducer import Health, Producer, ProducerError, sync
from aioproducer.errors import (
    BootstrapError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
)
from aioproducer.testing.fault_proxy import BlackHole, FaultProxy, Rule, Way
from aioproducer.testing.mock_cluster import MockCluster
from tests.mock_cluster.started import PATIENCE, started
from tests.support.inside import all_tasks
from tests.support.waiting import until

FOREVER_MS = 3_600_000
TOPIC_AUTHORIZATION_FAILED, PRODUCE = 29, 0


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=3, topics={"orders": 3}) as cluster:
        yield cluster


async def all_known(cluster: MockCluster, **options: Any) -> Producer:
    """A producer with a connection to each leader."""
    producer = await started(cluster, **options)
    await producer.send("orders", b"first", partition=2)
    return producer


def failing(health: Health) -> set[int | str]:
    return {each.node for each in health.brokers if each.is_failing}


def told_by_a_fork(producer: Producer) -> str:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        health = producer.health()
        os.write(write, f"{health.state} {health.is_live} {health.can_write}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with open(read) as told:
        return told.read()


async def test_a_life(cluster: MockCluster) -> None:
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, client_id="payments")
    health = producer.health()
    assert (health.state, health.can_write, health.is_live) == ("not started", False, True)
    async with producer:
        health = producer.health()
        assert (health.state, health.can_write, health.is_ready) == ("started", None, True)
        assert not health.problems
        await producer.send("orders", b"1", partition=0)
        health = producer.health()
        assert (health.can_write, health.reason, health.oldest_record_age) == (True, "", None)
        assert health.client_id == "payments"
        leader = next(each for each in health.brokers if each.leads)
        assert leader.address in cluster.bootstrap_servers
    health = producer.health()
    assert (health.state, health.can_write, health.is_live) == ("closed", False, False)


async def test_a_check_makes_it_known(cluster: MockCluster) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.check(topics=["orders"])
        assert producer.health().can_write is True


async def test_brokers_that_go_and_come_back(cluster: MockCluster) -> None:
    producer = await all_known(cluster)
    cluster.set_broker_down(1)
    futures = [producer.send("orders", b"1", partition=0)]
    await until(lambda: producer.health().is_degraded, "one broker is missed")
    health = producer.health()
    assert failing(health) == {1}
    assert health.can_write is True
    for broker in (2, 3):
        cluster.set_broker_down(broker)
    futures += [producer.send("orders", b"1", partition=partition) for partition in (1, 2)]
    await until(lambda: producer.health().can_write is False, "all are missed")
    health = producer.health()
    assert {1, 2, 3} <= failing(health)
    assert health.is_live
    assert health.since is not None
    assert "unreachable" in health.reason
    assert health.oldest_record_age
    for broker in cluster.broker_ids:
        cluster.set_broker_up(broker)
    await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
    health = producer.health()
    assert (health.can_write, health.since, health.oldest_record_age) == (True, None, None)
    await producer.close()


async def test_silent_brokers(cluster: MockCluster) -> None:
    """They keep their connections; a delivery timeout of 6 s makes the patience 3 s."""
    options: dict[str, Any] = {"delivery_timeout_ms": 6_000, "request_timeout_ms": 5_000}
    producer = await all_known(cluster, **options)
    cluster.set_broker_rtt(1, FOREVER_MS)
    silent = producer.send("orders", b"1", partition=0)

    async def degraded() -> bool:
        await producer.send("orders", b"1", partition=1)
        return producer.health().is_degraded

    await until(degraded, "a silent broker is noticed before its records expire")
    health = producer.health()
    assert failing(health) == {1}
    assert "has delivered no record for 3 s" in health.reason
    assert not silent.done()
    for broker in (2, 3):
        cluster.set_broker_rtt(broker, FOREVER_MS)
    lost = [silent, *(producer.send("orders", b"1", partition=each) for each in (1, 2))]
    await until(lambda: producer.health().can_write is False, "all are silent")
    assert all(
        isinstance(each, ProducerError)
        for each in await asyncio.gather(*lost, return_exceptions=True)
    )
    await producer.close(0)


async def test_a_broker_that_answers_all_but_records(cluster: MockCluster) -> None:
    """Each request times out and ends its connection; the next one is opened at once."""
    options: dict[str, Any] = {"delivery_timeout_ms": 6_000, "request_timeout_ms": 1_000}
    producer = await started(cluster, **options)
    await producer.send("orders", b"first", partition=0)
    cluster.push_broker_request_errors(1, PRODUCE, *[(0, FOREVER_MS)] * 20)
    lost = producer.send("orders", b"1", partition=0)
    await until(lambda: producer.health().is_degraded, "the silence is noticed")
    assert not lost.done()
    assert failing(producer.health()) == {1}
    while not lost.done():
        assert failing(producer.health()) == {1}, "a new connection is no delivery"
        await asyncio.wait([lost], timeout=0.02)
    assert isinstance(lost.exception(), ProducerError)
    await producer.close(0)


async def test_a_network_that_swallows_everything(cluster: MockCluster) -> None:
    """The first attempt to connect neither fails nor ends."""
    async with FaultProxy(cluster.broker_address(1)[1]) as proxy:
        proxy.add(Rule(BlackHole(), None, Way.CONNECTION, count=None))
        options: dict[str, Any] = {"delivery_timeout_ms": 3_100, "request_timeout_ms": 3_000}
        producer = Producer(bootstrap_servers=proxy.address, max_block_ms=3_000, **options)
        await producer.start()
        lost = producer.send("orders", b"1")
        await until(lambda: producer.health().can_write is False, "no answer for half of 3.1 s")
        health = producer.health()
        assert not lost.done()
        assert health.pending_records == 1
        assert health.is_live
        await asyncio.gather(lost, return_exceptions=True)
        await producer.close(0)


async def test_a_topic_that_may_not_be_written(cluster: MockCluster) -> None:
    producer = await started(cluster)
    cluster.push_request_errors(PRODUCE, *[TOPIC_AUTHORIZATION_FAILED] * 2)
    for _ in range(2):
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send("orders", b"1", partition=0)
    health = producer.health()
    assert health.can_write is False
    assert "no record of topic 'orders' is delivered" in health.reason
    await producer.send("orders", b"1", partition=0)
    assert producer.health().can_write is True
    await producer.close()


async def test_any_thread_may_ask_while_the_loop_works(cluster: MockCluster) -> None:
    producer = await all_known(cluster)
    asked = threading.Event()

    def ask() -> int:
        times = 0
        while not asked.is_set():
            json.dumps(producer.health().as_dict())
            times += 1
        return times

    with ThreadPoolExecutor(2) as threads:
        asking = [threads.submit(ask) for _ in range(2)]
        for _ in range(100):
            report = await producer.send_many("orders", [b"1"] * 300)
            report.raise_for_failures()
        asked.set()
        assert all(each.result(PATIENCE) > 0 for each in asking)
    await producer.close()


def test_the_blocking_producer_tells_it_too(cluster: MockCluster) -> None:
    producer = sync.Producer(bootstrap_servers=cluster.bootstrap_servers)
    assert producer.health().state == "not started"
    with producer:
        producer.send("orders", b"1").result(PATIENCE)
        assert producer.health().can_write is True
        told: list[Health] = []
        future = producer.send("orders", b"2")
        future.add_done_callback(lambda _: told.append(producer.health()))
        producer.flush(PATIENCE)
        assert told[0].can_write is True, "the producer's own thread may ask as well"
    assert producer.health().state == "closed"


async def test_a_broken_producer_and_a_forked_one(cluster: MockCluster) -> None:
    producer = await started(cluster)
    assert told_by_a_fork(producer) == "forked False False"
    for task in all_tasks():
        if task.get_name() == "aioproducer-sender":
            task.cancel()
    await until(lambda: producer.health().state == "broken")
    health = producer.health()
    assert not health.is_live
    assert "is broken and sends no more" in health.reason
    await producer.close()


def test_a_fork_may_start_what_was_not_started() -> None:
    """A web server loads the application, forks its workers, and these start the producer."""
    producer = Producer(bootstrap_servers="localhost:9092")
    assert told_by_a_fork(producer) == "not started True False"


# --- live or not ---------------------------------------------------------------------------------


Life = Callable[[MockCluster], Awaitable[tuple["Producer | sync.Producer[Any, Any]", str]]]
"""A life up to some state: the producer, and words of the reason."""


async def opened(cluster: MockCluster, **options: Any) -> Producer:
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, **options)
    await producer.start()
    return producer


async def never_started(cluster: MockCluster) -> tuple[Producer, str]:
    return Producer(bootstrap_servers=cluster.bootstrap_servers), "not started"


async def idle(cluster: MockCluster) -> tuple[Producer, str]:
    return await started(cluster), ""


async def without_brokers(cluster: MockCluster) -> tuple[Producer, str]:
    producer = await all_known(cluster)
    for broker in (1, 2, 3):
        cluster.set_broker_down(broker)
    lost = producer.send("orders", b"lost", partition=0)
    lost.add_done_callback(lambda done: done.exception())
    await until(lambda: not producer.health().is_ready)
    return producer, "unreachable"


async def without_rights(cluster: MockCluster) -> tuple[Producer, str]:
    producer = await all_known(cluster)
    cluster.push_request_errors(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(TopicAuthorizationFailedError):
        await producer.send("orders", b"refused")
    return producer, "TOPIC_AUTHORIZATION_FAILED"


async def to_be_aborted(cluster: MockCluster) -> tuple[Producer, str]:
    producer = await opened(cluster, transactional_id="abortable")
    await producer.begin_transaction()
    await producer.send("orders", b"1")
    cluster.push_request_errors(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(TopicAuthorizationFailedError):
        await producer.send("orders", b"2")
    return producer, "can only be aborted"


async def closed(cluster: MockCluster) -> tuple[Producer, str]:
    producer = await started(cluster)
    await producer.close()
    return producer, "closed"


async def closed_before_its_start(cluster: MockCluster) -> tuple[Producer, str]:
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
    await producer.close()
    return producer, "closed"


async def without_a_name(cluster: MockCluster) -> tuple[Producer, str]:
    producer = Producer(
        bootstrap_servers="no-such-host.invalid:9092", bootstrap_resolve_timeout_ms=50
    )
    with pytest.raises(BootstrapError):
        await producer.start()
    return producer, "closed"


async def without_its_sender(cluster: MockCluster) -> tuple[Producer, str]:
    producer = await started(cluster)
    for task in all_tasks():
        if task.get_name() == "aioproducer-sender":
            task.cancel()
    await until(lambda: producer.health().state == "broken")
    return producer, "is broken"


async def without_its_loop(cluster: MockCluster) -> tuple[Producer, str]:
    producer = await started(cluster)
    gone = asyncio.new_event_loop()
    gone.close()
    producer._core.lifecycle.loop = gone
    return producer, "event loop"


async def fenced(cluster: MockCluster) -> tuple[Producer, str]:
    producer = await opened(cluster, transactional_id="fenced")
    manager_of(producer).fail(ProducerFencedError("a newer producer has this transactional id"))
    return producer, "newer producer"


async def without_its_cluster(cluster: MockCluster) -> tuple[Producer, str]:
    producer = await opened(cluster, transactional_id="moved")
    assert manager_of(producer).leave_cluster(ProducerError("cluster 'B' in place of 'A'"))
    return producer, "cluster 'B'"


async def joined_in_the_past(cluster: MockCluster) -> tuple[Producer, str]:
    first = await opened(cluster, transactional_id="joined")
    await first.begin_transaction(shared=True)
    handle = first.transaction_handle(hand_over=True)
    await first.close()
    producer = await opened(cluster, transaction=handle)
    await producer.send("orders", b"1")
    await producer.commit_transaction()
    return producer, "has ended"


async def blocking(cluster: MockCluster) -> tuple[sync.Producer[Any, Any], str]:
    producer: sync.Producer[Any, Any]
    producer = sync.Producer(bootstrap_servers=cluster.bootstrap_servers)
    await asyncio.to_thread(producer.start)
    return producer, ""


async def blocking_without_its_thread(cluster: MockCluster) -> tuple[sync.Producer[Any, Any], str]:
    producer: sync.Producer[Any, Any]
    producer = sync.Producer(bootstrap_servers=cluster.bootstrap_servers)
    error = RuntimeError("can't start new thread")
    threadless = patch.object(producer._thread._thread, "start", side_effect=error)
    with threadless, pytest.raises(RuntimeError):
        producer.start()
    return producer, "new thread"


async def blocking_closed_before_its_start(
    cluster: MockCluster,
) -> tuple[sync.Producer[Any, Any], str]:
    producer: sync.Producer[Any, Any]
    producer = sync.Producer(bootstrap_servers=cluster.bootstrap_servers)
    producer.close()
    return producer, "closed"


def manager_of(producer: Producer) -> Any:
    engine = producer._core._engine
    assert engine is not None
    assert engine.transactions is not None
    return engine.transactions.manager


RECOVERS: tuple[Life, ...] = (
    never_started,
    idle,
    without_brokers,
    without_rights,
    to_be_aborted,
    blocking,
)
ENDED: tuple[Life, ...] = (
    closed,
    closed_before_its_start,
    without_a_name,
    without_its_sender,
    without_its_loop,
    fenced,
    without_its_cluster,
    joined_in_the_past,
    blocking_without_its_thread,
    blocking_closed_before_its_start,
)


@pytest.mark.parametrize(
    ("life", "live"),
    [
        *((each, True) for each in RECOVERS),
        *((each, False) for each in ENDED),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_a_producer_that_can_never_go_on_is_not_live(
    cluster: MockCluster, life: Life, live: bool
) -> None:
    producer, words = await life(cluster)
    health = producer.health()
    print(health)
    assert health.is_live is live
    assert words in health.reason
    if not live:
        assert not health.is_ready
        assert health.can_write is False
    if isinstance(producer, sync.Producer):
        await asyncio.to_thread(producer.close, 0)
    else:
        producer._core.lifecycle.loop = asyncio.get_running_loop()
        await producer.close(0)


async def test_it_is_cheap(cluster: MockCluster) -> None:
    """The bound is loose: the machine has other work. It takes some tens of microseconds."""
    producer = await all_known(cluster)
    began = time.perf_counter()
    for _ in range(1_000):
        producer.health()
    assert time.perf_counter() - began < 1.0
    await producer.close()
