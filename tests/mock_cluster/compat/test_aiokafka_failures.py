"""The producer with aiokafka's interface: its life, its bounds, and the errors that it raises."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from typing import Any

import aiokafka.errors as theirs  # type: ignore[import-untyped]
import pytest

from aioproducer import errors as ours
from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.support.read_back import values

PRODUCE, METADATA = 0, 3
UNKNOWN_TOPIC = 3
NEVER_MS = 3_600_000


def producer_on(cluster: MockCluster, **options: Any) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **options)


async def test_a_producer_that_finds_no_broker_says_so_at_once_and_may_start_again(
    orders: MockCluster,
) -> None:
    orders.set_broker_down(1)
    orders.set_broker_down(2)
    producer = producer_on(orders)
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(theirs.KafkaConnectionError, match=r"Unable to bootstrap.*refused"):
            await producer.start()
    assert time.monotonic() - began < 10
    orders.set_broker_up(2)
    await producer.start()
    orders.set_broker_up(1)
    assert (await producer.send_and_wait("orders", b"v", partition=0)).offset == 0
    await producer.stop()


async def test_a_silent_broker_bounds_the_start(orders: MockCluster) -> None:
    orders.set_broker_rtt(ALL_BROKERS, NEVER_MS)
    producer = producer_on(orders, request_timeout_ms=300)
    with pytest.raises(theirs.KafkaConnectionError) as caught:
        await producer.start()
    assert isinstance(caught.value, ours.BootstrapError)
    await producer.stop()


async def test_a_transactional_producer_says_at_once_that_there_is_no_broker(
    orders: MockCluster,
) -> None:
    orders.set_broker_down(1)
    orders.set_broker_down(2)
    producer = producer_on(orders, transactional_id="t")
    with pytest.raises(theirs.KafkaConnectionError):
        await asyncio.wait_for(producer.start(), 10)
    await producer.stop()


async def test_the_states_of_a_producer(orders: MockCluster) -> None:
    producer = producer_on(orders, client_id="me")
    assert repr(producer) == "<AIOKafkaProducer 'me'>"
    assert producer._closed is False  # frameworks look at it
    with pytest.raises(theirs.IllegalOperation, match="not started"):
        await producer.send("orders", b"v")
    await producer.start()
    with pytest.raises(theirs.IllegalStateError, match="started once"):
        await producer.start()
    with pytest.raises(theirs.IllegalOperation, match="transactional_id"):
        await producer.begin_transaction()
    with pytest.raises(theirs.IllegalOperation, match="transactional_id"):
        async with producer.transaction():
            pass
    with pytest.raises(theirs.IllegalOperation, match="transactional_id"):
        await producer.send_offsets_to_transaction({}, "group")
    await producer.stop()
    await producer.stop()
    assert producer._closed is True
    for call in (
        producer.send("orders", b"v"),
        producer.send_and_wait("orders", b"v", key=b"k"),
        producer.send_batch(producer.create_batch(), "orders", partition=0),
        producer.partitions_for("orders"),
    ):
        with pytest.raises(theirs.ProducerClosed):
            await call
    await producer.flush()


async def test_a_flush_beside_stop_waits_as_well(orders: MockCluster) -> None:
    producer = producer_on(orders)
    await producer.start()
    await producer.send_and_wait("orders", b"first", partition=0)
    orders.set_broker_rtt(ALL_BROKERS, 100)
    future = await producer.send("orders", b"last", partition=0)
    stopping = asyncio.create_task(producer.stop())
    await asyncio.sleep(0)
    await producer.flush()
    assert future.done()
    await stopping


async def test_an_empty_batch_needs_a_transaction_as_well(orders: MockCluster) -> None:
    async with producer_on(orders, transactional_id="t") as producer:
        with pytest.raises(theirs.IllegalOperation):
            await producer.send_batch(producer.create_batch(), "orders", partition=0)
        async with producer.transaction():
            await producer.send_batch(producer.create_batch(), "orders", partition=0)


async def test_a_wrong_topic_is_the_callers_error_alone(orders: MockCluster) -> None:
    wrong: list[Any] = [None, "", 5, b"orders", ["orders"], "two words", "x" * 250, "."]
    async with producer_on(orders) as producer:
        for topic in wrong:
            for call in (
                producer.send(topic, b"v"),
                producer.send_and_wait(topic, b"v", headers=[("a", b"1")]),
                producer.send_batch(producer.create_batch(), topic, partition=0),
                producer.partitions_for(topic),
            ):
                with pytest.raises(theirs.InvalidTopicError):
                    await call
            with pytest.raises(theirs.InvalidTopicError):
                producer.client.add_topic(topic)
            with pytest.raises(theirs.InvalidTopicError):
                producer.client.set_topics([topic])
        assert (await producer.send_and_wait("orders", b"v", partition=0)).offset == 0


async def test_a_producer_that_was_never_started_can_be_stopped() -> None:
    producer = AIOKafkaProducer()
    await producer.stop()
    with pytest.raises(theirs.ProducerClosed):
        await producer.send("orders", b"v")


async def test_a_block_stops_the_producer_after_an_error(orders: MockCluster) -> None:
    producer = producer_on(orders)

    async def fail() -> None:
        async with producer as started:
            assert started is producer
            await producer.send("orders", b"kept", partition=0)
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert producer._closed
    assert values(orders, "orders", 0) == [b"kept"]


async def test_an_unclosed_producer_is_a_warning(orders: MockCluster) -> None:
    complaints: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
    producer = producer_on(orders)
    gone = weakref.ref(producer)
    await producer.start()
    core = producer._core
    with pytest.warns(ResourceWarning, match="Unclosed AIOKafkaProducer"):
        del producer
    assert gone() is None
    assert complaints == ["Unclosed AIOKafkaProducer"]
    await core.close(None)


async def test_a_record_that_no_broker_confirms_in_time(orders: MockCluster) -> None:
    producer = producer_on(orders, request_timeout_ms=300)
    await producer.start()
    await producer.send_and_wait("orders", b"first", partition=0)
    orders.set_broker_rtt(ALL_BROKERS, NEVER_MS)
    began = time.monotonic()
    future = await producer.send("orders", b"late", partition=0)
    with pytest.raises(theirs.KafkaTimeoutError) as caught:
        await future
    assert time.monotonic() - began < 30
    assert isinstance(caught.value, theirs.RequestTimedOutError)
    assert isinstance(caught.value, ours.DeliveryTimeoutError)
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.may_have_been_written
    await producer.stop()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (10, theirs.MessageSizeTooLargeError),
        (17, theirs.InvalidTopicError),
        (29, theirs.TopicAuthorizationFailedError),
        (31, theirs.ClusterAuthorizationFailedError),
        (87, theirs.KafkaError),
    ],
)
async def test_a_record_that_the_broker_refuses(
    orders: MockCluster, code: int, error: type[Exception]
) -> None:
    async with producer_on(orders) as producer:
        await producer.partitions_for("orders")
        orders.push_request_errors(PRODUCE, code)
        with pytest.raises(error) as caught:
            await producer.send_and_wait("orders", b"v", partition=0)
        assert isinstance(caught.value, ours.KafkaError)
        assert caught.value.code == code
        assert (await producer.send_and_wait("orders", b"v", partition=0)).offset == 0


async def test_a_topic_that_does_not_become_known(orders: MockCluster) -> None:
    async with producer_on(orders, request_timeout_ms=400) as producer:
        orders.push_request_errors(METADATA, *[UNKNOWN_TOPIC] * 200)
        with pytest.raises(theirs.UnknownTopicOrPartitionError):
            await producer.send("nowhere", b"v")
        with pytest.raises(theirs.UnknownTopicOrPartitionError):
            await producer.partitions_for("nowhere")
        orders.clear_request_errors(METADATA)
        assert (await producer.send_and_wait("orders", b"v", partition=0)).offset == 0


async def test_a_cancelled_send_is_not_sent(orders: MockCluster) -> None:
    async with producer_on(orders) as producer:
        orders.push_request_errors(METADATA, *[UNKNOWN_TOPIC] * 200)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.send_and_wait("orders", b"no", partition=0), 0.2)
        orders.clear_request_errors(METADATA)
        await producer.send_and_wait("orders", b"yes", partition=0)
    assert values(orders, "orders", 0) == [b"yes"]


async def test_memory_is_bounded_and_the_wait_for_it_as_well(orders: MockCluster) -> None:
    """Each ``send()`` waits for room, which comes as records fail that no broker takes."""
    async with producer_on(orders, request_timeout_ms=500) as producer:
        await producer.send_and_wait("orders", b"first", partition=0)
        orders.set_broker_rtt(ALL_BROKERS, NEVER_MS)
        futures: list[asyncio.Future[Any]] = []
        refused = 0
        for _ in range(60):
            try:
                futures.append(await producer.send("orders", bytes(1_000_000), partition=0))
            except theirs.KafkaTimeoutError:
                refused += 1
            assert sum(not future.done() for future in futures) <= 33
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
    assert all(isinstance(each, theirs.KafkaTimeoutError) for each in outcomes)
    assert len(outcomes) + refused == 60


async def test_failed_records_that_nobody_awaits_cause_no_complaint(orders: MockCluster) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with producer_on(orders) as producer:
        await producer.partitions_for("orders")
        orders.push_request_errors(PRODUCE, 29)
        for _ in range(10):
            await producer.send("orders", b"v", partition=0)
        await producer.flush()
    gc.collect()
    assert complaints == []


async def test_one_error_object_for_each_record(orders: MockCluster) -> None:
    async with producer_on(orders) as producer:
        await producer.partitions_for("orders")
        orders.push_request_errors(PRODUCE, 29)
        futures = [await producer.send("orders", b"v", partition=0) for _ in range(3)]
        await producer.flush()
        assert len({id(future.exception()) for future in futures}) == 3


async def test_another_event_loop_is_refused(orders: MockCluster) -> None:
    async with producer_on(orders) as producer:
        await producer.send_and_wait("orders", b"v", partition=0)

        def elsewhere() -> None:
            asyncio.run(producer.send_and_wait("orders", b"v", partition=0))

        with pytest.raises(AssertionError, match="event loop") as caught:
            await asyncio.to_thread(elsewhere)
        assert isinstance(caught.value, ours.WrongLoopError)
