"""What goes wrong with transactions on the wire: what passes, what is aborted, what is the end.

The mock cluster speaks version 1 of the protocol. It keeps no transactions, so what is committed is
what the client says; the tests with a real Kafka look into the logs. Its FindCoordinator answers
have no host where they tell an error, which no Kafka does and nobody can read.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest

from aioproducer import (
    AbortableTransactionError,
    CommitUnconfirmedError,
    ConsumerGroupMetadata,
    FatalTransactionError,
    IllegalStateError,
    OffsetAndMetadata,
    Producer,
    ProducerClosedError,
    ProducerError,
    ProducerFencedError,
    ProducerTimeoutError,
    TopicPartition,
    TransactionAbortedError,
    UsageError,
    WrongLoopError,
    errors,
)
from aioproducer.testing.mock_cluster import ALL_BROKERS, DISCONNECT, MockCluster

PRODUCE, METADATA, FIND_COORDINATOR, INIT_PRODUCER_ID = 0, 3, 10, 22
ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 24, 25, 26, 28
PATIENCE = 60.0
NAME = "pay-7"
OFFSETS = {("orders", 0): 5}
NOWHERE = "127.0.0.1:1"
NAMED = rf"transactional id '{NAME}'"


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    """Broker 1 coordinates the transactions, broker 2 the group, each leads a partition."""
    with MockCluster(brokers=3, topics={"orders": 3}) as cluster:
        cluster.set_coordinator("transaction", NAME, 1)
        cluster.set_coordinator("group", "readers", 2)
        yield cluster


@pytest.fixture(autouse=True)
def nothing_is_left(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """asyncio finds nothing wrong: no exception unseen, no task lost."""
    yield
    gc.collect(0)
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []


QUICK: dict[str, Any] = {
    "retry_backoff_ms": 5,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 50,
    "retry_backoff_max_ms": 50,
}


def new(cluster: MockCluster, **options: Any) -> Producer:
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "transactional_id": NAME}
    return Producer(**{**settings, **QUICK, **options})


@asynccontextmanager
async def started(cluster: MockCluster, **options: Any) -> AsyncIterator[Producer]:
    """A producer that has done a transaction; it ends quickly, with its tasks."""
    producer = new(cluster, **options)
    await producer.start()
    try:
        await transact(producer)
        cluster.start_request_tracking()
        yield producer
    finally:
        await producer.close(0)
        assert tasks() == []


def tasks() -> list[asyncio.Task[Any]]:
    """What runs beside the test."""
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def transact(producer: Producer) -> None:
    """A record and offsets in a transaction."""
    async with asyncio.timeout(PATIENCE), producer.transaction():
        producer.send("orders", b"v", partition=0)
        await producer.send_offsets_to_transaction(OFFSETS, "readers")


async def write_offsets_and_commit(producer: Producer) -> None:
    """What is left to do in a transaction."""
    await producer.send_offsets_to_transaction(OFFSETS, "readers")
    await producer.commit_transaction()


def requests(cluster: MockCluster, api: int) -> list[int]:
    """The brokers that were asked."""
    return [each.broker_id for each in cluster.requests() if each.api_key == api]


# --- errors that pass ----------------------------------------------------------------------

LOADING, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT = 14, 15, 16, 51
PASSING = [
    *[
        (api, code)
        for api in (ADD_PARTITIONS, ADD_OFFSETS, END)
        for code in (LOADING, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT, DISCONNECT)
    ],
    *[(COMMIT_OFFSETS, code) for code in (LOADING, NOT_AVAILABLE, NOT_COORDINATOR, 7, DISCONNECT)],
    *[(COMMIT_OFFSETS, 3), (ADD_PARTITIONS, 3), (END, 7), (END, -1)],
]


@pytest.mark.parametrize(("api", "code"), PASSING)
async def test_an_error_that_may_pass_is_asked_again(
    orders: MockCluster, api: int, code: int
) -> None:
    async with started(orders) as producer:
        orders.push_request_errors(api, code, code)
        await transact(producer)
        assert len(requests(orders, api)) == 3
        await transact(producer)


@pytest.mark.parametrize("code", [LOADING, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT, DISCONNECT])
async def test_the_start_waits_for_what_may_pass(orders: MockCluster, code: int) -> None:
    orders.start_request_tracking()
    orders.push_request_errors(INIT_PRODUCER_ID, code, code)
    async with new(orders) as producer:
        assert len(requests(orders, INIT_PRODUCER_ID)) == 3
        await transact(producer)


async def test_concurrent_transactions_are_asked_again_within_milliseconds(
    orders: MockCluster,
) -> None:
    patient = {"retry_backoff_ms": 10_000, "retry_backoff_max_ms": 10_000}
    async with started(orders, **patient) as producer:
        orders.push_request_errors(END, *[CONCURRENT] * 3)
        began = time.monotonic()
        await transact(producer)
        assert time.monotonic() - began < 7


# --- errors that doom the transaction -------------------------------------------------------

ABORTABLE = [
    (ADD_PARTITIONS, 29, "TopicAuthorizationFailedError", "orders-0.*WRITE permissions"),
    (ADD_PARTITIONS, 120, "TransactionAbortableError", "TRANSACTION_ABORTABLE"),
    (ADD_PARTITIONS, -1, "UnknownServerError", "UNKNOWN_SERVER_ERROR"),
    (ADD_PARTITIONS, 55, "OperationNotAttemptedError", "OPERATION_NOT_ATTEMPTED"),
    (ADD_OFFSETS, 30, "GroupAuthorizationFailedError", "GROUP_AUTHORIZATION_FAILED"),
    (ADD_OFFSETS, 120, "TransactionAbortableError", "TRANSACTION_ABORTABLE"),
    (COMMIT_OFFSETS, 30, "GroupAuthorizationFailedError", "GROUP_AUTHORIZATION_FAILED"),
    (COMMIT_OFFSETS, 29, "TopicAuthorizationFailedError", "orders-0"),
    (COMMIT_OFFSETS, 25, "UnknownMemberIdError", "rebalanced"),
    (COMMIT_OFFSETS, 22, "IllegalGenerationError", "rebalanced"),
    (COMMIT_OFFSETS, 82, "FencedInstanceIdError", "FENCED_INSTANCE_ID"),
    (COMMIT_OFFSETS, 12, "OffsetMetadataTooLargeError", "OFFSET_METADATA_TOO_LARGE"),
    (COMMIT_OFFSETS, 120, "TransactionAbortableError", "TRANSACTION_ABORTABLE"),
    (COMMIT_OFFSETS, -1, "UnknownServerError", "UNKNOWN_SERVER_ERROR"),
    (END, 48, "InvalidTxnStateError", "INVALID_TXN_STATE"),
    (END, 120, "TransactionAbortableError", "TRANSACTION_ABORTABLE"),
    (PRODUCE, 29, "TopicAuthorizationFailedError", "orders-0.*WRITE permissions"),
    (PRODUCE, 10, "MessageTooLargeError", "max.message.bytes"),
    (PRODUCE, 47, "InvalidProducerEpochError", "INVALID_PRODUCER_EPOCH"),
    (PRODUCE, 48, "InvalidTxnStateError", "INVALID_TXN_STATE"),
    (PRODUCE, 49, "InvalidProducerIdMappingError", "INVALID_PRODUCER_ID_MAPPING"),
    (PRODUCE, 120, "TransactionAbortableError", "TRANSACTION_ABORTABLE"),
]
IDS = [f"{row[0]}-{row[2]}" for row in ABORTABLE]


@pytest.mark.parametrize(("api", "code", "cause", "match"), ABORTABLE, ids=IDS)
async def test_an_abortable_error_aborts_the_block_and_the_next_one_works(
    orders: MockCluster, api: int, code: int, cause: str, match: str
) -> None:
    async with started(orders) as producer:
        orders.push_request_errors(api, code)
        with pytest.raises(AbortableTransactionError, match=match) as raised:
            await transact(producer)
        assert re.search(NAMED, str(raised.value))
        assert type(raised.value.__cause__) is getattr(errors, cause)
        assert len(requests(orders, END)) == (2 if api == END else 1)
        await transact(producer)


@pytest.mark.parametrize(("api", "code", "cause", "match"), ABORTABLE, ids=IDS)
async def test_an_abortable_error_lets_nothing_but_abort(
    orders: MockCluster, api: int, code: int, cause: str, match: str
) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        orders.push_request_errors(api, code)
        future = producer.send("orders", b"v", partition=0)
        with pytest.raises(AbortableTransactionError, match=match):
            await write_offsets_and_commit(producer)
        advice = r"abort_transaction\(\), then begin another one"
        refused: list[Callable[[], Awaitable[Any]]] = [
            producer.begin_transaction,
            producer.commit_transaction,
            lambda: producer.send_offsets_to_transaction(OFFSETS, "readers"),
        ]
        for call in refused:
            with pytest.raises(AbortableTransactionError, match=advice) as raised:
                await call()
            assert type(raised.value.__cause__) is getattr(errors, cause)
            assert re.search(NAMED, str(raised.value))
        with pytest.raises(AbortableTransactionError, match=advice):
            producer.send("orders", b"too late", partition=1)
        await producer.abort_transaction()
        assert future.done()
        if api == ADD_PARTITIONS:
            assert isinstance(future.exception(), TransactionAbortedError)
            assert not requests(orders, PRODUCE)
        await transact(producer)


async def test_an_abort_that_finds_no_transaction_is_done(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        orders.push_request_errors(END, 48)
        await producer.abort_transaction()
        await transact(producer)
        assert requests(orders, INIT_PRODUCER_ID) == [1]  # a new epoch, to be sure of it


async def test_what_had_not_left_is_not_sent_after_an_abort(orders: MockCluster) -> None:
    async with started(orders, linger_ms=5_000) as producer:
        orders.clear_requests()
        await producer.begin_transaction()
        futures = [producer.send("orders", b"v", partition=number) for number in range(3)]
        await producer.abort_transaction()
        for future in futures:
            with pytest.raises(TransactionAbortedError, match="its transaction is aborted"):
                future.result()
        assert not requests(orders, PRODUCE)
        assert not requests(orders, END)  # nothing was begun there


# --- errors that end the producer -----------------------------------------------------------

FATAL = [
    *[
        (api, *row)
        for api in (ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS)
        for row in (
            (90, ProducerFencedError, "PRODUCER_FENCED.*a newer producer"),
            (47, ProducerFencedError, "INVALID_PRODUCER_EPOCH.*a newer producer"),
            (53, FatalTransactionError, "DESCRIBE and WRITE permissions"),
            (49, FatalTransactionError, "INVALID_PRODUCER_ID_MAPPING"),
        )
    ],
    (ADD_PARTITIONS, 48, FatalTransactionError, "INVALID_TXN_STATE"),
    (ADD_OFFSETS, 48, FatalTransactionError, "INVALID_TXN_STATE"),
    (PRODUCE, 90, ProducerFencedError, "PRODUCER_FENCED.*a newer producer"),
    (PRODUCE, 53, FatalTransactionError, "DESCRIBE and WRITE permissions"),
    (PRODUCE, 31, FatalTransactionError, "CLUSTER_AUTHORIZATION_FAILED"),
]


@pytest.mark.parametrize(("api", "code", "kind", "match"), FATAL)
async def test_a_fatal_error_is_the_end_of_the_producer(
    orders: MockCluster, api: int, code: int, kind: type[ProducerError], match: str
) -> None:
    async with started(orders) as producer:
        orders.push_request_errors(api, code)
        with pytest.raises(FatalTransactionError, match=match) as raised:
            await transact(producer)
        assert type(raised.value) is kind
        assert re.search(NAMED, str(raised.value))
        assert "close the producer" in str(raised.value)
        async with asyncio.timeout(PATIENCE):
            while producer.metrics()["producer-metrics"]["requests-in-flight"]:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        orders.clear_requests()
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: transact(producer),
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
            producer.init_transactions,
            lambda: producer.send_offsets_to_transaction(OFFSETS, "readers"),
        ]
        for call in calls:
            with pytest.raises(kind, match="close the producer"):
                await call()
        with pytest.raises(kind, match="close the producer"):
            producer.send("orders", b"v")
        assert orders.requests() == []
        assert await producer.close() == 0
    async with new(orders) as another:
        await transact(another)


REFUSED = [
    (INIT_PRODUCER_ID, 53, FatalTransactionError, "DESCRIBE and WRITE permissions"),
    (INIT_PRODUCER_ID, 31, FatalTransactionError, "CLUSTER_AUTHORIZATION_FAILED"),
    (INIT_PRODUCER_ID, 50, FatalTransactionError, "transaction.max.timeout.ms"),
    (INIT_PRODUCER_ID, 90, ProducerFencedError, "PRODUCER_FENCED"),
    (INIT_PRODUCER_ID, -1, FatalTransactionError, "UNKNOWN_SERVER_ERROR"),
]


@pytest.mark.parametrize(("api", "code", "kind", "match"), REFUSED)
async def test_a_start_that_is_refused_says_why_and_leaves_nothing(
    orders: MockCluster, api: int, code: int, kind: type[ProducerError], match: str
) -> None:
    orders.push_request_errors(api, code)
    producer = new(orders)
    with pytest.raises(FatalTransactionError, match=match) as raised:
        await producer.start()
    assert type(raised.value) is kind
    assert re.search(NAMED, str(raised.value))
    assert tasks() == []
    with pytest.raises(ProducerClosedError):
        producer.send("orders", b"v")
    async with new(orders) as another:
        await transact(another)


# --- wrong use -----------------------------------------------------------------------------


async def test_without_a_transactional_id_there_are_no_transactions(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        missing = "has no transactional_id: give it one"
        for call in (producer.transaction, producer.transaction_handle):
            with pytest.raises(IllegalStateError, match=missing):
                call()
        for waiting in (
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
            producer.init_transactions,
        ):
            with pytest.raises(IllegalStateError, match=missing):
                await waiting()
        with pytest.raises(IllegalStateError, match=missing):
            await producer.send_offsets_to_transaction(OFFSETS, "readers")
        assert (await producer.send("orders", b"v")).topic == "orders"


async def test_what_does_not_fit_the_state_says_what_does(orders: MockCluster) -> None:
    async with started(orders) as producer:
        outside = f"{NAMED}: can't {{}}, no transaction is open; begin one"
        with pytest.raises(IllegalStateError, match=outside.format("send")):
            producer.send("orders", b"v")
        with pytest.raises(IllegalStateError, match=outside.format("commit")):
            await producer.commit_transaction()
        with pytest.raises(IllegalStateError, match=outside.format("abort")):
            await producer.abort_transaction()
        for offsets in (OFFSETS, {}):
            with pytest.raises(IllegalStateError, match=outside.format("send offsets")):
                await producer.send_offsets_to_transaction(offsets, "readers")
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            producer.transaction_handle()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            await producer.send_many("orders", [b"v"] * 3)
        async with producer.transaction():
            with pytest.raises(IllegalStateError, match=f"{NAMED}.*in transaction; end it first"):
                await producer.begin_transaction()
            with pytest.raises(IllegalStateError, match="end it first"):
                async with producer.transaction():
                    pass
            with pytest.raises(IllegalStateError, match=r"shared=True"):
                producer.transaction_handle()
            assert (await producer.send_many("orders", [b"v"] * 3)).delivered == 3
        await producer.begin_transaction()
        await producer.commit_transaction()
        with pytest.raises(IllegalStateError, match=outside.format("commit")):
            await producer.commit_transaction()
        await transact(producer)


async def test_a_block_may_end_its_transaction_itself(orders: MockCluster) -> None:
    async with started(orders) as producer:
        async with producer.transaction():
            producer.send("orders", b"v")
            await producer.commit_transaction()
        async with producer.transaction():
            producer.send("orders", b"v")
            await producer.abort_transaction()
        await transact(producer)


WRONG_OFFSETS: list[tuple[Any, Any]] = [
    (5, "readers"),
    ("orders", "readers"),
    ({"orders": 5}, "readers"),
    ({("orders", 0): "5"}, "readers"),
    ({("orders", 0): -1}, "readers"),
    ({("orders", 0): None}, "readers"),
    ({("orders", -1): 5}, "readers"),
    ({("orders", 0): True}, "readers"),
    ({("orders", 0): OffsetAndMetadata(5, b"m")}, "readers"),  # type: ignore[arg-type]
    ([object()], "readers"),
    (OFFSETS, ""),
    (OFFSETS, None),
    (OFFSETS, ConsumerGroupMetadata("")),
    (OFFSETS, 7),
]


@pytest.mark.parametrize(("offsets", "group"), WRONG_OFFSETS)
async def test_wrong_offsets_raise_at_the_call(
    orders: MockCluster, offsets: Any, group: Any
) -> None:
    async with started(orders) as producer, producer.transaction():
        with pytest.raises(errors.InvalidOffsetError) as raised:
            await producer.send_offsets_to_transaction(offsets, group)
        assert isinstance(raised.value, UsageError)
        assert requests(orders, ADD_OFFSETS) == []
        await producer.send_offsets_to_transaction(
            {TopicPartition("orders", 0): OffsetAndMetadata(5, "m", 0)}, "readers"
        )


@pytest.mark.parametrize(
    ("group", "partitions", "match"),
    [
        (7, [("orders", 0)], "the consumer group is its id"),
        ("", [("orders", 0)], "the consumer group is its id"),
        ("readers\ud800", [("orders", 0)], "UTF-8"),
        ("readers", None, "an iterable of TopicPartition, not NoneType"),
        ("readers", "orders", "TopicPartition"),
        ("readers", TopicPartition("orders", 0), "TopicPartition"),
        ("readers", [("orders", -1)], "TopicPartition"),
        ("readers", [("orders", 2**31)], "TopicPartition"),
        ("readers", [("", 0)], "a topic is"),
    ],
)
async def test_wrong_partitions_and_groups_raise_at_the_call(
    orders: MockCluster, group: Any, partitions: Any, match: str
) -> None:
    async with started(orders) as producer:
        with pytest.raises(UsageError, match=match):
            await producer.committed_offsets(group, partitions)
        assert await producer.committed_offsets("readers", iter(())) == {}
        await transact(producer)
        assert requests(orders, FIND_COORDINATOR) == []


async def test_offsets_of_brokers_that_do_not_know_open_transactions(orders: MockCluster) -> None:
    """The mock cluster answers OffsetFetch up to version 6 only."""
    async with started(orders) as producer, producer.transaction():
        sent = producer.send("orders", b"v", partition=0)
        with pytest.raises(errors.UnsupportedVersionError, match="OFFSET_FETCH"):
            await producer.committed_offsets("readers", [TopicPartition("orders", 0)])
    assert sent.done()


@pytest.mark.parametrize("timeout", [-1, "1", True, float("nan")])
async def test_wrong_timeouts_raise_at_the_call(orders: MockCluster, timeout: Any) -> None:
    async with started(orders) as producer:
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: producer.init_transactions(timeout),
            lambda: producer.commit_transaction(timeout),
            lambda: producer.abort_transaction(timeout),
            lambda: producer.send_offsets_to_transaction(OFFSETS, "readers", timeout),
            lambda: producer.committed_offsets("readers", [], timeout),
        ]
        await producer.begin_transaction()
        for call in calls:
            with pytest.raises(UsageError, match="a timeout is a number of seconds"):
                await call()
        await producer.commit_transaction()


def test_a_transaction_belongs_to_its_loop(orders: MockCluster) -> None:
    async def elsewhere(producer: Producer) -> None:
        with pytest.raises(WrongLoopError):
            producer.transaction()
        for call in (
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
            producer.init_transactions,
        ):
            with pytest.raises(WrongLoopError):
                await call()
        with pytest.raises(WrongLoopError):
            await producer.send_offsets_to_transaction(OFFSETS, "readers")
        with pytest.raises(WrongLoopError):
            await producer.committed_offsets("readers", [])
        with pytest.raises(WrongLoopError):
            producer.transaction_handle(hand_over=True)

    with asyncio.Runner() as runner:
        producer = new(orders)
        runner.run(producer.start())
        with asyncio.Runner() as other:
            other.run(elsewhere(producer))
        runner.run(transact(producer))
        runner.run(producer.close())


async def test_a_producer_that_is_not_there(orders: MockCluster) -> None:
    producer = new(orders)
    with pytest.raises(IllegalStateError, match="not started"):
        producer.transaction()
    await producer.start()
    await producer.close()
    with pytest.raises(ProducerClosedError):
        producer.transaction()
    for call in (producer.begin_transaction, lambda: producer.committed_offsets("readers", [])):
        with pytest.raises(ProducerClosedError):
            await call()


# --- brokers that do not answer -------------------------------------------------------------


@pytest.mark.parametrize("servers", [NOWHERE, "unknown-host.invalid:9092"])
async def test_a_start_without_brokers_ends_in_time_and_leaves_nothing(servers: str) -> None:
    producer = Producer(bootstrap_servers=servers, transactional_id=NAME, max_block_ms=3_000)
    began = time.monotonic()
    expected = rf"{NAMED}: init_transactions\(\) is not done within 3 s \(max_block_ms\): .*"
    with pytest.raises(ProducerTimeoutError, match=expected) as raised:
        await producer.start()
    assert time.monotonic() - began < 13
    assert servers.partition(":")[0] in str(raised.value)
    assert "Check bootstrap_servers" in str(raised.value)
    assert tasks() == []
    with pytest.raises(ProducerClosedError):
        producer.send("orders", b"v")


async def test_a_start_with_brokers_that_are_silent(orders: MockCluster) -> None:
    orders.set_broker_rtt(ALL_BROKERS, 60_000)
    producer = new(orders, max_block_ms=300)
    with pytest.raises(ProducerTimeoutError, match="max_block_ms"):
        await producer.start()
    assert tasks() == []


async def test_a_start_that_is_cancelled_leaves_nothing(orders: MockCluster) -> None:
    orders.push_request_errors(INIT_PRODUCER_ID, *[LOADING] * 10_000)
    producer = new(orders)
    starting = asyncio.create_task(producer.start())
    await asyncio.sleep(0.2)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert tasks() == []


STEPS = {
    "add partitions": ADD_PARTITIONS,
    "produce": PRODUCE,
    "add offsets": ADD_OFFSETS,
    "commit offsets": COMMIT_OFFSETS,
    "end": END,
}


@pytest.mark.parametrize("api", STEPS.values(), ids=STEPS)
async def test_every_step_is_bounded_when_the_brokers_die(orders: MockCluster, api: int) -> None:
    async with started(orders, max_block_ms=3_000) as producer:
        for broker in orders.broker_ids:  # they still answer what comes before
            orders.push_broker_request_errors(broker, api, (0, 60_000))
        trying = asyncio.create_task(transact(producer))
        await until_asked(orders, api)
        orders.set_broker_down(ALL_BROKERS)
        began = time.monotonic()
        with pytest.raises(ProducerTimeoutError, match=r"is not done within 3 s") as raised:
            await trying
        assert re.search(NAMED, str(raised.value))
        assert time.monotonic() - began < 20
        orders.set_broker_up(ALL_BROKERS)
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await transact(producer)
                    break
                except ProducerTimeoutError:
                    continue


async def test_a_slow_coordinator_is_asked_again_after_the_request_timeout(
    orders: MockCluster,
) -> None:
    async with started(orders, request_timeout_ms=2_000, delivery_timeout_ms=60_000) as producer:
        orders.push_broker_request_errors(1, END, (0, 30_000))
        await transact(producer)
        assert len(requests(orders, END)) == 2
        await transact(producer)


async def test_slow_brokers_make_a_transaction_slow_and_nothing_else(orders: MockCluster) -> None:
    async with started(orders) as producer:
        orders.set_broker_rtt(ALL_BROKERS, 100)
        await transact(producer)


@pytest.mark.parametrize("kind", ["transaction", "group"])
async def test_a_coordinator_that_moves_is_followed(orders: MockCluster, kind: Any) -> None:
    async with started(orders) as producer:
        orders.set_coordinator(kind, NAME if kind == "transaction" else "readers", 3)
        await transact(producer)
        assert requests(orders, END if kind == "transaction" else COMMIT_OFFSETS)[-1] == 3
        await transact(producer)


async def test_the_search_for_a_coordinator_goes_on_elsewhere(orders: MockCluster) -> None:
    async with started(orders) as producer:
        orders.set_coordinator("transaction", NAME, 3)
        orders.push_request_errors(FIND_COORDINATOR, DISCONNECT, DISCONNECT)
        await transact(producer)
        assert requests(orders, END)[-1] == 3
        assert len(requests(orders, FIND_COORDINATOR)) >= 3


async def test_a_coordinator_that_dies_is_replaced(orders: MockCluster) -> None:
    async with started(orders) as producer:
        orders.set_broker_down(1)
        orders.set_coordinator("transaction", NAME, 3)
        async with asyncio.timeout(PATIENCE), producer.transaction():
            await producer.send("orders", b"v", partition=1)
        assert requests(orders, END) == [3]
        orders.set_broker_up(1)
        await transact(producer)


# --- calls that are cancelled, or time out ---------------------------------------------------


def hold(cluster: MockCluster, api: int, milliseconds: int = 1_000) -> None:
    """The next answers of a kind are late, but come."""
    cluster.clear_requests()
    for broker in cluster.broker_ids:
        cluster.push_broker_request_errors(broker, api, (0, milliseconds))


async def until_asked(cluster: MockCluster, api: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while not requests(cluster, api):  # noqa: ASYNC110 -- another process is looked at
            await asyncio.sleep(0.005)


async def test_a_cancelled_commit_goes_on_and_can_be_taken_up(orders: MockCluster) -> None:
    async with started(orders) as producer:
        for take_up in ("commit", "begin"):
            await producer.begin_transaction()
            producer.send("orders", b"v", partition=0)
            hold(orders, END, 3_000)
            committing = asyncio.create_task(producer.commit_transaction())
            await until_asked(orders, END)
            committing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await committing
            with pytest.raises(IllegalStateError, match="can't be taken back"):
                await producer.abort_transaction()
            with pytest.raises(IllegalStateError, match="committing"):
                producer.send("orders", b"v")
            if take_up == "commit":
                await producer.commit_transaction()
                with pytest.raises(IllegalStateError, match="no transaction is open"):
                    await producer.commit_transaction()
            assert len(requests(orders, END)) == 1
        await transact(producer)


async def test_a_cancelled_commit_that_fails_is_told_to_the_next_one(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        orders.push_broker_request_errors(1, END, (48, 2_000))
        committing = asyncio.create_task(producer.commit_transaction())
        await until_asked(orders, END)
        committing.cancel()
        await asyncio.wait([committing])
        with pytest.raises(AbortableTransactionError, match="INVALID_TXN_STATE"):
            await transact(producer)
        await transact(producer)


async def test_a_cancelled_abort_goes_on_and_can_be_taken_up(orders: MockCluster) -> None:
    async with started(orders) as producer:
        for take_up in ("abort", "begin"):
            await producer.begin_transaction()
            await producer.send("orders", b"v", partition=0)
            hold(orders, END, 3_000)
            aborting = asyncio.create_task(producer.abort_transaction())
            await until_asked(orders, END)
            aborting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await aborting
            if take_up == "abort":
                await producer.abort_transaction()
            assert len(requests(orders, END)) == 1
        await transact(producer)


@pytest.mark.parametrize("call", ["commit", "abort"])
async def test_an_end_that_times_out_goes_on(orders: MockCluster, call: str) -> None:
    async with started(orders) as producer:
        end = getattr(producer, f"{call}_transaction")
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        hold(orders, END)
        with pytest.raises(
            ProducerTimeoutError, match=rf"not known yet: `await {call}_transaction\(\)` again"
        ):
            await end(0.05)
        await end()
        assert len(requests(orders, END)) == 1
        await transact(producer)


async def test_cancelled_offsets_are_written_all_the_same(orders: MockCluster) -> None:
    async with started(orders) as producer:
        async with producer.transaction():
            hold(orders, COMMIT_OFFSETS)
            sending = asyncio.create_task(producer.send_offsets_to_transaction(OFFSETS, "readers"))
            await until_asked(orders, COMMIT_OFFSETS)
            sending.cancel()
            await asyncio.wait([sending])
        assert len(requests(orders, COMMIT_OFFSETS)) == 1
        await transact(producer)


async def test_a_cancelled_block_is_aborted(orders: MockCluster) -> None:
    async with started(orders) as producer:
        sent = asyncio.Event()

        async def block() -> None:
            async with producer.transaction():
                await producer.send("orders", b"v", partition=0)
                sent.set()
                await asyncio.sleep(PATIENCE)

        blocking = asyncio.create_task(block())
        await sent.wait()
        blocking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await blocking
        assert len(requests(orders, END)) == 1
        await transact(producer)


# --- close() -------------------------------------------------------------------------------


async def test_close_waits_for_a_commit_under_way(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        producer.send("orders", b"v", partition=0)
        hold(orders, END)
        committing = asyncio.create_task(producer.commit_transaction())
        await until_asked(orders, END)
        assert await producer.close() == 0
        await committing


@pytest.mark.parametrize("call", ["commit", "abort"])
async def test_close_at_once_leaves_an_end_unknown(orders: MockCluster, call: str) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        hold(orders, END, 60_000)
        ending = asyncio.create_task(getattr(producer, f"{call}_transaction")())
        await until_asked(orders, END)
        began = time.monotonic()
        assert await producer.close(0) == 0
        assert time.monotonic() - began < 5
        kind = CommitUnconfirmedError if call == "commit" else ProducerClosedError
        with pytest.raises(kind, match="what became of it is not known here"):
            await ending


async def test_close_aborts_what_is_open(
    orders: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        with caplog.at_level(logging.WARNING, "aioproducer"):
            assert await producer.close() == 0
        assert len(requests(orders, END)) == 1
    assert f"transactional id '{NAME}': closed in a transaction, which is aborted" in caplog.text


async def test_close_is_bounded_when_the_coordinator_is_dead(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        orders.set_broker_down(ALL_BROKERS)
        began = time.monotonic()
        await producer.close(0.3)
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("fails", [False, True], ids=["no exception", "an exception"])
async def test_close_leaves_open_what_was_handed_over(orders: MockCluster, fails: bool) -> None:
    async with started(orders) as producer:
        with pytest.raises(ZeroDivisionError) if fails else nullcontext():
            async with producer.transaction(shared=True):
                producer.send("orders", b"v", partition=0)
                handle = producer.transaction_handle(hand_over=True)
                producer.send("orders", b"w", partition=0)
                if fails:
                    raise ZeroDivisionError
        with pytest.raises(IllegalStateError, match="end it first"):
            await producer.begin_transaction()
        await producer.flush()
        assert await producer.close() == 0
        assert requests(orders, END) == []
        async with Producer(
            bootstrap_servers=orders.bootstrap_servers, transaction=handle
        ) as another:
            await another.commit_transaction()
        assert requests(orders, END) == [1]


async def test_a_record_that_fails_is_told_before_others_commit(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction(shared=True)
        producer.transaction_handle(hand_over=True)
        orders.push_request_errors(PRODUCE, 29)
        lost = producer.send("orders", b"v", partition=0)
        with pytest.raises(AbortableTransactionError, match=r"can't flush.*orders-0"):
            await producer.flush()
        assert lost.exception() is not None
        await producer.abort_transaction()
        with pytest.raises(IllegalStateError, match="handed its transaction over"):
            await producer.begin_transaction()


async def test_who_handed_a_transaction_over_may_end_it_as_well(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction(shared=True)
        producer.transaction_handle(hand_over=True)
        sent = producer.send("orders", b"v", partition=0)
        await producer.commit_transaction()
        assert sent.done()
        assert requests(orders, END) == [1]


async def test_close_within_a_block_is_told_by_it(orders: MockCluster) -> None:
    async def block(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send("orders", b"v", partition=0)
            await producer.close()

    async with started(orders) as producer:
        with pytest.raises(ProducerClosedError):
            await block(producer)
        assert len(requests(orders, END)) == 1
